/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_SYS_H
#define VQLIFT_VFIO_SYS_H

/*
 * The seam to the kernel.  Every call that lib/vfio makes on a VFIO file goes through this table,
 * so that a test can stand in for the kernel and for the device behind it.
 *
 * Results are what the system call returns, or -errno (never -1 with errno).  `arg` is the table's.
 * Calls come from any thread.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Which file a piece of this process's memory is a view of, and from where on. */
struct vql_vfio_file {
        uint64_t device, inode; /* inode 0: of no shared file, or of more than one */
        uint64_t offset;
};

struct vql_vfio_sys {
        int (*open)(void *arg, const char *path, int flags);
        int (*close)(void *arg, int fd);
        /* `p` is a pointer, or a number in its place for the requests that take one. */
        int (*ioctl)(void *arg, int fd, unsigned long request, void *p);
        ssize_t (*pread)(void *arg, int fd, void *ret_bytes, size_t n, uint64_t offset);
        ssize_t (*pwrite)(void *arg, int fd, const void *bytes, size_t n, uint64_t offset);
        /* Shared, to be read and written. */
        int (*mmap)(void *arg, int fd, size_t len, uint64_t offset, void **ret_va);
        int (*munmap)(void *arg, void *va, size_t len);
        int (*eventfd)(void *arg); /* 0, close on exec, not blocking */
        /* 0 also when there is no such file: then ret_file->inode is 0. */
        int (*identify)(void *arg, const void *va, uint64_t len, struct vql_vfio_file *ret_file);
        void *arg;
};

extern const struct vql_vfio_sys vql_vfio_linux;

#endif
