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

static bool is_avail(const struct vql_packed_ring *ring, const struct vql_cursor *at)
{
        return vql_packed_is_avail(flags_at(ring, at->used), at->used_wrap);
}

static bool is_used(const struct vql_packed_ring *ring, const struct vql_cursor *at)
{
        return vql_packed_is_used(flags_at(ring, at->used), at->used_wrap);
}

static void step(const struct vql_packed_ring *ring, struct vql_cursor *at, unsigned int slots)
{
        at->used_wrap ^= at->used + slots >= ring->size;
        at->used = (uint16_t)((at->used + slots) % ring->size);
}

/*
 * Could this ring stand where we say?  The record may be of another ring, which was at the same
 * place before the guest began anew while nobody was here.  Either the slot there is out, and the
 * one before it is not, or it is as the lap before left it, and the one before it was returned.
 */
static bool plausible(const struct vql_packed_ring *ring, const struct vql_cursor *ours)
{
        struct vql_cursor before = *ours, last_lap = *ours;

        if (before.used == 0)
                before.used_wrap ^= 1;
        before.used = (uint16_t)(before.used ? before.used - 1 : ring->size - 1);
        last_lap.used_wrap ^= 1;
        if (is_avail(ring, ours))
                return !is_avail(ring, &before);
        return is_used(ring, &last_lap) && is_used(ring, &before);
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

/*
 * QEMU hands over 0 or the initial position for a ring in mid-flight after its back-end went away,
 * or where it stood when it once served the ring itself; and a front-end that broke off may have
 * looked at the ring while we were still returning buffers: then the slot that it names is marked
 * as returned.
 */
static bool position_lost(const struct vql_vring *v, const struct vql_packed_ring *ring,
                          const struct vql_cursor *ours)
{
        struct vql_cursor theirs;

        if (v->base == 0)
                return true;
        if (v->base == VQL_PACKED_INITIAL)
                return was_in_use(ring);
        if (vql_cursor_decode(v->base, true, ring->size, &theirs, NULL) < 0)
                return false;
        if (is_used(ring, &theirs))
                return true;
        return (theirs.used != ours->used || theirs.used_wrap != ours->used_wrap) &&
               plausible(ring, ours);
}

bool vql_position_find(const struct vql_session *s, const struct vql_journal *j, uint16_t index,
                       struct vql_packed_ring *ret_ring, struct vql_cursor *ret_at)
{
        const struct vql_vring *v = &s->vring[index];
        struct vql_packed_ring ring = {
                .size = (uint16_t)v->num,
                .log = vql_session_logging(s) ? s->log : NULL,
        };
        struct vql_cursor c[2], ours;

        ring.desc = vql_mem_uva(s->mem, v->desc_uva, v->num * sizeof(*ring.desc), &ring.gpa);
        /* A misaligned ring is refused where it starts. */
        if (!ring.desc || (uintptr_t)ring.desc % vql_area_align(VQL_AREA_DESC, true) != 0 ||
            vql_journal_find(j, index, v->desc_uva, ring.size, c) < 0)
                return false;
        ours = is_used(&ring, &c[1]) ? c[0] : c[1];
        if (!position_lost(v, &ring, &ours))
                return false;
        *ret_ring = ring;
        *ret_at = ours;
        return true;
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

/* Slots from a position up to the last one that is marked as returned in its lap; 0: none is. */
static unsigned int returned_ahead(const struct vql_packed_ring *ring, const struct vql_cursor *at)
{
        struct vql_cursor c = *at;
        unsigned int last = 0;

        for (unsigned int n = 1; n <= ring->size; n++) {
                if (is_used(ring, &c))
                        last = n;
                step(ring, &c, 1);
        }
        return last;
}

/* Does the slot belong to the chain that was returned before it?  Its own flags stay those of a
 * buffer that is out; but no two buffers that the driver has not got back have the same id. */
static bool is_rest(const struct vql_packed_ring *ring, const struct vql_cursor *at, int last_id)
{
        return is_avail(ring, at) &&
               __atomic_load_n(&ring->desc[at->used].id, __ATOMIC_RELAXED) == last_id;
}

unsigned int vql_position_settle(const struct vql_packed_ring *ring, struct vql_cursor *at)
{
        unsigned int left = returned_ahead(ring, at), returned = 0, slots;
        int last_id = -1;
        uint16_t id;

        while (left > 0) {
                slots = 1;
                if (is_used(ring, at)) {
                        last_id = __atomic_load_n(&ring->desc[at->used].id, __ATOMIC_RELAXED);
                } else if (is_avail(ring, at) && !is_rest(ring, at, last_id)) {
                        slots = chain_slots(ring, at->used, left, &id);
                        if (slots == 0)
                                return returned;
                        return_slot(ring, at, id);
                        returned++;
                }
                step(ring, at, slots);
                left -= slots;
        }
        for (unsigned int n = 0; n < ring->size && is_rest(ring, at, last_id); n++)
                step(ring, at, 1);
        return returned;
}
