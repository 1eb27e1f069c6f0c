/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/virtio_pci/virtio_pci.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "drivers/virtio_pci/regs.h"
#include "drivers/virtio_pci/wait.h"
#include "vfio/dma.h"
#include "vfio/pci.h"
#include "vfio/sysfs.h"
#include "virtqueue/features.h"

struct identity {
        uint16_t vendor, device, subsystem_vendor, subsystem_device;
};

/* 4.1.2.  Subsystem ids are anybody's, but Intel's mean registers that are not virtio's. */
static bool is_net(const struct identity *id)
{
        bool modern = id->device == VPCI_MODERN_NET;
        bool transitional =
                id->device == VPCI_TRANSITIONAL_NET && id->subsystem_device == VPCI_DEVICE_ID_NET;

        return id->vendor == VPCI_VENDOR && (modern || transitional) &&
               id->subsystem_vendor != VPCI_VENDOR_INTEL;
}

static bool match(const char *address)
{
        struct vql_pci_info i;
        struct identity id;

        if (vql_pci_info(vql_vfio_host.sysfs, address, &i, NULL))
                return false;
        id = (struct identity){ i.vendor, i.device, i.subsystem_vendor, i.subsystem_device };
        return is_net(&id);
}

static int identify(struct vql_vpci *v, struct vql_error *e)
{
        struct identity id = { 0 };
        int ret = vql_vfio_pci_read16(v->vfio, PCI_VENDOR_ID, &id.vendor);

        if (!ret)
                ret = vql_vfio_pci_read16(v->vfio, PCI_DEVICE_ID, &id.device);
        if (!ret)
                ret = vql_vfio_pci_read16(v->vfio, PCI_SUBSYSTEM_VENDOR_ID, &id.subsystem_vendor);
        if (!ret)
                ret = vql_vfio_pci_read16(v->vfio, PCI_SUBSYSTEM_ID, &id.subsystem_device);
        if (ret)
                return vql_fail(e, -ret, "%s: cannot read its identity", v->dev->address);
        if (!is_net(&id))
                return vql_fail(e, ENODEV,
                                "%s: function %04x:%04x of subsystem %04x:%04x, expected a virtio "
                                "network function (1af4:1041, or 1af4:1000)",
                                v->dev->address, id.vendor, id.device, id.subsystem_vendor,
                                id.subsystem_device);
        return 0;
}

/* A function as the kernel gives it away: without memory decoding, maybe with DMA going on that a
 * predecessor has started.  The bus is its again only after the reset. */
static int wake(struct vql_vpci *v, uint64_t deadline_ns, struct vql_error *e)
{
        int ret = vql_vfio_pci_command(v->vfio, PCI_COMMAND_MEMORY, 0, e);

        if (!ret)
                ret = vql_vpci_device_reset(v, deadline_ns, e);
        return ret ? ret : vql_vfio_pci_command(v->vfio, PCI_COMMAND_MASTER, 0, e);
}

static int arm(struct vql_vpci *v, struct vql_error *e)
{
        int ret = vql_vpci_vectors_arm(v, e);

        return ret ? ret : vql_vpci_news_arm(v, e);
}

static void disarm(struct vql_vpci *v)
{
        vql_vpci_vectors_disarm(v);
        vql_vpci_news_disarm(v);
}

static struct vql_vpci *make(struct vql_dev *d)
{
        struct vql_vpci *v = calloc(1, sizeof(*v));

        if (!v)
                return NULL;
        v->dev = d;
        v->control.queue = VQL_NO_QUEUE;
        v->vectors = (struct vpci_vectors){ 0, -1, -1, -1 };
        v->news.epoll_fd = v->news.raise_fd = v->news.req_fd = v->news.err_fd = -1;
        for (size_t q = 0; q < VQL_DEV_MAX_QUEUES; q++)
                v->queues[q].irq_fd = -1;
        return v;
}

static void destroy(struct vql_vpci *v)
{
        if (v->vfio) {
                /* Whatever the device makes of the reset, without the bus it reaches nothing. */
                if (v->windows[VPCI_COMMON].region && !vql_vfio_device_gone(v->vfio))
                        vql_vpci_device_reset(v, vpci_deadline(v->args.reset_timeout_ms), NULL);
                vql_vfio_pci_command(v->vfio, 0, PCI_COMMAND_MASTER, NULL);
                disarm(v);
                vql_vpci_memory_free(v);
        }
        vql_vfio_device_close(v->vfio);
        vql_vpci_news_free(v);
        free(v);
}

static int set_up(struct vql_vpci *v, struct vql_error *e)
{
        int ret = vql_vpci_news_new(v, e);

        if (!ret)
                ret = identify(v, e);
        if (!ret)
                ret = vql_vpci_windows_find(v, e);
        if (!ret)
                ret = wake(v, vpci_deadline(v->args.reset_timeout_ms), e);
        if (!ret)
                ret = vql_vpci_survey(v, e);
        if (!ret)
                ret = vql_vpci_memory_new(v, e);
        if (!ret)
                ret = vql_vpci_news_arm(v, e);
        return ret ? ret : vql_vpci_check(v, e);
}

static int vpci_open(struct vql_dev *d, const char *args, struct vql_error *e)
{
        struct vql_vpci *v;
        int ret;

        if (!d->vfio)
                return vql_fail(e, ENODEV,
                                "%s: PCI functions need VFIO, which this context has not",
                                d->address);
        v = make(d);
        if (!v)
                return vql_fail(e, ENOMEM, "%s: no memory for the driver", d->address);
        ret = vql_vpci_args_parse(args, &v->args, e);
        if (!ret)
                ret = vql_vfio_device_open(d->vfio, d->address,
                                           v->args.vf_token[0] ? v->args.vf_token : NULL, &v->vfio,
                                           e);
        if (!ret)
                ret = set_up(v, e);
        if (ret) {
                destroy(v);
                return ret;
        }
        d->priv = v;
        d->event_fd = v->news.epoll_fd;
        return 0;
}

static void vpci_close(struct vql_dev *d)
{
        if (d->priv)
                destroy(d->priv);
        d->priv = NULL;
        d->event_fd = -1;
}

static void vpci_caps(struct vql_dev *d, struct vql_dev_caps *ret_caps)
{
        const struct vql_vpci *v = d->priv;

        *ret_caps = v->caps;
}

/* The function's own reset, for one that does not listen to the register. */
static int reset_function(struct vql_vpci *v, uint64_t deadline_ns, struct vql_error *e)
{
        int ret;

        disarm(v);
        ret = vql_vfio_device_reset(v->vfio, e);
        if (!ret)
                ret = wake(v, deadline_ns, e);
        return ret ? ret : arm(v, e);
}

static int vpci_reset(struct vql_dev *d, struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        uint64_t half = vpci_deadline(v->args.reset_timeout_ms / 2);
        uint64_t end = vpci_deadline(v->args.reset_timeout_ms);
        int ret = vql_vpci_device_reset(v, half, e);

        if (ret && ret != -ENODEV && vql_vfio_device_can_reset(v->vfio))
                ret = reset_function(v, end, e);
        if (ret)
                return ret == -ENODEV ? ret : -EIO;
        vql_vpci_queues_forget(v);
        vql_vpci_memory_unmap(v);
        vql_vpci_news_forget(v);
        return 0;
}

/* Now the guest's memory is known: live with the other devices of this guest. */
static int settle(struct vql_vpci *v, uint64_t deadline_ns, struct vql_error *e)
{
        int ret;

        disarm(v);
        ret = vql_vfio_dma_settle(v->vfio, e);
        if (ret > 0)
                ret = wake(v, deadline_ns, e);
        return ret ? ret : arm(v, e);
}

/* From a reset to where queues can be set up. */
static int agree(struct vql_vpci *v, uint64_t features, uint64_t deadline_ns, struct vql_error *e)
{
        int ret = vql_vpci_handshake(v, features, deadline_ns, e);

        if (!ret)
                ret = vql_vpci_vector_assign(v, VQL_IRQ_CONFIG, e);
        return vql_vpci_blame(v, ret, e);
}

static int check_features(const struct vql_vpci *v, uint64_t features, struct vql_error *e)
{
        if (features & ~v->caps.features)
                return vql_fail(e, EINVAL, "%s: features %#llx, expected only those of %#llx",
                                v->dev->address, (unsigned long long)features,
                                (unsigned long long)v->caps.features);
        if (!vql_has(features, VIRTIO_F_VERSION_1))
                return vql_fail(e, EINVAL, "%s: features %#llx, expected VERSION_1 among them",
                                v->dev->address, (unsigned long long)features);
        return 0;
}

static int vpci_negotiate(struct vql_dev *d, uint64_t features, struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        uint64_t deadline = vpci_deadline(v->args.reset_timeout_ms);
        int ret = check_features(v, features, e);

        if (ret)
                return ret;
        ret = settle(v, deadline, e);
        if (!ret)
                ret = vql_vpci_memory_map(v, e);
        if (!ret)
                ret = agree(v, features | v->own, deadline, e);
        if (ret) {
                vql_vpci_device_reset(v, deadline, NULL);
                vql_vpci_memory_unmap(v);
                return ret == -ETIMEDOUT ? -EIO : ret;
        }
        vql_vpci_news_settle(v);
        return 0;
}

static int vpci_start(struct vql_dev *d, struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        int ret = vql_vpci_control_start(v, e);

        if (!ret && (v->caps.flags & VQL_DEV_LATE))
                ret = vql_vpci_queues_park(v, e);
        if (!ret) {
                vql_vpci_status_add(v, VPCI_DRIVER_OK);
                ret = vql_vpci_check(v, e);
        }
        if (ret) {
                vql_vpci_device_reset(v, vpci_deadline(v->args.reset_timeout_ms), NULL);
                vql_vpci_queues_forget(v);
        }
        return ret;
}

/* The device has no way to stop but a reset, after which it is made ready again. */
static int vpci_suspend(struct vql_dev *d, uint32_t timeout_ms, struct vql_stop *ret_stops,
                        struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        uint64_t features = v->agreed, deadline = vpci_deadline(timeout_ms);
        int ret = vql_vpci_device_reset(v, deadline, e);

        if (!ret)
                ret = agree(v, features, deadline, e);
        if (ret)
                return ret == -EINVAL || ret == -ENOSPC ? -EIO : ret;
        vql_vpci_queues_collect(v, ret_stops);
        vql_vpci_news_forget(v);
        return 0;
}

const struct vql_driver vql_driver_virtio_pci = {
        .name = "virtio_pci",
        .what = "virtio network functions of PCI, bound to vfio-pci",
        .ops = {
                .open = vpci_open,
                .close = vpci_close,
                .caps = vpci_caps,
                .reset = vpci_reset,
                .negotiate = vpci_negotiate,
                .start = vpci_start,
                .suspend = vpci_suspend,
                .dma_update = vql_vpci_dma_update,
                .vq_start = vql_vpci_vq_start,
                .vq_stop = vql_vpci_vq_stop,
                .vq_kick = vql_vpci_vq_kick,
                .vq_irq = vql_vpci_vq_irq,
                .vq_doorbell = vql_vpci_vq_doorbell,
                .cfg_read = vql_vpci_cfg_read,
                .ctrl = vql_vpci_ctrl,
                .events = vql_vpci_events,
        },
        .match = match,
};
