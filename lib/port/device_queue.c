/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/device_impl.h"

#include <errno.h>

#include "base/bits.h"
#include "port/device_check.h"
#include "virtqueue/features.h"

static int check_queue(struct vql_device *v, uint16_t q, struct vql_error *e)
{
        if (q < v->caps.queues)
                return 0;
        return vql_device_refuse(v, vql_fail(e, EINVAL, "%s: queue %u, the device has %u",
                                             v->dev.address, q, v->caps.queues));
}

/* May a queue in this state start now?  While the device runs, that is an ability. */
static int check_may_start(struct vql_device *v, uint16_t q, struct vql_error *e)
{
        const enum vql_device_queue s = vql_device_queue(v, q);
        const bool runs = v->life == VQL_DEVICE_RUN;

        if (s != VQL_DEVICE_QUEUE_FRESH && s != VQL_DEVICE_QUEUE_STOPPED)
                return vql_device_refuse(v, vql_fail(e, EINVAL, "%s: queue %u is %s",
                                                     v->dev.address, q, vql_device_queue_name(s)));
        if (runs && s == VQL_DEVICE_QUEUE_FRESH && !vql_device_can(v, VQL_DEV_LATE))
                return vql_device_lacks(v, "start further queues while it runs", e);
        if (runs && s == VQL_DEVICE_QUEUE_STOPPED && !vql_device_can(v, VQL_DEV_LIVE))
                return vql_device_lacks(v, "start one queue again while others run", e);
        return 0;
}

static int check_format(struct vql_device *v, const struct vql_dev_ring *ring,
                        const struct vql_position *at, struct vql_error *e)
{
        const bool packed = vql_has(v->features, VIRTIO_F_RING_PACKED);

        if (ring->packed != packed)
                return vql_fail(e, EINVAL, "%s: a %s ring, negotiated were %s ones", v->dev.address,
                                ring->packed ? "packed" : "split", packed ? "packed" : "split");
        return vql_device_check_ring(&v->caps, ring, at, e);
}

int vql_device_vq_start(struct vql_device *v, uint16_t q, const struct vql_dev_ring *ring,
                        const struct vql_position *at, struct vql_error *e)
{
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_VQ_START, e);

        if (!err)
                err = check_queue(v, q, e);
        if (!err)
                err = check_may_start(v, q, e);
        if (err < 0)
                return err;
        err = check_format(v, ring, at, e);
        if (err < 0)
                return vql_device_refuse(v, err);
        err = vql_device_result(v, v->dev.driver->ops.vq_start(&v->dev, q, ring, at, e),
                                "start a queue", e);
        if (err < 0)
                return err;
        v->queue[q].ring = *ring;
        v->count.starts++;
        vql_device_queue_move(v, q,
                              v->life == VQL_DEVICE_RUN ? VQL_DEVICE_QUEUE_RUNNING
                                                        : VQL_DEVICE_QUEUE_STARTED);
        return 0;
}

static int check_may_stop(struct vql_device *v, uint16_t q, struct vql_error *e)
{
        const enum vql_device_queue s = vql_device_queue(v, q);

        if (s != VQL_DEVICE_QUEUE_RUNNING)
                return vql_device_refuse(v, vql_fail(e, EINVAL, "%s: queue %u is %s, not running",
                                                     v->dev.address, q, vql_device_queue_name(s)));
        if (!vql_device_can(v, VQL_DEV_LIVE))
                return vql_device_lacks(v, "stop one queue while others run", e);
        return 0;
}

int vql_device_vq_stop(struct vql_device *v, uint16_t q, uint32_t timeout_ms,
                       struct vql_stop *ret_stop, struct vql_error *e)
{
        struct vql_stop stop = { .quality = VQL_STOP_EXACT };
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_VQ_STOP, e);

        if (!err)
                err = check_queue(v, q, e);
        if (!err)
                err = check_may_stop(v, q, e);
        if (err < 0)
                return err;
        err = vql_device_result(v, v->dev.driver->ops.vq_stop(&v->dev, q, timeout_ms, &stop, e),
                                "stop a queue", e);
        if (vql_device_is_severe(err)) {
                v->count.stops_failed++;
                vql_device_queue_move(v, q, VQL_DEVICE_QUEUE_LOST);
        }
        if (!err)
                err = vql_device_stopped(v, q, &stop, e);
        if (!err) {
                stop.stopped = true;
                *ret_stop = stop;
        }
        return err;
}

void vql_device_vq_kick(struct vql_device *v, uint16_t q)
{
        if (q < v->caps.queues && vql_device_queue(v, q) == VQL_DEVICE_QUEUE_RUNNING)
                v->dev.driver->ops.vq_kick(&v->dev, q);
}

int vql_device_vq_irq(struct vql_device *v, uint16_t q, int fd, struct vql_error *e)
{
        int err = q == VQL_IRQ_CONFIG ? 0 : check_queue(v, q, e);

        if (err < 0)
                return err;
        return vql_device_result(v, v->dev.driver->ops.vq_irq(&v->dev, q, fd, e),
                                 "set an interrupt", e);
}

int vql_device_vq_doorbell(struct vql_device *v, uint16_t q, struct vql_doorbell *ret_doorbell)
{
        if (q >= v->caps.queues)
                return vql_device_refuse(v, -EINVAL);
        if (!vql_device_can(v, VQL_DEV_DOORBELL))
                return -ENOTSUP;
        return vql_device_result(v, v->dev.driver->ops.vq_doorbell(&v->dev, q, ret_doorbell),
                                 "show a doorbell", NULL);
}
