/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/preflight.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#define MIB           (UINT64_C(1) << 20)
#define GUEST_ASSUMED (UINT64_C(1) << 30)

/* Findings so far. */
struct report {
        const struct vql_vfio_asker *who;
        struct vql_vfio_finding *findings;
        size_t n;
};

static struct vql_vfio_finding *found(struct report *r, enum vql_vfio_need need, const char *what,
                                      ...) __attribute__((format(printf, 3, 4)));

static struct vql_vfio_finding *found(struct report *r, enum vql_vfio_need need, const char *what,
                                      ...)
{
        struct vql_vfio_finding *f = &r->findings[r->n++];
        va_list args;

        f->need = need;
        f->optional = need == VQL_NEED_HUGEPAGES;
        va_start(args, what);
        vsnprintf(f->what, sizeof(f->what), what, args);
        va_end(args);
        return f;
}

static void mend(struct vql_vfio_finding *f, const char *command, ...)
        __attribute__((format(printf, 2, 3)));

static void mend(struct vql_vfio_finding *f, const char *command, ...)
{
        va_list args;

        va_start(args, command);
        vsnprintf(f->mend, sizeof(f->mend), command, args);
        va_end(args);
}

static bool exists(const struct report *r, const char *path_in_sysfs)
{
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%s", r->who->sysfs, path_in_sysfs);
        return access(path, F_OK) == 0;
}

static void check_module(struct report *r)
{
        if (exists(r, "bus/pci/drivers/vfio-pci"))
                return;
        mend(found(r, VQL_NEED_MODULE, "the kernel's vfio-pci is not loaded"), "modprobe vfio-pci");
}

/* Are there IOMMUs at all?  Then it is this function that is not behind one. */
static bool has_iommu(const struct report *r)
{
        char path[PATH_MAX];
        struct dirent *entry;
        bool any = false;
        DIR *dir;

        snprintf(path, sizeof(path), "%s/class/iommu", r->who->sysfs);
        dir = opendir(path);
        if (!dir)
                return false;
        while ((entry = readdir(dir)))
                any = any || entry->d_name[0] != '.';
        closedir(dir);
        return any;
}

static void check_iommu(struct report *r, const struct vql_pci_info *info)
{
        if (info->iommu_group >= 0 && !info->no_iommu)
                return;
        if (has_iommu(r))
                mend(found(r, VQL_NEED_IOMMU, "%s is not behind any of this host's IOMMUs",
                           info->address),
                     "put the card in another slot");
        else
                mend(found(r, VQL_NEED_IOMMU,
                           "%s has no IOMMU group: the IOMMU is off, and without it a guest could "
                           "make the device write anywhere",
                           info->address),
                     "switch on VT-d, AMD-Vi or SMMU in the firmware and boot with intel_iommu=on "
                     "iommu=pt (AMD: iommu=pt)");
}

static void check_driver(struct report *r, const struct vql_pci_info *info)
{
        struct vql_vfio_finding *f;

        if (vql_pci_driver_is_vfio(info->driver))
                return;
        if (info->driver[0])
                f = found(r, VQL_NEED_DRIVER, "%s is bound to %s, expected vfio-pci", info->address,
                          info->driver);
        else
                f = found(r, VQL_NEED_DRIVER, "%s is bound to no driver, expected vfio-pci",
                          info->address);
        mend(f, "driverctl set-override %s vfio-pci", info->address);
}

static void check_group(struct report *r, const struct vql_pci_info *info)
{
        char other[1][VQL_PCI_ADDRESS_BYTES] = { "" };
        int n;

        if (info->iommu_group < 0)
                return;
        n = vql_pci_group_strangers(r->who->sysfs, info->iommu_group, other, 1);
        /* The function itself is one as long as it is not bound to vfio-pci. */
        n -= !vql_pci_driver_is_vfio(info->driver) && info->driver[0];
        if (n <= 0)
                return;
        mend(found(r, VQL_NEED_GROUP,
                   "IOMMU group %d has %d more function%s that the host uses, and cannot be given "
                   "away in part",
                   info->iommu_group, n, n == 1 ? "" : "s"),
             "for each function in %s/kernel/iommu_groups/%d/devices: driverctl set-override "
             "ADDRESS vfio-pci",
             r->who->sysfs, info->iommu_group);
}

static bool in_group(const struct vql_vfio_asker *who, gid_t gid)
{
        bool member = who->gid == gid;

        for (size_t i = 0; i < who->n_groups; i++)
                member = member || who->groups[i] == gid;
        return member;
}

/* Owner, else group, else others decide; access(2) would ask for the real user. */
static bool may_open(const struct vql_vfio_asker *who, const struct stat *st)
{
        mode_t both = S_IROTH | S_IWOTH;

        if (who->may_open_any)
                return true;
        if (who->uid == st->st_uid)
                both = S_IRUSR | S_IWUSR;
        else if (in_group(who, st->st_gid))
                both = S_IRGRP | S_IWGRP;
        return (st->st_mode & both) == both;
}

static void check_permission(struct report *r, const struct vql_pci_info *info)
{
        char path[PATH_MAX / 2];
        struct stat st;

        if (info->iommu_group < 0 || !vql_pci_driver_is_vfio(info->driver))
                return;
        snprintf(path, sizeof(path), "%s/%d", r->who->dev, info->iommu_group);
        if (stat(path, &st) < 0)
                mend(found(r, VQL_NEED_PERMISSION,
                           "%.128s is not there although the function is bound to %s", path,
                           info->driver),
                     "udevadm trigger --subsystem-match=vfio; in a container, pass the file in");
        else if (!may_open(r->who, &st))
                mend(found(r, VQL_NEED_PERMISSION,
                           "%.128s belongs to %u:%u with mode %04o; user %u may not open it", path,
                           st.st_uid, st.st_gid, st.st_mode & 07777, r->who->uid),
                     "echo 'SUBSYSTEM==\"vfio\", GROUP=\"vqlift\", MODE=\"0660\"' > "
                     "/etc/udev/rules.d/60-vqlift.rules && udevadm control --reload && udevadm "
                     "trigger --subsystem-match=vfio");
}

static void check_memlock(struct report *r)
{
        const struct vql_vfio_asker *who = r->who;
        uint64_t wanted = who->guest_memory ? who->guest_memory : GUEST_ASSUMED;

        if (who->may_lock_any || who->memlock == UINT64_MAX || who->memlock >= wanted)
                return;
        mend(found(r, VQL_NEED_MEMLOCK,
                   "RLIMIT_MEMLOCK is %" PRIu64 " KiB, expected all of the guest's memory, %" PRIu64
                   " KiB%s",
                   who->memlock >> 10, wanted >> 10,
                   who->guest_memory ? "" : " for the smallest usual one"),
             "set LimitMEMLOCK=infinity by systemctl edit vqliftd, or now: prlimit --pid $(pidof "
             "vqliftd) --memlock=unlimited");
}

static uint64_t huge_pages(const struct report *r, const char *size)
{
        char path[PATH_MAX];
        uint64_t pages = 0;
        FILE *f;

        snprintf(path, sizeof(path), "%s/kernel/mm/hugepages/%s/nr_hugepages", r->who->sysfs, size);
        f = fopen(path, "re");
        if (!f)
                return 0;
        if (fscanf(f, "%" SCNu64, &pages) != 1)
                pages = 0;
        fclose(f);
        return pages;
}

static void check_hugepages(struct report *r)
{
        uint64_t wanted = r->who->guest_memory ? r->who->guest_memory : GUEST_ASSUMED;

        if (huge_pages(r, "hugepages-1048576kB") || huge_pages(r, "hugepages-2048kB") ||
            huge_pages(r, "hugepages-524288kB"))
                return;
        mend(found(r, VQL_NEED_HUGEPAGES,
                   "the host has no huge pages: mapping a guest's memory for the device takes "
                   "longer, and its IOMMU works harder"),
             "sysctl vm.nr_hugepages=%" PRIu64, (wanted + 2 * MIB - 1) / (2 * MIB));
}

size_t vql_vfio_preflight(const struct vql_vfio_asker *who, const char *address,
                          struct vql_vfio_finding ret_findings[VQL_NEEDS])
{
        struct report r = { who, ret_findings, 0 };
        struct vql_error e = { "" };
        struct vql_pci_info info;

        if (vql_pci_info(who->sysfs, address, &info, &e) < 0) {
                mend(found(&r, VQL_NEED_FUNCTION, "%s", e.text),
                     "see lspci -D; for a virtual function: echo N > "
                     "%s/bus/pci/devices/PF/sriov_numvfs",
                     who->sysfs);
                return r.n;
        }
        check_module(&r);
        check_iommu(&r, &info);
        check_driver(&r, &info);
        check_group(&r, &info);
        check_permission(&r, &info);
        check_memlock(&r);
        check_hugepages(&r);
        return r.n;
}

static uint64_t effective_capabilities(void)
{
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

        if (syscall(SYS_capget, &header, data) < 0)
                return 0;
        return data[0].effective | (uint64_t)data[1].effective << 32;
}

void vql_vfio_asker_self(struct vql_vfio_asker *ret_asker, gid_t *ret_groups, size_t n_groups)
{
        uint64_t capabilities = effective_capabilities();
        struct rlimit lock = { 0 };
        int n = getgroups(n_groups > INT_MAX ? INT_MAX : (int)n_groups, ret_groups);

        getrlimit(RLIMIT_MEMLOCK, &lock);
        *ret_asker = (struct vql_vfio_asker){
                .dev = "/dev/vfio",
                .sysfs = "/sys",
                .uid = geteuid(),
                .gid = getegid(),
                .groups = ret_groups,
                .n_groups = n > 0 ? (size_t)n : 0,
                .may_lock_any = capabilities >> CAP_IPC_LOCK & 1,
                .may_open_any = capabilities >> CAP_DAC_OVERRIDE & 1,
                .memlock = lock.rlim_cur == RLIM_INFINITY ? UINT64_MAX : lock.rlim_cur,
        };
}
