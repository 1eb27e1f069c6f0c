/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_MEMORY_SIGBUS_H
#define VQLIFT_MEMORY_SIGBUS_H

/*
 * The file behind guest memory belongs to the front-end, which may shrink it at any time; touching
 * a page that is gone raises SIGBUS.  The guard replaces that page by an anonymous one, so that the
 * thread goes on, and marks the range, so that its session can be ended.  Signals are a matter of
 * the whole process: this is the library's one piece of process-wide state, and the handler passes
 * faults outside guarded ranges on to whatever handler was there before.
 *
 * A thread that touches guest memory must not block SIGBUS: the kernel ends a process whose thread
 * faults with the signal blocked, whatever handler there is.
 */

#include <stdbool.h>
#include <stddef.h>

/* As many ranges as the kernel's default vm.max_map_count allows mappings. */
enum { VQL_SIGBUS_RANGES = 65536 };

/* Install the handler (idempotent, any thread); guarding a range does it, too.  -errno of
 * sigaction. */
int vql_sigbus_install(void);

struct vql_sigbus_range;

/*
 * Guard [va, va + len), a mapping of whole pages of `page` bytes (hugetlbfs: of huge pages, which
 * can only be replaced whole).  `notify_fd` is an eventfd that the handler writes to when a page
 * was replaced, or -1; the caller keeps it open until the range is removed.  -ENOSPC when the fixed
 * table of ranges is full; -errno of sigaction.
 */
int vql_sigbus_guard(void *va, size_t len, size_t page, int notify_fd,
                     struct vql_sigbus_range **ret_range);
void vql_sigbus_release(struct vql_sigbus_range *r);   /* NULL is fine; before munmap */
bool vql_sigbus_hit(const struct vql_sigbus_range *r); /* was a page replaced? */

#endif
