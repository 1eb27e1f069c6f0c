/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interrupt vectors (virtio 1.2, 4.1.5.1.2).  With enough of them each queue has one, which signals
 * the caller's eventfd without anybody in between, and the configuration has the last.  With fewer,
 * the configuration shares the last one, then queues share; what fires there goes through an
 * eventfd of ours, and from events() to all who may be meant.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/vfio.h>

#include "drivers/virtio_pci/regs.h"
#include "vfio/irq.h"
#include "vfio/pci.h"

static uint16_t vector_of(const struct vql_vpci *v, uint16_t q)
{
        if (q != VQL_IRQ_CONFIG)
                return q % v->vectors.n;
        return v->vectors.n > v->caps.queues ? v->caps.queues : v->vectors.n - 1;
}

bool vql_vpci_vectors_config_alone(const struct vql_vpci *v)
{
        return v->vectors.n > v->caps.queues;
}

/* Has the vector of queue q no other user? */
static bool is_alone(const struct vql_vpci *v, uint16_t q)
{
        return q < v->vectors.n && q + v->vectors.n >= v->caps.queues &&
               vector_of(v, VQL_IRQ_CONFIG) != q;
}

static int fd_of(const struct vql_vpci *v, uint16_t vector)
{
        if (vector < v->caps.queues && is_alone(v, vector))
                return v->queues[vector].irq_fd;
        return vql_vpci_vectors_config_alone(v) && vector == v->caps.queues ? v->vectors.config_fd
                                                                            : v->vectors.queue_fd;
}

int vql_vpci_vectors_arm(struct vql_vpci *v, struct vql_error *e)
{
        int fds[VQL_DEV_MAX_QUEUES + 1];

        for (uint16_t i = 0; i < v->vectors.n; i++)
                fds[i] = fd_of(v, i);
        return vql_vfio_irq_enable(v->vfio, VFIO_PCI_MSIX_IRQ_INDEX, fds, v->vectors.n, e);
}

void vql_vpci_vectors_disarm(struct vql_vpci *v)
{
        vql_vfio_irq_disable(v->vfio, VFIO_PCI_MSIX_IRQ_INDEX);
}

/* A device that is short of something inside says so by not taking a vector. */
int vql_vpci_vector_assign(struct vql_vpci *v, uint16_t q, struct vql_error *e)
{
        enum vpci_common field = q == VQL_IRQ_CONFIG ? VPCI_CONFIG_VECTOR : VPCI_QUEUE_VECTOR;
        uint16_t want = vector_of(v, q), got;

        vpci_put16(v, field, want);
        got = vpci_get16(v, field);
        if (got == want)
                return 0;
        return vql_fail(e, ENOSPC, "%s: vector of queue %d reads as %#x after %u was written",
                        vql_vfio_device_address(v->vfio), q == VQL_IRQ_CONFIG ? -1 : q, got, want);
}

/* Does the device take this many vectors?  It is after FEATURES_OK and its queues are off. */
static int try_plan(struct vql_vpci *v, struct vql_error *e)
{
        int ret = vql_vpci_vectors_arm(v, e);

        if (!ret)
                ret = vql_vpci_vector_assign(v, VQL_IRQ_CONFIG, e);
        for (uint16_t q = 0; q < v->caps.queues && !ret; q++) {
                vpci_put16(v, VPCI_QUEUE_SELECT, q);
                ret = vql_vpci_vector_assign(v, q, e);
        }
        ret = vql_vpci_blame(v, ret, e);
        if (ret)
                vql_vpci_vectors_disarm(v);
        return ret;
}

int vql_vpci_vectors_plan(struct vql_vpci *v, struct vql_error *e)
{
        struct vpci_vectors *m = &v->vectors;
        uint32_t have = vql_vfio_irq_count(v->vfio, VFIO_PCI_MSIX_IRQ_INDEX);
        uint16_t want = v->caps.queues + 1;
        int ret;

        if (have == 0)
                return vql_fail(e, ENOTSUP, "%s: the function has no MSI-X vectors",
                                vql_vfio_device_address(v->vfio));
        m->n = have < want ? (uint16_t)have : want;
        do {
                ret = try_plan(v, e);
                if (ret == -ENOSPC)
                        m->n = (uint16_t)(m->n - (m->n + 7) / 8);
        } while (ret == -ENOSPC && m->n > 0);
        if (!ret && m->n < want)
                vql_log(v->dev->log, LOG_WARNING,
                        "%s: %u interrupt vectors for %u queues and the configuration: those that "
                        "share one cost CPU",
                        vql_vfio_device_address(v->vfio), m->n, v->caps.queues);
        return ret;
}

int vql_vpci_vq_irq(struct vql_dev *d, uint16_t q, int fd, struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        int ret = 0;

        if (q == VQL_IRQ_CONFIG) {
                v->vectors.config_irq_fd = fd;
                return 0;
        }
        if (q >= v->caps.queues)
                return vql_fail(e, EINVAL, "%s: no queue %u, expected one below %u", d->address, q,
                                v->caps.queues);
        if (is_alone(v, q))
                ret = vql_vfio_irq_set(v->vfio, VFIO_PCI_MSIX_IRQ_INDEX, q, fd, e);
        if (!ret)
                v->queues[q].irq_fd = fd;
        return ret;
}

void vql_vpci_vectors_forward(const struct vql_vpci *v)
{
        static const uint64_t one = 1;

        for (uint16_t q = 0; q < v->caps.queues; q++) {
                int fd = v->queues[q].irq_fd;

                /* A full counter is a signal that is pending already. */
                if (!is_alone(v, q) && fd >= 0 && write(fd, &one, sizeof(one)) < 0)
                        continue;
        }
}
