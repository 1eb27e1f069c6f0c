/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VIRTQUEUE_INFLIGHT_H
#define VQLIFT_VIRTQUEUE_INFLIGHT_H

/*
 * The in-flight region (vhost-user specification, "Inflight I/O tracking"): memory shared with the
 * front-end that outlives this process and tells which buffers were taken and not yet returned.
 * It is hostile input when it is read back.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "virtqueue/cursor.h"

struct vql_inflight; /* a mapped region */

/* Bytes that one queue and the whole region take; each queue starts at a multiple of 64. */
size_t vql_inflight_queue_bytes(uint16_t queue_size, bool packed);
size_t vql_inflight_bytes(uint16_t num_queues, uint16_t queue_size, bool packed);

/*
 * Make a zeroed region in a new memfd, sealed against resizing; *ret_fd is the caller's. num_queues
 * 1 to 256 and queue_size 1 to 32768 or -EINVAL; -errno of memfd_create and ftruncate.
 */
int vql_inflight_create(uint16_t num_queues, uint16_t queue_size, bool packed, int *ret_fd,
                        uint64_t *ret_bytes, struct vql_error *e);

/* A region as the front-end describes it, and the ring format that it was made for. */
struct vql_inflight_desc {
        uint64_t bytes, offset; /* where it lies in its file */
        uint16_t num_queues, queue_size;
        bool packed;
};

/*
 * Map a region that a front-end handed over; the caller keeps `fd`.  -EINVAL if the message's sizes
 * do not fit one another or offset is not a multiple of 64, -ENXIO if the file is shorter than they
 * say; -errno of mmap and of what vql_file_map_open() calls.
 */
int vql_inflight_map(int fd, const struct vql_inflight_desc *d, struct vql_inflight **ret_inflight,
                     struct vql_error *e);
void vql_inflight_unmap(struct vql_inflight *f); /* NULL is fine */

/*
 * Write "nothing in flight, position c" for queue q, in an order that recovers from any cut.
 * No effect if q is outside the region.
 */
void vql_inflight_settle(struct vql_inflight *f, uint16_t q, const struct vql_cursor *c);

/*
 * Read queue q's position back, for a ring of `size`.  0 and a checked cursor, whose avail is ahead
 * of used by what is in flight (split: by heads, packed: by descriptors); a split ring's own used
 * index is the truth about used.  -ENODATA if the region was never used for q (version 0) or q is
 * outside; -EBADMSG if what it says is impossible, or (packed) a batch was cut in the middle, where
 * it alone cannot tell the position.
 */
int vql_inflight_read(const struct vql_inflight *f, uint16_t q, uint16_t size,
                      struct vql_cursor *ret_cursor);

#endif
