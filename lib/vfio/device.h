/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_DEVICE_H
#define VQLIFT_VFIO_DEVICE_H

/*
 * A PCI function that is ours through vfio-pci.
 *
 * Threads: the caller serialises all calls for one device, except those on an open region
 * (region.h) and vql_vfio_device_gone(), which come from any thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "vfio/region.h"
#include "vfio/vfio.h"

struct vql_vfio_device;

/*
 * Open the function at `address` ("0000:65:00.2"), in a container of its own unless its group has
 * one already.  `vf_token` is the UUID that the owner of the physical function has set, or NULL.
 * The kernel has reset the function (if it can) and memory decoding and bus mastering are off: see
 * vql_vfio_pci_command().  The device remembers neither string.
 *
 * -EINVAL not a PCI address; -ENODEV no such function, not bound to a vfio driver, or no IOMMU
 * group; -ENOENT no /dev/vfio; -EACCES; -EBUSY the group is in use by another process or not
 * viable; -ENOTSUP a kernel without type 1, or a group without IOMMU; -errno of the kernel.  The
 * sentence says what to do.
 */
int vql_vfio_device_open(struct vql_vfio *v, const char *address, const char *vf_token,
                         struct vql_vfio_device **ret_device, struct vql_error *e);
/* Interrupts off, regions closed, maps removed, and the kernel resets the function.  NULL is fine;
 * everything that came from the device is invalid afterwards. */
void vql_vfio_device_close(struct vql_vfio_device *d);

/* Function level reset: what was set up in the function is gone, maps stay; interrupts should be
 * disabled before.  -ENOTSUP the function has none; -ENODEV gone; -errno. */
int vql_vfio_device_reset(struct vql_vfio_device *d, struct vql_error *e);
bool vql_vfio_device_can_reset(const struct vql_vfio_device *d);

/*
 * Is the function not there any more?  Once gone it stays so, and from then on all registers read
 * as ones and writes go nowhere.  It becomes so by a SIGBUS on a mapped register, an access that
 * the kernel fails, or one of the next two.
 */
bool vql_vfio_device_gone(const struct vql_vfio_device *d);
void vql_vfio_device_set_gone(struct vql_vfio_device *d);
/* To be called when a register reads as ones and should not: looks at the configuration space.
 * 0 it is there, -ENODEV it is gone. */
int vql_vfio_device_check(struct vql_vfio_device *d, struct vql_error *e);
/* An eventfd, the device's: readable once it is gone.  Not every loss is noticed by itself. */
int vql_vfio_device_gone_fd(const struct vql_vfio_device *d);

/* Borrowed: to be handed over with vql_vfio_region.offset + an offset for a doorbell page.  Changes
 * when vql_vfio_dma_settle() moves the device. */
int vql_vfio_device_fd(const struct vql_vfio_device *d);
const char *vql_vfio_device_address(const struct vql_vfio_device *d);

/*
 * Region `index` (VFIO_PCI_BAR0_REGION_INDEX ...) of the device, opened and mapped when first asked
 * for; it lives as long as the device.  Configuration space has vfio/pci.h.
 * -ENOENT the function has no such region (size 0); -EINVAL no such index; -errno.
 */
int vql_vfio_device_region(struct vql_vfio_device *d, uint32_t index,
                           struct vql_vfio_region **ret_region, struct vql_error *e);

#endif
