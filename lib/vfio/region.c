/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/region.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vfio/device_impl.h"
#include "vfio/file.h"
#include "vfio/pci.h"

/* Bytes of a region that cannot be mapped because the MSI-X table is there, or none. */
struct hole {
        uint64_t at, end;
};

static uint64_t page_size(void)
{
        return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Map whole pages of [at, end), or nothing: what is not mapped is reached by pread and pwrite. */
static void map_window(struct vql_vfio_region *r, uint64_t at, uint64_t end)
{
        const struct vql_vfio_sys *sys = r->device->vfio->place.sys;
        struct vql_vfio_window *w = &r->windows[r->n_windows];
        uint64_t page = page_size();
        void *va = NULL;

        if (end > r->size)
                end = r->size;
        end -= end % page;
        if (at % page || at >= end || r->n_windows == VQL_VFIO_REGION_WINDOWS)
                return;
        if (sys->mmap(sys->arg, r->device->fd, end - at, r->offset + at, &va) < 0)
                return;
        *w = (struct vql_vfio_window){ at, end - at, va, NULL };
        /* Without its guard a register that goes away would end the process. */
        if (vql_sigbus_guard(va, w->len, page, r->device->gone_fd, &w->guard) < 0)
                sys->munmap(sys->arg, va, w->len);
        else
                r->n_windows++;
}

static void map_around(struct vql_vfio_region *r, uint64_t at, uint64_t end,
                       const struct hole *hole)
{
        if (hole->at >= end || hole->end <= at) {
                map_window(r, at, end);
                return;
        }
        if (at < hole->at)
                map_window(r, at, hole->at);
        if (hole->end < end)
                map_window(r, hole->end, end);
}

/* Where the kernel does not say that it may be mapped, the page of the MSI-X table may not. */
static struct hole find_hole(struct vql_vfio_region *r, uint32_t index)
{
        struct vql_vfio_msix msix = { 0 };
        uint64_t page = page_size(), end;

        if (index == VFIO_PCI_CONFIG_REGION_INDEX ||
            vql_vfio_pci_msix(r->device, &msix, NULL) < 0 || msix.table_bar != index)
                return (struct hole){ 0, 0 };
        end = (uint64_t)msix.table_at + (uint64_t)msix.vectors * PCI_MSIX_ENTRY_SIZE;
        return (struct hole){ msix.table_at - msix.table_at % page,
                              (end + page - 1) / page * page };
}

static void map_areas(struct vql_vfio_region *r, const uint8_t *at, size_t room,
                      const struct hole *hole)
{
        struct vfio_region_info_cap_sparse_mmap sparse;
        struct vfio_region_sparse_mmap_area area;

        if (room < sizeof(sparse))
                return;
        memcpy(&sparse, at, sizeof(sparse));
        for (size_t i = 0; i < sparse.nr_areas && (room - sizeof(sparse)) / sizeof(area) > i; i++) {
                memcpy(&area, at + sizeof(sparse) + i * sizeof(area), sizeof(area));
                if (area.offset < r->size && area.size <= r->size - area.offset)
                        map_around(r, area.offset, area.offset + area.size, hole);
        }
}

static void map_region(struct vql_vfio_region *r, uint32_t index,
                       const struct vfio_region_info *info)
{
        struct vql_vfio_walk walk = { info, info->argsz, 0 };
        const uint8_t *at, *sparse = NULL;
        struct hole hole = find_hole(r, index);
        uint16_t id;

        if (!(info->flags & VFIO_REGION_INFO_FLAG_MMAP))
                return;
        if (info->flags & VFIO_REGION_INFO_FLAG_CAPS)
                walk.next = info->cap_offset;
        while ((at = vql_vfio_walk_next(&walk, &id))) {
                if (id == VFIO_REGION_INFO_CAP_SPARSE_MMAP)
                        sparse = at;
                else if (id == VFIO_REGION_INFO_CAP_MSIX_MAPPABLE)
                        hole = (struct hole){ 0, 0 };
        }
        if (sparse)
                map_areas(r, sparse, vql_vfio_walk_room(&walk, sparse), &hole);
        else
                map_around(r, 0, r->size, &hole);
}

int vql_vfio_region_open(struct vql_vfio_region *r, uint32_t index, struct vql_error *e)
{
        const struct vql_vfio_device *d = r->device;
        const struct vfio_region_info ask = { .argsz = sizeof(ask), .index = index };
        struct vfio_region_info *info = NULL;
        uint64_t end;
        int ret = vql_vfio_file_info(d->vfio->place.sys, d->fd, VFIO_DEVICE_GET_REGION_INFO, &ask,
                                     (void **)&info);

        if (ret < 0)
                return vql_fail(e, -ret, "%s: VFIO_DEVICE_GET_REGION_INFO of region %u: %s",
                                d->address, index, strerror(-ret));
        if (!info->size)
                ret = vql_fail(e, ENOENT, "%s has no region %u", d->address, index);
        else if (__builtin_add_overflow(info->offset, info->size, &end) || end > INT64_MAX)
                ret = vql_fail(e, EBADMSG, "%s: region %u of %" PRIu64 " bytes ends nowhere",
                               d->address, index, (uint64_t)info->size);
        if (ret == 0) {
                r->size = info->size;
                r->offset = info->offset;
                map_region(r, index, info);
        }
        free(info);
        return ret;
}

void vql_vfio_region_close(struct vql_vfio_region *r)
{
        const struct vql_vfio_sys *sys = r->device->vfio->place.sys;

        while (r->n_windows) {
                struct vql_vfio_window *w = &r->windows[--r->n_windows];

                vql_sigbus_release(w->guard);
                sys->munmap(sys->arg, w->va, w->len);
        }
}

/* The window that holds all of [at, at + len), or NULL. */
static const struct vql_vfio_window *find_window(const struct vql_vfio_region *r, uint64_t at,
                                                 uint64_t len)
{
        for (size_t i = 0; i < r->n_windows; i++) {
                const struct vql_vfio_window *w = &r->windows[i];

                if (at >= w->at && at - w->at < w->len && len <= w->len - (at - w->at))
                        return w;
        }
        return NULL;
}

bool vql_vfio_region_mapped(const struct vql_vfio_region *r, uint64_t at, uint64_t len)
{
        return len && find_window(r, at, len);
}

uint64_t vql_vfio_region_size(const struct vql_vfio_region *r)
{
        return r->size;
}

uint64_t vql_vfio_region_offset(const struct vql_vfio_region *r)
{
        return r->offset;
}

static bool reachable(const struct vql_vfio_region *r, uint64_t at, size_t width)
{
        return !vql_vfio_device_gone(r->device) && at % width == 0 && at < r->size &&
               width <= r->size - at;
}

/* A page that was lost has been replaced by one of zeros, which is what was read. */
static bool still_there(struct vql_vfio_region *r, const struct vql_vfio_window *w)
{
        if (!vql_sigbus_hit(w->guard))
                return true;
        vql_vfio_device_set_gone(r->device);
        return false;
}

/* The bytes of one register, as they are on the bus. */
union bus {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
};

static union bus load(const volatile void *p, size_t width)
{
        union bus v = { .u32 = 0 };

        if (width == 1)
                v.u8 = *(const volatile uint8_t *)p;
        else if (width == 2)
                v.u16 = *(const volatile uint16_t *)p;
        else
                v.u32 = *(const volatile uint32_t *)p;
        return v;
}

static void store(volatile void *p, const union bus *v, size_t width)
{
        if (width == 1)
                *(volatile uint8_t *)p = v->u8;
        else if (width == 2)
                *(volatile uint16_t *)p = v->u16;
        else
                *(volatile uint32_t *)p = v->u32;
}

static union bus read_bus(struct vql_vfio_region *r, uint64_t at, size_t width)
{
        const union bus ones = { .u32 = UINT32_MAX };
        const struct vql_vfio_sys *sys = r->device->vfio->place.sys;
        const struct vql_vfio_window *w;
        union bus v = ones;

        if (!reachable(r, at, width))
                return ones;
        w = find_window(r, at, width);
        if (w) {
                v = load(w->va + (at - w->at), width);
                return still_there(r, w) ? v : ones;
        }
        if (sys->pread(sys->arg, r->device->fd, &v, width, r->offset + at) == (ssize_t)width)
                return v;
        vql_vfio_device_set_gone(r->device);
        return ones;
}

static void write_bus(struct vql_vfio_region *r, uint64_t at, const union bus *v, size_t width)
{
        const struct vql_vfio_sys *sys = r->device->vfio->place.sys;
        const struct vql_vfio_window *w;

        if (!reachable(r, at, width))
                return;
        w = find_window(r, at, width);
        if (w) {
                store(w->va + (at - w->at), v, width);
                still_there(r, w);
                return;
        }
        if (sys->pwrite(sys->arg, r->device->fd, v, width, r->offset + at) != (ssize_t)width)
                vql_vfio_device_set_gone(r->device);
}

uint8_t vql_vfio_read8(struct vql_vfio_region *r, uint64_t at)
{
        return read_bus(r, at, 1).u8;
}

uint16_t vql_vfio_read16(struct vql_vfio_region *r, uint64_t at)
{
        return le16toh(read_bus(r, at, 2).u16);
}

uint32_t vql_vfio_read32(struct vql_vfio_region *r, uint64_t at)
{
        return le32toh(read_bus(r, at, 4).u32);
}

void vql_vfio_write8(struct vql_vfio_region *r, uint64_t at, uint8_t value)
{
        write_bus(r, at, &(const union bus){ .u8 = value }, 1);
}

void vql_vfio_write16(struct vql_vfio_region *r, uint64_t at, uint16_t value)
{
        write_bus(r, at, &(const union bus){ .u16 = htole16(value) }, 2);
}

void vql_vfio_write32(struct vql_vfio_region *r, uint64_t at, uint32_t value)
{
        write_bus(r, at, &(const union bus){ .u32 = htole32(value) }, 4);
}
