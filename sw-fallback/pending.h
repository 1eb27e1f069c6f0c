/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_PENDING_H
#define VQLIFT_SW_FALLBACK_PENDING_H

/*
 * Chains that an owner took from a guest's ring and could not return, while it did return later
 * ones: what a device leaves that works out of order and was stopped.  The ring does not tell them
 * any more.  The queue's next owner deals with them before it takes any chain from the ring:
 * another relay offers them again (vql_relay_params), any other gives them back unused.
 *
 * Threads: one at a time.
 */

#include <stdbool.h>
#include <stdint.h>

#include <linux/virtio_ring.h>

#include "virtqueue/queue.h"

struct vql_pending_chain {
        uint64_t turn;     /* in the order of taking */
        uint32_t first, n; /* its buffers in vql_pending.buffer */
        uint16_t id;       /* the guest's: head or buffer id */
        uint16_t slots;    /* packed: of the guest's ring; split: 1 */
        bool again;        /* was pending before; it is not in the ring behind the others */
};

/* Made and filled by a relay (relay.h). */
struct vql_pending {
        uint32_t n, at; /* chains; those before `at` are dealt with */
        uint32_t buffers;
        struct vql_pending_chain *chain;
        /* Private copies in the form of split descriptors, without NEXT. */
        struct vring_desc *buffer;
};

/* Room for that many chains and buffers, or NULL: out of memory. */
struct vql_pending *vql_pending_new(uint32_t chains, uint32_t buffers);
void vql_pending_free(struct vql_pending *p); /* NULL is fine */

/* Chains that are left.  NULL: 0. */
uint32_t vql_pending_count(const struct vql_pending *p);
/* Their slots in the guest's ring: how far its position of taking is ahead of that of returning. */
uint32_t vql_pending_slots(const struct vql_pending *p);

/*
 * The last resort: give the chains back to the guest unused (length 0), interrupt it, and free p.
 * Afterwards the queue's position is canonical.  Returns how many; a driver may count those that
 * were to be filled as errors, and packets in the others were not sent (drop_uplink).
 */
uint32_t vql_pending_return(struct vql_pending *p, struct vql_queue *q);

#endif
