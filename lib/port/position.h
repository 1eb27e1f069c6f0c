/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_POSITION_H
#define VQLIFT_PORT_POSITION_H

/* Where a packed ring goes on whose front-end lost its position. */

#include <stdbool.h>
#include <stdint.h>

#include <linux/virtio_ring.h>

#include "memory/dirty_log.h"
#include "port/journal.h"
#include "vhost_user/session.h"

struct vql_packed_ring {
        struct vring_packed_desc *desc;
        uint16_t size;
        uint64_t gpa;              /* of desc */
        struct vql_dirty_log *log; /* or NULL */
};

/* If the session's position of ring `index` is not to be trusted: true, and where we were. */
bool vql_position_find(const struct vql_session *s, const struct vql_journal *j, uint16_t index,
                       struct vql_packed_ring *ret_ring, struct vql_cursor *ret_at);

/*
 * Nothing that is ahead of where we were should be marked as returned.  But we may have been cut
 * down in the middle of a batch, whose first slot is written last; and a front-end without back-end
 * may serve a ring itself: QEMU returns what the guest sends while its link is down, and begins
 * where it believes the ring to stand, which may be in the next lap.  Either way the driver waits
 * at our position.  So return, unused, what is out between there and the last that is marked, and
 * move the position behind that.  Returns the number of buffers.
 */
unsigned int vql_position_settle(const struct vql_packed_ring *ring, struct vql_cursor *at);

#endif
