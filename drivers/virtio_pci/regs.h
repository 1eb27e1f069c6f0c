/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRIVERS_VIRTIO_PCI_REGISTERS_H
#define DRIVERS_VIRTIO_PCI_REGISTERS_H

/*
 * Access to the common configuration, each field in its width (virtio 1.2, 4.1.3.1).  Fields of
 * queues are behind queue_select: the caller of a driver serialises all operations that use it.
 */

#include "drivers/virtio_pci/virtio_pci.h"

static inline uint8_t vpci_get8(struct vql_vpci *v, enum vpci_common field)
{
        return vql_vfio_read8(v->windows[VPCI_COMMON].region, v->windows[VPCI_COMMON].at + field);
}

static inline uint16_t vpci_get16(struct vql_vpci *v, enum vpci_common field)
{
        return vql_vfio_read16(v->windows[VPCI_COMMON].region, v->windows[VPCI_COMMON].at + field);
}

static inline uint32_t vpci_get32(struct vql_vpci *v, enum vpci_common field)
{
        return vql_vfio_read32(v->windows[VPCI_COMMON].region, v->windows[VPCI_COMMON].at + field);
}

static inline void vpci_put8(struct vql_vpci *v, enum vpci_common field, uint8_t value)
{
        vql_vfio_write8(v->windows[VPCI_COMMON].region, v->windows[VPCI_COMMON].at + field, value);
}

static inline void vpci_put16(struct vql_vpci *v, enum vpci_common field, uint16_t value)
{
        vql_vfio_write16(v->windows[VPCI_COMMON].region, v->windows[VPCI_COMMON].at + field, value);
}

static inline void vpci_put32(struct vql_vpci *v, enum vpci_common field, uint32_t value)
{
        vql_vfio_write32(v->windows[VPCI_COMMON].region, v->windows[VPCI_COMMON].at + field, value);
}

/* 64-bit fields are written as two halves (4.1.3.1). */
static inline void vpci_put64(struct vql_vpci *v, enum vpci_common field, uint64_t value)
{
        vpci_put32(v, field, (uint32_t)value);
        vpci_put32(v, (enum vpci_common)(field + 4), (uint32_t)(value >> 32));
}

#endif
