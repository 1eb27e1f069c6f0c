/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_RING_H
#define VQLIFT_PORT_RING_H

/*
 * A ring as the port runs it: the queue that the datapath works on, and its state.  Even rings
 * carry packets to the guest, odd ones from it (virtio 1.2, 5.1.2).
 *
 * Threads: the port's control thread, and only while the port is parked, but for counters.
 */

#include <stdbool.h>

#include "base/error.h"
#include "sw-fallback/burst.h"
#include "vhost_user/session.h"
#include "virtqueue/queue.h"

/* Life of a ring.  The table of moves is in state.c. */
enum vql_ring_state {
        VQL_RING_STOPPED,
        VQL_RING_RUNNING,
        VQL_RING_BROKEN, /* its content was bad; until the guest resets it */
        VQL_RING_STATES,
};

struct vql_ring {
        struct vql_queue q;
        const struct vql_instance *instance; /* NULL: never started */
        const struct vql_instance_set *set;  /* where it is from */
        enum vql_ring_state state;
        uint32_t start_base; /* the session's raw base when the ring started */
        bool kick_owed;      /* a start or change happened: interrupt once on resume */
};

/* Does the front-end want this ring to run? */
bool vql_ring_wanted(const struct vql_session *s, uint16_t index);

/*
 * Start at the session's base (or at `at`, if not NULL).  The areas are translated and checked.
 * -EFAULT an area is not inside one region, -EINVAL misaligned, size, or position.  On an error the
 * ring is as before.
 */
int vql_ring_start(struct vql_ring *r, const struct vql_session *s, uint16_t index,
                   const struct vql_cursor *at, struct vql_error *e);

/* Stop: the guest is asked to kick again.  Returns where the next owner goes on. */
struct vql_queue_state vql_ring_stop(struct vql_ring *r);

/* After a change of memory: point to the areas again.  Errors as start. */
int vql_ring_remap(struct vql_ring *r, const struct vql_session *s, uint16_t index,
                   struct vql_error *e);

/* Logging on or off, other features: choose the instance again. */
void vql_ring_select(struct vql_ring *r, const struct vql_session *s);

/* Move to another state: checks the table.  The state stays on a forbidden move; returns success.
 */
bool vql_ring_move(struct vql_ring *r, enum vql_ring_state to);
const char *vql_ring_state_name(enum vql_ring_state s);
bool vql_ring_may_move(enum vql_ring_state from, enum vql_ring_state to);

#endif
