/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_PUBLISH_H
#define VQLIFT_SW_FALLBACK_PUBLISH_H

/*
 * Step four of a burst: return chains to the guest, in the order in which they were taken, and make
 * the whole burst visible with one store.  The order is always that of IN_ORDER, negotiated or not.
 */

#include "sw-fallback/claim.h"
#include "virtqueue/notify.h"

/* A chain to be returned. */
struct vql_done {
        uint32_t len; /* bytes written to it */
        uint16_t id;
        uint16_t slots;
};

static inline void vql_log_split_used(struct vql_queue *q, uint16_t first, uint16_t n)
{
        const uint64_t ring = q->device_gpa + offsetof(struct vring_used, ring);
        const uint16_t mask = (uint16_t)(q->size - 1);

        for (uint16_t i = 0; i < n; i++)
                vql_dirty_log_mark(q->log,
                                   ring + (uint64_t)((first + i) & mask) *
                                                   sizeof(struct vring_used_elem),
                                   sizeof(struct vring_used_elem));
}

static inline void vql_publish_split(struct vql_queue *q, struct vql_traits t,
                                     const struct vql_done *done, uint16_t n)
{
        const uint16_t mask = (uint16_t)(q->size - 1);
        const uint16_t first = q->last_used;

        for (uint16_t i = 0; i < n; i++) {
                struct vring_used_elem *u = &q->used->ring[(first + i) & mask];

                u->id = done[i].id;
                u->len = done[i].len;
        }
        q->last_used = (uint16_t)(first + n);
        q->last_avail = (uint16_t)(q->last_avail + n);
        if (t.logging)
                vql_log_split_used(q, first, n);
        /* Pairs with the driver's acquire of used->idx: entries and payload come before it. */
        __atomic_store_n(&q->used->idx, q->last_used, __ATOMIC_RELEASE);
        if (t.logging)
                vql_dirty_log_mark(q->log, q->device_gpa + offsetof(struct vring_used, idx),
                                   sizeof(q->used->idx));
}

static inline void vql_packed_step(const struct vql_queue *q, uint16_t *slot, uint8_t *wrap,
                                   uint16_t slots)
{
        uint32_t next = (uint32_t)*slot + slots;

        if (next >= q->size) {
                next -= q->size;
                *wrap ^= 1;
        }
        *slot = (uint16_t)next;
}

static inline uint16_t vql_packed_used_flags(struct vql_traits t, uint8_t wrap)
{
        uint16_t flags = wrap ? VQL_PACKED_AVAIL | VQL_PACKED_USED : 0;

        return t.rx ? flags | VRING_DESC_F_WRITE : flags;
}

static inline void vql_log_packed_slot(struct vql_queue *q, uint16_t slot)
{
        vql_dirty_log_mark(q->log, q->desc_gpa + (uint64_t)slot * sizeof(struct vring_packed_desc),
                           sizeof(struct vring_packed_desc));
}

static inline void vql_publish_packed(struct vql_queue *q, struct vql_traits t,
                                      const struct vql_done *done, uint16_t n)
{
        const uint16_t first = q->last_used;
        const uint16_t first_flags = vql_packed_used_flags(t, q->used_wrap);
        uint16_t slot = first;
        uint8_t wrap = q->used_wrap;

        /* The first slot gets its flags last: the driver stops there until then. */
        for (uint16_t i = 0; i < n; i++) {
                struct vring_packed_desc *d = &q->packed_ring[slot];

                d->id = done[i].id;
                d->len = done[i].len;
                if (i > 0)
                        __atomic_store_n(&d->flags, vql_packed_used_flags(t, wrap),
                                         __ATOMIC_RELAXED);
                if (t.logging && i > 0)
                        vql_log_packed_slot(q, slot);
                vql_packed_step(q, &slot, &wrap, done[i].slots);
        }
        /* Pairs with the driver's acquire of the flags. */
        __atomic_store_n(&q->packed_ring[first].flags, first_flags, __ATOMIC_RELEASE);
        if (t.logging)
                vql_log_packed_slot(q, first);
        q->last_used = slot;
        q->used_wrap = wrap;
        q->last_avail = slot;
        q->avail_wrap = wrap;
        if (q->position) {
                struct vql_cursor at = { slot, slot, wrap, wrap };

                __atomic_store_n(q->position, vql_cursor_encode(&at, true), __ATOMIC_RELEASE);
        }
}

/* Return n chains and interrupt the guest if it wants that. */
static __rte_always_inline void vql_publish(struct vql_queue *q, struct vql_traits t,
                                            const struct vql_done *done, uint16_t n)
{
        if (n == 0)
                return;
        if (t.packed)
                vql_publish_packed(q, t, done, n);
        else
                vql_publish_split(q, t, done, n);
        vql_signal_used(q);
}

#endif
