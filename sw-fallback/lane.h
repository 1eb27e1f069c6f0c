/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_LANE_H
#define VQLIFT_SW_FALLBACK_LANE_H

/*
 * A lane as a worker serves it: one round of polling, and what is remembered from round to round.
 *
 * Threads: open and close by a control thread while no worker has it; all else by the worker.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sw-fallback/worker.h"

/* What became of a ring. */
enum vql_lane_ring_mode {
        VQL_LANE_RING_RUNNING,
        VQL_LANE_RING_STARVED, /* to the guest: packets were dropped, and no buffer came since */
        VQL_LANE_RING_FAULTED, /* not touched any more */
};

struct vql_lane_held {
        struct rte_mbuf *m;
        uint16_t ring;
};

struct vql_lane_state {
        struct vql_lane *lane;
        bool armed;       /* guests kick and the device interrupts: we may sleep */
        bool worked;      /* since the worker last looked at all lanes */
        bool leftover;    /* when it was armed, buffers were there that could not be taken */
        bool tx_timed;    /* a ring from the guest has no fd to wait for, */
        bool rx_timed;    /* or a queue of the uplink has none, */
        bool relay_timed; /* or a relay */

        uint16_t n_active;                   /* rings to the guest that take packets */
        uint16_t active[VQL_LANE_MAX_RINGS]; /* their indices */
        uint8_t tx_mode[VQL_LANE_MAX_RINGS]; /* enum vql_lane_ring_mode */
        uint8_t rx_mode[VQL_LANE_MAX_RINGS];
        uint8_t relay_mode[VQL_LANE_MAX_RINGS];

        /* Packets that found no buffer; while there are some, no more are received. */
        uint16_t n_held;
        uint64_t held_until; /* TSC: then they are dropped */
        struct vql_lane_held held[VQL_BURST];
};

/* Begin to serve a lane: its guests are asked not to kick.  -ENOMEM. */
int vql_lane_open(struct vql_lane *lane, struct vql_lane_state **ret_state);
/* Drop what is held, and free.  NULL is fine. */
void vql_lane_close(struct vql_lane_state *s);

/* One round.  True: there was something to do, or packets are held.  `now` is the TSC. */
bool vql_lane_poll(struct vql_lane_state *s, uint64_t now);

/*
 * The same for an armed lane after a nap: look only where no fd would have told.  Most of what a
 * lane consists of is not in the CPU's caches then, so what is not looked at counts.
 */
bool vql_lane_glance(struct vql_lane_state *s);
/* Is there anything that glancing would find? */
static inline bool vql_lane_needs_timer(const struct vql_lane_state *s)
{
        return s->tx_timed || s->rx_timed || s->relay_timed || s->leftover;
}

/* Ask for kicks and interrupts; the caller then polls once more before it sleeps. */
void vql_lane_arm(struct vql_lane_state *s);
void vql_lane_disarm(struct vql_lane_state *s);

/* Call `use` for each fd that tells of work, until it returns an error, and return that or 0. */
int vql_lane_each_fd(const struct vql_lane *lane, int (*use)(void *arg, int fd), void *arg);

#endif
