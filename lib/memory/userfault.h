/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_MEMORY_USERFAULT_H
#define VQLIFT_MEMORY_USERFAULT_H

/*
 * Postcopy migration: memory of a guest that runs while its pages are still on their way.  Whoever
 * touches a page that is missing waits until the front-end, which holds a duplicate of the
 * userfaultfd, has put it there.  Control thread only.
 */

#include <stdbool.h>

#include "base/error.h"
#include "memory/memory.h"

/* Has this host userfaultfd for shared memory? */
bool vql_userfault_works(void);

/* -ENOSYS, -EPERM and the like: the host has none, or not for us. */
int vql_userfault_open(int *ret_fd, struct vql_error *e);

/*
 * Watch all regions of the table, none of which was touched yet; those that are watched already
 * stay so.  After an error some may be watched.
 */
int vql_userfault_watch(int fd, const struct vql_mem_table *t, struct vql_error *e);

/* No page is missed any more, and who waits for one goes on.  Closing `fd` alone would not do while
 * the front-end has its duplicate. */
void vql_userfault_release(int fd, const struct vql_mem_table *t);

#endif
