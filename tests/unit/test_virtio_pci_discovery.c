/* SPDX-License-Identifier: BSD-3-Clause */
/* What the driver makes of a function before it uses it: identity, capabilities, abilities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include <linux/pci_regs.h>
#include <linux/virtio_pci.h>

#include "base/bits.h"
#include "drivers/virtio_pci/args.h"
#include "drivers/virtio_pci/features.h"
#include "virtio_pci_rig.h"
#include "virtqueue/features.h"

enum { RING_RESET = 40 };

static void put16(uint8_t *at, uint16_t v)
{
        memcpy(at, &v, sizeof(v));
}

static void put32(uint8_t *at, uint32_t v)
{
        memcpy(at, &v, sizeof(v));
}

/* ---- arguments ---- */

static void test_arguments(void **state)
{
        struct vql_vpci_args a;

        (void)state;
        assert_int_equal(vql_vpci_args_parse(NULL, &a, NULL), 0);
        assert_int_equal(a.in_order, 1);
        assert_int_equal(a.reset_timeout_ms, 10000);
        assert_int_equal(vql_vpci_args_parse("in-order=0,reset-timeout-ms=7", &a, NULL), 0);
        assert_int_equal(a.in_order, 0);
        assert_int_equal(a.reset_timeout_ms, 7);
        assert_int_equal(vql_vpci_args_parse("allow-no-access-platform", &a, NULL), 0);
        assert_int_equal(a.allow_no_access_platform, 1);
        assert_int_equal(
                vql_vpci_args_parse("vf-token=01234567-89ab-cdef-0123-456789abcdef", &a, NULL), 0);
        assert_string_equal(a.vf_token, "01234567-89ab-cdef-0123-456789abcdef");
}

static void test_bad_arguments(void **state)
{
        static const char *const bad[] = {
                "in-order=2",
                "in-order=",
                "in-order=1x",
                "in-orde=1",
                "reset-timeout-ms=0",
                "reset-timeout-ms=-1",
                "vf-token=x",
                "reset-timeout-ms=10001",
                "=1",
                "in-order=1,,x",
        };
        struct vql_vpci_args a = { .in_order = 77 };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct vql_error e = { "" };

                assert_int_equal(vql_vpci_args_parse(bad[i], &a, &e), -EINVAL);
                assert_true(e.text[0]);
                assert_int_equal(a.in_order, 77);
        }
}

/* ---- features ---- */

static void test_features_without_parents(void **state)
{
        const uint64_t tso = vql_bit(VIRTIO_NET_F_HOST_TSO4), csum = vql_bit(VIRTIO_NET_F_CSUM);
        const uint64_t ecn = vql_bit(VIRTIO_NET_F_HOST_ECN), mq = vql_bit(VIRTIO_NET_F_MQ);
        const uint64_t ctrl = vql_bit(VIRTIO_NET_F_CTRL_VQ);

        (void)state;
        assert_int_equal(vql_vpci_features_usable(tso | ecn), 0);
        assert_int_equal(vql_vpci_features_usable(tso | ecn | csum), tso | ecn | csum);
        assert_int_equal(vql_vpci_features_usable(ecn | csum), csum);
        assert_int_equal(vql_vpci_features_usable(mq), 0);
        assert_int_equal(vql_vpci_features_usable(mq | ctrl), mq | ctrl);
        assert_int_equal(vql_vpci_features_own(mq), 0);
        assert_int_equal(vql_vpci_features_own(mq | ctrl | csum), mq | ctrl);
}

static void test_features_never_offered_on(void **state)
{
        static const unsigned int bits[] = { 24, 26, 27, 30, 33, 37, 38, 39, 40, 41, 43, 62 };

        (void)state;
        for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
                assert_false(vql_has(vql_vpci_features_usable(UINT64_MAX), bits[i]));
}

/* ---- the function ---- */

static void test_caps(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(r->caps.queues, 4);
        assert_int_equal(r->caps.queue_size, 64);
        assert_int_equal(r->caps.flags, VQL_DEV_LIVE | VQL_DEV_LATE | VQL_DEV_IN_ORDER |
                                                VQL_DEV_PACKED | VQL_DEV_CTRL | VQL_DEV_IRQ_ANYFD);
        assert_true(vql_has(r->caps.features, VIRTIO_F_VERSION_1));
        assert_true(vql_has(r->caps.features, VIRTIO_NET_F_MRG_RXBUF));
        assert_false(vql_has(r->caps.features, VIRTIO_F_ACCESS_PLATFORM));
        assert_true(r->caps.page_size >= 4096);
        assert_true(r->caps.n_ranges > 0);
        rig_free(r);
}

static void test_abilities_follow_features(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        r->model.features &= ~(vql_bit(RING_RESET) | vql_bit(VIRTIO_NET_F_CTRL_VQ) |
                               vql_bit(VIRTIO_F_RING_PACKED));
        assert_int_equal(rig_open(r, "in-order=0"), 0);
        assert_int_equal(r->caps.flags, VQL_DEV_IRQ_ANYFD);
        assert_int_equal(r->caps.queues, 2);
        assert_false(vql_has(r->caps.features, VIRTIO_NET_F_MQ));
        rig_free(r);
}

static void test_in_order_offered(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        r->model.features |= vql_bit(VIRTIO_F_IN_ORDER);
        assert_int_equal(rig_open(r, "in-order=0"), 0);
        assert_true(r->caps.flags & VQL_DEV_IN_ORDER);
        rig_free(r);
}

/* A field that the structure is too short for makes its feature void. */
static void test_short_common_has_no_ring_reset(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        put32(model_cap(&r->model, VIRTIO_PCI_CAP_COMMON_CFG) + 12, 0x38);
        assert_int_equal(rig_open(r, NULL), 0);
        assert_false(r->caps.flags & VQL_DEV_LIVE);
        rig_free(r);
}

static void test_sizes_are_made_usable(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        r->model.max_size = 100;
        assert_int_equal(rig_open(r, NULL), 0);
        assert_int_equal(r->caps.queue_size, 64);
        rig_free(r);
}

/* ---- what is refused ---- */

struct refusal {
        const char *what, *args;
        void (*bend)(struct model *m);
        int ret;
        const char *says;
};

static void bend_vendor(struct model *m)
{
        put16(m->pci + PCI_VENDOR_ID, 0x8086);
}

static void bend_device(struct model *m)
{
        put16(m->pci + PCI_DEVICE_ID, 0x1042);
}

static void bend_intel(struct model *m)
{
        put16(m->pci + PCI_SUBSYSTEM_VENDOR_ID, 0x8086);
}

static void bend_no_list(struct model *m)
{
        put16(m->pci + PCI_STATUS, 0);
}

static void bend_loop(struct model *m)
{
        uint8_t *c = model_cap(m, VIRTIO_PCI_CAP_COMMON_CFG);

        c[1] = (uint8_t)(c - m->pci);
}

static void bend_short(struct model *m)
{
        model_cap(m, VIRTIO_PCI_CAP_COMMON_CFG)[2] = 15;
}

static void bend_notify_short(struct model *m)
{
        model_cap(m, VIRTIO_PCI_CAP_NOTIFY_CFG)[2] = 16;
}

static void bend_bar(struct model *m)
{
        model_cap(m, VIRTIO_PCI_CAP_COMMON_CFG)[4] = 6;
}

static void bend_absent_bar(struct model *m)
{
        model_cap(m, VIRTIO_PCI_CAP_COMMON_CFG)[4] = 2;
}

static void bend_offset(struct model *m)
{
        put32(model_cap(m, VIRTIO_PCI_CAP_COMMON_CFG) + 8, MODEL_BAR_BYTES - 0x30);
}

static void bend_offset_wraps(struct model *m)
{
        put32(model_cap(m, VIRTIO_PCI_CAP_NOTIFY_CFG) + 8, 0xfffff000);
        put32(model_cap(m, VIRTIO_PCI_CAP_NOTIFY_CFG) + 12, 0x2000);
}

static void bend_align(struct model *m)
{
        put32(model_cap(m, VIRTIO_PCI_CAP_COMMON_CFG) + 8, 2);
}

static void bend_length(struct model *m)
{
        put32(model_cap(m, VIRTIO_PCI_CAP_COMMON_CFG) + 12, 0x37);
}

static void bend_no_notify(struct model *m)
{
        model_cap(m, VIRTIO_PCI_CAP_NOTIFY_CFG)[3] = 9;
}

static void bend_no_device(struct model *m)
{
        model_cap(m, VIRTIO_PCI_CAP_DEVICE_CFG)[3] = 77;
}

static void bend_legacy(struct model *m)
{
        m->features &= ~vql_bit(VIRTIO_F_VERSION_1);
}

static void bend_platform(struct model *m)
{
        m->features &= ~vql_bit(VIRTIO_F_ACCESS_PLATFORM);
}

static void bend_no_queues(struct model *m)
{
        m->n_queues = 0;
}

static void bend_no_control(struct model *m)
{
        m->n_queues = 4;
}

static void bend_no_pairs(struct model *m)
{
        m->pairs = 0;
}

static void bend_refuses(struct model *m)
{
        m->faults.refuses_features = true;
}

static void bend_no_reset(struct model *m)
{
        m->faults.reset_reads = UINT32_MAX;
        m->faults.resists_flr = true;
        m->status = 0xf;
}

static void bend_big_queue(struct model *m)
{
        m->max_size = 40000;
        for (size_t i = 0; i < MODEL_MAX_QUEUES; i++)
                m->queues[i].size = 40000;
}

static void test_refusals(void **state)
{
        static const struct refusal refusals[] = {
                { "vendor", NULL, bend_vendor, -ENODEV, "8086:1041" },
                { "block device", NULL, bend_device, -ENODEV, "1af4:1042" },
                { "Intel's own class", NULL, bend_intel, -ENODEV, "virtio network" },
                { "no capabilities", NULL, bend_no_list, -ENODEV, "common configuration" },
                { "circle", NULL, bend_loop, -ENODEV, "circle" },
                { "short capability", NULL, bend_short, -ENODEV, "common configuration" },
                { "no multiplier", NULL, bend_notify_short, -ENODEV, "notification" },
                { "BAR 6", NULL, bend_bar, -ENODEV, "common configuration" },
                { "BAR of size 0", NULL, bend_absent_bar, -ENODEV, "common configuration" },
                { "beyond the BAR", NULL, bend_offset, -ENODEV, "common configuration" },
                { "around 4 GiB", NULL, bend_offset_wraps, -ENODEV, "notification" },
                { "not aligned", NULL, bend_align, -ENODEV, "common configuration" },
                { "too short", NULL, bend_length, -ENODEV, "56 bytes" },
                { "no doorbells", NULL, bend_no_notify, -ENODEV, "notification" },
                { "no configuration", NULL, bend_no_device, -ENODEV, "device configuration" },
                { "legacy", NULL, bend_legacy, -ENOTSUP, "VERSION_1" },
                { "past the IOMMU", NULL, bend_platform, -ENOTSUP, "allow-no-access-platform" },
                { "no queues", NULL, bend_no_queues, -EIO, "expected a pair" },
                { "control queue missing", NULL, bend_no_control, -EIO, "CTRL_VQ" },
                { "no pairs", NULL, bend_no_pairs, -EIO, "0 queue pairs" },
                { "features refused", NULL, bend_refuses, -EINVAL, "does not want" },
                { "reset for ever", "reset-timeout-ms=2", bend_no_reset, -ETIMEDOUT, "reset" },
                { "queue too large", NULL, bend_big_queue, -EIO, "40000" },
                { "argument", "speed=11", NULL, -EINVAL, "speed" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                const struct refusal *f = &refusals[i];
                struct rig *r = rig_new();
                int ret;

                if (f->bend)
                        f->bend(&r->model);
                ret = rig_open(r, f->args);
                if (ret != f->ret || !strstr(r->e.text, f->says))
                        fail_msg("%s: %d \"%s\", expected %d and \"%s\"", f->what, ret, r->e.text,
                                 f->ret, f->says);
                rig_free(r);
        }
}

static void test_without_vfio(void **state)
{
        struct vql_dev d = { .driver = &vql_driver_virtio_pci, .address = RIG_ADDRESS };
        struct vql_error e = { "" };

        (void)state;
        assert_int_equal(vql_driver_virtio_pci.ops.open(&d, NULL, &e), -ENODEV);
        assert_non_null(strstr(e.text, "VFIO"));
}

static void test_platform_allowed(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        bend_platform(&r->model);
        assert_int_equal(rig_open(r, "allow-no-access-platform"), 0);
        rig_free(r);
}

static void test_transitional(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        put16(r->model.pci + PCI_DEVICE_ID, 0x1000);
        put16(r->model.pci + PCI_SUBSYSTEM_ID, 1);
        assert_int_equal(rig_open(r, NULL), 0);
        rig_close(r);
        put16(r->model.pci + PCI_SUBSYSTEM_ID, 2);
        assert_int_equal(rig_open(r, NULL), -ENODEV);
        rig_free(r);
}

/* The first instance that can be used counts, and a broken one before it does not hurt. */
static void test_several_instances(void **state)
{
        enum { EXTRA_AT = 0xc0 };
        struct rig *r = rig_new();
        uint8_t *common = model_cap(&r->model, VIRTIO_PCI_CAP_COMMON_CFG);
        uint8_t *extra = r->model.pci + EXTRA_AT;

        (void)state;
        memcpy(extra, common, 16);
        extra[1] = (uint8_t)(common - r->model.pci);
        put32(extra + 8, MODEL_BAR_BYTES);
        r->model.pci[PCI_CAPABILITY_LIST] = EXTRA_AT;
        assert_int_equal(rig_open(r, NULL), 0);
        rig_close(r);
        /* Good ones: the second is not looked at, or the model would note a read from there. */
        put32(extra + 8, 0);
        put32(common + 8, MODEL_ISR_AT);
        assert_int_equal(rig_open(r, NULL), 0);
        rig_free(r);
}

/* ---- vectors ---- */

static void test_vectors_run_short(void **state)
{
        (void)state;
        for (uint16_t table = 1; table <= 6; table++) {
                for (uint16_t taken = 1; taken <= table; taken++) {
                        struct rig *r = rig_new();

                        r->model.table = table;
                        r->model.faults.vectors = taken;
                        model_write_pci(&r->model);
                        r->fake_device->irqs[2] = table;
                        assert_int_equal(rig_open(r, NULL), 0);
                        rig_free(r);
                }
        }
}

static void test_no_vectors(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        r->fake_device->irqs[2] = 0;
        assert_int_equal(rig_open(r, NULL), -ENOTSUP);
        assert_non_null(strstr(r->e.text, "MSI-X"));
        rig_free(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_arguments),
                cmocka_unit_test(test_bad_arguments),
                cmocka_unit_test(test_features_without_parents),
                cmocka_unit_test(test_features_never_offered_on),
                cmocka_unit_test(test_caps),
                cmocka_unit_test(test_abilities_follow_features),
                cmocka_unit_test(test_in_order_offered),
                cmocka_unit_test(test_short_common_has_no_ring_reset),
                cmocka_unit_test(test_sizes_are_made_usable),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_without_vfio),
                cmocka_unit_test(test_platform_allowed),
                cmocka_unit_test(test_transitional),
                cmocka_unit_test(test_several_instances),
                cmocka_unit_test(test_vectors_run_short),
                cmocka_unit_test(test_no_vectors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
