/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_DEVICE_STATE_H
#define VQLIFT_PORT_DEVICE_STATE_H

/*
 * A device's state as it travels from one back-end to another (vhost-user specification, "Migrating
 * back-end state"), opaque to the front-end.  Little-endian:
 *
 *      0  magic 4, version 2, device type 2 (virtio's, 1: net)
 *      8  features of the guest 8
 *     16  MTU 2 (0: the front-end named none), number of rings 2, zero 4
 *     24  for each ring, by index: index 2, zero 2, queue state 24 (queue_state.h)
 *         CRC-32C of all that is before it 4
 *
 * Rings that stand nowhere are not in it.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "vhost_user/session.h"
#include "virtqueue/queue_state.h"

enum { VQL_DEVICE_STATE_VERSION = 1 };

struct vql_device_ring {
        uint16_t index;
        struct vql_queue_state state;
};

struct vql_device_state {
        uint64_t features; /* vql_guest_features() */
        uint16_t mtu;
        uint16_t n_rings;
        struct vql_device_ring ring[VQL_MAX_RINGS]; /* by index */
};

/* What the guest's driver acknowledged, without what the front-end adds for itself. */
uint64_t vql_guest_features(uint64_t features);

/* The number of bytes, at most VQL_STATE_MAX_BYTES. */
size_t vql_device_state_write(const struct vql_device_state *d,
                              uint8_t ret_bytes[VQL_STATE_MAX_BYTES]);
/* -EBADMSG, with a sentence: not a state, another version, damaged, cut short, or against itself.
 */
int vql_device_state_read(const uint8_t *bytes, size_t n, struct vql_device_state *ret_state,
                          struct vql_error *e);

/* What a session has to save.  -errno of vql_queue_state_from_base(). */
int vql_device_state_of(const struct vql_session *s, struct vql_device_state *ret_state,
                        struct vql_error *e);
/* Can the session go on from that state?  -EINVAL: features, MTU, rings or their sizes differ. */
int vql_device_state_fits(const struct vql_device_state *d, const struct vql_session *s,
                          struct vql_error *e);
/* Give a state that fits to the session: as if SET_VRING_BASE had come for each of its rings. */
void vql_device_state_give(const struct vql_device_state *d, struct vql_session *s);

/*
 * Where ring `index` starts by a loaded state, unless a SET_VRING_BASE came since: is it the ring
 * that the state is of?  -EINVAL: its size, or the features, are others.
 */
int vql_device_state_holds(const struct vql_session *s, uint16_t index, struct vql_error *e);

#endif
