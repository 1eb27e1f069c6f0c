/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_LEFTOVER_H
#define VQLIFT_PORT_LEFTOVER_H

/*
 * What the in-flight region tells about a ring that an earlier back-end ran: where it stands, and
 * which chains were taken and never returned.  A back-end of ours leaves none of the latter, it
 * works in order and takes again what it did not return; of another one, which may have finished
 * later chains before, they are given back unused: none is lost and none is returned twice.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "vhost_user/session.h"
#include "virtqueue/queue.h"

struct vql_leftover {
        bool found;                        /* the region knows the ring */
        struct vql_cursor at;              /* canonical: up to where chains were returned */
        struct vql_inflight_chain *chains; /* behind that, in the order in which they were taken */
        uint16_t n;
};

/*
 * Look into the session's region, if it has one, for ring `index`, whose used index (split) or
 * descriptors (packed) are at `ring`.  -EBADMSG: what it says cannot be; -ENOMEM.
 */
int vql_leftover_find(const struct vql_session *s, uint16_t index,
                      const struct vql_inflight_ring *ring, struct vql_leftover *ret_leftover,
                      struct vql_error *e);
void vql_leftover_fini(struct vql_leftover *l);

/* The ring runs at l->at: give the chains back, and begin to keep the region.  False: there is no
 * region with a place for it. */
bool vql_leftover_return(const struct vql_leftover *l, const struct vql_session *s, uint16_t index,
                         struct vql_queue *q);

#endif
