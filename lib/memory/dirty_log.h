/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_MEMORY_DIRTY_LOG_H
#define VQLIFT_MEMORY_DIRTY_LOG_H

/*
 * The dirty log of a live migration: a bitmap, shared with the front-end, in which bit n stands
 * for the guest page at n * 4096 (vhost-user specification, "Migration").  It may be shared with
 * other back-ends too, hence atomic OR.
 */

#include <stdint.h>

#include "base/error.h"

enum { VQL_LOG_PAGE_SHIFT = 12 };

struct vql_dirty_log {
        uint8_t *bits;    /* the bitmap itself (mmap_offset already applied) */
        uint64_t size;    /* its length in bytes */
        uint64_t dropped; /* pages that fell outside; statistics, relaxed atomics */
};

/*
 * Map a log.  The caller keeps `fd`.  `size` and `offset` are the message's; `mem_end` is the
 * highest guest address + 1, which the log must cover.
 * -EINVAL size 0, wrap of size + offset, or log shorter than memory; -ENXIO file too short; mmap's.
 */
int vql_dirty_log_map(int fd, uint64_t size, uint64_t offset, uint64_t mem_end,
                      struct vql_dirty_log **ret_log, struct vql_error *e);
void vql_dirty_log_unmap(struct vql_dirty_log *log); /* NULL is fine */

/*
 * Mark every page that [gpa, gpa + len) touches; len 0 marks nothing.  Call it after the bytes were
 * written and before the used index that publishes them is stored.  Any thread.
 */
void vql_dirty_log_mark(struct vql_dirty_log *log, uint64_t gpa, uint64_t len);

#endif
