/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_POSITION_H
#define VQLIFT_PORT_POSITION_H

/* Where a packed ring goes on whose front-end lost its position, or served the ring itself. */

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

enum vql_position {
        VQL_POSITION_TOLD,     /* the front-end knows */
        VQL_POSITION_RECORDED, /* it does not: *ret_at is where we were, from the journal */
        VQL_POSITION_SKIPPED,  /* it does, and left out what begins at *ret_at, where we were */
};

/* Judge what the session says of ring `index`.  *ret_at is written as told above. */
enum vql_position vql_position_find(const struct vql_session *s, const struct vql_journal *j,
                                    uint16_t index, struct vql_packed_ring *ret_ring,
                                    struct vql_cursor *ret_at);

/* Return the buffers from `from` on, unused, up to what the front-end returned itself or to `to`:
 * their number. */
unsigned int vql_position_return(const struct vql_packed_ring *ring, const struct vql_cursor *from,
                                 const struct vql_cursor *to);

#endif
