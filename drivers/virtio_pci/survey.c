/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the function can do.  Some of it (number of queues, their sizes) depends on the features
 * agreed on, with some devices even on those of the last time, so this looks at a device that has
 * agreed to what the driver will always want.
 */
#include <endian.h>
#include <errno.h>

#include "base/bits.h"
#include "drivers/virtio_pci/features.h"
#include "drivers/virtio_pci/regs.h"
#include "drivers/virtio_pci/wait.h"
#include "vfio/dma.h"
#include "virtqueue/cursor.h"
#include "virtqueue/features.h"

enum { MAX_PAIRS = (VQL_DEV_MAX_QUEUES - 1) / 2, MAX_PAIRS_OF_VIRTIO = 0x8000 };

static int choose_features(struct vql_vpci *v, struct vql_error *e)
{
        const char *address = vql_vfio_device_address(v->vfio);
        uint64_t offered;
        int ret;

        vql_vpci_status_add(v, VPCI_ACKNOWLEDGE);
        vql_vpci_status_add(v, VPCI_DRIVER);
        ret = vql_vpci_features_read(v, &offered, e);
        if (ret)
                return ret;
        if (!vql_has(offered, VIRTIO_F_VERSION_1))
                return vql_fail(e, ENOTSUP, "%s: features %#llx, expected VERSION_1 among them",
                                address, (unsigned long long)offered);
        if (!vql_has(offered, VIRTIO_F_ACCESS_PLATFORM) && !v->args.allow_no_access_platform)
                return vql_fail(e, ENOTSUP,
                                "%s: the device does not offer ACCESS_PLATFORM, so it may reach "
                                "memory past the IOMMU; if it is known to be behind one, give it "
                                "the argument allow-no-access-platform",
                                address);
        /* A field that is not there makes its feature void (4.1.4.3). */
        if (v->windows[VPCI_COMMON].length < VPCI_COMMON_RESET_BYTES)
                offered &= ~vql_bit(VIRTIO_F_RING_RESET);
        if (v->windows[VPCI_DEVICE].length < VPCI_NET_MAX_PAIRS_END)
                offered &= ~vql_bit(VIRTIO_NET_F_MQ);
        v->own = vql_vpci_features_own(offered);
        v->caps.features = vql_vpci_features_usable(offered);
        return 0;
}

static int read_pairs(struct vql_vpci *v, uint32_t *ret_pairs, struct vql_error *e)
{
        uint16_t pairs;
        int ret;

        if (!vql_has(v->own, VIRTIO_NET_F_MQ)) {
                *ret_pairs = 1;
                return 0;
        }
        ret = vql_vpci_config_read(v, VPCI_NET_MAX_PAIRS, &pairs, sizeof(pairs), e);
        if (ret)
                return ret;
        pairs = le16toh(pairs);
        if (pairs == 0 || pairs > MAX_PAIRS_OF_VIRTIO)
                return vql_fail(e, EIO, "%s: the device says %u queue pairs, expected 1 to %u",
                                vql_vfio_device_address(v->vfio), pairs, MAX_PAIRS_OF_VIRTIO);
        *ret_pairs = pairs;
        return 0;
}

static int read_queue(struct vql_vpci *v, uint16_t q, struct vql_error *e)
{
        struct vpci_queue *s = vql_vpci_queue(v, q);

        vpci_put16(v, VPCI_QUEUE_SELECT, q);
        s->max = vpci_get16(v, VPCI_QUEUE_SIZE);
        s->notify_off = vpci_get16(v, VPCI_QUEUE_NOTIFY_OFF);
        if (s->max <= VQL_QUEUE_MAX_SIZE)
                return vql_vpci_check(v, e);
        return vql_vpci_blame(v,
                              vql_fail(e, EIO, "queue %u: size %u, expected at most %u", q, s->max,
                                       VQL_QUEUE_MAX_SIZE),
                              e);
}

static uint16_t power_of_two_below(uint16_t size)
{
        uint32_t power = 1;

        while (power * 2 <= size)
                power *= 2;
        return (uint16_t)power;
}

/* As many data queues as exist, a pair at a time. */
static int read_data_queues(struct vql_vpci *v, uint32_t limit, struct vql_error *e)
{
        uint16_t smallest = VQL_QUEUE_MAX_SIZE;
        uint32_t q;

        for (q = 0; q < limit; q++) {
                int ret = read_queue(v, (uint16_t)q, e);

                if (ret)
                        return ret;
                if (v->queues[q].max == 0)
                        break;
                if (v->queues[q].max < smallest)
                        smallest = v->queues[q].max;
        }
        v->caps.queues = (uint16_t)(q & ~1u);
        v->caps.queue_size = power_of_two_below(smallest);
        return 0;
}

static int read_queues(struct vql_vpci *v, struct vql_error *e)
{
        uint32_t have = vpci_get16(v, VPCI_NUM_QUEUES), pairs = 1, limit;
        int ret = read_pairs(v, &pairs, e);

        if (ret)
                return ret;
        limit = 2 * (pairs < MAX_PAIRS ? pairs : MAX_PAIRS);
        ret = read_data_queues(v, limit < have ? limit : have, e);
        if (ret)
                return ret;
        if (v->caps.queues < 2)
                return vql_fail(e, EIO, "%s: %u queues of which %u can be used, expected a pair",
                                vql_vfio_device_address(v->vfio), have, v->caps.queues);
        if (!vql_has(v->own, VIRTIO_NET_F_CTRL_VQ))
                return 0;
        /* 5.1.2: behind all pairs that there are, whoever uses them. */
        if (have > 2 * pairs) {
                v->control.queue = (uint16_t)(2 * pairs);
                ret = read_queue(v, v->control.queue, e);
        }
        if (!ret && (have <= 2 * pairs || vql_vpci_queue(v, v->control.queue)->max < 2))
                return vql_fail(e, EIO, "%s: CTRL_VQ is offered, but queue %u of %u is not there",
                                vql_vfio_device_address(v->vfio), 2 * pairs, have);
        return ret;
}

static int read_limits(struct vql_vpci *v, struct vql_error *e)
{
        struct vql_vfio_limits limits;
        int ret = vql_vfio_dma_limits(v->vfio, &limits, e);

        if (ret)
                return ret;
        v->caps.page_size = limits.page_size;
        /* One is for the driver's own memory. */
        v->caps.map_limit = limits.entries > 1 ? limits.entries - 1 : limits.entries;
        v->caps.n_ranges = limits.n_ranges;
        for (uint16_t i = 0; i < limits.n_ranges; i++)
                v->caps.ranges[i] =
                        (struct vql_range){ limits.ranges[i].first, limits.ranges[i].last };
        return 0;
}

static void choose_flags(struct vql_vpci *v)
{
        bool doorbells = true;

        for (uint16_t q = 0; q < v->caps.queues; q++)
                doorbells = doorbells && vql_vpci_doorbell_fits(v, q);
        v->caps.flags = VQL_DEV_IRQ_ANYFD;
        if (doorbells)
                v->caps.flags |= VQL_DEV_DOORBELL;
        if (v->args.in_order || vql_has(v->caps.features, VIRTIO_F_IN_ORDER))
                v->caps.flags |= VQL_DEV_IN_ORDER;
        if (vql_has(v->own, VIRTIO_F_RING_RESET))
                v->caps.flags |= VQL_DEV_LIVE | VQL_DEV_LATE;
        if (vql_has(v->caps.features, VIRTIO_F_RING_PACKED))
                v->caps.flags |= VQL_DEV_PACKED;
        if (v->control.queue != VQL_NO_QUEUE)
                v->caps.flags |= VQL_DEV_CTRL;
}

int vql_vpci_survey(struct vql_vpci *v, struct vql_error *e)
{
        uint64_t deadline = vpci_deadline(v->args.reset_timeout_ms);
        int ret = choose_features(v, e);

        if (!ret)
                ret = vql_vpci_handshake(v, v->own, deadline, e);
        if (!ret)
                ret = read_queues(v, e);
        if (!ret)
                ret = vql_vpci_vectors_plan(v, e);
        if (!ret)
                ret = read_limits(v, e);
        if (!ret)
                ret = vql_vpci_device_reset(v, deadline, e);
        if (!ret)
                choose_flags(v);
        return ret;
}
