/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_IRQ_H
#define VQLIFT_VFIO_IRQ_H

/*
 * Interrupts of a device as eventfds: of `index` VFIO_PCI_MSIX_IRQ_INDEX (one a vector),
 * VFIO_PCI_ERR_IRQ_INDEX (the bus reports an error) or VFIO_PCI_REQ_IRQ_INDEX (the host wants the
 * device back).  Eventfds are borrowed until they are replaced or disabled; close them after that.
 */

#include <stdint.h>

#include "base/error.h"
#include "vfio/device.h"

/* Vectors of this index; 0: none, or a kernel that does not know the index. */
uint32_t vql_vfio_irq_count(struct vql_vfio_device *d, uint32_t index);

/*
 * Enable vectors 0 .. n - 1 at once; fds[i] is -1 for one that stays silent until
 * vql_vfio_irq_set().  Before Linux 6.4 the number is fixed from here to disable, so take all that
 * will ever be needed.  -ENOTSUP the device has no such interrupt; -EINVAL n is 0 or more than it
 * has; -EALREADY it is enabled; -ENOSPC fewer can be had on this host; -errno.
 */
int vql_vfio_irq_enable(struct vql_vfio_device *d, uint32_t index, const int *fds, uint32_t n,
                        struct vql_error *e);
/*
 * From now on vector `vector` (of those enabled) signals fd, or nothing if fd is -1.  An edge may
 * be lost meanwhile: signal the consumer once afterwards.  -EINVAL not enabled; -errno.
 */
int vql_vfio_irq_set(struct vql_vfio_device *d, uint32_t index, uint32_t vector, int fd,
                     struct vql_error *e);
/* No eventfd is used any more.  Fine if it was not enabled. */
void vql_vfio_irq_disable(struct vql_vfio_device *d, uint32_t index);

#endif
