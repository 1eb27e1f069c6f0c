/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtio_pci_rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <linux/vfio.h>
#include <linux/virtio_net.h>

#include "base/bits.h"
#include "virtqueue/features.h"

enum { EVENTS = 8 };

static const struct vql_dev_ops *ops(void)
{
        return &vql_driver_virtio_pci.ops;
}

static void *model_memory(void *arg, uint64_t iova, uint64_t bytes, bool write)
{
        struct rig *r = arg;

        return fake_vfio_memory(r->fake_device, iova, bytes, write);
}

static void model_interrupt(void *arg, uint16_t vector)
{
        struct rig *r = arg;

        fake_vfio_interrupt(r->fake_device, VFIO_PCI_MSIX_IRQ_INDEX, vector);
}

static void device_new(struct rig *r, const char *address, int group)
{
        struct fake_vfio_device *d = fake_vfio_add(&r->host->fake, address, group);

        d->regions[MODEL_BAR] = (struct fake_vfio_region){ .size = MODEL_BAR_BYTES, .memory = -1 };
        d->irqs[VFIO_PCI_MSIX_IRQ_INDEX] = r->model.table;
        d->vectors_left = FAKE_VFIO_VECTORS;
        d->can_reset = true;
        d->read = model_read;
        d->write = model_write;
        d->reset = model_reset;
        d->arg = &r->model;
        r->fake_device = d;
}

static struct rig *rig_make(struct rig *host)
{
        struct rig *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        r->host = host ? host : r;
        model_init(&r->model);
        r->model.memory = model_memory;
        r->model.interrupt = model_interrupt;
        r->model.arg = r;
        for (int q = 0; q < RIG_QUEUES; q++)
                r->call[q] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        return r;
}

struct rig *rig_new(void)
{
        struct rig *r = rig_make(NULL);

        fake_vfio_init(&r->fake);
        r->place = fake_vfio_place(&r->fake);
        device_new(r, RIG_ADDRESS, 7);
        assert_int_equal(vql_vfio_new(&r->place, &r->vfio, NULL), 0);
        assert_int_equal(fe_memory_new_layout(FE_ONE_REGION, &r->mem), 0);
        return r;
}

struct rig *rig_new_beside(struct rig *host)
{
        struct rig *r = rig_make(host);

        device_new(r, RIG_ADDRESS2, 8);
        r->vfio = host->vfio;
        r->mem = host->mem;
        return r;
}

int rig_open(struct rig *r, const char *args)
{
        int ret;

        memset(&r->dev, 0, sizeof(r->dev));
        r->dev.driver = &vql_driver_virtio_pci;
        r->dev.vfio = r->vfio;
        r->dev.event_fd = -1;
        memcpy(r->dev.address, r->fake_device->address, sizeof(r->fake_device->address));
        ret = ops()->open(&r->dev, args, &r->e);
        r->open = ret == 0;
        if (r->open)
                ops()->caps(&r->dev, &r->caps);
        return ret;
}

void rig_close(struct rig *r)
{
        if (r->open)
                ops()->close(&r->dev);
        r->open = false;
        r->n_maps = 0;
}

void rig_drop(struct rig *r)
{
        rig_close(r);
        for (int q = 0; q < RIG_QUEUES; q++) {
                fe_driver_free(r->ring[q]);
                close(r->call[q]);
        }
        if (r->host == r) {
                vql_vfio_free(r->vfio);
                fake_vfio_fini(&r->fake);
                fe_memory_free(r->mem);
        }
        free(r);
}

void rig_free(struct rig *r)
{
        rig_close(r);
        if (r->model.wrong[0])
                fail_msg("the driver: %s", r->model.wrong);
        rig_drop(r);
}

int rig_map(struct rig *r)
{
        for (unsigned int i = 0; i < r->mem->n && i < RIG_MAPS; i++) {
                const struct fe_region *g = &r->mem->region[i];

                r->maps[i] = (struct vql_map){ g->spec.gpa, g->spec.size, g->va, true };
        }
        r->n_maps = r->mem->n;
        return ops()->dma_update(&r->dev, NULL, 0, r->maps, r->n_maps, &r->e);
}

uint64_t rig_features(const struct rig *r, bool packed)
{
        return packed ? r->caps.features : r->caps.features & ~vql_bit(VIRTIO_F_RING_PACKED);
}

int rig_negotiate(struct rig *r, uint64_t features)
{
        return ops()->negotiate(&r->dev, features, &r->e);
}

static int start_on_ring(struct rig *r, uint16_t q)
{
        const struct fe_driver_params *p = fe_driver_params(r->ring[q]);
        struct fe_areas a = fe_driver_areas(r->ring[q]);
        struct fe_area_pointers va = fe_driver_pointers(r->ring[q]);
        struct vql_dev_ring ring = { a.desc, a.driver, a.device, va.used, p->size, p->packed };
        struct vql_position at = { .avail_wrap = p->packed, .used_wrap = p->packed };
        int ret = ops()->vq_irq(&r->dev, q, r->call[q], &r->e);

        if (p->packed)
                ring.device_va = va.packed;
        return ret ? ret : ops()->vq_start(&r->dev, q, &ring, &at, &r->e);
}

int rig_vq_start(struct rig *r, uint16_t q, uint16_t size)
{
        struct fe_driver_params p = {
                .mem = r->mem,
                .region = FE_ANY_REGION,
                .size = size,
                .packed = model_agreed(&r->model) >> VIRTIO_F_RING_PACKED & 1,
        };
        struct fe_text error;

        fe_driver_free(r->ring[q]);
        r->ring[q] = NULL;
        assert_int_equal(fe_driver_new(&p, &r->ring[q], &error), 0);
        return start_on_ring(r, q);
}

int rig_vq_restart(struct rig *r, uint16_t q)
{
        fe_driver_restart(r->ring[q]);
        return start_on_ring(r, q);
}

int rig_start(struct rig *r)
{
        return ops()->start(&r->dev, &r->e);
}

int rig_vq_stop(struct rig *r, uint16_t q, struct vql_stop *ret_stop)
{
        return ops()->vq_stop(&r->dev, q, RIG_TIMEOUT_MS, ret_stop, &r->e);
}

int rig_ctrl_pairs(struct rig *r, uint16_t pairs)
{
        return ops()->ctrl(&r->dev, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, &pairs,
                           sizeof(pairs), &r->e);
}

int rig_run(struct rig *r, bool packed, uint16_t queues)
{
        int ret = rig_open(r, NULL);

        if (!ret)
                ret = rig_map(r);
        if (!ret)
                ret = rig_negotiate(r, rig_features(r, packed));
        for (uint16_t q = 0; q < queues && !ret; q++)
                ret = rig_vq_start(r, q, 64);
        return ret ? ret : rig_start(r);
}

static void fill(uint8_t frame[RIG_FRAME], unsigned int number)
{
        for (unsigned int i = 0; i < RIG_FRAME; i++)
                frame[i] = (uint8_t)(number * 7 + i);
}

void rig_offer(struct rig *r, uint16_t q, unsigned int n)
{
        for (unsigned int i = 0; i < n; i++) {
                struct fe_seg *seg = &r->segs[r->n_segs++];
                struct fe_chain c = { .segs = seg, .n = 1, .cookie = seg };
                uint8_t frame[RIG_FRAME];

                assert_true(r->n_segs <= RIG_BUFFERS);
                assert_int_equal(fe_seg_alloc(r->mem, FE_ANY_REGION, RIG_FRAME, q % 2 == 0, seg),
                                 0);
                fill(frame, r->next_frame);
                if (q % 2) {
                        fe_segs_write(r->mem, seg, 1, frame, sizeof(frame));
                        r->next_frame++;
                }
                assert_int_equal(fe_driver_add(r->ring[q], &c, NULL), 0);
        }
        fe_driver_publish(r->ring[q]);
        fe_driver_calls_on(r->ring[q], 0);
        ops()->vq_kick(&r->dev, q);
}

unsigned int rig_reap(struct rig *r, uint16_t q)
{
        struct fe_done done;
        unsigned int n = 0;
        int ret;

        while ((ret = fe_driver_get(r->ring[q], &done)) > 0) {
                uint8_t frame[RIG_FRAME], expected[RIG_FRAME];

                if (q % 2 == 0) {
                        assert_int_equal(done.len, RIG_FRAME);
                        fill(expected, r->next_frame - 1);
                        fe_segs_read(r->mem, done.cookie, 1, 0, frame, sizeof(frame));
                        assert_memory_equal(frame, expected, sizeof(frame));
                }
                n++;
        }
        if (ret < 0)
                fail_msg("queue %u: %s", q, fe_driver_error(r->ring[q]));
        return n;
}

void rig_exchange(struct rig *r, uint16_t pair, unsigned int n)
{
        uint16_t rx = (uint16_t)(2 * pair), tx = (uint16_t)(rx + 1);

        for (unsigned int i = 0; i < n; i++) {
                rig_offer(r, rx, 1);
                rig_offer(r, tx, 1);
                assert_int_equal(rig_reap(r, tx), 1);
                assert_int_equal(rig_reap(r, rx), 1);
        }
}

uint64_t rig_calls(const struct rig *r, uint16_t q)
{
        eventfd_t n;

        return eventfd_read(r->call[q], &n) ? 0 : n;
}

uint32_t rig_events(struct rig *r)
{
        struct vql_event events[EVENTS];
        size_t n = ops()->events(&r->dev, events, EVENTS);
        uint32_t mask = 0;

        for (size_t i = 0; i < n; i++)
                mask |= 1u << events[i].kind;
        return mask;
}

bool rig_has_events(const struct rig *r)
{
        struct pollfd p = { .fd = r->dev.event_fd, .events = POLLIN };

        return poll(&p, 1, 0) == 1;
}
