/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "process.h"
#include "vfio/irq.h"
#include "vfio/pci.h"
#include "vfio/region.h"
#include "vfio_rig.h"

enum { BAR = VFIO_PCI_BAR0_REGION_INDEX, MSIX_BAR = VFIO_PCI_BAR4_REGION_INDEX, PAGE = 4096 };

#define UNTOUCHED ((void *)0x55)
#define TOKEN     "01234567-89ab-cdef-0123-456789abcdef"

static void test_open_and_close(void **state)
{
        struct rig *r = rig_new();
        uint16_t vendor = 0;

        (void)state;
        rig_open(r);
        assert_string_equal(vql_vfio_device_address(r->d), ADDRESS);
        assert_true(r->nic->open);
        assert_int_equal(vql_vfio_pci_read16(r->d, PCI_VENDOR_ID, &vendor), 0);
        assert_int_equal(vendor, 0x1af4);
        assert_false(vql_vfio_device_gone(r->d));
        rig_free(r);
}

/* Each kernel that cannot serve, and the sentence about it. */
struct refusal {
        void (*spoil)(struct rig *r);
        int err;
        const char *words;
};

static void spoil_driver(struct rig *r)
{
        fake_vfio_bind(r->nic, "virtio-pci");
}

static void spoil_group(struct rig *r)
{
        fake_vfio_put(&r->fake, "bus/pci/devices/" ADDRESS "/iommu_group", "no link");
}

static void spoil_iommu(struct rig *r)
{
        fake_vfio_put(&r->fake, "kernel/iommu_groups/42/name", "vfio-noiommu\n");
}

static void spoil_viable(struct rig *r)
{
        r->nic->viable = false;
        fake_vfio_put(&r->fake, "bus/pci/devices/0000:65:00.7/driver", "->../../drivers/ixgbe");
        fake_vfio_put(&r->fake, "kernel/iommu_groups/42/devices/0000:65:00.7", "->..");
}

static void spoil_api(struct rig *r)
{
        r->fake.api_version = 7;
}

static void spoil_type1(struct rig *r)
{
        r->fake.no_type1 = true;
}

static void spoil_token(struct rig *r)
{
        r->nic->token = TOKEN;
}

static void spoil_files(struct rig *r, int err)
{
        r->fake.fail_at = 2;
        r->fake.fail_errno = err;
}

static void spoil_permission(struct rig *r)
{
        spoil_files(r, EACCES);
}

static void spoil_busy(struct rig *r)
{
        r->nic->group_open = true;
}

static void spoil_limit(struct rig *r)
{
        spoil_files(r, EMFILE);
}

static void spoil_interrupts(struct rig *r)
{
        r->fake.fail_at = 1;
        r->fake.fail_request = VFIO_SET_IOMMU;
        r->fake.fail_errno = EPERM;
}

static void spoil_config(struct rig *r)
{
        r->nic->regions[VFIO_PCI_CONFIG_REGION_INDEX].size = 0;
}

static const struct refusal refusals[] = {
        { spoil_driver, ENODEV, "\"virtio-pci\", expected vfio-pci: driverctl set-override " },
        { spoil_group, ENODEV, "no IOMMU group: switch the IOMMU on" },
        { spoil_iommu, ENOTSUP, "boot with the IOMMU on" },
        { spoil_viable, EBUSY,
          "1 more functions that the host uses: driverctl set-override 0000:" },
        { spoil_api, ENOTSUP, "API version 7, expected 0" },
        { spoil_type1, ENOTSUP, "modprobe vfio_iommu_type1" },
        { spoil_token, EACCES, "has set a VF token, and none was given" },
        { spoil_permission, EACCES, "/42 may not be opened by this user" },
        { spoil_busy, EBUSY, "/42 is in use: by another process, or" },
        { spoil_limit, EMFILE, "raise LimitNOFILE" },
        { spoil_interrupts, EPERM, "interrupt remapping" },
        { spoil_config, ENOENT, "has no region 7" },
};

static void test_refuses(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                struct vql_vfio_device *d = UNTOUCHED;
                struct rig *r = rig_new();

                refusals[i].spoil(r);
                refused(r, vql_vfio_device_open(r->vfio, ADDRESS, NULL, &d, &r->e), refusals[i].err,
                        refusals[i].words);
                assert_ptr_equal(d, UNTOUCHED);
                if (refusals[i].spoil == spoil_busy)
                        r->nic->group_open = false;
                rig_free(r);
        }
}

static void test_refuses_addresses_and_tokens(void **state)
{
        static const char *const bad[] = { "",           "65:00",      "0000:65:00.8",
                                           "65:20.0",    "65:00.2x",   "0000:65:00.2 ",
                                           "../65:00.2", "000065:00.2" };
        struct vql_vfio_device *d = UNTOUCHED;
        struct rig *r = rig_new();

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                refused(r, vql_vfio_device_open(r->vfio, bad[i], NULL, &d, &r->e), EINVAL,
                        "is not a PCI address, expected");
        refused(r, vql_vfio_device_open(r->vfio, "66:00.2", NULL, &d, &r->e), ENODEV,
                "no PCI function 0000:66:00.2");
        refused(r, vql_vfio_device_open(r->vfio, ADDRESS, "short", &d, &r->e), EINVAL, "UUID");
        r->nic->token = TOKEN;
        must(r, vql_vfio_device_open(r->vfio, "65:00.2", TOKEN, &r->d, &r->e));
        rig_free(r);
}

/* Whatever call fails, nothing remains, and the next attempt is as good as the first. */
static void test_takes_back_at_every_failure(void **state)
{
        size_t fds = process_count_fds();
        int ret = -1;

        (void)state;
        for (unsigned int n = 1; ret < 0; n++) {
                struct rig *r = rig_new();

                fake_vfio_region(r->nic, BAR, PAGE);
                r->fake.fail_at = n;
                ret = vql_vfio_device_open(r->vfio, ADDRESS, NULL, &r->d, &r->e);
                assert_true(ret == 0 || r->e.text[0]);
                if (ret == 0)
                        assert_true(n > 10);
                r->fake.fail_at = 0;
                if (ret < 0)
                        rig_open(r);
                rig_free(r);
        }
        assert_int_equal(process_count_fds(), fds);
}

static void check_widths(struct vql_vfio_region *b)
{
        vql_vfio_write32(b, 0, 0x04030201);
        assert_int_equal(vql_vfio_read8(b, 0), 1);
        assert_int_equal(vql_vfio_read16(b, 2), 0x0403);
        vql_vfio_write8(b, 1, 0xaa);
        vql_vfio_write16(b, 2, 0xbbcc);
        assert_int_equal(vql_vfio_read32(b, 0), 0xbbccaa01);
        /* Outside and across: ones, and no effect. */
        assert_int_equal(vql_vfio_read32(b, 2), UINT32_MAX);
        assert_int_equal(vql_vfio_read32(b, vql_vfio_region_size(b)), UINT32_MAX);
        assert_int_equal(vql_vfio_read16(b, UINT64_MAX), UINT16_MAX);
        vql_vfio_write32(b, vql_vfio_region_size(b), 0);
        vql_vfio_write16(b, 1, 0);
        assert_int_equal(vql_vfio_read32(b, 0), 0xbbccaa01);
}

static void test_registers(void **state)
{
        (void)state;
        for (int mappable = 0; mappable < 2; mappable++) {
                struct rig *r = rig_new();
                struct vql_vfio_region *b = NULL, *again = NULL;

                fake_vfio_region(r->nic, BAR, 2 * PAGE);
                r->nic->regions[BAR].mappable = mappable;
                rig_open(r);
                must(r, vql_vfio_device_region(r->d, BAR, &b, &r->e));
                must(r, vql_vfio_device_region(r->d, BAR, &again, &r->e));
                assert_ptr_equal(b, again);
                assert_int_equal(r->fake.n_mmaps, mappable);
                assert_int_equal(vql_vfio_region_mapped(b, 0, 2 * PAGE), mappable);
                assert_false(vql_vfio_region_mapped(b, 1, 2 * PAGE));
                assert_false(vql_vfio_region_mapped(b, 0, 0));
                check_widths(b);
                assert_false(vql_vfio_device_gone(r->d));
                refused(r, vql_vfio_device_region(r->d, 1, &b, &r->e), ENOENT, "no region 1");
                refused(r, vql_vfio_device_region(r->d, 9, &b, &r->e), EINVAL, "expected 0 to 8");
                rig_free(r);
        }
}

/* The page of the MSI-X table is left out unless the kernel allows it; its registers work. */
static void test_maps_around_msix(void **state)
{
        (void)state;
        for (int allowed = 0; allowed < 2; allowed++) {
                struct rig *r = rig_new();
                struct vql_vfio_region *b = NULL;

                fake_vfio_region(r->nic, MSIX_BAR, 4 * PAGE);
                r->nic->regions[MSIX_BAR].msix_mappable = allowed;
                rig_open(r);
                must(r, vql_vfio_device_region(r->d, MSIX_BAR, &b, &r->e));
                assert_int_equal(r->fake.n_mmaps, allowed ? 1 : 2);
                assert_true(vql_vfio_region_mapped(b, 0, 2 * PAGE));
                assert_int_equal(vql_vfio_region_mapped(b, 2 * PAGE, PAGE), allowed);
                assert_true(vql_vfio_region_mapped(b, 3 * PAGE, PAGE));
                vql_vfio_write32(b, 2 * PAGE + 8, 77);
                assert_int_equal(vql_vfio_read32(b, 2 * PAGE + 8), 77);
                rig_free(r);
        }
}

static void test_maps_sparse_areas(void **state)
{
        struct rig *r = rig_new();
        struct fake_vfio_region *bar = &r->nic->regions[BAR];
        struct vql_vfio_region *b = NULL;

        (void)state;
        fake_vfio_region(r->nic, BAR, 8 * PAGE);
        bar->n_areas = 3;
        bar->areas[0] = (struct vfio_region_sparse_mmap_area){ PAGE, PAGE };
        bar->areas[1] = (struct vfio_region_sparse_mmap_area){ 4 * PAGE, 2 * PAGE };
        bar->areas[2] = (struct vfio_region_sparse_mmap_area){ 7 * PAGE, UINT64_MAX };
        rig_open(r);
        must(r, vql_vfio_device_region(r->d, BAR, &b, &r->e));
        assert_int_equal(r->fake.n_mmaps, 2);
        assert_false(vql_vfio_region_mapped(b, 0, PAGE));
        assert_true(vql_vfio_region_mapped(b, PAGE, PAGE));
        assert_true(vql_vfio_region_mapped(b, 4 * PAGE, 2 * PAGE));
        for (uint64_t page = 0; page < 8; page++)
                vql_vfio_write32(b, page * PAGE, (uint32_t)page);
        for (uint64_t page = 0; page < 8; page++)
                assert_int_equal(vql_vfio_read32(b, page * PAGE), page);
        rig_free(r);
}

/* What cannot be mapped after all is read and written. */
static void test_does_without_mapping(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_region *b = NULL;

        (void)state;
        fake_vfio_region(r->nic, BAR, PAGE / 2);
        rig_open(r);
        must(r, vql_vfio_device_region(r->d, BAR, &b, &r->e));
        assert_int_equal(r->fake.n_mmaps, 0);
        check_widths(b);
        rig_free(r);
}

static bool readable(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        return poll(&p, 1, 0) == 1;
}

static void check_gone(struct rig *r, struct vql_vfio_region *b)
{
        uint16_t value = 0x5555;

        assert_true(vql_vfio_device_gone(r->d));
        assert_true(readable(vql_vfio_device_gone_fd(r->d)));
        assert_int_equal(vql_vfio_read8(b, 0), UINT8_MAX);
        assert_int_equal(vql_vfio_read32(b, 0), UINT32_MAX);
        vql_vfio_write32(b, 0, 1);
        assert_int_equal(vql_vfio_pci_read16(r->d, 0, &value), -ENODEV);
        assert_int_equal(value, 0x5555);
        refused(r, vql_vfio_device_check(r->d, &r->e), ENODEV, "does not answer");
        refused(r, vql_vfio_device_reset(r->d, &r->e), ENODEV, "");
}

/* The driver sees ones where none can be, asks, and then all is gone. */
static void test_is_gone_by_ones(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_region *b = NULL;

        (void)state;
        fake_vfio_region(r->nic, BAR, PAGE);
        r->nic->regions[BAR].mappable = false;
        rig_open(r);
        must(r, vql_vfio_device_region(r->d, BAR, &b, &r->e));
        vql_vfio_write32(b, 0, UINT32_MAX);
        assert_int_equal(vql_vfio_read32(b, 0), UINT32_MAX);
        assert_int_equal(vql_vfio_device_check(r->d, &r->e), 0);

        fake_vfio_remove(r->nic);
        assert_int_equal(vql_vfio_read32(b, 0), UINT32_MAX);
        assert_false(vql_vfio_device_gone(r->d));
        refused(r, vql_vfio_device_check(r->d, &r->e), ENODEV, ADDRESS " is gone");
        check_gone(r, b);
        rig_free(r);
}

static void test_is_gone_by_error(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_region *b = NULL;

        (void)state;
        fake_vfio_region(r->nic, BAR, PAGE);
        r->nic->regions[BAR].mappable = false;
        rig_open(r);
        must(r, vql_vfio_device_region(r->d, BAR, &b, &r->e));
        r->fake.fail_at = 1;
        assert_int_equal(vql_vfio_read32(b, 0), UINT32_MAX);
        check_gone(r, b);
        rig_free(r);
}

static void test_is_gone_by_sigbus(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_region *b = NULL;

        (void)state;
        process_guard_sigbus();
        fake_vfio_region(r->nic, BAR, 2 * PAGE);
        rig_open(r);
        must(r, vql_vfio_device_region(r->d, BAR, &b, &r->e));
        assert_int_equal(vql_vfio_read32(b, 4), 0);
        fake_vfio_remove(r->nic);
        assert_false(readable(vql_vfio_device_gone_fd(r->d)));
        assert_int_equal(vql_vfio_read32(b, 4), UINT32_MAX);
        check_gone(r, b);
        rig_free(r);
}

static void test_reset(void **state)
{
        struct rig *r = rig_new();
        uint16_t command = 0;

        (void)state;
        rig_open(r);
        must(r, vql_vfio_pci_command(r->d, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 0, &r->e));
        assert_true(vql_vfio_device_can_reset(r->d));
        must(r, vql_vfio_device_reset(r->d, &r->e));
        assert_int_equal(r->nic->resets, 1);
        assert_int_equal(vql_vfio_pci_read16(r->d, PCI_COMMAND, &command), 0);
        assert_int_equal(command, PCI_COMMAND_MEMORY);
        vql_vfio_device_close(r->d);

        r->nic->can_reset = false;
        rig_open(r);
        assert_false(vql_vfio_device_can_reset(r->d));
        refused(r, vql_vfio_device_reset(r->d, &r->e), ENOTSUP, "cannot be reset");
        rig_free(r);
}

/* Bus mastering ends before anything else does. */
static void test_close_silences(void **state)
{
        struct rig *r = rig_new();
        int fd = -1;

        (void)state;
        rig_open(r);
        must(r, vql_vfio_pci_command(r->d, PCI_COMMAND_MASTER, 0, &r->e));
        must(r, vql_vfio_irq_enable(r->d, VFIO_PCI_MSIX_IRQ_INDEX, &fd, 1, &r->e));
        vql_vfio_device_close(r->d);
        r->d = NULL;
        assert_int_equal(r->nic->config[4] & PCI_COMMAND_MASTER, 0);
        assert_int_equal(r->nic->enabled[VFIO_PCI_MSIX_IRQ_INDEX], 0);
        rig_free(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_open_and_close),
                cmocka_unit_test(test_refuses),
                cmocka_unit_test(test_refuses_addresses_and_tokens),
                cmocka_unit_test(test_takes_back_at_every_failure),
                cmocka_unit_test(test_registers),
                cmocka_unit_test(test_maps_around_msix),
                cmocka_unit_test(test_maps_sparse_areas),
                cmocka_unit_test(test_does_without_mapping),
                cmocka_unit_test(test_is_gone_by_ones),
                cmocka_unit_test(test_is_gone_by_error),
                cmocka_unit_test(test_is_gone_by_sigbus),
                cmocka_unit_test(test_reset),
                cmocka_unit_test(test_close_silences),
        };

        process_guard_sigbus();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
