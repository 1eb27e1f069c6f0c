/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_vfio_host.h"

/* The type 1 IOMMU, version 2: maps are taken back only whole. */

static uint64_t last(const struct vfio_iommu_type1_dma_map *m)
{
        return m->iova + m->size - 1;
}

static bool misaligned(const struct fake_vfio *f, uint64_t a, uint64_t b, uint64_t c)
{
        return ((a | b | c) & (f->page_size - 1)) != 0;
}

static bool in_ranges(const struct fake_vfio *f, const struct vfio_iommu_type1_dma_map *m)
{
        for (size_t i = 0; i < f->n_ranges; i++)
                if (m->iova >= f->ranges[i].start && last(m) <= f->ranges[i].end)
                        return true;
        return !f->n_ranges;
}

static uint64_t pinned(const struct fake_vfio *f)
{
        uint64_t bytes = 0;

        for (size_t i = 0; i < FAKE_VFIO_CONTAINERS; i++)
                for (size_t k = 0; k < f->containers[i].n_maps; k++)
                        bytes += f->containers[i].maps[k].size;
        return bytes;
}

static int check_map(const struct fake_vfio *f, const struct fake_vfio_container *c,
                     const struct vfio_iommu_type1_dma_map *m)
{
        const uint32_t rights = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;

        if (m->argsz < sizeof(*m) || m->flags & ~rights || !(m->flags & rights) || !m->size ||
            misaligned(f, m->iova, m->size, m->vaddr) || last(m) < m->iova)
                return -EINVAL;
        for (size_t i = 0; i < c->n_maps; i++)
                if (m->iova <= last(&c->maps[i]) && last(m) >= c->maps[i].iova)
                        return -EEXIST;
        if (c->n_maps >= f->entry_limit)
                return -ENOSPC;
        if (!in_ranges(f, m))
                return -EINVAL;
        if (f->memlock - pinned(f) < m->size)
                return -ENOMEM;
        if (f->takes_anything)
                return 0;
        return msync((void *)(uintptr_t)m->vaddr, m->size, MS_ASYNC) < 0 ? -EFAULT : 0;
}

static int map(struct fake_vfio *f, struct fake_vfio_container *c,
               const struct vfio_iommu_type1_dma_map *m)
{
        int ret = check_map(f, c, m);

        if (ret < 0)
                return ret;
        c->maps = realloc(c->maps, (c->n_maps + 1) * sizeof(*c->maps));
        c->maps[c->n_maps++] = *m;
        f->maps++;
        return 0;
}

static bool cuts(const struct vfio_iommu_type1_dma_map *m, uint64_t at)
{
        return at > m->iova && at <= last(m);
}

static int unmap(struct fake_vfio *f, struct fake_vfio_container *c,
                 struct vfio_iommu_type1_dma_unmap *u)
{
        uint64_t bytes = 0;

        if (u->argsz < sizeof(*u) || u->flags || !u->size || misaligned(f, u->iova, u->size, 0))
                return -EINVAL;
        for (size_t i = 0; i < c->n_maps; i++)
                if (cuts(&c->maps[i], u->iova) || cuts(&c->maps[i], u->iova + u->size))
                        return -EINVAL;
        for (size_t i = 0; i < c->n_maps;) {
                if (c->maps[i].iova < u->iova || last(&c->maps[i]) > u->iova + u->size - 1) {
                        i++;
                        continue;
                }
                bytes += c->maps[i].size;
                c->maps[i] = c->maps[--c->n_maps];
        }
        f->unmaps++;
        u->size = bytes - (f->unmap_less < bytes ? f->unmap_less : bytes);
        f->unmap_less = 0;
        return 0;
}

/* Append a capability to an answer, as far as the caller has room. */
static uint32_t append(struct vfio_iommu_type1_info *info, uint32_t room, uint32_t at,
                       const void *capability, uint32_t n)
{
        if (at + n <= room)
                memcpy((uint8_t *)info + at, capability, n);
        return at + n;
}

static uint32_t append_ranges(const struct fake_vfio *f, struct vfio_iommu_type1_info *info,
                              uint32_t room, uint32_t at)
{
        struct vfio_iommu_type1_info_cap_iova_range cap = {
                .header = { VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, 1, 0 },
                .nr_iovas = (uint32_t)f->n_ranges,
        };
        uint32_t bytes = (uint32_t)(f->n_ranges * sizeof(f->ranges[0]));

        if (!f->no_available)
                cap.header.next = at + (uint32_t)sizeof(cap) + bytes;
        at = append(info, room, at, &cap, sizeof(cap));
        return append(info, room, at, f->ranges, bytes);
}

static int get_info(const struct fake_vfio *f, const struct fake_vfio_container *c,
                    struct vfio_iommu_type1_info *info)
{
        uint32_t used = (uint32_t)c->n_maps;
        const struct vfio_iommu_type1_info_dma_avail avail = {
                .header = { VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL, 1, 0 },
                .avail = used < f->entry_limit ? f->entry_limit - used : 0,
        };
        uint32_t room = info->argsz, at = sizeof(*info);

        info->flags = VFIO_IOMMU_INFO_PGSIZES;
        info->iova_pgsizes = f->page_size | f->page_size << 9 | f->page_size << 18;
        if (f->no_info)
                return 0;
        if (f->n_ranges)
                at = append_ranges(f, info, room, at);
        if (!f->no_available)
                at = append(info, room, at, &avail, sizeof(avail));
        if (at == sizeof(*info))
                return 0;
        info->flags |= VFIO_IOMMU_INFO_CAPS;
        info->cap_offset = at <= room ? sizeof(*info) : 0;
        info->argsz = at;
        return 0;
}

static int set_iommu(const struct fake_vfio *f, struct fake_vfio_container *c, uintptr_t type)
{
        if (c->iommu || !c->groups || type != VFIO_TYPE1v2_IOMMU || f->no_type1)
                return -EINVAL;
        c->iommu = true;
        return 0;
}

int fake_vfio_container_ioctl(struct fake_vfio *f, int index, unsigned long request, void *p)
{
        struct fake_vfio_container *c = &f->containers[index];

        if (request == VFIO_GET_API_VERSION)
                return f->api_version;
        if (request == VFIO_CHECK_EXTENSION)
                return (uintptr_t)p == VFIO_TYPE1v2_IOMMU && !f->no_type1;
        if (request == VFIO_SET_IOMMU)
                return set_iommu(f, c, (uintptr_t)p);
        if (!c->iommu)
                return -EINVAL;
        if (request == VFIO_IOMMU_GET_INFO)
                return get_info(f, c, p);
        if (request == VFIO_IOMMU_MAP_DMA)
                return map(f, c, p);
        return request == VFIO_IOMMU_UNMAP_DMA ? unmap(f, c, p) : -ENOTTY;
}

static int enter(struct fake_vfio *f, struct fake_vfio_device *d, int fd)
{
        int index = fd - FAKE_FD_CONTAINER;

        if (d->container >= 0 || index < 0 || index >= FAKE_VFIO_CONTAINERS ||
            !f->containers[index].open)
                return -EINVAL;
        d->container = index;
        f->containers[index].groups++;
        return 0;
}

/* With its last group a container loses its IOMMU and all maps. */
void fake_vfio_leave(struct fake_vfio *f, struct fake_vfio_device *d)
{
        struct fake_vfio_container *c = &f->containers[d->container];

        d->container = -1;
        if (--c->groups)
                return;
        c->iommu = false;
        c->n_maps = 0;
}

static int open_device(struct fake_vfio *f, struct fake_vfio_device *d, const char *name)
{
        char wanted[128] = "";

        if (d->container < 0 || !f->containers[d->container].iommu)
                return -EINVAL;
        snprintf(wanted, sizeof(wanted), "%s%s%s", d->address, d->token ? " vf_token=" : "",
                 d->token ? d->token : "");
        if (strncmp(name, d->address, strlen(d->address)) != 0)
                return -ENODEV;
        if (strcmp(name, wanted) != 0)
                return -EACCES;
        if (d->open)
                fake_vfio_wrong(f, "a device was opened twice");
        d->open = true;
        /* Opening resets, and switches decoding and bus mastering off. */
        d->config[4] &= (uint8_t)~6;
        if (d->reset)
                d->reset(d->arg);
        return FAKE_FD_DEVICE + (int)(d - f->devices);
}

int fake_vfio_group_ioctl(struct fake_vfio *f, struct fake_vfio_device *d, unsigned long request,
                          void *p)
{
        struct vfio_group_status *status = p;

        if (request == VFIO_GROUP_GET_STATUS) {
                status->flags = d->viable ? VFIO_GROUP_FLAGS_VIABLE : 0;
                return 0;
        }
        if (request == VFIO_GROUP_SET_CONTAINER)
                return d->viable ? enter(f, d, *(int *)p) : -EPERM;
        if (request == VFIO_GROUP_GET_DEVICE_FD)
                return open_device(f, d, p);
        if (request != VFIO_GROUP_UNSET_CONTAINER)
                return -ENOTTY;
        if (d->container < 0 || d->open)
                return d->open ? -EBUSY : -EINVAL;
        fake_vfio_leave(f, d);
        return 0;
}

void *fake_vfio_memory(const struct fake_vfio_device *d, uint64_t iova, uint64_t len, bool write)
{
        const struct fake_vfio_container *c = fake_vfio_container(d);

        for (size_t i = 0; c && len && i < c->n_maps; i++) {
                const struct vfio_iommu_type1_dma_map *m = &c->maps[i];

                if (iova < m->iova || iova > last(m) || len - 1 > last(m) - iova)
                        continue;
                if (write && !(m->flags & VFIO_DMA_MAP_FLAG_WRITE))
                        return NULL;
                return (void *)(uintptr_t)(m->vaddr + (iova - m->iova));
        }
        return NULL;
}

struct fake_vfio_container *fake_vfio_container(const struct fake_vfio_device *d)
{
        return d->container < 0 ? NULL : &d->host->containers[d->container];
}
