/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_MEMORY_FILE_MAP_H
#define VQLIFT_MEMORY_FILE_MAP_H

/*
 * A part of a file that a front-end handed over, mapped shared and writable: what guest memory, the
 * dirty log and the in-flight region have in common.  The mapping is under the SIGBUS guard and
 * stays out of core dumps and of children.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "memory/sigbus.h"

/* All zero: nothing mapped. */
struct vql_file_map {
        uint8_t *at; /* the byte at the offset that was asked for */
        void *base;  /* the whole pages around it */
        size_t len;
        struct vql_sigbus_range *guard;
};

/*
 * Map [offset, offset + size) of `fd`, which the caller keeps, and nothing beyond the pages that
 * hold it.  `broken_fd` is told when pages are taken away (see vql_sigbus_guard()), or -1.
 * -EINVAL size 0, a wrap, or not a regular file with its pages in this kernel's hands; -ENXIO the
 * file is shorter; -ENOSPC the guard's table is full; -errno of fstat, mmap, madvise.
 */
int vql_file_map_open(int fd, uint64_t offset, uint64_t size, int broken_fd,
                      struct vql_file_map *ret_map, struct vql_error *e);
void vql_file_map_close(struct vql_file_map *m); /* also one that is all zero */

#endif
