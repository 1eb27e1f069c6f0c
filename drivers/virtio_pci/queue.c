/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include <rte_atomic.h>

#include "base/bits.h"
#include "drivers/virtio_pci/position.h"
#include "drivers/virtio_pci/regs.h"
#include "drivers/virtio_pci/wait.h"
#include "virtqueue/cursor.h"
#include "virtqueue/features.h"
#include "virtqueue/ring.h"

enum { PARK_SIZE = 16 };

static int check_ring(const struct vql_vpci *v, uint16_t q, const struct vql_dev_ring *r,
                      struct vql_error *e)
{
        const uint64_t areas[VQL_AREA_COUNT] = { r->desc, r->driver, r->device };

        if (r->packed != vql_has(v->agreed, VIRTIO_F_RING_PACKED))
                return vql_fail(e, EINVAL, "queue %u: the ring is %s, the device is not", q,
                                r->packed ? "packed" : "split");
        if (vql_ring_size_check(r->size, r->packed, e))
                return -EINVAL;
        if (r->size > v->queues[q].max)
                return vql_fail(e, EINVAL, "queue %u: size %u, the device has at most %u", q,
                                r->size, v->queues[q].max);
        for (enum vql_ring_area a = 0; a < VQL_AREA_COUNT; a++) {
                if (areas[a] % vql_area_align(a, r->packed))
                        return vql_fail(e, EINVAL, "queue %u: area %u at %#llx is not aligned", q,
                                        a, (unsigned long long)areas[a]);
        }
        return 0;
}

/* A queue of this device starts at the initial position and nowhere else (virtio 1.2, 2.6.1.2). */
static int check_position(uint16_t q, const struct vql_dev_ring *r, const struct vql_position *at,
                          struct vql_error *e)
{
        uint8_t wrap = r->packed;
        struct vql_position memory;

        if (at->avail != 0 || at->used != 0 || at->avail_wrap != wrap || at->used_wrap != wrap)
                return vql_fail(e, ENOTSUP,
                                "queue %u: position %u/%u wraps %u/%u, the device can start at "
                                "the initial one only",
                                q, at->avail, at->used, at->avail_wrap, at->used_wrap);
        if (r->packed)
                return 0;
        vql_vpci_position_split(r->device_va, &memory);
        if (memory.used != 0)
                return vql_fail(e, EINVAL, "queue %u: the used index in memory is %u, expected 0",
                                q, memory.used);
        return 0;
}

/* A device that has not the size, or the place, that it was given would write elsewhere. */
static int set_size(struct vql_vpci *v, uint16_t q, uint16_t size, struct vql_error *e)
{
        uint16_t got;

        vpci_put16(v, VPCI_QUEUE_SIZE, size);
        got = vpci_get16(v, VPCI_QUEUE_SIZE);
        if (got == size)
                return 0;
        return vql_fail(e, EIO, "queue %u: size reads as %u after %u was written", q, got, size);
}

/* 4.1.5.1.3, the device's side of a ring; queue q is selected. */
static int set_ring(struct vql_vpci *v, uint16_t q, const struct vql_dev_ring *r,
                    struct vql_error *e)
{
        int ret = set_size(v, q, r->size, e);

        if (!ret && q == v->control.queue)
                vpci_put16(v, VPCI_QUEUE_VECTOR, VPCI_NO_VECTOR);
        else if (!ret)
                ret = vql_vpci_vector_assign(v, q, e);
        if (ret)
                return ret;
        vpci_put64(v, VPCI_QUEUE_DESC, r->desc);
        vpci_put64(v, VPCI_QUEUE_DRIVER, r->driver);
        vpci_put64(v, VPCI_QUEUE_DEVICE, r->device);
        vql_vpci_queue(v, q)->notify_off = vpci_get16(v, VPCI_QUEUE_NOTIFY_OFF);
        if (vql_vpci_doorbell_at(v, q) + VPCI_DOORBELL_BYTES > v->windows[VPCI_NOTIFY].length)
                return vql_fail(e, EIO, "queue %u: its doorbell, number %u of %u bytes, is outside",
                                q, vql_vpci_queue(v, q)->notify_off, v->multiplier);
        return 0;
}

int vql_vpci_queue_enable(struct vql_vpci *v, uint16_t q, const struct vql_dev_ring *r,
                          struct vql_error *e)
{
        int ret;

        vpci_put16(v, VPCI_QUEUE_SELECT, q);
        ret = set_ring(v, q, r, e);
        if (!ret) {
                /* Once that arrives the device may read the ring: it must be written before. */
                rte_io_wmb();
                vpci_put16(v, VPCI_QUEUE_ENABLE, 1);
        }
        return vql_vpci_blame(v, ret, e);
}

/* 4.1.4.3.2 and 2.6.1: from completion on the device leaves ring and buffers alone. */
static int reset_queue(struct vql_vpci *v, uint16_t q, uint32_t timeout_ms, struct vql_error *e)
{
        uint64_t deadline = vpci_deadline(timeout_ms);

        vpci_put16(v, VPCI_QUEUE_SELECT, q);
        vpci_put16(v, VPCI_QUEUE_RESET, 1);
        while (vpci_get16(v, VPCI_QUEUE_RESET) != 0) {
                int ret = vql_vpci_check(v, e);

                if (ret)
                        return ret;
                if (!vpci_pause(v, deadline))
                        return vql_fail(e, ETIMEDOUT, "queue %u: its reset is not over after %u ms",
                                        q, timeout_ms);
        }
        return vql_vpci_check(v, e);
}

int vql_vpci_vq_start(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                      const struct vql_position *at, struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        struct vpci_queue *s;
        int ret;

        if (q >= v->caps.queues)
                return vql_fail(e, EINVAL, "no queue %u, expected one below %u", q, v->caps.queues);
        s = &v->queues[q];
        ret = check_ring(v, q, ring, e);
        if (!ret)
                ret = check_position(q, ring, at, e);
        if (!ret && s->use == VPCI_QUEUE_PARKED)
                ret = reset_queue(v, q, v->args.reset_timeout_ms, e);
        if (!ret && s->use == VPCI_QUEUE_PARKED)
                s->use = VPCI_QUEUE_STOPPED;
        if (!ret)
                ret = vql_vpci_queue_enable(v, q, ring, e);
        if (ret)
                return ret;
        s->ring = *ring;
        s->use = VPCI_QUEUE_STARTED;
        return 0;
}

/* The device was cut off its queue, so it may have worked on buffers that it did not return. */
static void read_position(const struct vql_vpci *v, const struct vpci_queue *s,
                          struct vql_stop *ret_stop)
{
        bool sure = true;

        /* A register was read just before, behind all that the device wrote. */
        rte_io_rmb();
        ret_stop->stopped = true;
        if (s->ring.packed)
                sure = vql_vpci_position_packed(s->ring.device_va, s->ring.size, &ret_stop->at);
        else
                vql_vpci_position_split(s->ring.device_va, &ret_stop->at);
        ret_stop->quality =
                sure && (v->caps.flags & VQL_DEV_IN_ORDER) ? VQL_STOP_REPEAT : VQL_STOP_UNKNOWN;
}

int vql_vpci_vq_stop(struct vql_dev *d, uint16_t q, uint32_t timeout_ms, struct vql_stop *ret_stop,
                     struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        int ret;

        if (!(v->caps.flags & VQL_DEV_LIVE))
                return vql_fail(e, ENOTSUP, "%s: the device offers no RING_RESET", d->address);
        if (q >= v->caps.queues || v->queues[q].use != VPCI_QUEUE_STARTED)
                return vql_fail(e, EINVAL, "queue %u is not started", q);
        ret = reset_queue(v, q, timeout_ms, e);
        if (ret)
                return ret;
        v->queues[q].use = VPCI_QUEUE_STOPPED;
        read_position(v, &v->queues[q], ret_stop);
        return 0;
}

void vql_vpci_vq_kick(struct vql_dev *d, uint16_t q)
{
        struct vql_vpci *v = d->priv;
        const struct vpci_window *w = &v->windows[VPCI_NOTIFY];

        /* Pairs with the device's read of the ring: it sees what was written before the kick. */
        rte_io_wmb();
        vql_vfio_write16(w->region, w->at + vql_vpci_doorbell_at(v, q), q);
}

/*
 * The specification has a queue enabled again after its own reset, but does not say that one that
 * was never enabled may be when the device runs.  So all are, on a ring that stays empty.
 */
int vql_vpci_queues_park(struct vql_vpci *v, struct vql_error *e)
{
        struct vql_dev_ring ring = vql_vpci_memory_ring(v, VPCI_MEMORY_PARK, PARK_SIZE);

        for (uint16_t q = 0; q < v->caps.queues; q++) {
                struct vpci_queue *s = &v->queues[q];
                int ret;

                if (s->use != VPCI_QUEUE_OFF)
                        continue;
                ring.size = v->caps.queue_size < PARK_SIZE ? v->caps.queue_size : PARK_SIZE;
                ret = vql_vpci_queue_enable(v, q, &ring, e);
                if (ret)
                        return ret;
                s->use = VPCI_QUEUE_PARKED;
        }
        return 0;
}

void vql_vpci_queues_collect(struct vql_vpci *v, struct vql_stop *ret_stops)
{
        memset(ret_stops, 0, sizeof(*ret_stops) * v->caps.queues);
        for (uint16_t q = 0; q < v->caps.queues; q++) {
                if (v->queues[q].use == VPCI_QUEUE_STARTED)
                        read_position(v, &v->queues[q], &ret_stops[q]);
        }
        vql_vpci_queues_forget(v);
}

void vql_vpci_queues_forget(struct vql_vpci *v)
{
        for (uint16_t q = 0; q < v->caps.queues; q++)
                v->queues[q].use = VPCI_QUEUE_OFF;
        v->control.state = VPCI_CONTROL_OFF;
}
