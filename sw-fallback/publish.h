/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_PUBLISH_H
#define VQLIFT_SW_FALLBACK_PUBLISH_H

/*
 * Step four of a burst: return chains to the guest, in the order in which they were taken, and make
 * the whole burst visible with one store.  The order is always that of IN_ORDER, negotiated or not.
 */

#include <string.h>

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

/* Make n more used elements visible. */
static inline void vql_split_advance(struct vql_queue *q, struct vql_traits t, uint16_t n)
{
        const uint16_t first = q->last_used;

        if (t.logging)
                vql_log_split_used(q, first, n);
        q->last_used = (uint16_t)(first + n);
        q->last_avail = (uint16_t)(q->last_avail + n);
        q->unsignalled += n;
        /* Pairs with the driver's acquire of used->idx: elements and payload come before it. */
        __atomic_store_n(&q->used->idx, q->last_used, __ATOMIC_RELEASE);
        if (t.logging)
                vql_dirty_log_mark(q->log, q->device_gpa + offsetof(struct vring_used, idx),
                                   sizeof(q->used->idx));
}

/* One store fills a used element; beyond the index the driver does not look. */
static inline void vql_split_used(struct vql_queue *q, uint16_t i, uint16_t id, uint32_t len)
{
        const uint16_t at = (uint16_t)(q->last_used + i) & (uint16_t)(q->size - 1);
        const uint64_t element = id | (uint64_t)len << 32;

        memcpy(&q->used->ring[at], &element, sizeof(element));
}

static inline void vql_commit_split(struct vql_queue *q, struct vql_traits t,
                                    const struct vql_done *done, uint16_t n)
{
        for (uint16_t i = 0; i < n; i++)
                vql_split_used(q, i, done[i].id, done[i].len);
        vql_split_advance(q, t, n);
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

/* Length, id and flags of a returned packed descriptor, as they lie in memory. */
static inline uint64_t vql_packed_used_word(uint16_t id, uint32_t len, uint16_t flags)
{
        return len | (uint64_t)id << 32 | (uint64_t)flags << 48;
}

/*
 * Make everything from q->last_used up to (slot, wrap) visible by the first slot's word, whose
 * flags stop the driver until then.  The position is recorded around that store, so that after a
 * cut at any point the flags tell which of the two records holds (port/journal.h).
 */
static inline void vql_packed_advance(struct vql_queue *q, struct vql_traits t, uint64_t word,
                                      uint16_t slot, uint8_t wrap)
{
        const uint16_t first = q->last_used;
        uint64_t *to = (uint64_t *)(void *)&q->packed_ring[first].len;

        if (q->position)
                __atomic_store_n(q->position, vql_position_word(slot, wrap, first, q->used_wrap),
                                 __ATOMIC_RELAXED);
        /* Pairs with the driver's acquire of the flags. */
        __atomic_store_n(to, word, __ATOMIC_RELEASE);
        if (q->position)
                __atomic_store_n(q->position, vql_position_word(slot, wrap, slot, wrap),
                                 __ATOMIC_RELEASE);
        if (t.logging)
                vql_log_packed_slot(q, first);
        q->unsignalled += (uint32_t)slot - first + (wrap != q->used_wrap ? q->size : 0u);
        q->last_used = q->last_avail = slot;
        q->used_wrap = q->avail_wrap = wrap;
}

static inline void vql_commit_packed(struct vql_queue *q, struct vql_traits t,
                                     const struct vql_done *done, uint16_t n)
{
        const uint64_t first = vql_packed_used_word(done[0].id, done[0].len,
                                                    vql_packed_used_flags(t, q->used_wrap));
        uint16_t slot = q->last_used;
        uint8_t wrap = q->used_wrap;

        vql_packed_step(q, &slot, &wrap, done[0].slots);
        for (uint16_t i = 1; i < n; i++) {
                const uint64_t word = vql_packed_used_word(done[i].id, done[i].len,
                                                           vql_packed_used_flags(t, wrap));

                memcpy(&q->packed_ring[slot].len, &word, sizeof(word));
                if (t.logging)
                        vql_log_packed_slot(q, slot);
                vql_packed_step(q, &slot, &wrap, done[i].slots);
        }
        vql_packed_advance(q, t, first, slot, wrap);
}

/* Return n chains, n > 0.  The caller interrupts the guest once a burst: vql_signal_used(). */
static __rte_always_inline void vql_commit(struct vql_queue *q, struct vql_traits t,
                                           const struct vql_done *done, uint16_t n)
{
        if (t.packed)
                vql_commit_packed(q, t, done, n);
        else
                vql_commit_split(q, t, done, n);
}

/*
 * The same for an owner that takes chains long before it returns them, and some while others stay
 * out: the position up to which it took them is not that up to which they were returned.
 */
static __rte_always_inline void vql_commit_some(struct vql_queue *q, struct vql_traits t,
                                                const struct vql_done *done, uint16_t n)
{
        const uint16_t avail = q->last_avail;
        const uint8_t wrap = q->avail_wrap;

        vql_commit(q, t, done, n);
        q->last_avail = avail;
        q->avail_wrap = wrap;
}

#endif
