/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_WORKER_H
#define VQLIFT_SW_FALLBACK_WORKER_H

/*
 * Workers move packets.  The unit of assignment is a *lane*: one queue of an uplink with all rings
 * that share it, so that nothing is shared between workers and nothing is locked; and the relays
 * that are served along with them.
 *
 * Control threads attach and detach lanes.  A lane is immutable while attached: to change it,
 * detach, change, attach.  Detach returns when the worker can no longer touch the lane or its
 * queues (rte_rcu_qsbr; a sleeping worker is offline and costs no wait).  The worker never waits.
 *
 * A worker polls while there is work, and when there was none for a while tells the guests to kick,
 * looks once more, and sleeps on the kick eventfds, the uplink's receive interrupts, or for want of
 * those a timer whose period grows while nothing comes.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "virtqueue/queue.h"

enum { VQL_BURST = 32, VQL_LANE_MAX_RINGS = 128 };

struct rte_mbuf;
struct rte_mempool;
struct vql_relay;
struct vql_uplink;
struct vql_worker;

struct vql_lane_ring {
        struct vql_queue *q;
        int kick_fd;  /* borrowed; -1: the ring is polled by timer while others sleep */
        bool discard; /* started but disabled: buffers are returned, nothing is sent */
};

/* A ring that a device serves by way of a relay; nothing of the uplink is in it. */
struct vql_lane_relay {
        struct vql_relay *relay;
        int kick_fd, device_fd; /* borrowed: of the guest, of the device; -1: polled by timer */
};

struct vql_lane {
        struct vql_uplink *uplink; /* NULL: relays only */
        uint16_t uplink_queue; /* transmit here; receive from here and every rx_stride-th further on
                                */
        uint16_t rx_stride;    /* 0: uplink_queue alone */
        uint16_t n_tx, n_rx;
        struct vql_lane_ring tx[VQL_LANE_MAX_RINGS]; /* from the guest */
        struct vql_lane_ring rx[VQL_LANE_MAX_RINGS]; /* to the guest; packets are spread by flow */
        uint16_t n_relay;
        struct vql_lane_relay relay[VQL_LANE_MAX_RINGS];
        struct rte_mempool *pool; /* for packets from the guest */
        /* Eventfd of the port, or -1: written when a queue has a new fault, or a relay has news. */
        int fault_fd;
        _Atomic(struct rte_mbuf *) inject;  /* a packet for the wire from control, or NULL */
        _Atomic(uint64_t) first_packet_tsc; /* set by the worker once if it is 0 */
};

struct vql_worker_params {
        unsigned int index;
        int cpu; /* pinned to it, or -1 */
        const struct vql_log *log;
};

/* Start the thread.  -errno of what failed. */
int vql_worker_new(const struct vql_worker_params *params, struct vql_worker **ret_worker,
                   struct vql_error *e);
/* Stop and join.  All lanes were detached before.  NULL is fine. */
void vql_worker_free(struct vql_worker *w);

/* Any control thread.  The lane is borrowed until detach returns.  -ENOMEM, -errno of epoll_ctl (a
 * kick fd that cannot be waited for), with no effect. */
int vql_worker_attach(struct vql_worker *w, struct vql_lane *lane, struct vql_error *e);
void vql_worker_detach(struct vql_worker *w, struct vql_lane *lane);
/* Make the worker look at its lanes now (after inject was set). */
void vql_worker_wake(struct vql_worker *w);

struct vql_worker_stats {
        uint64_t polls, polls_busy, sleeps;
        unsigned int lanes;
};
void vql_worker_read_stats(const struct vql_worker *w, struct vql_worker_stats *ret_stats);

#endif
