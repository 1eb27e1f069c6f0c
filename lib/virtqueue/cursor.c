/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtqueue/cursor.h"

#include <errno.h>

enum {
        SLOT_MASK = 0x7fff,
        WRAP_SHIFT = 15,
};

uint32_t vql_cursor_encode(const struct vql_cursor *c, bool packed)
{
        uint32_t avail, used;

        if (!packed)
                return c->avail;
        avail = c->avail | (uint32_t)c->avail_wrap << WRAP_SHIFT;
        used = c->used | (uint32_t)c->used_wrap << WRAP_SHIFT;
        return avail | used << 16;
}

static int decode_packed(uint32_t num, uint16_t size, struct vql_cursor *ret_cursor,
                         struct vql_error *e)
{
        uint32_t avail = num & 0xffff, used = num >> 16;
        struct vql_cursor c;

        /* Back-ends that keep 16 bits only have the front-end hand back an empty upper half. */
        if (used == 0)
                used = avail;
        c.avail = avail & SLOT_MASK;
        c.avail_wrap = (uint8_t)(avail >> WRAP_SHIFT);
        c.used = used & SLOT_MASK;
        c.used_wrap = (uint8_t)(used >> WRAP_SHIFT);
        if (c.avail >= size || c.used >= size)
                return vql_fail(e, EINVAL,
                                "vring base 0x%08x: available slot %u, used slot %u, "
                                "expected both below the ring's size %u",
                                num, c.avail, c.used, size);
        *ret_cursor = c;
        return 0;
}

int vql_cursor_decode(uint32_t num, bool packed, uint16_t size, struct vql_cursor *ret_cursor,
                      struct vql_error *e)
{
        if (packed)
                return decode_packed(num, size, ret_cursor, e);
        if (num > UINT16_MAX)
                return vql_fail(e, EINVAL, "vring base 0x%08x, expected at most 0xffff", num);
        *ret_cursor = (struct vql_cursor){ .avail = (uint16_t)num, .used = (uint16_t)num };
        return 0;
}

int vql_position_read(uint64_t word, uint16_t size, struct vql_cursor ret_cursors[2])
{
        const uint16_t slot[2] = { (uint16_t)word, (uint16_t)(word >> 16) };
        const uint8_t wrap[2] = { (uint8_t)(word >> 32), (uint8_t)(word >> 40) };

        if (slot[0] >= size || slot[1] >= size || wrap[0] > 1 || wrap[1] > 1)
                return -EBADMSG;
        for (int i = 0; i < 2; i++)
                ret_cursors[i] = (struct vql_cursor){ slot[i], slot[i], wrap[i], wrap[i] };
        return 0;
}

int vql_ring_size_check(uint32_t num, bool packed, struct vql_error *e)
{
        if (num == 0 || num > VQL_QUEUE_MAX_SIZE)
                return vql_fail(e, EINVAL, "ring size %u, expected 1 to %u", num,
                                VQL_QUEUE_MAX_SIZE);
        if (!packed && (num & (num - 1)) != 0)
                return vql_fail(e, EINVAL, "split ring size %u, expected a power of two", num);
        return 0;
}
