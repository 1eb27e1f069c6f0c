/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "0000:65:00.2" or "65:00.2", hexadecimal but for the function. */
int vql_pci_address(const char *text, char ret_address[VQL_PCI_ADDRESS_BYTES])
{
        static const char *const forms[] = { "%4x:%2x:%2x.%1u%n", "%2x:%2x.%1u%n" };
        static const size_t lengths[] = { 12, 7 };
        static const char allowed[] = "0123456789abcdefABCDEF:.";
        unsigned int domain = 0, bus = 0, slot = 0, function = 8;
        int end = 0;

        if (text[strspn(text, allowed)] != '\0')
                return -EINVAL;
        if (strlen(text) == lengths[0])
                sscanf(text, forms[0], &domain, &bus, &slot, &function, &end);
        else if (strlen(text) == lengths[1])
                sscanf(text, forms[1], &bus, &slot, &function, &end);
        if ((size_t)end != strlen(text) || end == 0 || slot > 31 || function > 7)
                return -EINVAL;
        snprintf(ret_address, VQL_PCI_ADDRESS_BYTES, "%04x:%02x:%02x.%u", domain & 0xffff,
                 bus & 0xff, slot, function);
        return 0;
}

bool vql_pci_driver_is_vfio(const char *driver)
{
        return strstr(driver, "vfio") != NULL;
}

/* One line of a file, without its end; "" if it cannot be read. */
static void read_line(const char *path, char *ret_line, size_t n)
{
        FILE *f = fopen(path, "re");

        ret_line[0] = '\0';
        if (!f)
                return;
        if (fgets(ret_line, (int)n, f))
                ret_line[strcspn(ret_line, "\n")] = '\0';
        else
                ret_line[0] = '\0';
        fclose(f);
}

/* The files of one function. */
struct function {
        char path[PATH_MAX / 2];
};

static long read_number(const struct function *f, const char *name, int base, long otherwise)
{
        char path[PATH_MAX], line[32], *end;
        long value;

        snprintf(path, sizeof(path), "%s/%s", f->path, name);
        read_line(path, line, sizeof(line));
        value = strtol(line, &end, base);
        return end == line || *end ? otherwise : value;
}

/* The last part of what a link points at; "" if there is no such link, or it is too long. */
static void read_link(const struct function *f, const char *name, char *ret_name, size_t n)
{
        char path[PATH_MAX], target[PATH_MAX];
        const char *last;
        ssize_t len;

        ret_name[0] = '\0';
        snprintf(path, sizeof(path), "%s/%s", f->path, name);
        len = readlink(path, target, sizeof(target) - 1);
        if (len <= 0)
                return;
        target[len] = '\0';
        last = strrchr(target, '/');
        last = last ? last + 1 : target;
        if (strlen(last) < n)
                memcpy(ret_name, last, strlen(last) + 1);
}

static void read_group(const char *sysfs, const struct function *f, struct vql_pci_info *info)
{
        char number[VQL_PCI_NAME_BYTES], path[PATH_MAX], name[32], *end;
        long group;

        info->iommu_group = -1;
        read_link(f, "iommu_group", number, sizeof(number));
        group = strtol(number, &end, 10);
        if (end == number || *end || group < 0 || group > INT_MAX)
                return;
        info->iommu_group = (int)group;
        snprintf(path, sizeof(path), "%s/kernel/iommu_groups/%d/name", sysfs, info->iommu_group);
        read_line(path, name, sizeof(name));
        info->no_iommu = strcmp(name, "vfio-noiommu") == 0;
}

int vql_pci_info(const char *sysfs, const char *address, struct vql_pci_info *ret_info,
                 struct vql_error *e)
{
        struct vql_pci_info info = { .iommu_group = -1 };
        struct function f;

        if (vql_pci_address(address, info.address) < 0)
                return vql_fail(e, EINVAL, "\"%.64s\" is not a PCI address, expected 0000:65:00.2",
                                address);
        snprintf(f.path, sizeof(f.path), "%s/bus/pci/devices/%s", sysfs, info.address);
        if (access(f.path, F_OK) < 0)
                return vql_fail(e, ENODEV, "there is no PCI function %s on this host: lspci -D",
                                info.address);
        info.vendor = (uint16_t)read_number(&f, "vendor", 16, 0);
        info.device = (uint16_t)read_number(&f, "device", 16, 0);
        info.subsystem_vendor = (uint16_t)read_number(&f, "subsystem_vendor", 16, 0);
        info.subsystem_device = (uint16_t)read_number(&f, "subsystem_device", 16, 0);
        info.class_code = (uint32_t)read_number(&f, "class", 16, 0);
        info.revision = (uint8_t)read_number(&f, "revision", 16, 0);
        info.numa_node = (int)read_number(&f, "numa_node", 10, -1);
        info.vfs = (int)read_number(&f, "sriov_numvfs", 10, 0);
        read_link(&f, "driver", info.driver, sizeof(info.driver));
        read_link(&f, "physfn", info.physfn, sizeof(info.physfn));
        read_group(sysfs, &f, &info);
        *ret_info = info;
        return 0;
}

static int visible(const struct dirent *entry)
{
        return entry->d_name[0] != '.';
}

/* Names in a folder, in order; their number, or -errno. */
static int list(const char *path, struct dirent ***ret_names)
{
        int n = scandir(path, ret_names, visible, alphasort);

        return n < 0 ? -errno : n;
}

static void list_free(struct dirent **names, int n)
{
        for (int i = 0; i < n; i++)
                free(names[i]);
        free(names);
}

int vql_pci_each(const char *sysfs, int (*each)(void *arg, const struct vql_pci_info *info),
                 void *arg, struct vql_error *e)
{
        struct dirent **names = NULL;
        struct vql_pci_info info;
        char path[PATH_MAX];
        int ret = 0, n;

        snprintf(path, sizeof(path), "%s/bus/pci/devices", sysfs);
        n = list(path, &names);
        if (n < 0)
                return vql_fail(e, -n, "%s: %s", path, strerror(-n));
        for (int i = 0; i < n && ret == 0; i++)
                /* One that goes away meanwhile is none. */
                if (vql_pci_info(sysfs, names[i]->d_name, &info, NULL) == 0)
                        ret = each(arg, &info);
        list_free(names, n);
        return ret;
}

/* Those that the kernel lets beside VFIO's: they do no DMA of their own. */
static bool is_harmless(const char *driver)
{
        return !driver[0] || vql_pci_driver_is_vfio(driver) || strcmp(driver, "pcieport") == 0 ||
               strcmp(driver, "pci-stub") == 0;
}

int vql_pci_group_strangers(const char *sysfs, int group,
                            char (*ret_addresses)[VQL_PCI_ADDRESS_BYTES], size_t n)
{
        struct dirent **names = NULL;
        struct vql_pci_info info;
        char path[PATH_MAX];
        int strangers = 0, all;

        snprintf(path, sizeof(path), "%s/kernel/iommu_groups/%d/devices", sysfs, group);
        all = list(path, &names);
        for (int i = 0; i < all; i++) {
                if (vql_pci_info(sysfs, names[i]->d_name, &info, NULL) < 0 ||
                    is_harmless(info.driver))
                        continue;
                if ((size_t)strangers < n)
                        memcpy(ret_addresses[strangers], info.address, VQL_PCI_ADDRESS_BYTES);
                strangers++;
        }
        if (all >= 0)
                list_free(names, all);
        return strangers;
}
