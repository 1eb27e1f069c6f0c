/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <linux/vfio.h>

enum { ANSWER_MAX = 1 << 20 };

int vql_vfio_file_open(const struct vql_vfio_sys *sys, const char *path, struct vql_error *e)
{
        int fd = sys->open(sys->arg, path, O_RDWR | O_CLOEXEC);

        if (fd == -EACCES || fd == -EPERM)
                return vql_fail(e, EACCES,
                                "%s may not be opened by this user: give it to the daemon's group "
                                "by a udev rule, SUBSYSTEM==\"vfio\", GROUP=\"vqlift\"",
                                path);
        if (fd == -EBUSY)
                return vql_fail(e, EBUSY,
                                "%s is in use: by another process, or by another device of the "
                                "same IOMMU group, from which this one cannot be kept apart",
                                path);
        if (fd == -EMFILE)
                return vql_fail(e, EMFILE,
                                "%s: too many open files: raise LimitNOFILE in the service's unit",
                                path);
        if (fd < 0)
                return vql_fail(e, -fd, "%s: %s", path, strerror(-fd));
        return fd;
}

/* All these structures begin so. */
struct head {
        uint32_t argsz, flags;
};

static int ask_again(const struct vql_vfio_sys *sys, int fd, unsigned long request, const void *ask,
                     struct head **ret_info)
{
        struct head size = { 0 };
        struct head *bigger;
        uint32_t wanted = (*ret_info)->argsz;
        int ret;

        memcpy(&size, ask, sizeof(size));
        (*ret_info)->argsz = size.argsz;
        if (wanted <= size.argsz)
                return 0;
        if (wanted > ANSWER_MAX)
                return -EBADMSG;
        bigger = realloc(*ret_info, wanted);
        if (!bigger)
                return -ENOMEM;
        *ret_info = bigger;
        memset(bigger, 0, wanted);
        memcpy(bigger, ask, size.argsz);
        bigger->argsz = wanted;
        ret = sys->ioctl(sys->arg, fd, request, bigger);
        /* What there is room for, whatever the kernel would like now. */
        bigger->argsz = wanted;
        return ret;
}

int vql_vfio_file_info(const struct vql_vfio_sys *sys, int fd, unsigned long request,
                       const void *ask, void **ret_info)
{
        struct head size = { 0 };
        struct head *info;
        int ret;

        memcpy(&size, ask, sizeof(size));
        info = malloc(size.argsz);
        if (!info)
                return -ENOMEM;
        memcpy(info, ask, size.argsz);
        ret = sys->ioctl(sys->arg, fd, request, info);
        /* The kernel says in argsz what it would need for the rest. */
        if (ret >= 0)
                ret = ask_again(sys, fd, request, ask, &info);
        if (ret < 0) {
                free(info);
                return ret;
        }
        *ret_info = info;
        return 0;
}

const uint8_t *vql_vfio_walk_next(struct vql_vfio_walk *w, uint16_t *ret_id)
{
        const uint8_t *at = (const uint8_t *)w->info + w->next;
        struct vfio_info_cap_header header;

        if (!w->next || w->next > w->size || w->size - w->next < sizeof(header))
                return NULL;
        memcpy(&header, at, sizeof(header));
        w->next = header.next > w->next ? header.next : 0;
        *ret_id = header.id;
        return at;
}

size_t vql_vfio_walk_room(const struct vql_vfio_walk *w, const uint8_t *at)
{
        return w->size - (size_t)(at - (const uint8_t *)w->info);
}
