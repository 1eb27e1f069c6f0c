/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UNIT_FAKE_DRIVER_H
#define UNIT_FAKE_DRIVER_H

/* Drivers that do nothing: `bare` has what every driver must have, `full` takes commands, too. */

#include <stdint.h>
#include <string.h>

#include "base/bits.h"
#include "virtqueue/features.h"
#include "vqlift/driver.h"

enum { QUEUES = 4, SIZE = 256 };

/* A driver that says what it is told to say, and counts what reaches it. */
static struct {
        int result; /* of the next call of any operation that has one */
        struct vql_dev_caps caps;
        struct vql_stop stop[QUEUES];
        struct vql_event event;
        size_t events;
        unsigned int opens, closes, kicks, ctrls, calls;
        uint8_t last_class;
} fake;

static int answer(void)
{
        const int result = fake.result;

        fake.calls++;
        fake.result = 0;
        return result;
}

static int fake_open(struct vql_dev *d, const char *args, struct vql_error *e)
{
        (void)d;
        (void)args;
        (void)e;
        fake.opens++;
        return answer();
}

static void fake_close(struct vql_dev *d)
{
        (void)d;
        fake.closes++;
}

static void fake_caps(struct vql_dev *d, struct vql_dev_caps *ret_caps)
{
        (void)d;
        *ret_caps = fake.caps;
}

static int fake_simple(struct vql_dev *d, struct vql_error *e)
{
        (void)d;
        (void)e;
        return answer();
}

static int fake_negotiate(struct vql_dev *d, uint64_t features, struct vql_error *e)
{
        (void)features;
        return fake_simple(d, e);
}

static int fake_suspend(struct vql_dev *d, uint32_t ms, struct vql_stop *ret_stops,
                        struct vql_error *e)
{
        (void)ms;
        memcpy(ret_stops, fake.stop, sizeof(fake.stop));
        return fake_simple(d, e);
}

static int fake_dma_update(struct vql_dev *d, const struct vql_map *del, size_t n_del,
                           const struct vql_map *add, size_t n_add, struct vql_error *e)
{
        (void)del;
        (void)n_del;
        (void)add;
        (void)n_add;
        return fake_simple(d, e);
}

static int fake_vq_start(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                         const struct vql_position *at, struct vql_error *e)
{
        (void)q;
        (void)ring;
        (void)at;
        return fake_simple(d, e);
}

static int fake_vq_stop(struct vql_dev *d, uint16_t q, uint32_t ms, struct vql_stop *ret_stop,
                        struct vql_error *e)
{
        (void)ms;
        *ret_stop = fake.stop[q];
        return fake_simple(d, e);
}

static void fake_vq_kick(struct vql_dev *d, uint16_t q)
{
        (void)d;
        (void)q;
        fake.kicks++;
}

static int fake_vq_irq(struct vql_dev *d, uint16_t q, int fd, struct vql_error *e)
{
        (void)q;
        (void)fd;
        return fake_simple(d, e);
}

static int fake_cfg_read(struct vql_dev *d, uint32_t offset, void *ret_bytes, uint32_t n)
{
        (void)offset;
        memset(ret_bytes, 0, n);
        return fake_simple(d, NULL);
}

static int fake_ctrl(struct vql_dev *d, uint8_t cls, uint8_t command, const void *data, uint32_t n,
                     struct vql_error *e)
{
        (void)command;
        (void)data;
        (void)n;
        fake.ctrls++;
        fake.last_class = cls;
        return fake_simple(d, e);
}

static size_t fake_events(struct vql_dev *d, struct vql_event *ret_events, size_t n)
{
        (void)d;
        if (n)
                ret_events[0] = fake.event;
        return fake.events;
}

#define FAKE_OPS                                                                           \
        .open = fake_open, .close = fake_close, .caps = fake_caps, .reset = fake_simple,   \
        .negotiate = fake_negotiate, .start = fake_simple, .suspend = fake_suspend,        \
        .dma_update = fake_dma_update, .vq_start = fake_vq_start, .vq_stop = fake_vq_stop, \
        .vq_kick = fake_vq_kick, .vq_irq = fake_vq_irq, .cfg_read = fake_cfg_read

static const struct vql_driver bare = { .name = "bare", .ops = { FAKE_OPS } };
static const struct vql_driver full = {
        .name = "full",
        .ops = { FAKE_OPS, .ctrl = fake_ctrl, .events = fake_events },
};

static void fake_reset(void)
{
        memset(&fake, 0, sizeof(fake));
        fake.caps = (struct vql_dev_caps){
                .queues = QUEUES,
                .queue_size = SIZE,
                .page_size = 4096,
                .features = vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_F_RING_PACKED),
                .flags = VQL_DEV_PACKED | VQL_DEV_LIVE | VQL_DEV_LATE | VQL_DEV_SEEK,
        };
}

#endif
