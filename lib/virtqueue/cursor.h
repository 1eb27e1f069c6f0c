/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VIRTQUEUE_CURSOR_H
#define VQLIFT_VIRTQUEUE_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { VQL_QUEUE_MAX_SIZE = 32768 }; /* virtio 1.2, 2.7 and 2.8: largest queue */

/*
 * A position in a ring.  Canonical when avail and used agree: every buffer before it was returned
 * once, none after it was touched.
 */
struct vql_cursor {
        uint16_t avail, used;          /* split: free-running; packed: slot in the ring */
        uint8_t avail_wrap, used_wrap; /* packed: the wrap counters; split: 0 */
};

/*
 * The vhost-user encoding of a position (SET_VRING_BASE and GET_VRING_BASE, field num): split has
 * avail in bits 0-15; packed has avail in 0-14, its wrap in 15, used in 16-30, its wrap in 31.
 */
#define VQL_PACKED_INITIAL 0x80008000u /* both slots 0, both wrap counters 1 */

uint32_t vql_cursor_encode(const struct vql_cursor *c, bool packed);

/*
 * Decode and check a position for a ring of `size`.  Split: used is set equal to avail; the caller
 * replaces it by the used index in memory.  Packed: an upper half of 0 means a front-end that keeps
 * only 16 bits, then used := avail (the two cannot differ legally: used slot 0 with wrap 0 would
 * lie behind a drained ring only). -EINVAL if a packed slot is not below size, or upper bits are
 * set for a split ring.
 */
int vql_cursor_decode(uint32_t num, bool packed, uint16_t size, struct vql_cursor *ret_cursor,
                      struct vql_error *e);

/*
 * The record of a packed ring's position around a publication, one word, so that it is never half
 * written: bits 0-15 the slot behind what is being published, 16-31 the slot before it, 32 and 40
 * their wrap counters.  It is what the in-flight region has at this place (vhost-user
 * specification, "Inflight I/O tracking": used_idx, old_used_idx, used_wrap_counter,
 * old_used_wrap_counter).  Both halves are equal between publications.
 */
static inline uint64_t vql_position_word(uint16_t slot, uint8_t wrap, uint16_t old,
                                         uint8_t old_wrap)
{
        return slot | (uint64_t)old << 16 | (uint64_t)wrap << 32 | (uint64_t)old_wrap << 40;
}

/* A record's two positions, [0] behind and [1] before the publication.  -EBADMSG: impossible. */
int vql_position_read(uint64_t word, uint16_t size, struct vql_cursor ret_cursors[2]);

/*
 * Check a ring size: 1 to 32768, and a power of two for split (virtio 1.2, 2.7).  -EINVAL.
 */
int vql_ring_size_check(uint32_t num, bool packed, struct vql_error *e);

#endif
