/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_FILE_H
#define VQLIFT_VFIO_FILE_H

/* What VFIO's files have in common: opening with a sentence, and answers of variable length. */

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "vfio/sys.h"

/* A descriptor, or -errno with a sentence that says what to do. */
int vql_vfio_file_open(const struct vql_vfio_sys *sys, const char *path, struct vql_error *e);

/*
 * Ask for a structure that begins with argsz, flags.  `ask` is the question, its argsz the size of
 * the fixed part; *ret_info is the answer with all that follows it, to be freed.  -errno, -ENOMEM;
 * -EBADMSG the kernel wants an absurd amount of memory.
 */
int vql_vfio_file_info(const struct vql_vfio_sys *sys, int fd, unsigned long request,
                       const void *ask, void **ret_info);

/* Through the capabilities in such an answer: `next` is the offset of the first; 0 ends. */
struct vql_vfio_walk {
        const void *info;
        uint32_t size, next;
};

/* The next capability and its id, or NULL; offsets only ever grow, so that a circle ends. */
const uint8_t *vql_vfio_walk_next(struct vql_vfio_walk *w, uint16_t *ret_id);
/* Bytes from there to the end of the answer. */
size_t vql_vfio_walk_room(const struct vql_vfio_walk *w, const uint8_t *at);

#endif
