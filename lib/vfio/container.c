/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/container.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <linux/vfio.h>

#include "vfio/file.h"

static int container_ioctl(const struct vql_vfio_container *c, unsigned long request, void *p)
{
        const struct vql_vfio_sys *sys = c->vfio->place.sys;

        return sys->ioctl(sys->arg, c->fd, request, p);
}

static int check_kernel(const struct vql_vfio_container *c, struct vql_error *e)
{
        int version = container_ioctl(c, VFIO_GET_API_VERSION, NULL);
        void *wanted = (void *)(uintptr_t)VFIO_TYPE1v2_IOMMU;

        if (version != VFIO_API_VERSION)
                return vql_fail(e, ENOTSUP, "VFIO has API version %d, expected %d", version,
                                VFIO_API_VERSION);
        if (container_ioctl(c, VFIO_CHECK_EXTENSION, wanted) != 1)
                return vql_fail(e, ENOTSUP,
                                "VFIO has no type 1 IOMMU: modprobe vfio_iommu_type1, and see that "
                                "the IOMMU is on");
        return 0;
}

static int open_container(struct vql_vfio_container *c, struct vql_error *e)
{
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/vfio", c->vfio->place.dev);
        c->fd = vql_vfio_file_open(c->vfio->place.sys, path, e);
        if (c->fd == -ENOENT || c->fd == -ENODEV)
                return vql_fail(e, ENOENT, "%s is not there: modprobe vfio-pci", path);
        if (c->fd < 0)
                return c->fd;
        return check_kernel(c, e);
}

int vql_vfio_container_new(struct vql_vfio *v, struct vql_vfio_container **ret_container,
                           struct vql_error *e)
{
        struct vql_vfio_container *c = calloc(1, sizeof(*c));
        int ret;

        if (!c)
                return vql_fail(e, ENOMEM, "out of memory");
        c->vfio = v;
        pthread_mutex_init(&c->mutex, NULL);
        c->next = v->containers;
        v->containers = c;
        ret = open_container(c, e);
        if (ret < 0) {
                vql_vfio_container_free(c);
                return ret;
        }
        *ret_container = c;
        return 0;
}

void vql_vfio_container_free(struct vql_vfio_container *c)
{
        const struct vql_vfio_sys *sys;
        struct vql_vfio_container **link;

        if (!c)
                return;
        sys = c->vfio->place.sys;
        for (link = &c->vfio->containers; *link != c;)
                link = &(*link)->next;
        *link = c->next;
        if (c->fd >= 0)
                sys->close(sys->arg, c->fd);
        vql_vfio_table_free(&c->table);
        pthread_mutex_destroy(&c->mutex);
        free(c);
}

/* The kernel makes the IOMMU's domain with the first group, and drops it with the last. */
static int set_iommu(struct vql_vfio_container *c, struct vql_error *e)
{
        int ret = container_ioctl(c, VFIO_SET_IOMMU, (void *)(uintptr_t)VFIO_TYPE1v2_IOMMU);

        if (ret == -EPERM)
                return vql_fail(e, EPERM,
                                "VFIO will not use this IOMMU, since it does not keep interrupts "
                                "apart: use a platform with interrupt remapping");
        if (ret < 0)
                return vql_fail(e, -ret, "VFIO_SET_IOMMU: %s", strerror(-ret));
        c->state = VQL_CONTAINER_READY;
        return 0;
}

int vql_vfio_container_attach(struct vql_vfio_container *c, int group_fd, struct vql_error *e)
{
        const struct vql_vfio_sys *sys = c->vfio->place.sys;
        int ret = sys->ioctl(sys->arg, group_fd, VFIO_GROUP_SET_CONTAINER, &c->fd);

        if (ret < 0)
                return vql_fail(e, -ret, "VFIO_GROUP_SET_CONTAINER: %s", strerror(-ret));
        if (c->state != VQL_CONTAINER_BARE)
                return 0;
        ret = set_iommu(c, e);
        if (ret < 0)
                sys->ioctl(sys->arg, group_fd, VFIO_GROUP_UNSET_CONTAINER, NULL);
        return ret;
}

void vql_vfio_container_detach(struct vql_vfio_container *c, int group_fd)
{
        const struct vql_vfio_sys *sys = c->vfio->place.sys;

        sys->ioctl(sys->arg, group_fd, VFIO_GROUP_UNSET_CONTAINER, NULL);
        if (!c->devices)
                c->state = VQL_CONTAINER_BARE;
}

/* Ranges that do not fit are left out, the smallest first: nobody is led to IOVAs that do not
 * work. */
static void add_range(struct vql_vfio_limits *limits, uint64_t first, uint64_t last)
{
        size_t least = 0;

        if (limits->n_ranges == VQL_VFIO_MAX_RANGES) {
                for (size_t i = 1; i < VQL_VFIO_MAX_RANGES; i++)
                        if (limits->ranges[i].last - limits->ranges[i].first <
                            limits->ranges[least].last - limits->ranges[least].first)
                                least = i;
                if (last - first <= limits->ranges[least].last - limits->ranges[least].first)
                        return;
                limits->n_ranges--;
                memmove(&limits->ranges[least], &limits->ranges[least + 1],
                        (limits->n_ranges - least) * sizeof(limits->ranges[0]));
        }
        limits->ranges[limits->n_ranges].first = first;
        limits->ranges[limits->n_ranges++].last = last;
}

static void read_ranges(struct vql_vfio_limits *limits, const uint8_t *at, size_t room)
{
        struct vfio_iommu_type1_info_cap_iova_range cap;
        struct vfio_iova_range range;

        if (room < sizeof(cap))
                return;
        memcpy(&cap, at, sizeof(cap));
        for (size_t i = 0; i < cap.nr_iovas && (room - sizeof(cap)) / sizeof(range) > i; i++) {
                memcpy(&range, at + sizeof(cap) + i * sizeof(range), sizeof(range));
                add_range(limits, range.start, range.end);
        }
}

static void read_available(struct vql_vfio_limits *limits, const uint8_t *at, size_t room)
{
        struct vfio_iommu_type1_info_dma_avail cap;

        if (room < sizeof(cap))
                return;
        memcpy(&cap, at, sizeof(cap));
        limits->available = cap.avail;
}

static void read_capability(struct vql_vfio_limits *limits, const uint8_t *at, size_t room,
                            uint16_t id)
{
        if (id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE)
                read_ranges(limits, at, room);
        else if (id == VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL)
                read_available(limits, at, room);
}

/* What the kernel allows in a container unless its dma_entry_limit says something else, for
 * kernels (before 5.10) that do not tell. */
enum { USUAL_ENTRIES = 65535 };

static void read_info(struct vql_vfio_container *c, const struct vfio_iommu_type1_info *info,
                      struct vql_vfio_limits *ret_limits)
{
        uint32_t used = (uint32_t)vql_vfio_table_pieces(&c->table);
        struct vql_vfio_limits limits = { .page_size = 4096 };
        struct vql_vfio_walk walk = { info, info->argsz, info->cap_offset };
        const uint8_t *at;
        uint16_t id;

        limits.available = used < USUAL_ENTRIES ? USUAL_ENTRIES - used : 0;
        if (info->flags & VFIO_IOMMU_INFO_PGSIZES && info->iova_pgsizes)
                limits.page_size = info->iova_pgsizes & -info->iova_pgsizes;
        if (info->flags & VFIO_IOMMU_INFO_CAPS)
                while ((at = vql_vfio_walk_next(&walk, &id)))
                        read_capability(&limits, at, vql_vfio_walk_room(&walk, at), id);
        limits.entries = limits.available + used;
        *ret_limits = limits;
}

int vql_vfio_container_limits(struct vql_vfio_container *c, struct vql_vfio_limits *ret_limits,
                              struct vql_error *e)
{
        const struct vfio_iommu_type1_info ask = { .argsz = sizeof(ask) };
        struct vfio_iommu_type1_info *info = NULL;
        int ret = vql_vfio_file_info(c->vfio->place.sys, c->fd, VFIO_IOMMU_GET_INFO, &ask,
                                     (void **)&info);

        if (ret < 0)
                return vql_fail(e, -ret, "VFIO_IOMMU_GET_INFO: %s", strerror(-ret));
        read_info(c, info, ret_limits);
        free(info);
        return 0;
}

static int refuse_map(const struct vql_vfio_map *m, int err, struct vql_error *e)
{
        struct rlimit lock = { 0 };
        struct vql_error why = { "" };

        getrlimit(RLIMIT_MEMLOCK, &lock);
        if (err == ENOMEM && lock.rlim_cur != RLIM_INFINITY)
                vql_fail(&why, err,
                         ": RLIMIT_MEMLOCK is %" PRIu64 " bytes, expected all of the guest's "
                         "memory (LimitMEMLOCK=infinity in the service's unit)",
                         (uint64_t)lock.rlim_cur);
        else if (err == EFAULT)
                vql_fail(&why, err, ": not all of it is memory that can be pinned");
        else if (err == ENOSPC)
                vql_fail(&why, err, ": raise dma_entry_limit of vfio_iommu_type1");
        return vql_fail(e, err, "the kernel cannot map IOVA %#" PRIx64 ", %" PRIu64 " bytes: %s%s",
                        m->iova, m->len, strerror(err), why.text);
}

int vql_vfio_container_map(struct vql_vfio_container *c, const struct vql_vfio_map *m,
                           struct vql_error *e)
{
        struct vfio_iommu_type1_dma_map map = {
                .argsz = sizeof(map),
                .flags = VFIO_DMA_MAP_FLAG_READ | (m->writable ? VFIO_DMA_MAP_FLAG_WRITE : 0U),
                .vaddr = (uintptr_t)m->va,
                .iova = m->iova,
                .size = m->len,
        };
        int ret = container_ioctl(c, VFIO_IOMMU_MAP_DMA, &map);

        return ret < 0 ? refuse_map(m, -ret, e) : 0;
}

int vql_vfio_container_unmap(struct vql_vfio_container *c, uint64_t iova, uint64_t len,
                             struct vql_error *e)
{
        struct vfio_iommu_type1_dma_unmap unmap = {
                .argsz = sizeof(unmap),
                .iova = iova,
                .size = len,
        };
        int ret = container_ioctl(c, VFIO_IOMMU_UNMAP_DMA, &unmap);

        if (ret < 0)
                return vql_fail(e, -ret,
                                "the kernel cannot unmap IOVA %#" PRIx64 ", %" PRIu64 " bytes: %s",
                                iova, len, strerror(-ret));
        if (unmap.size != len)
                return vql_fail(e, unmap.size ? ENOTRECOVERABLE : EIO,
                                "the kernel has unmapped %" PRIu64 " bytes at IOVA %#" PRIx64
                                ", expected %" PRIu64,
                                (uint64_t)unmap.size, iova, len);
        return 0;
}
