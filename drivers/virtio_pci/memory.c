/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "drivers/virtio_pci/virtio_pci.h"
#include "vfio/dma.h"
#include "virtqueue/features.h"
#include "virtqueue/ring.h"

/*
 * Devices that share a container must not use the same IOVA for different memory.  So a window at
 * the top of what the IOMMU takes is kept from the caller, and in it each device goes down until
 * it finds a place that no other has.
 */
enum { WINDOW_PLACES = 1024 };

/* Where the areas of a ring are in a part of VPCI_PART_BYTES; enough for 64 slots. */
enum { DRIVER_AT = 2048, DEVICE_AT = 3072, RING_MAX = 64 };
static_assert(RING_MAX * sizeof(struct vring_desc) <= DRIVER_AT, "descriptors fit");
static_assert(6 + RING_MAX * 2 <= DEVICE_AT - DRIVER_AT, "the driver area fits");
static_assert(6 + RING_MAX * 8 <= VPCI_PART_BYTES - DEVICE_AT, "the device area fits");

static const uint32_t part_at[] = {
        [VPCI_MEMORY_CONTROL] = 0,
        [VPCI_MEMORY_PARK] = VPCI_PART_BYTES,
        [VPCI_MEMORY_COMMAND] = 2 * VPCI_PART_BYTES,
};

static int take_window(struct vql_dev_caps *c, uint64_t bytes, struct vql_range *ret_window,
                       struct vql_error *e)
{
        uint64_t window = bytes * WINDOW_PLACES;
        struct vql_range *top;

        if (c->n_ranges == 0) {
                /* A kernel that does not say takes what every IOMMU has, 39 bits. */
                c->n_ranges = 1;
                c->ranges[0] = (struct vql_range){ 0, (UINT64_C(1) << 39) - 1 };
        }
        top = &c->ranges[c->n_ranges - 1];
        if (top->last - top->first < 2 * window)
                return vql_fail(e, ENOSPC,
                                "the last range of IOVAs, %#llx to %#llx, has no room for %#llx",
                                (unsigned long long)top->first, (unsigned long long)top->last,
                                (unsigned long long)window);
        /* The end of a range is that of a page; UINT64_MAX + 1 wraps to 0 and back. */
        ret_window->last = top->last;
        ret_window->first = top->last + 1 - window;
        top->last -= window;
        return 0;
}

int vql_vpci_memory_new(struct vql_vpci *v, struct vql_error *e)
{
        struct vpci_memory *m = &v->memory;
        uint64_t page = v->caps.page_size, need = 2 * VPCI_PART_BYTES + VPCI_COMMAND_BYTES;
        void *va;
        int ret;

        m->bytes = (need + page - 1) / page * page;
        ret = take_window(&v->caps, m->bytes, &m->window, e);
        if (ret)
                return ret;
        va = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (va == MAP_FAILED)
                return vql_fail(e, ENOMEM, "no memory for the control queue, %llu bytes",
                                (unsigned long long)m->bytes);
        /* A child's copy on write would give the pages that the device knows to one of the two. */
        madvise(va, m->bytes, MADV_DONTFORK);
        m->va = va;
        return 0;
}

void vql_vpci_memory_free(struct vql_vpci *v)
{
        vql_vpci_memory_unmap(v);
        if (v->memory.va)
                munmap(v->memory.va, v->memory.bytes);
        v->memory.va = NULL;
}

int vql_vpci_memory_map(struct vql_vpci *v, struct vql_error *e)
{
        struct vpci_memory *m = &v->memory;
        struct vql_vfio_map map = { .len = m->bytes, .va = m->va, .writable = true };
        int ret = -EEXIST;

        for (uint64_t n = 1; n <= WINDOW_PLACES && ret == -EEXIST; n++) {
                map.iova = m->window.last + 1 - n * m->bytes;
                ret = vql_vfio_dma_update(v->vfio, NULL, 0, &map, 1, e);
        }
        if (ret)
                return ret;
        m->iova = map.iova;
        m->state = VPCI_MEMORY_MAPPED;
        return 0;
}

void vql_vpci_memory_unmap(struct vql_vpci *v)
{
        struct vpci_memory *m = &v->memory;
        struct vql_vfio_map map = { m->iova, m->bytes, m->va, true };

        if (m->state == VPCI_MEMORY_MAPPED)
                vql_vfio_dma_update(v->vfio, &map, 1, NULL, 0, NULL);
        m->state = VPCI_MEMORY_UNMAPPED;
}

uint8_t *vql_vpci_memory_va(const struct vql_vpci *v, enum vpci_memory_part part)
{
        return v->memory.va + part_at[part];
}

uint64_t vql_vpci_memory_iova(const struct vql_vpci *v, enum vpci_memory_part part)
{
        return v->memory.iova + part_at[part];
}

struct vql_dev_ring vql_vpci_memory_layout(const struct vql_vpci *v, enum vpci_memory_part part,
                                           uint16_t size)
{
        uint64_t iova = vql_vpci_memory_iova(v, part);
        uint8_t *va = vql_vpci_memory_va(v, part);
        bool packed = vql_has(v->agreed, VIRTIO_F_RING_PACKED);

        return (struct vql_dev_ring){
                .desc = iova,
                .driver = iova + DRIVER_AT,
                .device = iova + DEVICE_AT,
                .device_va = packed ? va : va + DEVICE_AT,
                .size = size < RING_MAX ? size : RING_MAX,
                .packed = packed,
        };
}

struct vql_dev_ring vql_vpci_memory_ring(struct vql_vpci *v, enum vpci_memory_part part,
                                         uint16_t size)
{
        memset(vql_vpci_memory_va(v, part), 0, VPCI_PART_BYTES);
        return vql_vpci_memory_layout(v, part, size);
}
