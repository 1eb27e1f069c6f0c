/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_WORKER_IMPL_H
#define VQLIFT_SW_FALLBACK_WORKER_IMPL_H

/* A worker's parts, for worker.c (control side) and worker_loop.c (its thread). */

#include <pthread.h>
#include <stdatomic.h>

#include "sw-fallback/lane.h"
#include "sw-fallback/worker.h"

struct rte_rcu_qsbr;

/*
 * The lanes that a worker serves.  Control does not change a table that is published; `hot` is the
 * thread's while it is.
 */
struct vql_lane_table {
        unsigned int n, n_hot;
        struct vql_lane_state **hot; /* the lanes that had work lately */
        struct vql_lane_state *lane[];
};

struct vql_worker {
        /* Published by control, read by the thread. */
        _Atomic(struct vql_lane_table *) table;
        _Atomic(bool) stop;

        /* The thread's own; the counters are read by anyone. */
        _Atomic(uint64_t) polls, polls_busy, sleeps;
        uint64_t nap_us; /* how long the next timed sleep is */
        uint64_t swept;  /* TSC of the last round over all lanes */
        uint64_t sweep_ticks;

        int epoll_fd; /* kicks, interrupts, and: */
        int wake_fd;  /* eventfd; edge-triggered as the others, so it is never read */
        struct rte_rcu_qsbr *readers; /* the thread is its one reader */

        /* Control's. */
        pthread_mutex_t control;      /* one change of the table at a time */
        struct vql_lane_table *spare; /* with room for what the table has */
        _Atomic(unsigned int) lanes;
        pthread_t thread;
        bool running; /* there is a thread to join */
        unsigned int index;
        const struct vql_log *log;
};

void *vql_worker_run(void *worker);

#endif
