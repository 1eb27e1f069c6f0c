/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfio/preflight.h"
#include "vfio_rig.h"

#define GIB  (UINT64_C(1) << 30)
#define NODE "/42"

/* A host on which nothing is missing: an unprivileged daemon in the group of the device's file. */
struct host {
        struct rig *r;
        gid_t groups[2];
        struct vql_vfio_asker who;
        struct vql_vfio_finding findings[VQL_NEEDS];
        size_t n;
};

static void put_node(const struct host *h, mode_t mode)
{
        char path[128];
        FILE *f;

        mkdir(h->r->fake.dev, 0700);
        snprintf(path, sizeof(path), "%s" NODE, h->r->fake.dev);
        f = fopen(path, "we");
        assert_non_null(f);
        fclose(f);
        assert_int_equal(chmod(path, mode), 0);
}

static struct host *host_new(void)
{
        struct host *h = calloc(1, sizeof(*h));

        h->r = rig_new();
        h->groups[0] = getegid() + 5;
        h->groups[1] = getegid();
        h->who = (struct vql_vfio_asker){
                .dev = h->r->fake.dev,
                .sysfs = h->r->fake.sysfs,
                .uid = geteuid() + 1,
                .gid = getegid() + 1,
                .groups = h->groups,
                .n_groups = 2,
                .memlock = 8 * GIB,
                .guest_memory = 8 * GIB,
        };
        put_node(h, 0660);
        fake_vfio_put(&h->r->fake, "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
        fake_vfio_put(&h->r->fake, "class/iommu/dmar0", "");
        return h;
}

static void host_free(struct host *h)
{
        rig_free(h->r);
        free(h);
}

/* The only finding. */
static const struct vql_vfio_finding *only(struct host *h, enum vql_vfio_need need)
{
        h->n = vql_vfio_preflight(&h->who, ADDRESS, h->findings);
        for (size_t i = 0; i < h->n; i++)
                if (h->n > 1 || h->findings[i].need != need)
                        fail_msg("%zu of %zu: %s", i, h->n, h->findings[i].what);
        assert_int_equal(h->n, 1);
        return h->findings;
}

static void says(const struct vql_vfio_finding *f, const char *what, const char *mend)
{
        if (!strstr(f->what, what) || !strstr(f->mend, mend))
                fail_msg("\"%s\": \"%s\"", f->what, f->mend);
        assert_int_equal(f->optional, f->need == VQL_NEED_HUGEPAGES);
}

static void nothing(struct host *h)
{
        h->n = vql_vfio_preflight(&h->who, ADDRESS, h->findings);
        if (h->n)
                fail_msg("%s", h->findings[0].what);
}

static void test_nothing_missing(void **state)
{
        struct host *h = host_new();

        (void)state;
        nothing(h);
        host_free(h);
}

static void test_function(void **state)
{
        struct host *h = host_new();

        (void)state;
        assert_int_equal(vql_vfio_preflight(&h->who, "0000:99:00.0", h->findings), 1);
        assert_int_equal(h->findings[0].need, VQL_NEED_FUNCTION);
        says(h->findings, "no PCI function 0000:99:00.0", "sriov_numvfs");
        assert_int_equal(vql_vfio_preflight(&h->who, "eth0", h->findings), 1);
        says(h->findings, "\"eth0\" is not a PCI address", "lspci -D");
        host_free(h);
}

static void test_module(void **state)
{
        struct host *h = host_new();
        char path[128];

        (void)state;
        snprintf(path, sizeof(path), "%s/bus/pci/drivers/vfio-pci", h->r->fake.sysfs);
        assert_int_equal(rmdir(path), 0);
        says(only(h, VQL_NEED_MODULE), "vfio-pci is not loaded", "modprobe vfio-pci");
        host_free(h);
}

static void test_iommu(void **state)
{
        struct host *h = host_new();
        char path[128];

        (void)state;
        fake_vfio_put(&h->r->fake, "bus/pci/devices/" ADDRESS "/iommu_group", "no link");
        says(only(h, VQL_NEED_IOMMU), ADDRESS " is not behind any", "another slot");
        snprintf(path, sizeof(path), "%s/class/iommu/dmar0", h->r->fake.sysfs);
        assert_int_equal(unlink(path), 0);
        says(only(h, VQL_NEED_IOMMU), "the IOMMU is off", "intel_iommu=on");
        host_free(h);
}

static void test_no_iommu_mode(void **state)
{
        struct host *h = host_new();

        (void)state;
        fake_vfio_put(&h->r->fake, "kernel/iommu_groups/42/name", "vfio-noiommu\n");
        says(only(h, VQL_NEED_IOMMU), ADDRESS " is not behind", "slot");
        host_free(h);
}

static void test_driver(void **state)
{
        struct host *h = host_new();
        char path[128];

        (void)state;
        fake_vfio_bind(h->r->nic, "virtio-pci");
        says(only(h, VQL_NEED_DRIVER), "bound to virtio-pci, expected vfio-pci",
             "driverctl set-override " ADDRESS " vfio-pci");
        snprintf(path, sizeof(path), "%s/bus/pci/devices/" ADDRESS "/driver", h->r->fake.sysfs);
        assert_int_equal(unlink(path), 0);
        says(only(h, VQL_NEED_DRIVER), "bound to no driver", "driverctl");
        fake_vfio_bind(h->r->nic, "virtio_vfio_pci");
        nothing(h);
        host_free(h);
}

static void put_neighbour(struct host *h, const char *driver)
{
        char link[64];

        snprintf(link, sizeof(link), "->../../drivers/%s", driver);
        fake_vfio_put(&h->r->fake, "bus/pci/devices/0000:65:00.7/driver", link);
        fake_vfio_put(&h->r->fake, "kernel/iommu_groups/42/devices/0000:65:00.7", "->..");
}

static void test_group(void **state)
{
        struct host *h = host_new();

        (void)state;
        put_neighbour(h, "vfio-pci");
        nothing(h);
        put_neighbour(h, "pcieport");
        nothing(h);
        put_neighbour(h, "ixgbe");
        says(only(h, VQL_NEED_GROUP), "IOMMU group 42 has 1 more function that the host uses",
             "/kernel/iommu_groups/42/devices: driverctl set-override");
        fake_vfio_bind(h->r->nic, "virtio-pci");
        h->n = vql_vfio_preflight(&h->who, ADDRESS, h->findings);
        assert_int_equal(h->n, 2);
        says(&h->findings[1], "has 1 more function that", "");
        host_free(h);
}

static void test_permission(void **state)
{
        struct host *h = host_new();
        char path[128];

        (void)state;
        put_node(h, 0606); /* of its group, which may not, though others may */
        says(only(h, VQL_NEED_PERMISSION), NODE " belongs to", "udevadm control --reload");
        put_node(h, 0600);
        says(only(h, VQL_NEED_PERMISSION), "with mode 0600; user", "60-vqlift.rules");
        h->who.uid = geteuid();
        nothing(h);
        h->who.uid++;
        h->who.may_open_any = true;
        nothing(h);
        h->who.may_open_any = false;
        h->who.n_groups = 0;
        put_node(h, 0660);
        assert_int_equal(only(h, VQL_NEED_PERMISSION)->need, VQL_NEED_PERMISSION);
        put_node(h, 0666);
        nothing(h);
        snprintf(path, sizeof(path), "%s" NODE, h->r->fake.dev);
        assert_int_equal(unlink(path), 0);
        says(only(h, VQL_NEED_PERMISSION), NODE " is not there although", "udevadm trigger");
        host_free(h);
}

static void test_memlock(void **state)
{
        struct host *h = host_new();

        (void)state;
        h->who.memlock = 8192 << 10;
        says(only(h, VQL_NEED_MEMLOCK),
             "RLIMIT_MEMLOCK is 8192 KiB, expected all of the guest's memory, 8388608 KiB",
             "LimitMEMLOCK=infinity");
        h->who.guest_memory = 0;
        says(only(h, VQL_NEED_MEMLOCK), "1048576 KiB for the smallest", "prlimit");
        h->who.may_lock_any = true;
        nothing(h);
        h->who.may_lock_any = false;
        h->who.memlock = UINT64_MAX;
        nothing(h);
        host_free(h);
}

static void test_hugepages(void **state)
{
        struct host *h = host_new();

        (void)state;
        fake_vfio_put(&h->r->fake, "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
        says(only(h, VQL_NEED_HUGEPAGES), "no huge pages", "sysctl vm.nr_hugepages=4096");
        fake_vfio_put(&h->r->fake, "kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1\n");
        nothing(h);
        host_free(h);
}

/* Everything at once still fits. */
static void test_all_missing(void **state)
{
        struct host *h = host_new();

        (void)state;
        fake_vfio_put(&h->r->fake, "kernel/iommu_groups/42/name", "vfio-noiommu\n");
        put_neighbour(h, "ixgbe");
        put_node(h, 0);
        h->who.memlock = 0;
        h->who.sysfs = h->r->fake.sysfs;
        fake_vfio_put(&h->r->fake, "kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
        h->n = vql_vfio_preflight(&h->who, ADDRESS, h->findings);
        assert_int_equal(h->n, 5);
        for (size_t i = 0; i < h->n; i++)
                assert_true(h->findings[i].what[0] && h->findings[i].mend[0]);
        host_free(h);
}

static void test_self(void **state)
{
        struct vql_vfio_asker who = { 0 };
        gid_t groups[64];

        (void)state;
        vql_vfio_asker_self(&who, groups, 64);
        assert_int_equal(who.uid, geteuid());
        assert_string_equal(who.sysfs, "/sys");
        assert_int_equal(who.n_groups, getgroups(0, NULL));
}

static void test_addresses(void **state)
{
        char address[VQL_PCI_ADDRESS_BYTES] = "";

        (void)state;
        assert_int_equal(vql_pci_address("65:00.2", address), 0);
        assert_string_equal(address, "0000:65:00.2");
        assert_int_equal(vql_pci_address("ABCD:eF:1f.7", address), 0);
        assert_string_equal(address, "abcd:ef:1f.7");
        assert_int_equal(vql_pci_address("abcd:ef:1g.7", address), -EINVAL);
        assert_int_equal(vql_pci_address("abcd:ef:1f:7", address), -EINVAL);
        assert_string_equal(address, "abcd:ef:1f.7");
}

struct seen {
        char addresses[4][VQL_PCI_ADDRESS_BYTES];
        int n, stop_at;
};

static int see(void *arg, const struct vql_pci_info *info)
{
        struct seen *s = arg;

        memcpy(s->addresses[s->n++], info->address, VQL_PCI_ADDRESS_BYTES);
        return s->n == s->stop_at ? 7 : 0;
}

static void test_info(void **state)
{
        struct rig *r = rig_new();
        struct seen s = { .stop_at = 0 };
        struct vql_pci_info info;

        (void)state;
        fake_vfio_put(&r->fake, "bus/pci/devices/" ADDRESS "/physfn", "->../0000:65:00.0");
        fake_vfio_put(&r->fake, "bus/pci/devices/" ADDRESS "/numa_node", "1\n");
        fake_vfio_put(&r->fake, "bus/pci/devices/" ADDRESS "/sriov_numvfs", "8\n");
        fake_vfio_put(&r->fake, "bus/pci/devices/" ADDRESS "/subsystem_vendor", "0x15b3\n");
        must(r, vql_pci_info(r->fake.sysfs, "65:00.2", &info, &r->e));
        assert_int_equal(info.vendor, 0x1af4);
        assert_int_equal(info.device, 0x1041);
        assert_int_equal(info.subsystem_vendor, 0x15b3);
        assert_int_equal(info.subsystem_device, 0);
        assert_int_equal(info.class_code, 0x020000);
        assert_int_equal(info.revision, 1);
        assert_int_equal(info.iommu_group, 42);
        assert_false(info.no_iommu);
        assert_int_equal(info.numa_node, 1);
        assert_int_equal(info.vfs, 8);
        assert_string_equal(info.driver, "vfio-pci");
        assert_string_equal(info.physfn, "0000:65:00.0");
        must(r, vql_pci_info(r->fake.sysfs, OTHER_ADDRESS, &info, &r->e));
        assert_int_equal(info.numa_node, -1);
        assert_string_equal(info.physfn, "");

        must(r, vql_pci_each(r->fake.sysfs, see, &s, &r->e));
        assert_int_equal(s.n, 2);
        assert_string_equal(s.addresses[0], ADDRESS);
        assert_string_equal(s.addresses[1], OTHER_ADDRESS);
        s = (struct seen){ .stop_at = 1 };
        assert_int_equal(vql_pci_each(r->fake.sysfs, see, &s, &r->e), 7);
        refused(r, vql_pci_each("/nowhere", see, &s, &r->e), ENOENT, "/nowhere/bus/pci/devices");
        rig_free(r);
}

/* The real one: which file is this memory of? */
static void test_identify(void **state)
{
        int fd = memfd_create("vql-unit-identify", MFD_CLOEXEC);
        long page = sysconf(_SC_PAGESIZE);
        struct vql_vfio_file file = { 0 };
        struct stat st;
        uint8_t *va, *own;

        (void)state;
        assert_int_equal(ftruncate(fd, 8 * page), 0);
        assert_int_equal(fstat(fd, &st), 0);
        va = mmap(NULL, (size_t)(4 * page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 2 * page);
        own = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        assert_true(va != MAP_FAILED && own != MAP_FAILED);
        assert_int_equal(vql_vfio_linux.identify(NULL, va + page, (size_t)(2 * page), &file), 0);
        assert_int_equal(file.inode, st.st_ino);
        assert_int_equal(file.device, st.st_dev);
        assert_int_equal(file.offset, 3 * page);
        /* More than the mapping; memory that is not shared; none at all. */
        assert_int_equal(vql_vfio_linux.identify(NULL, va + page, (size_t)(1000 * page), &file), 0);
        assert_int_equal(file.inode, 0);
        assert_int_equal(vql_vfio_linux.identify(NULL, own, (size_t)page, &file), 0);
        assert_int_equal(file.inode, 0);
        assert_int_equal(vql_vfio_linux.identify(NULL, (void *)16, 1, &file), 0);
        assert_int_equal(file.inode, 0);
        munmap(va, (size_t)(4 * page));
        munmap(own, (size_t)page);
        close(fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing_missing), cmocka_unit_test(test_function),
                cmocka_unit_test(test_module),          cmocka_unit_test(test_iommu),
                cmocka_unit_test(test_no_iommu_mode),   cmocka_unit_test(test_driver),
                cmocka_unit_test(test_group),           cmocka_unit_test(test_permission),
                cmocka_unit_test(test_memlock),         cmocka_unit_test(test_hugepages),
                cmocka_unit_test(test_all_missing),     cmocka_unit_test(test_self),
                cmocka_unit_test(test_addresses),       cmocka_unit_test(test_info),
                cmocka_unit_test(test_identify),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
