/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/position.h"

#include "base/bits.h"
#include "virtqueue/features.h"
#include "virtqueue/ring.h"

static uint16_t flags_at(const struct vql_packed_ring *ring, uint16_t slot)
{
        return __atomic_load_n(&ring->desc[slot].flags, __ATOMIC_ACQUIRE);
}

/*
 * Nothing is marked as returned in a new ring.  In one that was in use something is, except when
 * the ring is about to begin an odd lap; and then its position is the initial one.
 */
static bool was_in_use(const struct vql_packed_ring *ring)
{
        for (uint16_t i = 0; i < ring->size; i++) {
                if (flags_at(ring, i) & VQL_PACKED_USED)
                        return true;
        }
        return false;
}

/*
 * Has the front-end lost a packed ring's position?  QEMU hands over 0 or the initial position for a
 * ring in mid-flight after its back-end went away; and a front-end that broke off may have looked
 * at the ring while we were still returning buffers: then the slot that it names is marked as
 * returned.
 */
static bool position_lost(const struct vql_vring *v, const struct vql_packed_ring *ring)
{
        struct vql_cursor at;

        if (v->base == 0)
                return true;
        if (v->base == VQL_PACKED_INITIAL)
                return was_in_use(ring);
        if (vql_cursor_decode(v->base, true, ring->size, &at, NULL) < 0)
                return false;
        return vql_packed_is_used(flags_at(ring, at.used), at.used_wrap);
}

/* Slots from one position forward to another; 0 if that is none or more than a lap. */
static unsigned int distance(const struct vql_packed_ring *ring, const struct vql_cursor *from,
                             const struct vql_cursor *to)
{
        int lap = from->used_wrap == to->used_wrap ? 0 : ring->size;
        int slots = lap + to->used - from->used;

        return slots > 0 && slots <= ring->size ? (unsigned int)slots : 0;
}

/*
 * A front-end without back-end may serve a ring itself: QEMU returns what the guest sends while its
 * link is down.  It begins where it believes a packed ring to stand, which may be a lap ahead of
 * us: what lies in between is left out, and there the driver waits for ever.
 */
static bool left_out(const struct vql_vring *v, const struct vql_packed_ring *ring,
                     const struct vql_cursor *ours)
{
        struct vql_cursor theirs;

        if (v->base == VQL_PACKED_INITIAL ||
            vql_cursor_decode(v->base, true, ring->size, &theirs, NULL) < 0)
                return false;
        return distance(ring, ours, &theirs) > 0 &&
               vql_packed_is_avail(flags_at(ring, ours->used), ours->used_wrap);
}

enum vql_position vql_position_find(const struct vql_session *s, const struct vql_journal *j,
                                    uint16_t index, struct vql_packed_ring *ret_ring,
                                    struct vql_cursor *ret_at)
{
        const struct vql_vring *v = &s->vring[index];
        struct vql_packed_ring ring = {
                .size = (uint16_t)v->num,
                .log = vql_session_logging(s) ? s->log : NULL,
        };
        enum vql_position found = VQL_POSITION_RECORDED;
        struct vql_cursor c[2], ours;

        ring.desc = vql_mem_uva(s->mem, v->desc_uva, v->num * sizeof(*ring.desc), &ring.gpa);
        if (!ring.desc || vql_journal_find(j, index, v->desc_uva, ring.size, c) < 0)
                return VQL_POSITION_TOLD;
        ours = vql_packed_is_used(flags_at(&ring, c[1].used), c[1].used_wrap) ? c[0] : c[1];
        if (!position_lost(v, &ring)) {
                if (!left_out(v, &ring, &ours))
                        return VQL_POSITION_TOLD;
                found = VQL_POSITION_SKIPPED;
        }
        *ret_ring = ring;
        *ret_at = ours;
        return found;
}

/* Slots of the chain that begins there, or 0 if it has more than `most`; its buffer id is in the
 * last one (virtio 1.2, 2.8.6). */
static unsigned int chain_slots(const struct vql_packed_ring *ring, uint16_t slot,
                                unsigned int most, uint16_t *ret_id)
{
        for (unsigned int n = 1; n <= most; n++) {
                const struct vring_packed_desc *d = &ring->desc[(slot + n - 1u) % ring->size];

                if (__atomic_load_n(&d->flags, __ATOMIC_RELAXED) & VRING_DESC_F_NEXT)
                        continue;
                *ret_id = __atomic_load_n(&d->id, __ATOMIC_RELAXED);
                return n;
        }
        return 0;
}

/* Length 0, id and flags are one word, so that it is there as a whole. */
static void return_slot(const struct vql_packed_ring *ring, const struct vql_cursor *at,
                        uint16_t id)
{
        struct vring_packed_desc *d = &ring->desc[at->used];
        const uint64_t flags = at->used_wrap ? VQL_PACKED_AVAIL | VQL_PACKED_USED : 0;

        __atomic_store_n((uint64_t *)(void *)&d->len, (uint64_t)id << 32 | flags << 48,
                         __ATOMIC_RELEASE);
        if (ring->log)
                vql_dirty_log_mark(ring->log, ring->gpa + at->used * sizeof(*d), sizeof(*d));
}

unsigned int vql_position_return(const struct vql_packed_ring *ring, const struct vql_cursor *from,
                                 const struct vql_cursor *to)
{
        unsigned int left = distance(ring, from, to), returned = 0, slots;
        struct vql_cursor at = *from;
        uint16_t id;

        while (left > 0 && vql_packed_is_avail(flags_at(ring, at.used), at.used_wrap)) {
                slots = chain_slots(ring, at.used, left, &id);
                if (slots == 0)
                        break;
                return_slot(ring, &at, id);
                returned++;
                left -= slots;
                at.used_wrap ^= at.used + slots >= ring->size;
                at.used = (uint16_t)((at.used + slots) % ring->size);
        }
        return returned;
}
