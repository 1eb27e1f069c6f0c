/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of steps (virtio 1.2, 3.1.1), and each failure at each step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_pci.h>

#include "base/bits.h"
#include "virtio_pci_rig.h"

enum { STATUS = VIRTIO_PCI_COMMON_STATUS, RING_RESET = 40, MANY = 4000 };

/* ---- order ---- */

/* One write, in words: what a test says of it and what the model saw must be the same. */
static void say_write(const struct model_write *w, char *text, size_t n)
{
        static const char *const names[0x40] = {
                [VIRTIO_PCI_COMMON_STATUS] = "status",   [VIRTIO_PCI_COMMON_MSIX] = "config vector",
                [VIRTIO_PCI_COMMON_Q_SIZE] = "size",     [VIRTIO_PCI_COMMON_Q_MSIX] = "vector",
                [VIRTIO_PCI_COMMON_Q_ENABLE] = "enable", [VIRTIO_PCI_COMMON_Q_DESCLO] = "desc",
                [VIRTIO_PCI_COMMON_Q_AVAILLO] = "avail", [VIRTIO_PCI_COMMON_Q_USEDLO] = "used",
                [VIRTIO_PCI_COMMON_GF] = "features",
        };

        text[0] = '\0';
        if (!names[w->field])
                return;
        if (w->field == STATUS)
                snprintf(text, n, "status %u;", (unsigned int)w->value);
        else if (w->field < VIRTIO_PCI_COMMON_Q_SELECT)
                snprintf(text, n, "%s;", names[w->field]);
        else
                snprintf(text, n, "%s %u;", names[w->field], w->queue);
}

static void say_trace(const struct model *m, char *text, size_t n)
{
        text[0] = '\0';
        for (size_t i = 0; i < m->n_trace; i++) {
                size_t used = strlen(text);

                say_write(&m->trace[i], text + used, n - used);
        }
}

static void test_order_of_steps(void **state)
{
        static const char expected[] =
                "status 0;status 1;status 3;features;features;features;features;status 11;"
                "config vector;"
                "size 0;vector 0;desc 0;avail 0;used 0;enable 0;"
                "size 1;vector 1;desc 1;avail 1;used 1;enable 1;"
                "size 2;vector 2;desc 2;avail 2;used 2;enable 2;"
                "status 15;";
        struct rig *r = rig_new();
        char text[4096];

        (void)state;
        r->model.pairs = 1;
        r->model.n_queues = 3;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_map(r), 0);
        r->model.n_trace = 0;
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_vq_start(r, 0, 64), 0);
        assert_int_equal(rig_vq_start(r, 1, 64), 0);
        assert_int_equal(rig_start(r), 0);
        say_trace(&r->model, text, sizeof(text));
        assert_string_equal(text, expected);
        rig_free(r);
}

static void test_agreed_features(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_negotiate(r, vql_bit(VIRTIO_F_VERSION_1)), 0);
        assert_int_equal(model_agreed(&r->model),
                         vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_F_ACCESS_PLATFORM) |
                                 vql_bit(RING_RESET) | vql_bit(VIRTIO_NET_F_CTRL_VQ) |
                                 vql_bit(VIRTIO_NET_F_CTRL_RX) | vql_bit(VIRTIO_NET_F_MQ) |
                                 vql_bit(VIRTIO_NET_F_CTRL_MAC_ADDR) |
                                 vql_bit(VIRTIO_NET_F_STATUS));
        rig_free(r);
}

static void test_features_refused(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_negotiate(r, vql_bit(VIRTIO_NET_F_MRG_RXBUF)), -EINVAL);
        assert_int_equal(
                rig_negotiate(r, vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_NET_F_HOST_TSO4)),
                -EINVAL);
        r->model.faults.refuses_features = true;
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), -EINVAL);
        assert_int_equal(r->model.status, 0);
        /* It is in RESET, so it may be asked for less. */
        r->model.faults.refuses_features = false;
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        rig_free(r);
}

static void test_reset_and_again(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        for (int i = 0; i < 3; i++) {
                r->model.faults.reset_reads = 3;
                assert_int_equal(r->dev.driver->ops.reset(&r->dev, &r->e), 0);
                assert_int_equal(r->model.status, 0);
                assert_int_equal(rig_negotiate(r, rig_features(r, i % 2)), 0);
                assert_int_equal(rig_vq_start(r, 0, 16), 0);
                assert_int_equal(rig_vq_start(r, 1, 16), 0);
                assert_int_equal(rig_start(r), 0);
                rig_exchange(r, 0, 40);
        }
        rig_free(r);
}

/* A register that nobody answers: then the function itself is reset. */
static void test_reset_of_the_function(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, "reset-timeout-ms=4"), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        r->model.flrs = 0;
        r->model.faults.reset_reads = UINT32_MAX;
        assert_int_equal(r->dev.driver->ops.reset(&r->dev, &r->e), 0);
        assert_int_equal(r->model.flrs, 1);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_vq_start(r, 0, 16), 0);
        assert_int_equal(rig_vq_start(r, 1, 16), 0);
        assert_int_equal(rig_start(r), 0);
        rig_exchange(r, 0, 10);
        rig_free(r);
}

static void test_reset_never_ends(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, "reset-timeout-ms=4"), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        r->model.faults.reset_reads = UINT32_MAX;
        r->model.faults.resists_flr = true;
        assert_int_equal(r->dev.driver->ops.reset(&r->dev, &r->e), -EIO);
        assert_true(r->e.text[0]);
        rig_free(r);
}

static void test_start_needs_the_device(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_vq_start(r, 0, 64), 0);
        model_break(&r->model);
        assert_int_equal(rig_start(r), -EIO);
        assert_non_null(strstr(r->e.text, "needs a reset"));
        assert_int_equal(rig_events(r), 1u << VQL_EVENT_BROKEN);
        assert_int_equal(r->dev.driver->ops.reset(&r->dev, &r->e), 0);
        rig_free(r);
}

static void test_suspend(void **state)
{
        struct vql_stop stops[4];
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_run(r, false, 2), 0);
        rig_exchange(r, 0, 10);
        r->model.faults.reset_reads = 3;
        assert_int_equal(r->dev.driver->ops.suspend(&r->dev, RIG_TIMEOUT_MS, stops, &r->e), 0);
        for (int q = 0; q < 2; q++) {
                struct fe_position at = fe_driver_position(r->ring[q]);

                assert_true(stops[q].stopped);
                assert_int_equal(stops[q].at.used, at.used);
                assert_int_equal(stops[q].at.avail, at.used);
                assert_int_equal(stops[q].quality, VQL_STOP_REPEAT);
        }
        assert_false(stops[2].stopped || stops[3].stopped);
        /* It agreed to the same as before, and runs again. */
        assert_true(r->model.status & VIRTIO_CONFIG_S_FEATURES_OK);
        assert_int_equal(rig_vq_restart(r, 0), 0);
        assert_int_equal(rig_vq_restart(r, 1), 0);
        assert_int_equal(rig_start(r), 0);
        rig_exchange(r, 0, 10);
        rig_free(r);
}

static void test_suspend_takes_too_long(void **state)
{
        struct vql_stop stops[4];
        struct rig *r = rig_new();

        (void)state;
        memset(stops, 0x55, sizeof(stops));
        assert_int_equal(rig_open(r, "reset-timeout-ms=4"), 0);
        assert_int_equal(rig_map(r), 0);
        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
        assert_int_equal(rig_vq_start(r, 0, 64), 0);
        assert_int_equal(rig_start(r), 0);
        r->model.faults.reset_reads = UINT32_MAX;
        assert_int_equal(r->dev.driver->ops.suspend(&r->dev, 2, stops, &r->e), -ETIMEDOUT);
        assert_int_equal(stops[0].quality, 0x55555555);
        rig_free(r);
}

/* ---- a failure at each access ---- */

/* One life with a bit of everything; the first error ends it. */
static int live(struct rig *r, bool packed)
{
        const struct vql_dev_ops *ops = &vql_driver_virtio_pci.ops;
        struct vql_stop stop, stops[4];
        uint8_t mac[6];
        int ret = rig_run(r, packed, 2);

        if (!ret)
                ret = rig_ctrl_pairs(r, 2);
        if (!ret)
                ret = rig_vq_start(r, 3, 32);
        if (!ret)
                ret = ops->cfg_read(&r->dev, 0, mac, sizeof(mac));
        if (!ret)
                ret = rig_vq_stop(r, 1, &stop);
        if (!ret)
                ret = rig_vq_start(r, 1, 32);
        if (!ret)
                ret = ops->suspend(&r->dev, RIG_TIMEOUT_MS, stops, &r->e);
        if (!ret)
                ret = rig_start(r);
        if (!ret)
                ret = ops->reset(&r->dev, &r->e);
        return ret;
}

static uint64_t accesses_of_a_life(bool packed)
{
        struct rig *r = rig_new();
        uint64_t n;

        assert_int_equal(live(r, packed), 0);
        n = r->model.accesses;
        rig_free(r);
        return n;
}

/* From some access on there is nothing there: the life ends with -ENODEV, never in success, and
 * everything is released. */
static void check_ones(bool packed)
{
        uint64_t n = accesses_of_a_life(packed);

        assert_true(n > 100 && n < MANY);
        for (uint64_t from = 1; from <= n; from++) {
                struct rig *r = rig_new();
                int ret;

                r->model.faults.ones_from = from;
                ret = live(r, packed);
                if (ret != -ENODEV || !r->e.text[0])
                        fail_msg("ones from access %u of %u: %d \"%s\"", (unsigned int)from,
                                 (unsigned int)n, ret, r->e.text);
                if (r->open)
                        assert_true(rig_events(r) & 1u << VQL_EVENT_GONE);
                rig_free(r);
        }
}

static void test_ones_from_each_access_split(void **state)
{
        (void)state;
        check_ones(false);
}

static void test_ones_from_each_access_packed(void **state)
{
        (void)state;
        check_ones(true);
}

/* At some access the device breaks.  Either the step at hand fails with -EIO, or, if it was the
 * last look, the next; a reset makes it whole. */
static void test_needs_reset_at_each_access(void **state)
{
        uint64_t n = accesses_of_a_life(false);

        (void)state;
        for (uint64_t at = 1; at <= n; at++) {
                struct rig *r = rig_new();
                int ret;

                r->model.faults.needs_reset_from = at;
                ret = live(r, false);
                if (ret != 0 && ret != -EIO)
                        fail_msg("broken at access %u of %u: %d \"%s\"", (unsigned int)at,
                                 (unsigned int)n, ret, r->e.text);
                r->model.faults.needs_reset_from = 0;
                if (r->open) {
                        if (ret)
                                assert_true(rig_events(r) & 1u << VQL_EVENT_BROKEN);
                        assert_int_equal(r->dev.driver->ops.reset(&r->dev, &r->e), 0);
                        assert_false(rig_events(r) & 1u << VQL_EVENT_BROKEN);
                        assert_int_equal(rig_negotiate(r, rig_features(r, false)), 0);
                }
                rig_free(r);
        }
}

/* Every call to the kernel fails once: open gives an error and leaves nothing. */
static void test_each_system_call_fails(void **state)
{
        unsigned int failed = 0;
        bool over = false;

        (void)state;
        for (unsigned int call = 1; !over; call++) {
                struct rig *r = rig_new();
                int ret;

                r->fake.fail_at = call;
                r->fake.fail_errno = ENOMEM;
                ret = live(r, false);
                failed += ret != 0;
                if (ret > 0 || (ret && !r->e.text[0]))
                        fail_msg("call %u fails: %d \"%s\"", call, ret, r->e.text);
                over = r->fake.fail_at != 0;
                r->fake.fail_at = 0;
                rig_free(r);
        }
        assert_true(failed > 20);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order_of_steps),
                cmocka_unit_test(test_agreed_features),
                cmocka_unit_test(test_features_refused),
                cmocka_unit_test(test_reset_and_again),
                cmocka_unit_test(test_reset_of_the_function),
                cmocka_unit_test(test_reset_never_ends),
                cmocka_unit_test(test_start_needs_the_device),
                cmocka_unit_test(test_suspend),
                cmocka_unit_test(test_suspend_takes_too_long),
                cmocka_unit_test(test_ones_from_each_access_split),
                cmocka_unit_test(test_ones_from_each_access_packed),
                cmocka_unit_test(test_needs_reset_at_each_access),
                cmocka_unit_test(test_each_system_call_fails),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
