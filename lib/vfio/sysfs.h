/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_SYSFS_H
#define VQLIFT_VFIO_SYSFS_H

/* What the host says about a PCI function.  `sysfs` is "/sys", or where a test has put its own. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { VQL_PCI_ADDRESS_BYTES = 16, VQL_PCI_NAME_BYTES = 32 };

struct vql_pci_info {
        char address[VQL_PCI_ADDRESS_BYTES]; /* "0000:65:00.2" */
        uint16_t vendor, device, subsystem_vendor, subsystem_device;
        uint32_t class_code; /* 24 bits */
        uint8_t revision;
        char driver[VQL_PCI_NAME_BYTES];    /* "" if none is bound */
        int iommu_group;                    /* -1: none */
        bool no_iommu;                      /* the group is one that VFIO pretends */
        int numa_node;                      /* -1: unknown */
        int vfs;                            /* virtual functions that are enabled */
        char physfn[VQL_PCI_ADDRESS_BYTES]; /* "" if this is not a virtual function */
};

/* Full and short ("65:00.2") addresses to the full, lower case one; -EINVAL. */
int vql_pci_address(const char *text, char ret_address[VQL_PCI_ADDRESS_BYTES]);

/* -EINVAL not an address; -ENODEV no such function; -errno. */
int vql_pci_info(const char *sysfs, const char *address, struct vql_pci_info *ret_info,
                 struct vql_error *e);

/* Call `each` for all functions in order of their addresses until it returns other than 0; that or
 * 0, or -errno. */
int vql_pci_each(const char *sysfs, int (*each)(void *arg, const struct vql_pci_info *info),
                 void *arg, struct vql_error *e);

/* Other functions of the same group that keep it from being viable, that is bound to drivers that
 * are not VFIO's: the number, and the first `n` of their addresses. */
int vql_pci_group_strangers(const char *sysfs, int group,
                            char (*ret_addresses)[VQL_PCI_ADDRESS_BYTES], size_t n);

/* Is this the name of vfio-pci or one of its variants? */
bool vql_pci_driver_is_vfio(const char *driver);

#endif
