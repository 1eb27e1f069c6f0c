/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues under traffic: started, stopped, moved, with their interrupts and control commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <linux/pci_regs.h>
#include <linux/virtio_net.h>
#include <linux/virtio_pci.h>

#include "base/bits.h"
#include "virtio_pci_rig.h"

enum { RING_RESET = 40 };
static const bool formats[] = { false, true };

static const struct vql_dev_ops *ops(void)
{
        return &vql_driver_virtio_pci.ops;
}

/* ---- traffic, stop, restart ---- */

static void test_traffic(void **state)
{
        (void)state;
        for (int f = 0; f < 2; f++) {
                struct rig *r = rig_new();

                assert_int_equal(rig_run(r, formats[f], 4), 0);
                assert_int_equal(rig_ctrl_pairs(r, 2), 0);
                rig_exchange(r, 0, 300);
                rig_exchange(r, 1, 300);
                assert_int_equal(r->model.sent, 600);
                assert_int_equal(r->model.dropped, 0);
                rig_free(r);
        }
}

static void check_stop(const struct rig *r, uint16_t q, const struct vql_stop *s)
{
        struct fe_position at = fe_driver_position(r->ring[q]);

        assert_true(s->stopped);
        assert_int_equal(s->at.used, at.used);
        assert_int_equal(s->at.avail, at.used);
        assert_int_equal(s->at.used_wrap, at.used_wrap);
        assert_int_equal(s->at.avail_wrap, at.used_wrap);
}

/* The other pair goes on meanwhile; what was not returned comes back from the queue's next life. */
static void test_stop_one_and_restart(void **state)
{
        (void)state;
        for (int f = 0; f < 2; f++) {
                struct rig *r = rig_new();
                struct vql_stop stop;

                assert_int_equal(rig_run(r, formats[f], 4), 0);
                assert_int_equal(rig_ctrl_pairs(r, 2), 0);
                rig_exchange(r, 0, 70);
                r->model.faults.queue_reset_reads = 3;
                r->model.faults.stalls = true;
                rig_offer(r, 1, 5);
                assert_int_equal(rig_vq_stop(r, 1, &stop), 0);
                check_stop(r, 1, &stop);
                /* Packed: the first of the five took the id of the last that was done, so memory
                 * does not tell it from the rest of a chain. */
                assert_int_equal(stop.quality, formats[f] ? VQL_STOP_UNKNOWN : VQL_STOP_REPEAT);
                r->model.faults.stalls = false;
                rig_exchange(r, 1, 70);
                assert_int_equal(rig_vq_start(r, 1, 32), 0);
                rig_exchange(r, 0, 70);
                rig_free(r);
        }
}

/* A receive queue with buffers out, and a send queue with none: the position is certain. */
static void test_usual_stops_are_certain(void **state)
{
        (void)state;
        for (int f = 0; f < 2; f++) {
                struct rig *r = rig_new();
                struct vql_stop stop;

                assert_int_equal(rig_run(r, formats[f], 2), 0);
                rig_exchange(r, 0, 100);
                rig_offer(r, 0, 64);
                for (uint16_t q = 0; q < 2; q++) {
                        assert_int_equal(rig_vq_stop(r, q, &stop), 0);
                        check_stop(r, q, &stop);
                        assert_int_equal(stop.quality, VQL_STOP_REPEAT);
                }
                rig_free(r);
        }
}

static void test_stop_out_of_order_is_unknown(void **state)
{
        struct rig *r = rig_new();
        struct vql_stop stop;

        (void)state;
        assert_int_equal(rig_open(r, "in-order=0"), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_vq_start(r, 0, 64), 0);
        assert_int_equal(rig_start(r), 0);
        assert_int_equal(rig_vq_stop(r, 0, &stop), 0);
        assert_int_equal(stop.quality, VQL_STOP_UNKNOWN);
        rig_free(r);
}

static void test_stop_that_never_ends(void **state)
{
        struct rig *r = rig_new();
        struct vql_stop stop;

        (void)state;
        memset(&stop, 0x55, sizeof(stop));
        assert_int_equal(rig_run(r, false, 2), 0);
        r->model.faults.queue_reset_reads = UINT32_MAX;
        assert_int_equal(ops()->vq_stop(&r->dev, 0, 2, &stop, &r->e), -ETIMEDOUT);
        assert_int_equal(stop.quality, 0x55555555);
        assert_int_equal(ops()->reset(&r->dev, &r->e), 0);
        rig_free(r);
}

/* Without RING_RESET nothing stops alone, and what was not started stays off. */
static void test_without_ring_reset(void **state)
{
        struct rig *r = rig_new();
        struct vql_stop stop;

        (void)state;
        r->model.features &= ~vql_bit(RING_RESET);
        assert_int_equal(rig_run(r, false, 2), 0);
        assert_false(r->model.queues[2].enabled);
        assert_int_equal(rig_vq_stop(r, 0, &stop), -ENOTSUP);
        rig_exchange(r, 0, 10);
        rig_free(r);
}

/* A queue that never started is on a ring that stays empty, and moves when it is wanted. */
static void test_late_start(void **state)
{
        (void)state;
        for (int f = 0; f < 2; f++) {
                struct rig *r = rig_new();

                assert_int_equal(rig_run(r, formats[f], 2), 0);
                assert_true(r->model.queues[2].enabled && r->model.queues[3].enabled);
                model_run(&r->model);
                assert_int_equal(r->model.sent, 0);
                assert_int_equal(rig_ctrl_pairs(r, 2), 0);
                assert_int_equal(rig_vq_start(r, 2, 64), 0);
                assert_int_equal(rig_vq_start(r, 3, 16), 0);
                rig_exchange(r, 1, 100);
                rig_free(r);
        }
}

/* ---- what vq_start refuses ---- */

static void test_rings_refused(void **state)
{
        const struct vql_position initial = { 0 }, other = { .avail = 3, .used = 3 };
        struct vring_used used = { 0 };
        struct vql_dev_ring ring = { 0x10000, 0x20000, 0x30000, &used, 64, false }, bad;
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(ops()->vq_start(&r->dev, 0, &ring, &other, &r->e), -ENOTSUP);
        assert_int_equal(ops()->vq_start(&r->dev, 4, &ring, &initial, &r->e), -EINVAL);
        bad = ring;
        bad.size = 128;
        assert_int_equal(ops()->vq_start(&r->dev, 0, &bad, &initial, &r->e), -EINVAL);
        bad.size = 63;
        assert_int_equal(ops()->vq_start(&r->dev, 0, &bad, &initial, &r->e), -EINVAL);
        bad = ring;
        bad.packed = true;
        assert_int_equal(ops()->vq_start(&r->dev, 0, &bad, &initial, &r->e), -EINVAL);
        bad = ring;
        bad.desc += 8;
        assert_int_equal(ops()->vq_start(&r->dev, 0, &bad, &initial, &r->e), -EINVAL);
        used.idx = 1;
        assert_int_equal(ops()->vq_start(&r->dev, 0, &ring, &initial, &r->e), -EINVAL);
        for (int q = 0; q < 4; q++)
                assert_false(r->model.queues[q].enabled);
        rig_free(r);
}

static void test_size_not_taken(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        r->model.faults.shrinks_size = 8;
        assert_int_equal(rig_vq_start(r, 0, 64), -EIO);
        assert_non_null(strstr(r->e.text, "size reads as 8 after 64"));
        assert_false(r->model.queues[0].enabled);
        rig_free(r);
}

static void test_vector_not_taken(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        r->model.faults.vectors = 1;
        assert_int_equal(rig_vq_start(r, 0, 64), 0);
        assert_int_equal(rig_vq_start(r, 1, 64), -ENOSPC);
        assert_false(r->model.queues[1].enabled);
        rig_free(r);
}

/* All doorbells at one place: what is written says which queue is meant. */
static void test_multiplier_0(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        r->model.multiplier = 0;
        model_write_pci(&r->model);
        assert_int_equal(rig_run(r, false, 4), 0);
        assert_int_equal(rig_ctrl_pairs(r, 2), 0);
        rig_exchange(r, 0, 20);
        rig_exchange(r, 1, 20);
        rig_free(r);
}

static void test_doorbell_outside(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        r->model.multiplier = 0x1000;
        model_write_pci(&r->model);
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_vq_start(r, 0, 64), 0);
        assert_int_equal(rig_vq_start(r, 1, 64), -EIO);
        assert_non_null(strstr(r->e.text, "outside"));
        rig_free(r);
}

/* ---- interrupts ---- */

/* With any number of vectors each queue's eventfd is signalled: by the device, or by events(). */
static void test_interrupts_with_few_vectors(void **state)
{
        (void)state;
        for (uint16_t n = 1; n <= 5; n++) {
                struct rig *r = rig_new();

                r->model.table = n;
                model_write_pci(&r->model);
                r->fake_device->irqs[2] = n;
                assert_int_equal(rig_run(r, false, 4), 0);
                assert_int_equal(rig_ctrl_pairs(r, 2), 0);
                for (uint16_t pair = 0; pair < 2; pair++) {
                        uint16_t rx = 2 * pair, tx = rx + 1;

                        rig_calls(r, rx);
                        rig_calls(r, tx);
                        rig_offer(r, rx, 1);
                        rig_offer(r, tx, 1);
                        assert_int_equal(rig_events(r) & ~(1u << VQL_EVENT_CONFIG), 0);
                        assert_true(rig_calls(r, rx) > 0);
                        assert_true(rig_calls(r, tx) > 0);
                        rig_reap(r, rx);
                        rig_reap(r, tx);
                }
                rig_free(r);
        }
}

static void test_own_vector_needs_nobody(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        rig_calls(r, 1);
        rig_offer(r, 1, 1);
        assert_int_equal(rig_calls(r, 1), 1);
        assert_false(rig_has_events(r));
        /* Another eventfd, then none. */
        rig_reap(r, 1);
        assert_int_equal(ops()->vq_irq(&r->dev, 1, r->call[3], &r->e), 0);
        rig_offer(r, 1, 1);
        assert_int_equal(rig_calls(r, 1), 0);
        assert_int_equal(rig_calls(r, 3), 1);
        assert_int_equal(ops()->vq_irq(&r->dev, 1, -1, &r->e), 0);
        rig_offer(r, 1, 1);
        assert_int_equal(rig_calls(r, 1) + rig_calls(r, 3), 0);
        assert_int_equal(ops()->vq_irq(&r->dev, 4, -1, &r->e), -EINVAL);
        rig_free(r);
}

/* ---- control ---- */

static void test_control_commands(void **state)
{
        static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 9 }, on = 1;

        (void)state;
        for (int f = 0; f < 2; f++) {
                struct rig *r = rig_new();

                assert_int_equal(rig_run(r, formats[f], 2), 0);
                for (int i = 0; i < 10; i++) {
                        assert_int_equal(ops()->ctrl(&r->dev, VIRTIO_NET_CTRL_MAC,
                                                     VIRTIO_NET_CTRL_MAC_ADDR_SET, mac, 6, &r->e),
                                         0);
                        assert_int_equal(ops()->ctrl(&r->dev, VIRTIO_NET_CTRL_RX,
                                                     VIRTIO_NET_CTRL_RX_PROMISC, &on, 1, &r->e),
                                         0);
                        assert_int_equal(rig_ctrl_pairs(r, 2), 0);
                }
                assert_int_equal(r->model.n_commands, 30);
                assert_int_equal(r->model.commands[27].bytes, 6);
                assert_memory_equal(r->model.commands[27].data, mac, 6);
                assert_int_equal(r->model.active_pairs, 2);
                rig_free(r);
        }
}

static void test_control_says_no(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        assert_int_equal(rig_ctrl_pairs(r, 3), -EIO);
        assert_non_null(strstr(r->e.text, "says no"));
        r->model.faults.refuses_control = true;
        assert_int_equal(rig_ctrl_pairs(r, 2), -EIO);
        r->model.faults.refuses_control = false;
        assert_int_equal(rig_ctrl_pairs(r, 2), 0);
        rig_free(r);
}

static void test_control_does_not_answer(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, "ctrl-timeout-ms=2"), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_start(r), 0);
        r->model.faults.ignores_control = true;
        assert_int_equal(rig_ctrl_pairs(r, 2), -ETIMEDOUT);
        /* The late command must not be answered into the next one's buffer. */
        r->model.faults.ignores_control = false;
        assert_int_equal(rig_ctrl_pairs(r, 1), -EIO);
        assert_int_equal(r->model.n_commands, 0);
        assert_int_equal(ops()->reset(&r->dev, &r->e), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_start(r), 0);
        assert_int_equal(rig_ctrl_pairs(r, 2), 0);
        rig_free(r);
}

static void test_control_too_long(void **state)
{
        static const uint8_t much[9000];
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        assert_int_equal(ops()->ctrl(&r->dev, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_TABLE_SET,
                                     much, sizeof(much), &r->e),
                         -ENOSPC);
        assert_int_equal(ops()->ctrl(&r->dev, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_TABLE_SET,
                                     much, 8000, &r->e),
                         0);
        rig_free(r);
}

static void test_no_control(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        r->model.features &= ~vql_bit(VIRTIO_NET_F_CTRL_VQ);
        assert_int_equal(rig_run(r, false, 2), 0);
        assert_int_equal(rig_ctrl_pairs(r, 1), -ENOTSUP);
        rig_exchange(r, 0, 10);
        rig_free(r);
}

/* ---- memory ---- */

/* The driver's own place is not the caller's, and no map of the caller's gets in its way. */
static void test_maps(void **state)
{
        struct rig *r = rig_new();
        struct vql_map m;

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        m = (struct vql_map){ r->caps.ranges[r->caps.n_ranges - 1].last + 1, r->caps.page_size,
                              r->maps[0].va, true };
        assert_int_equal(ops()->dma_update(&r->dev, NULL, 0, &m, 1, &r->e), -ERANGE);
        m.iova -= r->caps.page_size;
        assert_int_equal(ops()->dma_update(&r->dev, NULL, 0, &m, 1, &r->e), 0);
        assert_int_equal(rig_ctrl_pairs(r, 2), 0);
        assert_int_equal(ops()->dma_update(&r->dev, &m, 1, NULL, 0, &r->e), 0);
        assert_int_equal(ops()->dma_update(&r->dev, &m, 1, NULL, 0, &r->e), -EINVAL);
        rig_exchange(r, 0, 10);
        rig_free(r);
}

/* Two devices of one guest: one container, the guest's memory in it once, and for each a control
 * queue at a place of its own. */
static void test_two_devices_of_a_guest(void **state)
{
        struct rig *r = rig_new(), *second = rig_new_beside(r);

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        assert_int_equal(rig_run(second, true, 2), 0);
        assert_ptr_equal(fake_vfio_container(r->fake_device),
                         fake_vfio_container(second->fake_device));
        for (int i = 0; i < 3; i++) {
                assert_int_equal(rig_ctrl_pairs(r, 2), 0);
                assert_int_equal(rig_ctrl_pairs(second, 1), 0);
                rig_exchange(r, 0, 20);
                rig_exchange(second, 0, 20);
        }
        assert_int_equal(r->model.n_commands, 3);
        assert_int_equal(second->model.n_commands, 3);
        rig_free(second);
        assert_int_equal(rig_ctrl_pairs(r, 1), 0);
        rig_exchange(r, 0, 20);
        rig_free(r);
}

/* ---- doorbells ---- */

/* The page of the doorbells can be mapped: what is stored there does not reach the model. */
static struct rig *rig_with_doorbells(void)
{
        struct rig *r = rig_new();
        struct fake_vfio_region *bar = &r->fake_device->regions[MODEL_BAR];

        fake_vfio_region(r->fake_device, MODEL_BAR, MODEL_BAR_BYTES);
        bar->n_areas = 1;
        bar->areas[0].offset = MODEL_NOTIFY_AT;
        bar->areas[0].size = 4096;
        return r;
}

static void test_doorbells(void **state)
{
        struct rig *r = rig_with_doorbells();
        uint64_t bar = (uint64_t)MODEL_BAR << 40;
        struct vql_doorbell bell;
        uint16_t rung = 0xffff;

        (void)state;
        assert_int_equal(rig_run(r, false, 4), 0);
        assert_true(r->caps.flags & VQL_DEV_DOORBELL);
        for (uint16_t q = 0; q < 4; q++) {
                assert_int_equal(ops()->vq_doorbell(&r->dev, q, &bell), 0);
                assert_int_equal(bell.offset, bar + MODEL_NOTIFY_AT);
                assert_int_equal(bell.length, 4096);
                assert_int_equal(bell.at, 4 * q);
                assert_int_equal(bell.width, 2);
                assert_int_equal(bell.value, q);
        }
        assert_int_equal(ops()->vq_doorbell(&r->dev, 4, &bell), -EINVAL);
        ops()->vq_kick(&r->dev, 3);
        assert_int_equal(pread(r->fake_device->regions[MODEL_BAR].memory, &rung, sizeof(rung),
                               MODEL_NOTIFY_AT + 12),
                         sizeof(rung));
        assert_int_equal(rung, 3);
        rig_free(r);
}

static void put32(uint8_t *at, uint32_t v)
{
        memcpy(at, &v, sizeof(v));
}

/* A page that is not mapped, that ends outside the doorbells, or that holds something else. */
static void test_doorbells_not_alone(void **state)
{
        struct vql_doorbell bell;

        (void)state;
        for (int how = 0; how < 4; how++) {
                struct rig *r = how == 0 ? rig_new() : rig_with_doorbells();
                uint8_t *notify = model_cap(&r->model, VIRTIO_PCI_CAP_NOTIFY_CFG);

                if (how == 1)
                        put32(notify + 12, 0x800);
                if (how == 2)
                        put32(model_cap(&r->model, VIRTIO_PCI_CAP_ISR_CFG) + 8,
                              MODEL_NOTIFY_AT + 0xfff);
                if (how == 3)
                        put32(r->model.pci + 0x98 + PCI_MSIX_TABLE,
                              (MODEL_NOTIFY_AT + 0xff0) | MODEL_BAR);
                assert_int_equal(rig_open(r, NULL), 0);
                assert_false(r->caps.flags & VQL_DEV_DOORBELL);
                assert_int_equal(ops()->vq_doorbell(&r->dev, 0, &bell), -ENOTSUP);
                rig_free(r);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_traffic),
                cmocka_unit_test(test_stop_one_and_restart),
                cmocka_unit_test(test_usual_stops_are_certain),
                cmocka_unit_test(test_stop_out_of_order_is_unknown),
                cmocka_unit_test(test_stop_that_never_ends),
                cmocka_unit_test(test_without_ring_reset),
                cmocka_unit_test(test_late_start),
                cmocka_unit_test(test_rings_refused),
                cmocka_unit_test(test_size_not_taken),
                cmocka_unit_test(test_vector_not_taken),
                cmocka_unit_test(test_multiplier_0),
                cmocka_unit_test(test_doorbell_outside),
                cmocka_unit_test(test_interrupts_with_few_vectors),
                cmocka_unit_test(test_own_vector_needs_nobody),
                cmocka_unit_test(test_control_commands),
                cmocka_unit_test(test_control_says_no),
                cmocka_unit_test(test_control_does_not_answer),
                cmocka_unit_test(test_control_too_long),
                cmocka_unit_test(test_no_control),
                cmocka_unit_test(test_maps),
                cmocka_unit_test(test_two_devices_of_a_guest),
                cmocka_unit_test(test_doorbells),
                cmocka_unit_test(test_doorbells_not_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
