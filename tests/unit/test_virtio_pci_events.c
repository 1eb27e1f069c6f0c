/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration and news: link, failure, removal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <linux/vfio.h>

#include "virtio_pci_rig.h"

static const struct vql_dev_ops *ops(void)
{
        return &vql_driver_virtio_pci.ops;
}

static uint16_t link_of(struct rig *r)
{
        uint16_t link = 0xffff;

        assert_int_equal(ops()->cfg_read(&r->dev, 6, &link, sizeof(link)), 0);
        return link;
}

static void test_configuration(void **state)
{
        struct rig *r = rig_new();
        uint8_t bytes[12];

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(ops()->cfg_read(&r->dev, 0, bytes, sizeof(bytes)), 0);
        assert_memory_equal(bytes, r->model.mac, 6);
        assert_int_equal(bytes[8], 2);
        assert_int_equal(bytes[10] | bytes[11] << 8, 1500);
        /* Bytes out of the middle of fields, read in the fields' widths all the same. */
        assert_int_equal(ops()->cfg_read(&r->dev, 5, bytes, 2), 0);
        assert_int_equal(bytes[0], r->model.mac[5]);
        assert_int_equal(bytes[1], 1);
        assert_int_equal(ops()->cfg_read(&r->dev, 11, bytes, 2), -EINVAL);
        assert_int_equal(ops()->cfg_read(&r->dev, UINT32_MAX, bytes, 2), -EINVAL);
        assert_int_equal(ops()->cfg_read(&r->dev, 12, bytes, 0), 0);
        rig_free(r);
}

static void test_configuration_never_still(void **state)
{
        struct rig *r = rig_new();
        uint8_t mac[6] = { 0x55 };

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        r->model.faults.config_moves = true;
        assert_int_equal(ops()->cfg_read(&r->dev, 0, mac, sizeof(mac)), -EIO);
        assert_int_equal(mac[0], 0x55);
        rig_free(r);
}

static void test_link(void **state)
{
        (void)state;
        /* With a vector of its own, and with the queues on it, too. */
        for (uint16_t vectors = 1; vectors <= 5; vectors += 4) {
                struct rig *r = rig_new();
                int config = eventfd(0, EFD_NONBLOCK);
                eventfd_t n;

                r->model.table = vectors;
                model_write_pci(&r->model);
                r->fake_device->irqs[VFIO_PCI_MSIX_IRQ_INDEX] = vectors;
                assert_int_equal(rig_run(r, false, 2), 0);
                assert_int_equal(ops()->vq_irq(&r->dev, VQL_IRQ_CONFIG, config, &r->e), 0);
                assert_int_equal(rig_events(r), 0);
                assert_false(rig_has_events(r));
                model_set_link(&r->model, false);
                assert_true(rig_has_events(r));
                assert_int_equal(rig_events(r), 1u << VQL_EVENT_CONFIG);
                assert_int_equal(eventfd_read(config, &n), 0);
                assert_int_equal(link_of(r), 0);
                assert_false(rig_has_events(r));
                /* Traffic on a shared vector is no news of the configuration. */
                rig_exchange(r, 0, 5);
                assert_int_equal(rig_events(r), 0);
                model_set_link(&r->model, true);
                assert_int_equal(rig_events(r), 1u << VQL_EVENT_CONFIG);
                assert_int_equal(link_of(r), 1);
                rig_free(r);
                close(config);
        }
}

static void test_broken(void **state)
{
        struct rig *r = rig_new();
        struct vql_stop stop;

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        model_break(&r->model);
        assert_true(rig_has_events(r));
        assert_int_equal(rig_events(r), 1u << VQL_EVENT_BROKEN);
        /* Told once. */
        assert_int_equal(rig_events(r), 0);
        assert_false(rig_has_events(r));
        assert_int_equal(rig_vq_stop(r, 0, &stop), -EIO);
        assert_int_equal(rig_ctrl_pairs(r, 1), -EIO);
        assert_int_equal(ops()->reset(&r->dev, &r->e), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_vq_start(r, 0, 16), 0);
        assert_int_equal(rig_vq_start(r, 1, 16), 0);
        assert_int_equal(rig_start(r), 0);
        rig_exchange(r, 0, 10);
        model_break(&r->model);
        assert_int_equal(rig_events(r), 1u << VQL_EVENT_BROKEN);
        rig_free(r);
}

/* A device that is broken can still be suspended: that is a reset. */
static void test_suspend_when_broken(void **state)
{
        struct rig *r = rig_new();
        struct vql_stop stops[4];

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        rig_exchange(r, 0, 10);
        model_break(&r->model);
        assert_int_equal(ops()->suspend(&r->dev, RIG_TIMEOUT_MS, stops, &r->e), 0);
        assert_int_equal(stops[1].at.used, 10);
        rig_free(r);
}

static void test_host_interrupts(void **state)
{
        struct rig *r = rig_new();
        struct vql_event one;

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        fake_vfio_interrupt(r->fake_device, VFIO_PCI_REQ_IRQ_INDEX, 0);
        assert_true(rig_has_events(r));
        assert_int_equal(rig_events(r), 1u << VQL_EVENT_REMOVE);
        fake_vfio_interrupt(r->fake_device, VFIO_PCI_REQ_IRQ_INDEX, 0);
        assert_int_equal(rig_events(r), 0);
        fake_vfio_interrupt(r->fake_device, VFIO_PCI_ERR_IRQ_INDEX, 0);
        model_set_link(&r->model, false);
        /* One at a time: what does not fit is kept, and the fd says so. */
        assert_int_equal(ops()->events(&r->dev, &one, 1), 1);
        assert_int_equal(one.kind, VQL_EVENT_BROKEN);
        assert_int_equal(one.queue, VQL_NO_QUEUE);
        assert_true(rig_has_events(r));
        assert_int_equal(ops()->events(&r->dev, &one, 1), 1);
        assert_int_equal(one.kind, VQL_EVENT_CONFIG);
        assert_int_equal(ops()->events(&r->dev, &one, 1), 0);
        assert_false(rig_has_events(r));
        rig_free(r);
}

static void test_gone(void **state)
{
        struct rig *r = rig_new();
        struct vql_stop stop, stops[4];

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        r->model.faults.ones_from = 1;
        assert_int_equal(rig_vq_stop(r, 0, &stop), -ENODEV);
        assert_true(rig_has_events(r));
        assert_int_equal(rig_events(r), 1u << VQL_EVENT_GONE);
        assert_int_equal(rig_events(r), 0);
        assert_false(rig_has_events(r));
        assert_int_equal(ops()->suspend(&r->dev, RIG_TIMEOUT_MS, stops, &r->e), -ENODEV);
        assert_int_equal(rig_ctrl_pairs(r, 1), -ENODEV);
        assert_int_equal(ops()->reset(&r->dev, &r->e), -ENODEV);
        ops()->vq_kick(&r->dev, 0);
        rig_free(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_configuration),
                cmocka_unit_test(test_configuration_never_still),
                cmocka_unit_test(test_link),
                cmocka_unit_test(test_broken),
                cmocka_unit_test(test_suspend_when_broken),
                cmocka_unit_test(test_host_interrupts),
                cmocka_unit_test(test_gone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
