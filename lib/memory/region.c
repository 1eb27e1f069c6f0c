/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/region.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Every use of gpa + size and uva + size relies on these checks.  Offsets in units of a guest page
 * keep buffers and rings as aligned here as they are in the guest.
 */
static int check_desc(const struct vql_region_desc *d, struct vql_error *e)
{
        uint64_t end;

        if (!d->size)
                return vql_fail(e, EINVAL, "size 0, expected at least one byte");
        if (__builtin_add_overflow(d->gpa, d->size, &end))
                return vql_fail(e, EINVAL, "guest address + size wraps");
        if (__builtin_add_overflow(d->uva, d->size, &end))
                return vql_fail(e, EINVAL, "front-end address %#" PRIx64 " + size wraps", d->uva);
        if (d->mmap_offset % VQL_MEM_OFFSET_ALIGN)
                return vql_fail(e, EINVAL, "mmap offset %#" PRIx64 ", expected a multiple of %d",
                                d->mmap_offset, VQL_MEM_OFFSET_ALIGN);
        return 0;
}

static int identify(struct vql_region *r, int fd, struct vql_error *e)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return vql_fail(e, errno, "fstat: %s", strerror(errno));
        r->device = st.st_dev;
        r->inode = st.st_ino;
        return 0;
}

int vql_region_map(const struct vql_region_desc *d, int fd, int broken_fd,
                   struct vql_region **ret_region, struct vql_error *e)
{
        struct vql_region *r = calloc(1, sizeof(*r));
        struct vql_error why = { "out of memory" };
        int ret = -ENOMEM;

        if (!r)
                goto fail;
        r->refs = r->announced = 1;
        r->desc = *d;
        ret = check_desc(d, &why);
        if (ret < 0)
                goto fail;
        ret = vql_file_map_open(fd, d->mmap_offset, d->size, broken_fd, &r->map, &why);
        if (ret < 0)
                goto fail;
        ret = identify(r, fd, &why);
        if (ret < 0)
                goto fail;
        *ret_region = r;
        return 0;

fail:
        vql_region_put(r);
        return vql_fail(e, -ret,
                        "memory region at guest address %#" PRIx64 ", size %#" PRIx64 ": %s",
                        d->gpa, d->size, why.text);
}

struct vql_region *vql_region_get(struct vql_region *r)
{
        r->refs++;
        return r;
}

void vql_region_put(struct vql_region *r)
{
        if (!r || --r->refs)
                return;
        vql_file_map_close(&r->map);
        free(r);
}

const struct vql_region_desc *vql_region_desc(const struct vql_region *r)
{
        return &r->desc;
}

bool vql_region_repeat(struct vql_region *r, const struct vql_region_desc *d, int fd)
{
        struct stat st;

        if (r->desc.gpa != d->gpa || r->desc.uva != d->uva || r->desc.size != d->size ||
            r->desc.mmap_offset != d->mmap_offset || r->announced == UINT_MAX ||
            fstat(fd, &st) < 0 || st.st_dev != r->device || st.st_ino != r->inode)
                return false;
        r->announced++;
        return true;
}

bool vql_region_retract(struct vql_region *r)
{
        if (r->announced == 1)
                return true;
        r->announced--;
        return false;
}
