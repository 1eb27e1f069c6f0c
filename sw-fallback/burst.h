/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_BURST_H
#define VQLIFT_SW_FALLBACK_BURST_H

/*
 * The datapath proper: one body per direction and ring format, many instances.  An instance is a
 * body with its traits known at compile time; a set has all of them for one instruction set.  The
 * tables are for the choice at run time and for the tests, which walk them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "virtqueue/queue.h"

struct vql_traits {
        bool packed;
        bool rx;        /* to the guest (enqueue), else from the guest (dequeue) */
        bool mergeable; /* MRG_RXBUF; rx only */
        bool offloads;  /* the header's requests may be other than none */
        bool logging;   /* LOG_ALL: mark what we write */
};

struct vql_instance {
        const char *name; /* "split-rx-mergeable-offloads-logging" */
        struct vql_traits traits;
        union {
                vql_enqueue_fn *enqueue;
                vql_dequeue_fn *dequeue;
        };
};

struct vql_instance_set {
        const char *name; /* "baseline", "avx2" */
        const struct vql_instance *rows;
        size_t count;
};

/* The sets that this build has, best first; the last one runs on every CPU. */
extern const struct vql_instance_set *const vql_instance_sets[];
extern const size_t vql_instance_set_count;

/* Can this CPU, under this kernel, run the set? */
bool vql_instance_set_runs(const struct vql_instance_set *set);
/* The best set that runs here. */
const struct vql_instance_set *vql_instance_set_best(void);

/* The instance of a set for a queue's format, direction, features and log; writes q->enqueue or
 * q->dequeue. */
const struct vql_instance *vql_burst_select(struct vql_queue *q,
                                            const struct vql_instance_set *set);

/*
 * The contract of both bursts, called through the queue by its owner:
 *
 * enqueue(q, pkts, n): copy up to n packets, n <= 32, into the guest's buffers.  Returns how many
 * were dealt with, from the first on: copied, or dropped and counted because they can never fit.
 * The caller keeps (and frees) all mbufs.  Fewer than n: the guest has no buffers left.
 *
 * dequeue(q, pool, pkts, n): take up to n chains, n <= 32, and return packets in fresh mbufs with
 * their offload fields filled.  Returns the number of packets; chains that bear none (too short, a
 * bad offload request) are given back to the guest and counted.  `pool` NULL: give all back.
 *
 * Both publish and signal before they return; both do nothing once q->fault is set.
 */

#endif
