/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_PCI_H
#define VQLIFT_VFIO_PCI_H

/* Configuration space of a device.  Names of registers and bits are those of linux/pci_regs.h. */

#include <stdint.h>

#include <linux/pci_regs.h>

#include "base/error.h"
#include "vfio/device.h"

/* Natural width, aligned.  -EINVAL outside; -ENODEV gone. */
int vql_vfio_pci_read8(struct vql_vfio_device *d, uint32_t at, uint8_t *ret_value);
int vql_vfio_pci_read16(struct vql_vfio_device *d, uint32_t at, uint16_t *ret_value);
int vql_vfio_pci_read32(struct vql_vfio_device *d, uint32_t at, uint32_t *ret_value);
int vql_vfio_pci_write8(struct vql_vfio_device *d, uint32_t at, uint8_t value);
int vql_vfio_pci_write16(struct vql_vfio_device *d, uint32_t at, uint16_t value);
int vql_vfio_pci_write32(struct vql_vfio_device *d, uint32_t at, uint32_t value);

/*
 * Set and clear bits of the command register (PCI_COMMAND_MEMORY, PCI_COMMAND_MASTER ...), and see
 * that they are.  -EIO the function does not take them; -ENODEV.
 */
int vql_vfio_pci_command(struct vql_vfio_device *d, uint16_t set, uint16_t clear,
                         struct vql_error *e);

/*
 * The next capability with this id (PCI_CAP_ID_VNDR ...) behind the one at `after`, or the first
 * with after 0.  Whatever the list looks like, it is walked in at most 48 steps inside the first
 * 256 bytes.  -ENOENT there is none; -EBADMSG the list leads out of bounds or in a circle; -ENODEV.
 */
int vql_vfio_pci_capability(struct vql_vfio_device *d, uint8_t id, uint8_t after, uint8_t *ret_at,
                            struct vql_error *e);

struct vql_vfio_msix {
        uint16_t vectors;
        uint8_t table_bar, pba_bar;
        uint32_t table_at, pba_at; /* offsets in their BARs */
};

/* -ENOENT the function has no MSI-X; -EBADMSG nonsense; -ENODEV. */
int vql_vfio_pci_msix(struct vql_vfio_device *d, struct vql_vfio_msix *ret_msix,
                      struct vql_error *e);

#endif
