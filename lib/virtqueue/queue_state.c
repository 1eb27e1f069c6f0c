/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtqueue/queue_state.h"

#include <errno.h>
#include <string.h>

enum { FLAG_PACKED = 1, FLAG_OWES_SIGNAL = 2 };

static int check_cursor(const struct vql_queue_state *s, struct vql_error *e)
{
        if (!s->packed)
                return 0;
        if (s->at.avail >= s->size || s->at.used >= s->size)
                return vql_fail(e, EINVAL,
                                "available slot %u, used slot %u, expected both below the ring's "
                                "size %u",
                                s->at.avail, s->at.used, s->size);
        if (s->at.avail_wrap > 1 || s->at.used_wrap > 1)
                return vql_fail(e, EINVAL, "wrap counters %u and %u, expected 0 or 1",
                                s->at.avail_wrap, s->at.used_wrap);
        return 0;
}

/* Chains or slots from used to avail; negative: avail is behind. */
static int distance(const struct vql_queue_state *s)
{
        const int lap = s->at.avail_wrap == s->at.used_wrap ? 0 : s->size;

        if (s->packed)
                return s->at.avail - s->at.used + lap;
        return (uint16_t)(s->at.avail - s->at.used);
}

int vql_queue_state_make(const struct vql_queue_state *raw, struct vql_queue_state *ret_state,
                         struct vql_error *e)
{
        int rc;

        if (raw->version != VQL_QUEUE_STATE_VERSION)
                return vql_fail(e, EINVAL, "queue state of version %u, expected %d", raw->version,
                                VQL_QUEUE_STATE_VERSION);
        rc = vql_ring_size_check(raw->size, raw->packed, e);
        if (rc == 0)
                rc = check_cursor(raw, e);
        if (rc < 0)
                return rc;
        if (distance(raw) < 0 || distance(raw) > raw->size || distance(raw) != raw->in_flight)
                return vql_fail(e, EINVAL,
                                "%d from used to available with %u in flight in a ring of %u",
                                distance(raw), raw->in_flight, raw->size);
        *ret_state = *raw;
        return 0;
}

int vql_queue_state_at(const struct vql_cursor *at, bool packed, uint16_t size,
                       struct vql_queue_state *ret_state, struct vql_error *e)
{
        const struct vql_queue_state raw = {
                .version = VQL_QUEUE_STATE_VERSION,
                .size = size,
                .packed = packed,
                .at = { at->used, at->used, at->used_wrap, at->used_wrap },
                .owes_signal = true,
        };

        return vql_queue_state_make(&raw, ret_state, e);
}

int vql_queue_state_from_base(uint32_t base, bool packed, uint16_t size,
                              struct vql_queue_state *ret_state, struct vql_error *e)
{
        struct vql_cursor at;
        int rc = vql_cursor_decode(base, packed, size, &at, e);

        return rc < 0 ? rc : vql_queue_state_at(&at, packed, size, ret_state, e);
}

uint32_t vql_queue_state_to_base(const struct vql_queue_state *s)
{
        return vql_cursor_encode(&s->at, s->packed);
}

static void put16(uint8_t *to, uint16_t value)
{
        to[0] = (uint8_t)value;
        to[1] = (uint8_t)(value >> 8);
}

static uint16_t get16(const uint8_t *from)
{
        return (uint16_t)(from[0] | from[1] << 8);
}

void vql_queue_state_write(const struct vql_queue_state *s,
                           uint8_t ret_bytes[VQL_QUEUE_STATE_BYTES])
{
        memset(ret_bytes, 0, VQL_QUEUE_STATE_BYTES);
        put16(ret_bytes, s->version);
        put16(ret_bytes + 2, s->size);
        put16(ret_bytes + 4,
              (uint16_t)((s->packed ? FLAG_PACKED : 0) | (s->owes_signal ? FLAG_OWES_SIGNAL : 0)));
        put16(ret_bytes + 6, s->in_flight);
        put16(ret_bytes + 8, s->at.avail);
        put16(ret_bytes + 10, s->at.used);
        ret_bytes[12] = s->at.avail_wrap;
        ret_bytes[13] = s->at.used_wrap;
}

int vql_queue_state_read(const uint8_t bytes[VQL_QUEUE_STATE_BYTES],
                         struct vql_queue_state *ret_state, struct vql_error *e)
{
        const uint16_t flags = get16(bytes + 4);
        const struct vql_queue_state raw = {
                .version = get16(bytes),
                .size = get16(bytes + 2),
                .packed = flags & FLAG_PACKED,
                .owes_signal = flags & FLAG_OWES_SIGNAL,
                .in_flight = get16(bytes + 6),
                .at = { get16(bytes + 8), get16(bytes + 10), bytes[12], bytes[13] },
        };

        if (flags & ~(FLAG_PACKED | FLAG_OWES_SIGNAL))
                return vql_fail(e, EINVAL, "queue state with flags 0x%04x, expected at most 0x%04x",
                                flags, FLAG_PACKED | FLAG_OWES_SIGNAL);
        for (int i = 14; i < VQL_QUEUE_STATE_BYTES; i++)
                if (bytes[i] != 0)
                        return vql_fail(e, EINVAL, "queue state with 0x%02x at byte %d, expected 0",
                                        bytes[i], i);
        return vql_queue_state_make(&raw, ret_state, e);
}
