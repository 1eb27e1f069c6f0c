/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/userfault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

#include "memory/region.h"

static int negotiate(int fd, struct vql_error *e)
{
        struct uffdio_api api = { .api = UFFD_API };

        if (ioctl(fd, UFFDIO_API, &api) < 0)
                return vql_fail(e, errno, "userfaultfd: %s", strerror(errno));
        if (!(api.features & UFFD_FEATURE_MISSING_SHMEM))
                return vql_fail(e, EOPNOTSUPP,
                                "userfaultfd: features %#" PRIx64 ", expected those with shared "
                                "memory",
                                (uint64_t)api.features);
        return 0;
}

/* No system call of ours is given guest memory, so that faults in user mode are all there are; and
 * for these alone no privilege is needed. */
int vql_userfault_open(int *ret_fd, struct vql_error *e)
{
        int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
        int err;

        if (fd < 0)
                return vql_fail(e, errno, "userfaultfd: %s", strerror(errno));
        err = negotiate(fd, e);
        if (err < 0) {
                close(fd);
                return err;
        }
        *ret_fd = fd;
        return 0;
}

bool vql_userfault_works(void)
{
        int fd;

        if (vql_userfault_open(&fd, NULL) < 0)
                return false;
        close(fd);
        return true;
}

static struct uffdio_range range_of(const struct vql_region *r)
{
        return (struct uffdio_range){ .start = (uintptr_t)r->map.base, .len = r->map.len };
}

int vql_userfault_watch(int fd, const struct vql_mem_table *t, struct vql_error *e)
{
        for (size_t i = 0; i < vql_mem_table_count(t); i++) {
                const struct vql_region *r = vql_mem_table_region(t, i);
                struct uffdio_register reg = {
                        .range = range_of(r),
                        .mode = UFFDIO_REGISTER_MODE_MISSING,
                };

                if (ioctl(fd, UFFDIO_REGISTER, &reg) < 0)
                        return vql_fail(e, errno,
                                        "userfaultfd for %#zx bytes of the region at guest address "
                                        "%#" PRIx64 ": %s",
                                        r->map.len, r->desc.gpa, strerror(errno));
        }
        return 0;
}

void vql_userfault_release(int fd, const struct vql_mem_table *t)
{
        for (size_t i = 0; i < vql_mem_table_count(t); i++) {
                struct uffdio_range range = range_of(vql_mem_table_region(t, i));

                /* Fails for a region that is not watched, which is as good. */
                (void)ioctl(fd, UFFDIO_UNREGISTER, &range);
        }
}
