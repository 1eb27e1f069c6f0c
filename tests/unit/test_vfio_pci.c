/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vfio/irq.h"
#include "vfio/pci.h"
#include "vfio_rig.h"

enum { MSIX = VFIO_PCI_MSIX_IRQ_INDEX, ERR = VFIO_PCI_ERR_IRQ_INDEX, REQ = VFIO_PCI_REQ_IRQ_INDEX };

static void test_configuration_space(void **state)
{
        struct rig *r = rig_new();
        uint8_t u8 = 0;
        uint16_t u16 = 0;
        uint32_t u32 = 0;

        (void)state;
        rig_open(r);
        assert_int_equal(vql_vfio_pci_read32(r->d, PCI_VENDOR_ID, &u32), 0);
        assert_int_equal(u32, 0x10411af4);
        assert_int_equal(vql_vfio_pci_read8(r->d, PCI_CAPABILITY_LIST, &u8), 0);
        assert_int_equal(u8, 0x40);
        assert_int_equal(vql_vfio_pci_write32(r->d, 0x80, 0x04030201), 0);
        assert_int_equal(vql_vfio_pci_write8(r->d, 0x80, 9), 0);
        assert_int_equal(vql_vfio_pci_write16(r->d, 0x82, 0x0807), 0);
        assert_int_equal(vql_vfio_pci_read32(r->d, 0x80, &u32), 0);
        assert_int_equal(u32, 0x08070209);
        assert_int_equal(vql_vfio_pci_read16(r->d, 0x81, &u16), -EINVAL);
        assert_int_equal(vql_vfio_pci_read32(r->d, 254, &u32), -EINVAL);
        assert_int_equal(vql_vfio_pci_read8(r->d, 256, &u8), -EINVAL);
        assert_int_equal(vql_vfio_pci_write32(r->d, UINT32_MAX - 3, 0), -EINVAL);
        rig_free(r);
}

static void test_command(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        rig_open(r);
        r->nic->config[5] = 0x01;
        must(r, vql_vfio_pci_command(r->d, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 0, &r->e));
        assert_int_equal(r->nic->config[4], 6);
        assert_int_equal(r->nic->config[5], 1);
        must(r, vql_vfio_pci_command(r->d, 0, PCI_COMMAND_MASTER, &r->e));
        assert_int_equal(r->nic->config[4], 2);
        rig_free(r);
}

static int stubborn_read(void *arg, uint32_t region, uint64_t at, void *ret_bytes, size_t n)
{
        (void)region;
        memcpy(ret_bytes, (uint8_t *)arg + at, n);
        return 0;
}

static int stubborn_write(void *arg, uint32_t region, uint64_t at, const void *bytes, size_t n)
{
        (void)arg;
        (void)region;
        (void)at;
        (void)bytes;
        (void)n;
        return 0;
}

static void test_command_refused(void **state)
{
        struct rig *r = rig_new();

        (void)state;
        rig_open(r);
        r->nic->read = stubborn_read;
        r->nic->write = stubborn_write;
        r->nic->arg = r->nic->config;
        refused(r, vql_vfio_pci_command(r->d, PCI_COMMAND_MASTER, 0, &r->e), EIO,
                "command register is 0 after writing 0x4");
        fake_vfio_remove(r->nic);
        refused(r, vql_vfio_pci_command(r->d, PCI_COMMAND_MASTER, 0, &r->e), ENODEV, "is gone");
        assert_true(vql_vfio_device_gone(r->d));
        rig_free(r);
}

static void test_capabilities(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_msix msix = { 0 };
        uint8_t at = 0;

        (void)state;
        rig_open(r);
        must(r, vql_vfio_pci_capability(r->d, PCI_CAP_ID_MSIX, 0, &at, &r->e));
        assert_int_equal(at, 0x50);
        refused(r, vql_vfio_pci_capability(r->d, PCI_CAP_ID_MSIX, at, &at, &r->e), ENOENT,
                "no further capability 0x11");
        refused(r, vql_vfio_pci_capability(r->d, PCI_CAP_ID_VNDR, 0, &at, &r->e), ENOENT,
                "has no capability 0x9");
        must(r, vql_vfio_pci_msix(r->d, &msix, &r->e));
        assert_int_equal(msix.vectors, 4);
        assert_int_equal(msix.table_bar, 4);
        assert_int_equal(msix.table_at, 0x2000);
        assert_int_equal(msix.pba_bar, 4);
        assert_int_equal(msix.pba_at, 0x3000);
        /* Two of one kind, one after the other. */
        r->nic->config[0x50] = r->nic->config[0x40] = PCI_CAP_ID_VNDR;
        must(r, vql_vfio_pci_capability(r->d, PCI_CAP_ID_VNDR, 0, &at, &r->e));
        assert_int_equal(at, 0x40);
        must(r, vql_vfio_pci_capability(r->d, PCI_CAP_ID_VNDR, at, &at, &r->e));
        assert_int_equal(at, 0x50);
        rig_free(r);
}

/* Lists as no device should have them. */
static void test_capabilities_malformed(void **state)
{
        static const struct {
                uint8_t where, value;
                int err;
                const char *words;
        } bad[] = {
                { 0x34, 0x04, EBADMSG, "capability at 0x4, expected behind the header" },
                { 0x41, 0x3c, EBADMSG, "capability at 0x3c" },
                { 0x51, 0x40, EBADMSG, "is a circle" },
                { 0x51, 0x50, EBADMSG, "is a circle" },
                { 0x51, 0xfc, ENOENT, "no capability" },
                { 0x06, 0x00, ENOENT, "no capability" },
                { 0x34, 0x00, ENOENT, "no capability" },
                { 0x34, 0x43, ENOENT, "no capability" }, /* the lowest bits mean nothing */
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct rig *r = rig_new();
                uint8_t at = 0x77;

                rig_open(r);
                r->nic->config[bad[i].where] = bad[i].value;
                refused(r, vql_vfio_pci_capability(r->d, PCI_CAP_ID_VNDR, 0, &at, &r->e),
                        bad[i].err, bad[i].words);
                assert_int_equal(at, 0x77);
                rig_free(r);
        }
}

static void test_msix_malformed(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_msix msix = { .vectors = 77 };

        (void)state;
        rig_open(r);
        r->nic->config[0x54] = 0x06;
        refused(r, vql_vfio_pci_msix(r->d, &msix, &r->e), EBADMSG, "BARs 6 and 4, expected 0 to 5");
        r->nic->config[0x34] = 0xf8;
        r->nic->config[0xf8] = PCI_CAP_ID_MSIX;
        refused(r, vql_vfio_pci_msix(r->d, &msix, &r->e), EBADMSG, "at 0xf8 ends outside");
        r->nic->config[0x34] = 0;
        refused(r, vql_vfio_pci_msix(r->d, &msix, &r->e), ENOENT, "no capability 0x11");
        assert_int_equal(msix.vectors, 77);
        rig_free(r);
}

static void test_capabilities_of_nothing(void **state)
{
        struct rig *r = rig_new();
        struct vql_vfio_msix msix = { 0 };
        int ret;

        (void)state;
        rig_open(r);
        fake_vfio_remove(r->nic);
        ret = vql_vfio_pci_msix(r->d, &msix, &r->e);
        assert_true(ret == -EBADMSG || ret == -ENODEV);
        rig_free(r);
}

static uint64_t signals(int fd)
{
        uint64_t n = 0;

        return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

struct fds {
        int fd[5];
};

static struct fds fds_new(void)
{
        struct fds f;

        for (size_t i = 0; i < 5; i++)
                f.fd[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return f;
}

static void fds_free(const struct fds *f)
{
        for (size_t i = 0; i < 5; i++)
                close(f->fd[i]);
}

static void test_interrupts(void **state)
{
        struct rig *r = rig_new();
        struct fds f = fds_new();
        const int start[] = { f.fd[0], -1, f.fd[2] };

        (void)state;
        rig_open(r);
        assert_int_equal(vql_vfio_irq_count(r->d, MSIX), 4);
        assert_int_equal(vql_vfio_irq_count(r->d, 99), 0);
        must(r, vql_vfio_irq_enable(r->d, MSIX, start, 3, &r->e));
        for (uint32_t v = 0; v < 4; v++)
                fake_vfio_interrupt(r->nic, MSIX, v);
        assert_int_equal(signals(f.fd[0]), 1);
        assert_int_equal(signals(f.fd[2]), 1);
        /* Another one, a hole filled, one silenced. */
        must(r, vql_vfio_irq_set(r->d, MSIX, 0, f.fd[3], &r->e));
        must(r, vql_vfio_irq_set(r->d, MSIX, 1, f.fd[4], &r->e));
        must(r, vql_vfio_irq_set(r->d, MSIX, 2, -1, &r->e));
        for (uint32_t v = 0; v < 3; v++)
                fake_vfio_interrupt(r->nic, MSIX, v);
        assert_int_equal(signals(f.fd[0]) + signals(f.fd[2]), 0);
        assert_int_equal(signals(f.fd[3]), 1);
        assert_int_equal(signals(f.fd[4]), 1);
        vql_vfio_irq_disable(r->d, MSIX);
        vql_vfio_irq_disable(r->d, MSIX);
        vql_vfio_irq_disable(r->d, 99);
        fake_vfio_interrupt(r->nic, MSIX, 0);
        assert_int_equal(signals(f.fd[3]), 0);
        must(r, vql_vfio_irq_enable(r->d, MSIX, f.fd, 4, &r->e));
        rig_free(r);
        fds_free(&f);
}

static void test_error_and_request(void **state)
{
        struct rig *r = rig_new();
        struct fds f = fds_new();

        (void)state;
        rig_open(r);
        must(r, vql_vfio_irq_enable(r->d, ERR, &f.fd[0], 1, &r->e));
        must(r, vql_vfio_irq_enable(r->d, REQ, &f.fd[1], 1, &r->e));
        fake_vfio_interrupt(r->nic, REQ, 0);
        assert_int_equal(signals(f.fd[0]), 0);
        assert_int_equal(signals(f.fd[1]), 1);
        fake_vfio_interrupt(r->nic, ERR, 0);
        assert_int_equal(signals(f.fd[0]), 1);
        vql_vfio_device_close(r->d);
        r->d = NULL;
        fake_vfio_interrupt(r->nic, ERR, 0);
        assert_int_equal(signals(f.fd[0]), 0);
        /* A virtual function need not have them. */
        r->nic->irqs[ERR] = 0;
        rig_open(r);
        refused(r, vql_vfio_irq_enable(r->d, ERR, &f.fd[0], 1, &r->e), ENOTSUP,
                "has no error interrupt");
        rig_free(r);
        fds_free(&f);
}

static void test_interrupts_refused(void **state)
{
        struct rig *r = rig_new();
        struct fds f = fds_new();

        (void)state;
        rig_open(r);
        refused(r, vql_vfio_irq_enable(r->d, MSIX, f.fd, 5, &r->e), EINVAL,
                "5 vectors of MSI-X, expected 1 to 4");
        refused(r, vql_vfio_irq_enable(r->d, MSIX, f.fd, 0, &r->e), EINVAL, "0 vectors");
        refused(r, vql_vfio_irq_enable(r->d, 99, f.fd, 1, &r->e), ENOTSUP, "no such interrupt");
        refused(r, vql_vfio_irq_set(r->d, MSIX, 0, f.fd[0], &r->e), EINVAL, "not enabled");
        r->nic->vectors_left = 2;
        refused(r, vql_vfio_irq_enable(r->d, MSIX, f.fd, 3, &r->e), ENOSPC,
                "3 vectors of MSI-X, but the host has only 2 left");
        must(r, vql_vfio_irq_enable(r->d, MSIX, f.fd, 2, &r->e));
        refused(r, vql_vfio_irq_enable(r->d, MSIX, f.fd, 2, &r->e), EALREADY, "are enabled");
        refused(r, vql_vfio_irq_set(r->d, MSIX, 2, f.fd[0], &r->e), EINVAL, "vector 2");
        r->fake.fail_at = 1;
        r->fake.fail_request = VFIO_DEVICE_SET_IRQS;
        refused(r, vql_vfio_irq_set(r->d, MSIX, 1, f.fd[0], &r->e), ENXIO,
                "VFIO_DEVICE_SET_IRQS, vector 1 of MSI-X");
        rig_free(r);
        fds_free(&f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_configuration_space),
                cmocka_unit_test(test_command),
                cmocka_unit_test(test_command_refused),
                cmocka_unit_test(test_capabilities),
                cmocka_unit_test(test_capabilities_malformed),
                cmocka_unit_test(test_msix_malformed),
                cmocka_unit_test(test_capabilities_of_nothing),
                cmocka_unit_test(test_interrupts),
                cmocka_unit_test(test_error_and_request),
                cmocka_unit_test(test_interrupts_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
