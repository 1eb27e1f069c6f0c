/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/device_check.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bits.h"
#include "virtqueue/cursor.h"
#include "virtqueue/features.h"

enum { ALL_FLAGS = 2 * VQL_DEV_HOLD_KEEPS - 1 };

static bool is_power_of_two(uint64_t n)
{
        return n && !(n & (n - 1));
}

static int check_numbers(const struct vql_dev_caps *c, struct vql_error *e)
{
        if (!c->queues || c->queues % 2 || c->queues >= VQL_DEV_MAX_QUEUES)
                return vql_fail(e, EIO,
                                "the driver claims %u data queues, expected pairs, at most %u",
                                c->queues, VQL_DEV_MAX_QUEUES - 1);
        if (!is_power_of_two(c->queue_size) || c->queue_size > VQL_QUEUE_MAX_SIZE)
                return vql_fail(e, EIO,
                                "the driver claims rings of %u, expected a power of two up to %u",
                                c->queue_size, VQL_QUEUE_MAX_SIZE);
        if (!is_power_of_two(c->page_size))
                return vql_fail(e, EIO,
                                "the driver claims pages of %" PRIu64
                                " bytes, expected a power of two",
                                c->page_size);
        if (c->flags & ~(uint32_t)ALL_FLAGS)
                return vql_fail(e, EIO, "the driver claims abilities %#x, known are %#x", c->flags,
                                ALL_FLAGS);
        return 0;
}

static int check_ranges(const struct vql_dev_caps *c, struct vql_error *e)
{
        if (c->n_ranges > VQL_DEV_MAX_RANGES)
                return vql_fail(e, EIO, "the driver claims %u ranges of addresses, at most %u fit",
                                c->n_ranges, VQL_DEV_MAX_RANGES);
        for (unsigned int i = 0; i < c->n_ranges; i++)
                if (c->ranges[i].first > c->ranges[i].last)
                        return vql_fail(e, EIO,
                                        "the driver claims addresses from %#" PRIx64
                                        " down to %#" PRIx64,
                                        c->ranges[i].first, c->ranges[i].last);
        return 0;
}

/* An ability that nobody wrote the operation for. */
static int check_ops(const struct vql_driver *d, const struct vql_dev_caps *c, struct vql_error *e)
{
        const char *missing = NULL;

        if ((c->flags & VQL_DEV_DOORBELL) && !d->ops.vq_doorbell)
                missing = "vq_doorbell";
        if ((c->flags & VQL_DEV_CTRL) && !d->ops.ctrl)
                missing = "ctrl";
        if ((c->flags & VQL_DEV_LOG) && !(d->ops.log_set && d->ops.log_sync))
                missing = "log_set or log_sync";
        if (missing)
                return vql_fail(e, EIO, "the driver %s claims an ability and has no %s", d->name,
                                missing);
        return 0;
}

int vql_device_check_caps(const struct vql_driver *driver, const struct vql_dev_caps *caps,
                          struct vql_error *e)
{
        const bool packed = caps->flags & VQL_DEV_PACKED;
        int err = check_numbers(caps, e);

        if (!err)
                err = check_ranges(caps, e);
        if (!err)
                err = check_ops(driver, caps, e);
        if (!err && packed != vql_has(caps->features, VIRTIO_F_RING_PACKED))
                err = vql_fail(e, EIO, "the driver claims packed rings in one place only");
        return err;
}

static bool is_canonical(const struct vql_position *at, const struct vql_dev_ring *r)
{
        if (at->avail != at->used || at->avail_wrap != at->used_wrap || at->avail_wrap > 1)
                return false;
        return r->packed ? at->avail < r->size : !at->avail_wrap;
}

int vql_device_check_ring(const struct vql_dev_caps *caps, const struct vql_dev_ring *ring,
                          const struct vql_position *at, struct vql_error *e)
{
        int err = vql_ring_size_check(ring->size, ring->packed, e);

        if (err < 0)
                return err;
        if (ring->size > caps->queue_size)
                return vql_fail(e, EINVAL, "ring of %u, the device takes at most %u", ring->size,
                                caps->queue_size);
        if (!ring->device_va)
                return vql_fail(e, EINVAL, "ring without an address of its device area");
        if (!is_canonical(at, ring))
                return vql_fail(e, EINVAL,
                                "start at avail %u (%u) and used %u (%u) of a %s ring of %u, "
                                "expected one place in it",
                                at->avail, at->avail_wrap, at->used, at->used_wrap,
                                ring->packed ? "packed" : "split", ring->size);
        return 0;
}

static bool in_range(const struct vql_dev_caps *caps, uint64_t first, uint64_t last)
{
        for (unsigned int i = 0; i < caps->n_ranges; i++)
                if (first >= caps->ranges[i].first && last <= caps->ranges[i].last)
                        return true;
        return !caps->n_ranges;
}

int vql_device_check_map(const struct vql_dev_caps *caps, const struct vql_map *m,
                         struct vql_error *e)
{
        const uint64_t bits = m->iova | m->len | (uint64_t)(uintptr_t)m->va;
        const uint64_t last = m->iova + m->len - 1;

        if (!m->len || last < m->iova)
                return vql_fail(e, EINVAL, "map of %#" PRIx64 " bytes at %#" PRIx64, m->len,
                                m->iova);
        if (bits & (caps->page_size - 1))
                return vql_fail(e, EINVAL,
                                "map of %#" PRIx64 " bytes at %#" PRIx64
                                ", expected whole pages of %#" PRIx64,
                                m->len, m->iova, caps->page_size);
        if (!in_range(caps, m->iova, last))
                return vql_fail(e, EINVAL,
                                "map of %#" PRIx64 " bytes at %#" PRIx64
                                " is out of the device's reach",
                                m->len, m->iova);
        return 0;
}

int vql_device_check_stop(const struct vql_dev_ring *ring, const struct vql_stop *stop,
                          struct vql_error *e)
{
        const struct vql_position *at = &stop->at;

        if (stop->quality > VQL_STOP_UNKNOWN)
                return vql_fail(e, EIO, "stopped with quality %u, which does not exist",
                                (unsigned int)stop->quality);
        if (!is_canonical(at, ring))
                return vql_fail(e, EIO,
                                "stopped at avail %u (%u) and used %u (%u) of a %s ring of %u, "
                                "expected one place in it",
                                at->avail, at->avail_wrap, at->used, at->used_wrap,
                                ring->packed ? "packed" : "split", ring->size);
        return 0;
}
