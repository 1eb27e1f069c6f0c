/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/irq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vfio/device_impl.h"

static const char *const names[VFIO_PCI_NUM_IRQS] = {
        [VFIO_PCI_INTX_IRQ_INDEX] = "INTx",   [VFIO_PCI_MSI_IRQ_INDEX] = "MSI",
        [VFIO_PCI_MSIX_IRQ_INDEX] = "MSI-X",  [VFIO_PCI_ERR_IRQ_INDEX] = "error",
        [VFIO_PCI_REQ_IRQ_INDEX] = "request",
};

uint32_t vql_vfio_irq_count(struct vql_vfio_device *d, uint32_t index)
{
        struct vfio_irq_info info = { .argsz = sizeof(info), .index = index };

        if (index >= VFIO_PCI_NUM_IRQS ||
            vql_vfio_device_ioctl(d, VFIO_DEVICE_GET_IRQ_INFO, &info) < 0 ||
            !(info.flags & VFIO_IRQ_INFO_EVENTFD))
                return 0;
        return info.count;
}

/* n is at most 2048, the vectors that MSI-X has. */
static int set_irqs(struct vql_vfio_device *d, uint32_t index, uint32_t start, const int *fds,
                    uint32_t n)
{
        size_t bytes = sizeof(struct vfio_irq_set) + n * sizeof(int32_t);
        struct vfio_irq_set *set = calloc(1, bytes);
        int ret;

        if (!set)
                return -ENOMEM;
        set->argsz = (uint32_t)bytes;
        set->flags = VFIO_IRQ_SET_ACTION_TRIGGER |
                     (n ? VFIO_IRQ_SET_DATA_EVENTFD : VFIO_IRQ_SET_DATA_NONE);
        set->index = index;
        set->start = start;
        set->count = n;
        if (n)
                memcpy(set->data, fds, n * sizeof(int32_t));
        ret = vql_vfio_device_ioctl(d, VFIO_DEVICE_SET_IRQS, set);
        free(set);
        return ret;
}

static int check_enable(struct vql_vfio_device *d, uint32_t index, uint32_t n, struct vql_error *e)
{
        uint32_t count = vql_vfio_irq_count(d, index);

        if (!count)
                return vql_fail(e, ENOTSUP, "%s has no %s interrupt", d->address,
                                index < VFIO_PCI_NUM_IRQS ? names[index] : "such");
        if (d->irqs[index])
                return vql_fail(e, EALREADY, "%s: %s interrupts are enabled", d->address,
                                names[index]);
        if (!n || n > count)
                return vql_fail(e, EINVAL, "%s: %u vectors of %s, expected 1 to %u", d->address, n,
                                names[index], count);
        return 0;
}

int vql_vfio_irq_enable(struct vql_vfio_device *d, uint32_t index, const int *fds, uint32_t n,
                        struct vql_error *e)
{
        int ret = check_enable(d, index, n, e);

        if (ret < 0)
                return ret;
        ret = set_irqs(d, index, 0, fds, n);
        /* The kernel says how many it could have given, and gives none. */
        if (ret > 0)
                return vql_fail(e, ENOSPC, "%s: %u vectors of %s, but the host has only %d left",
                                d->address, n, names[index], ret);
        if (ret < 0)
                return vql_fail(e, -ret, "%s: VFIO_DEVICE_SET_IRQS, %u vectors of %s: %s",
                                d->address, n, names[index], strerror(-ret));
        d->irqs[index] = n;
        return 0;
}

int vql_vfio_irq_set(struct vql_vfio_device *d, uint32_t index, uint32_t vector, int fd,
                     struct vql_error *e)
{
        int ret;

        if (index >= VFIO_PCI_NUM_IRQS || vector >= d->irqs[index])
                return vql_fail(e, EINVAL, "%s: vector %u of interrupt %u is not enabled",
                                d->address, vector, index);
        ret = set_irqs(d, index, vector, &fd, 1);
        if (ret < 0)
                return vql_fail(e, -ret, "%s: VFIO_DEVICE_SET_IRQS, vector %u of %s: %s",
                                d->address, vector, names[index], strerror(-ret));
        return 0;
}

void vql_vfio_irq_disable(struct vql_vfio_device *d, uint32_t index)
{
        if (index >= VFIO_PCI_NUM_IRQS || !d->irqs[index])
                return;
        set_irqs(d, index, 0, NULL, 0);
        d->irqs[index] = 0;
}
