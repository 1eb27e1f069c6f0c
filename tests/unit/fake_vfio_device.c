/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fake_vfio_host.h"

/* Devices: what they have, and their interrupts. */

static int get_info(const struct fake_vfio_device *d, struct vfio_device_info *info)
{
        info->flags = VFIO_DEVICE_FLAGS_PCI | (d->can_reset ? VFIO_DEVICE_FLAGS_RESET : 0U);
        info->num_regions = VFIO_PCI_NUM_REGIONS;
        info->num_irqs = VFIO_PCI_NUM_IRQS;
        return 0;
}

static uint32_t add_sparse(const struct fake_vfio_region *r, struct vfio_region_info *info,
                           uint32_t room)
{
        struct vfio_region_info_cap_sparse_mmap cap = {
                .header = { VFIO_REGION_INFO_CAP_SPARSE_MMAP, 1, 0 },
                .nr_areas = (uint32_t)r->n_areas,
        };
        size_t bytes = r->n_areas * sizeof(r->areas[0]);
        uint8_t *at = (uint8_t *)(info + 1);

        if (room >= sizeof(*info) + sizeof(cap) + bytes) {
                memcpy(at, &cap, sizeof(cap));
                memcpy(at + sizeof(cap), r->areas, bytes);
                info->cap_offset = sizeof(*info);
        }
        return (uint32_t)(sizeof(*info) + sizeof(cap) + bytes);
}

static uint32_t add_mappable(struct vfio_region_info *info, uint32_t room)
{
        const struct vfio_info_cap_header cap = { VFIO_REGION_INFO_CAP_MSIX_MAPPABLE, 1, 0 };

        if (room >= sizeof(*info) + sizeof(cap)) {
                memcpy(info + 1, &cap, sizeof(cap));
                info->cap_offset = sizeof(*info);
        }
        return (uint32_t)(sizeof(*info) + sizeof(cap));
}

static int get_region(const struct fake_vfio_device *d, struct vfio_region_info *info)
{
        const struct fake_vfio_region *r;
        uint32_t room = info->argsz;

        if (info->index >= VFIO_PCI_NUM_REGIONS)
                return -EINVAL;
        r = &d->regions[info->index];
        info->size = r->size;
        info->offset = (uint64_t)info->index << 40;
        info->cap_offset = 0;
        info->flags = r->size ? VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE : 0;
        if (!r->mappable)
                return 0;
        info->flags |= VFIO_REGION_INFO_FLAG_MMAP;
        if (!r->n_areas && !r->msix_mappable)
                return 0;
        info->flags |= VFIO_REGION_INFO_FLAG_CAPS;
        info->argsz = r->n_areas ? add_sparse(r, info, room) : add_mappable(info, room);
        return 0;
}

static int get_irq(const struct fake_vfio_device *d, struct vfio_irq_info *info)
{
        if (info->index >= VFIO_PCI_NUM_IRQS)
                return -EINVAL;
        info->count = d->irqs[info->index];
        info->flags = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE;
        return 0;
}

/* As before Linux 6.4: what was enabled first is all there is until it is disabled. */
static int set_irqs(struct fake_vfio_device *d, const struct vfio_irq_set *set)
{
        const int32_t *fds = (const int32_t *)set->data;
        uint32_t end = set->start + set->count;

        if (set->index >= VFIO_PCI_NUM_IRQS || end > d->irqs[set->index])
                return -EINVAL;
        if (set->flags == (VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER) && !set->count) {
                d->enabled[set->index] = 0;
                return 0;
        }
        if (set->flags != (VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER) ||
            !set->count || set->argsz < sizeof(*set) + set->count * sizeof(*fds))
                return -EINVAL;
        if (set->index == VFIO_PCI_MSIX_IRQ_INDEX && end > d->vectors_left)
                return (int)d->vectors_left;
        if (d->enabled[set->index] && end > d->enabled[set->index])
                return -EINVAL;
        if (!d->enabled[set->index] && set->start)
                return -EINVAL;
        if (!d->enabled[set->index])
                d->enabled[set->index] = end;
        memcpy(&d->fds[set->index][set->start], fds, set->count * sizeof(*fds));
        return 0;
}

static int reset(struct fake_vfio_device *d)
{
        if (!d->can_reset)
                return -EINVAL;
        if (d->gone)
                return -ENODEV;
        d->resets++;
        d->config[4] &= (uint8_t)~6;
        return d->reset ? d->reset(d->arg) : 0;
}

int fake_vfio_device_ioctl(struct fake_vfio_device *d, unsigned long request, void *p)
{
        if (request == VFIO_DEVICE_GET_INFO)
                return get_info(d, p);
        if (request == VFIO_DEVICE_GET_REGION_INFO)
                return get_region(d, p);
        if (request == VFIO_DEVICE_GET_IRQ_INFO)
                return get_irq(d, p);
        if (request == VFIO_DEVICE_SET_IRQS)
                return set_irqs(d, p);
        return request == VFIO_DEVICE_RESET ? reset(d) : -ENOTTY;
}

void fake_vfio_interrupt(const struct fake_vfio_device *d, uint32_t index, uint32_t vector)
{
        uint64_t one = 1;

        if (vector < d->enabled[index] && d->fds[index][vector] >= 0 &&
            write(d->fds[index][vector], &one, sizeof(one)) != sizeof(one))
                fake_vfio_wrong(d->host, "an eventfd was closed while it was in use");
}
