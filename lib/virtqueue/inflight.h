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

#include <linux/virtio_ring.h>

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
 * Where the datapath records publications of packed queue q (vql_position_word()), or NULL: a split
 * queue needs no such place (its used index tells), or q is outside the region.  Ours is a device
 * that takes and returns buffers in order, within one burst: what it took and did not return is
 * taken again, so that no buffer is ever marked as in flight by it.
 */
uint64_t *vql_inflight_position(struct vql_inflight *f, uint16_t q);

/* What is known of the ring that an in-flight region describes, as it is found. */
struct vql_inflight_ring {
        uint16_t size;
        uint16_t used_idx;                    /* split */
        const struct vring_packed_desc *desc; /* packed */
};

/*
 * Finish or undo the batch in the middle of which a back-end was cut, as the specification tells.
 * To be called before vql_inflight_read() and vql_inflight_list().  0, -ENODATA or -EBADMSG as
 * there.
 */
int vql_inflight_recover(struct vql_inflight *f, uint16_t q, const struct vql_inflight_ring *ring);

/* A chain that a back-end took and never returned. */
struct vql_inflight_chain {
        uint64_t counter; /* of the moment when it was taken */
        uint16_t entry;   /* of the region */
        uint16_t id;      /* split: head; packed: buffer id */
        uint16_t slots;   /* packed: of the ring; split: 1 */
};

/*
 * The chains in flight, in the order in which they were taken; the caller frees them.  The number,
 * -ENOMEM, or -EBADMSG for what cannot be.
 */
int vql_inflight_list(const struct vql_inflight *f, uint16_t q, uint16_t size,
                      struct vql_inflight_chain **ret_chains);

/*
 * These n chains are about to be returned to a ring of `size`, by one publication that the caller
 * does not record; behind it, vql_inflight_recover() finishes the batch.  Whoever finds the region
 * between knows by the ring whether they were.
 */
void vql_inflight_return(struct vql_inflight *f, uint16_t q, uint16_t size,
                         const struct vql_inflight_chain *chains, uint16_t n);

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
