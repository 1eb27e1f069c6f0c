/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/file_map.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

static int check_extent(const struct stat *st, uint64_t offset, uint64_t size, struct vql_error *e)
{
        uint64_t end;

        if (!size)
                return vql_fail(e, EINVAL, "size 0, expected at least one byte");
        if (__builtin_add_overflow(offset, size, &end))
                return vql_fail(e, EINVAL, "offset %#" PRIx64 " + size %#" PRIx64 " wraps", offset,
                                size);
        if (!S_ISREG(st->st_mode))
                return vql_fail(e, EINVAL,
                                "the descriptor is no regular file (mode %#o), expected a memfd or "
                                "a file in shm, hugetlbfs or on a disk",
                                st->st_mode);
        if (st->st_size < 0 || end > (uint64_t)st->st_size)
                return vql_fail(e, ENXIO,
                                "the file has %jd bytes, expected at least offset %#" PRIx64
                                " + size %#" PRIx64,
                                (intmax_t)st->st_size, offset, size);
        return 0;
}

/*
 * The size of the file's pages, in which mmap counts.  It is asked from the file system, since the
 * st_blksize of other file systems is a wish for buffered I/O: tmpfs says 2 MiB when it may use
 * huge pages and still maps at 4 KiB.
 */
static int page_size(int fd, size_t *ret_page, struct vql_error *e)
{
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return vql_fail(e, errno, "fstatfs: %s", strerror(errno));
        /* Each page of such a file comes from another process, which may let a worker and all the
         * guests that it serves wait for ever. */
        if (fs.f_type == FUSE_SUPER_MAGIC)
                return vql_fail(e, EINVAL,
                                "the file lies in a FUSE file system, expected one "
                                "whose pages no other process can hold back");
        *ret_page =
                fs.f_type == HUGETLBFS_MAGIC ? (size_t)fs.f_bsize : (size_t)sysconf(_SC_PAGESIZE);
        return 0;
}

/* The extent fits the file, hence below 2^63: rounding up to a page cannot wrap. */
static int map_pages(int fd, uint64_t offset, uint64_t size, size_t page, struct vql_file_map *m,
                     struct vql_error *e)
{
        uint64_t mask = page - 1;
        uint64_t start = offset & ~mask;
        size_t len = ((offset + size + mask) & ~mask) - start;
        void *base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);

        if (base == MAP_FAILED)
                return vql_fail(e, errno, "mmap of %#zx bytes at offset %#" PRIx64 ": %s", len,
                                start, strerror(errno));
        m->base = base;
        m->len = len;
        m->at = (uint8_t *)base + (offset - start);
        if (madvise(base, len, MADV_DONTDUMP) < 0 || madvise(base, len, MADV_DONTFORK) < 0)
                return vql_fail(e, errno, "madvise of %#zx bytes: %s", len, strerror(errno));
        return 0;
}

int vql_file_map_open(int fd, uint64_t offset, uint64_t size, int broken_fd,
                      struct vql_file_map *ret_map, struct vql_error *e)
{
        struct vql_file_map m = { 0 };
        struct stat st;
        size_t page = 0;
        int ret;

        if (fstat(fd, &st) < 0)
                return vql_fail(e, errno, "fstat of descriptor %d: %s", fd, strerror(errno));
        ret = check_extent(&st, offset, size, e);
        if (ret < 0)
                return ret;
        ret = page_size(fd, &page, e);
        if (ret < 0)
                return ret;
        ret = map_pages(fd, offset, size, page, &m, e);
        if (ret < 0)
                goto fail;
        ret = vql_sigbus_guard(m.base, m.len, page, broken_fd, &m.guard);
        if (ret < 0) {
                vql_fail(e, -ret, "SIGBUS guard: %s", strerror(-ret));
                goto fail;
        }
        *ret_map = m;
        return 0;

fail:
        vql_file_map_close(&m);
        return ret;
}

void vql_file_map_close(struct vql_file_map *m)
{
        vql_sigbus_release(m->guard);
        if (m->base)
                munmap(m->base, m->len);
        *m = (struct vql_file_map){ 0 };
}
