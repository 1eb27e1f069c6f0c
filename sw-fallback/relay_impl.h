/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_RELAY_IMPL_H
#define VQLIFT_SW_FALLBACK_RELAY_IMPL_H

/*
 * A relay's parts, for relay.c (life), relay_offer.c (from the guest to the device) and
 * relay_return.c (back).
 *
 * The shadow has as many *entries* as descriptors: private copies of what the device was given, on
 * which nothing of what it writes has an influence.  Entries are free, or belong to a chain; both
 * are lists linked by `next`.  A chain has the number of its first entry, and the device knows it
 * by that.
 */

#include <stdatomic.h>

#include "sw-fallback/burst.h"
#include "sw-fallback/relay.h"
#include "sw-fallback/shadow.h"

enum { VQL_RELAY_PASS = 64 }; /* chains of one pass, in each direction */

/* A chain that the device has. */
struct vql_relay_chain {
        uint64_t turn;  /* in the order of taking */
        uint32_t bytes; /* that the device may write; from the guest: that it reads */
        uint16_t id;    /* the guest's */
        uint16_t slots; /* packed: of the guest's ring; split: 1 */
        uint16_t n;     /* entries; 0: the device does not have it */
        uint16_t last;  /* of them */
        bool again;     /* was pending */
};

struct vql_relay {
        /* Read by every pass. */
        struct vql_queue *q;
        struct vring_desc *entry; /* in the form of split descriptors, without NEXT */
        struct vql_relay_chain *chain;
        uint16_t *order; /* with IN_ORDER: chains by turn, else NULL */
        uint32_t order_mask;
        bool indirect;          /* the device reads tables */
        _Atomic(uint8_t) how;   /* enum vql_relay_take */
        _Atomic(uint8_t) phase; /* enum vql_relay_phase */
        _Atomic(uint8_t) fault; /* enum vql_relay_fault */
        _Atomic(bool) out_of_order;
        bool news;

        /* Written by every pass. */
        struct vql_shadow shadow;
        uint16_t free_head;
        uint32_t free;            /* entries */
        uint32_t need;            /* free entries that the next chain waits for */
        uint32_t more;            /* buffers that the packet at hand has yet to come (MRG_RXBUF) */
        uint64_t taken, returned; /* turns; counters for others */
        uint64_t kicks, kicks_saved;

        void (*kick)(void *arg);
        void *arg;
        struct vql_pending *pending; /* not offered again yet, or NULL */
        uint64_t repeated;
        struct vql_pending *spare; /* for settle, which must not fail */
};

/* Where the guest's ring is as at its start. */
static inline bool vql_relay_at_start(const struct vql_queue *q)
{
        return q->last_avail == 0 && q->avail_wrap == q->packed;
}

/* How far the position of taking is ahead of that of returning: chains, packed: slots. */
static inline uint16_t vql_relay_slots_out(const struct vql_queue *q, bool packed)
{
        const uint32_t lap = packed && q->avail_wrap != q->used_wrap ? q->size : 0;

        return (uint16_t)(q->last_avail + lap - q->last_used);
}

/* The device has none of the chains that were taken. */
static inline bool vql_relay_idle(const struct vql_relay *r)
{
        return r->taken == r->returned;
}

static inline struct vql_traits vql_relay_traits(const struct vql_queue *q, bool packed)
{
        return (struct vql_traits){ .packed = packed, .rx = q->rx, .logging = q->log != NULL };
}

/* The first fault stays. */
static inline void vql_relay_fail(struct vql_relay *r, enum vql_relay_fault f)
{
        if (atomic_load_explicit(&r->fault, memory_order_relaxed) == VQL_RELAY_FINE)
                atomic_store_explicit(&r->fault, (uint8_t)f, memory_order_relaxed);
        r->news = true;
}

/*
 * Take chains, put them into the shadow, and make them visible to the device.  Chains that bear
 * nothing are returned at once.  How many chains that were, both kinds.
 */
uint32_t vql_relay_offer(struct vql_relay *r, enum vql_relay_take how);
/* Return up to `most` chains.  How many; the caller interrupts the guest. */
uint32_t vql_relay_return(struct vql_relay *r, uint32_t most);

#endif
