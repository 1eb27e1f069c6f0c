/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VIRTQUEUE_QUEUE_STATE_H
#define VQLIFT_VIRTQUEUE_QUEUE_STATE_H

/*
 * What a queue's next owner must know to go on where the last one stopped.  It goes from owner to
 * owner in many forms (a number in SET_VRING_BASE and GET_VRING_BASE, an in-flight region, a
 * device's state file, a journal), and each of them passes vql_queue_state_make(): no queue starts
 * with a state that was not checked there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "virtqueue/cursor.h"

enum {
        VQL_QUEUE_STATE_VERSION = 1,
        VQL_QUEUE_STATE_BYTES = 24, /* as vql_queue_state_write() writes it */
};

struct vql_queue_state {
        uint16_t version; /* VQL_QUEUE_STATE_VERSION */
        uint16_t size;    /* of the ring */
        bool packed;
        struct vql_cursor at;
        /* Chains, packed: slots, that were taken and not returned: avail minus used.  0 between
         * bursts of the software datapath. */
        uint16_t in_flight;
        bool owes_signal; /* the guest may wait for an interrupt: the next owner sends one */
};

/*
 * The only maker of states: check `raw` and give it back.  -EINVAL, with a sentence: version, ring
 * size (vql_ring_size_check()), packed slots below the size and wrap counters 0 or 1, a distance
 * from used to avail that is more than the ring or not what in_flight says.
 */
int vql_queue_state_make(const struct vql_queue_state *raw, struct vql_queue_state *ret_state,
                         struct vql_error *e);

/* A canonical state (nothing in flight) at a position: used counts. */
int vql_queue_state_at(const struct vql_cursor *at, bool packed, uint16_t size,
                       struct vql_queue_state *ret_state, struct vql_error *e);

/* The same from SET_VRING_BASE's number (vql_cursor_decode()). */
int vql_queue_state_from_base(uint32_t base, bool packed, uint16_t size,
                              struct vql_queue_state *ret_state, struct vql_error *e);

/* GET_VRING_BASE's number. */
uint32_t vql_queue_state_to_base(const struct vql_queue_state *s);

/*
 * As bytes, little-endian: version 2, size 2, flags 2 (1 packed, 2 owes a signal), in flight 2,
 * avail 2, used 2, avail wrap 1, used wrap 1, 10 of zero.
 */
void vql_queue_state_write(const struct vql_queue_state *s,
                           uint8_t ret_bytes[VQL_QUEUE_STATE_BYTES]);
/* -EINVAL as vql_queue_state_make(), or for flags and bytes that have no meaning yet. */
int vql_queue_state_read(const uint8_t bytes[VQL_QUEUE_STATE_BYTES],
                         struct vql_queue_state *ret_state, struct vql_error *e);

#endif
