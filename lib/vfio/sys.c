/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int result(int ret)
{
        return ret < 0 ? -errno : ret;
}

static int linux_open(void *arg, const char *path, int flags)
{
        (void)arg;
        return result(open(path, flags));
}

static int linux_close(void *arg, int fd)
{
        (void)arg;
        return result(close(fd));
}

static int linux_ioctl(void *arg, int fd, unsigned long request, void *p)
{
        (void)arg;
        return result(ioctl(fd, request, p));
}

static ssize_t linux_pread(void *arg, int fd, void *ret_bytes, size_t n, uint64_t offset)
{
        ssize_t got = pread(fd, ret_bytes, n, (off_t)offset);

        (void)arg;
        return got < 0 ? -errno : got;
}

static ssize_t linux_pwrite(void *arg, int fd, const void *bytes, size_t n, uint64_t offset)
{
        ssize_t put = pwrite(fd, bytes, n, (off_t)offset);

        (void)arg;
        return put < 0 ? -errno : put;
}

static int linux_mmap(void *arg, int fd, size_t len, uint64_t offset, void **ret_va)
{
        void *va = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

        (void)arg;
        if (va == MAP_FAILED)
                return -errno;
        *ret_va = va;
        return 0;
}

static int linux_munmap(void *arg, void *va, size_t len)
{
        (void)arg;
        return result(munmap(va, len));
}

static int linux_eventfd(void *arg)
{
        (void)arg;
        return result(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

/* A line of /proc/self/maps. */
struct view {
        uintptr_t start, end;
        uint64_t offset, inode;
        unsigned int major, minor;
        char sharing;
};

static int parse_view(const char *line, struct view *ret_view)
{
        struct view v = { 0 };

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*c%*c%*c%c %" SCNx64 " %x:%x %" SCNu64,
                   &v.start, &v.end, &v.sharing, &v.offset, &v.major, &v.minor, &v.inode) != 7)
                return -EINVAL;
        *ret_view = v;
        return 0;
}

/* A range that begins in one view and ends in the next counts as no file's: nothing is lost by it
 * but the sharing. */
static int linux_identify(void *arg, const void *va, uint64_t len, struct vql_vfio_file *ret_file)
{
        uintptr_t at = (uintptr_t)va;
        struct vql_vfio_file file = { 0 };
        struct view v = { 0 };
        char line[512];
        FILE *maps = fopen("/proc/self/maps", "re");

        (void)arg;
        if (!maps)
                return -errno;
        while (v.end <= at && fgets(line, sizeof(line), maps))
                if (parse_view(line, &v) < 0)
                        continue;
        fclose(maps);
        if (at >= v.start && at < v.end && len <= v.end - at && v.sharing == 's')
                file = (struct vql_vfio_file){ makedev(v.major, v.minor), v.inode,
                                               v.offset + (at - v.start) };
        *ret_file = file;
        return 0;
}

const struct vql_vfio_sys vql_vfio_linux = {
        .open = linux_open,
        .close = linux_close,
        .ioctl = linux_ioctl,
        .pread = linux_pread,
        .pwrite = linux_pwrite,
        .mmap = linux_mmap,
        .munmap = linux_munmap,
        .eventfd = linux_eventfd,
        .identify = linux_identify,
};
