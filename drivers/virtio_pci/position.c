/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/virtio_pci/position.h"

#include <endian.h>
#include <string.h>

#include "base/bits.h"
#include "virtqueue/ring.h"

/* A slot, and the wrap counter of the lap that it belongs to. */
struct place {
        uint16_t slot;
        uint8_t wrap;
};

struct packed_view {
        const struct vring_packed_desc *ring;
        uint16_t size;
};

void vql_vpci_position_split(const void *used, struct vql_position *ret_at)
{
        const struct vring_used *u = used;
        uint16_t index = le16toh(__atomic_load_n(&u->idx, __ATOMIC_ACQUIRE));

        *ret_at = (struct vql_position){ .avail = index, .used = index };
}

static uint16_t flags_at(const struct packed_view *v, uint16_t slot)
{
        return le16toh(__atomic_load_n(&v->ring[slot].flags, __ATOMIC_ACQUIRE));
}

static uint16_t id_at(const struct packed_view *v, uint16_t slot)
{
        return le16toh(__atomic_load_n(&v->ring[slot].id, __ATOMIC_RELAXED));
}

static struct place next(const struct packed_view *v, struct place p)
{
        if (++p.slot < v->size)
                return p;
        return (struct place){ 0, !p.wrap };
}

/* A descriptor that nobody wrote since the ring was zeroed looks like one used in lap 0. */
static bool is_untouched(const struct packed_view *v, uint16_t slot)
{
        struct vring_packed_desc d;

        memcpy(&d, &v->ring[slot], sizeof(d));
        return d.addr == 0 && d.len == 0 && d.flags == 0;
}

/* The last slot that was used in the lap with this wrap counter, or -1. */
static int last_used(const struct packed_view *v, uint8_t wrap)
{
        for (int slot = v->size - 1; slot >= 0; slot--) {
                uint16_t at = (uint16_t)slot;

                if (vql_packed_is_used(flags_at(v, at), wrap) && !is_untouched(v, at))
                        return slot;
        }
        return -1;
}

/*
 * Is what follows the used descriptor at `last` another buffer for sure?  The device wrote the
 * first descriptor of a chain only; the others still look available, and the last of them bears the
 * chain's id.
 */
static bool ends_there(const struct packed_view *v, struct place last)
{
        struct place p = next(v, last);

        for (uint16_t n = 1; n < v->size; n++) {
                uint16_t flags = flags_at(v, p.slot);

                if (!vql_packed_is_avail(flags, p.wrap))
                        return true;
                if (!(flags & VRING_DESC_F_NEXT))
                        return id_at(v, p.slot) != id_at(v, last.slot);
                p = next(v, p);
        }
        return false;
}

/*
 * Are all slots receive buffers with ids of their own?  Then each of them is a buffer, and none the
 * rest of a chain: a queue has buffers of one shape for receiving.  What is sent has any shape.
 */
static bool is_full_of_singles(const struct packed_view *v)
{
        uint64_t seen[65536 / 64] = { 0 };

        for (uint16_t slot = 0; slot < v->size; slot++) {
                uint16_t id = id_at(v, slot), flags = flags_at(v, slot);

                if ((flags & (VRING_DESC_F_NEXT | VRING_DESC_F_WRITE)) != VRING_DESC_F_WRITE ||
                    vql_has(seen[id / 64], id % 64))
                        return false;
                seen[id / 64] |= vql_bit(id % 64);
        }
        return true;
}

/*
 * No used descriptor is to be seen: the driver offered again all that came back in the lap before
 * `lap`, and it cannot be further than one round ahead.  So the device is where the newest lap
 * ends, unless it is at the end of a chain whose first slot was taken again.
 */
static bool at_newest(const struct packed_view *v, uint8_t lap, struct place *ret_at)
{
        uint16_t slot = 0;

        while (slot < v->size && !!(flags_at(v, slot) & VQL_PACKED_AVAIL) == lap)
                slot++;
        if (is_untouched(v, slot < v->size ? slot : 0)) {
                /* A new ring, in its first lap. */
                *ret_at = (struct place){ 0, 1 };
                return true;
        }
        *ret_at = slot < v->size ? (struct place){ slot, !lap } : (struct place){ 0, lap };
        return is_full_of_singles(v);
}

bool vql_vpci_position_packed(const void *ring, uint16_t size, struct vql_position *ret_at)
{
        struct packed_view v = { ring, size };
        /* Driver and device both write the lap's counter into AVAIL, and each lap the driver writes
         * every slot: AVAIL of slot 0 is the newest lap that began. */
        uint8_t lap = !!(flags_at(&v, 0) & VQL_PACKED_AVAIL);
        struct place last = { 0, lap }, at;
        int slot = last_used(&v, lap);
        bool sure;

        if (slot < 0) {
                /* Nothing of this lap is done, so the last buffer belongs to the one before. */
                last.wrap = !lap;
                slot = last_used(&v, !lap);
        }
        if (slot < 0) {
                sure = at_newest(&v, lap, &at);
        } else {
                last.slot = (uint16_t)slot;
                sure = ends_there(&v, last);
                at = next(&v, last);
        }
        *ret_at = (struct vql_position){ at.slot, at.slot, at.wrap, at.wrap };
        return sure;
}
