/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_CLAIM_H
#define VQLIFT_SW_FALLBACK_CLAIM_H

/*
 * Step one of a burst: take available chains.  A claim reads each ring word once into private
 * memory and checks it; nothing is written, and a claim that is not published never happened.
 */

#include <rte_branch_prediction.h>
#include <rte_prefetch.h>

#include "sw-fallback/burst.h"
#include "sw-fallback/worker.h"

/*
 * The general way through a chain is one function for all instances, with the traits as an
 * argument: it is long, and not what the cycles are counted for.  The compiler must not make copies
 * of it.
 */
#ifdef __clang__
#define VQL_SHARED
#else
#define VQL_SHARED __attribute__((noclone))
#endif

/* A descriptor as read once. */
struct vql_desc {
        uint64_t addr;
        uint32_t len;
        uint16_t flags;
        uint16_t next; /* split: next; packed: buffer id */
};

/* The head of one chain. */
struct vql_claim {
        struct vql_desc d; /* its first descriptor */
        uint16_t slot;     /* split: head index; packed: ring slot of the head */
        uint16_t id;       /* what to return: head index or buffer id */
        uint16_t slots;    /* packed: ring slots that the chain takes; split: 1 */
};

/* Where the next claim begins; the queue's own position moves on publication only. */
struct vql_claim_pos {
        uint16_t avail;
        uint8_t wrap;
        uint16_t slots; /* taken and not returned; split: chains */
};

static inline struct vql_claim_pos vql_claim_begin(const struct vql_queue *q)
{
        return (struct vql_claim_pos){ .avail = q->last_avail, .wrap = q->avail_wrap };
}

/* Two loads take a whole descriptor, so that no word of it is read twice. */
static inline struct vql_desc vql_desc_read(const struct vring_desc *p)
{
        const uint64_t *w = (const uint64_t *)(const void *)p;
        uint64_t lo = __atomic_load_n(&w[0], __ATOMIC_RELAXED);
        uint64_t hi = __atomic_load_n(&w[1], __ATOMIC_RELAXED);

        return (struct vql_desc){ lo, (uint32_t)hi, (uint16_t)(hi >> 32), (uint16_t)(hi >> 48) };
}

/* Packed: the flags come with the second word, and they must be read before the address. */
static inline struct vql_desc vql_packed_desc_read(const struct vring_packed_desc *p)
{
        const uint64_t *w = (const uint64_t *)(const void *)p;
        uint64_t hi = __atomic_load_n(&w[1], __ATOMIC_ACQUIRE);
        uint64_t lo = __atomic_load_n(&w[0], __ATOMIC_RELAXED);

        return (struct vql_desc){ lo, (uint32_t)hi, (uint16_t)(hi >> 48), (uint16_t)(hi >> 32) };
}

/*
 * Chain i of a claim is bad.  If good ones come before it, nothing is noted: the claim ends there,
 * and the next one meets the bad chain first.  So q->fault never speaks of a chain behind the one
 * that a burst is at, and the good ones are returned.
 */
static inline void vql_claim_fault(struct vql_queue *q, uint16_t i, enum vql_fault f)
{
        if (i == 0)
                vql_queue_fail(q, f);
}

static inline uint16_t vql_claim_split(struct vql_queue *q, struct vql_claim_pos *pos,
                                       struct vql_claim *c, uint16_t n)
{
        const uint16_t mask = (uint16_t)(q->size - 1);
        uint16_t avail = __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE);
        uint16_t ahead = (uint16_t)(avail - q->last_avail);
        uint16_t taken = (uint16_t)(pos->avail - q->last_avail);
        uint16_t ready = (uint16_t)(ahead - taken);
        uint16_t i;

        /* Behind what was taken already: the guest moved the index backwards. */
        if (unlikely(ready > q->size - pos->slots || ahead < taken)) {
                vql_queue_fail(q, VQL_FAULT_AVAIL_INDEX);
                return 0;
        }
        if (n > ready)
                n = ready;
        for (i = 0; i < n; i++) {
                uint16_t head =
                        __atomic_load_n(&q->avail->ring[(pos->avail + i) & mask], __ATOMIC_RELAXED);

                if (unlikely(head >= q->size)) {
                        vql_claim_fault(q, i, VQL_FAULT_DESC_INDEX);
                        break;
                }
                rte_prefetch0(&q->desc[head]);
                c[i].slot = head;
                c[i].id = head;
                c[i].slots = 1;
        }
        n = i;
        for (i = 0; i < n; i++)
                c[i].d = vql_desc_read(&q->desc[c[i].slot]);
        pos->avail = (uint16_t)(pos->avail + n);
        pos->slots = (uint16_t)(pos->slots + n);
        return n;
}

/*
 * Find the end of a packed chain: its length in slots, and the buffer id, which stands in the last
 * descriptor.  The copy step reads the descriptors behind the head again, slot by slot for as many
 * slots as were counted here, and checks what it finds; it never looks for the end a second time.
 * False: there is no end.
 */
static inline bool vql_claim_packed_tail(const struct vql_queue *q, struct vql_claim *c)
{
        struct vql_desc d = c->d;
        uint16_t slot = c->slot, slots = 1;

        while (d.flags & VRING_DESC_F_NEXT) {
                if (unlikely(slots == q->size))
                        return false;
                slot = (uint16_t)(slot + 1 == q->size ? 0 : slot + 1);
                d = vql_packed_desc_read(&q->packed_ring[slot]);
                slots++;
        }
        c->slots = slots;
        c->id = d.next;
        return true;
}

static inline uint16_t vql_claim_packed(struct vql_queue *q, struct vql_claim_pos *pos,
                                        struct vql_claim *c, uint16_t n)
{
        uint16_t i;

        for (i = 0; i < n; i++) {
                /* A lap beyond the last publication would meet our own unpublished slots. */
                if (unlikely(pos->slots >= q->size))
                        break;
                c[i].d = vql_packed_desc_read(&q->packed_ring[pos->avail]);
                if (!vql_packed_is_avail(c[i].d.flags, pos->wrap))
                        break;
                c[i].slot = pos->avail;
                c[i].slots = 1;
                c[i].id = c[i].d.next;
                if (unlikely(c[i].d.flags & VRING_DESC_F_NEXT) &&
                    (!vql_claim_packed_tail(q, &c[i]) || c[i].slots > q->size - pos->slots)) {
                        vql_claim_fault(q, i, VQL_FAULT_DESC_LOOP);
                        break;
                }
                pos->slots = (uint16_t)(pos->slots + c[i].slots);
                pos->avail = (uint16_t)(pos->avail + c[i].slots);
                if (pos->avail >= q->size) {
                        pos->avail = (uint16_t)(pos->avail - q->size);
                        pos->wrap ^= 1;
                }
        }
        return i;
}

/*
 * Claim up to n chains from *pos on.  A bad chain ends the claim early, and is noted in the queue
 * if it is the first.
 */
static __rte_always_inline uint16_t vql_claim(struct vql_queue *q, struct vql_traits t,
                                              struct vql_claim_pos *pos, struct vql_claim *c,
                                              uint16_t n)
{
        return t.packed ? vql_claim_packed(q, pos, c, n) : vql_claim_split(q, pos, c, n);
}

#endif
