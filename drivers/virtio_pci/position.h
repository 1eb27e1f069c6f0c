/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRIVERS_VIRTIO_PCI_POSITION_H
#define DRIVERS_VIRTIO_PCI_POSITION_H

/*
 * Where a quiet ring stands, as its memory shows it: a virtio device does not tell (virtio 1.2 has
 * no register for it).  The memory may be a guest's, so it may hold anything.
 */

#include <stdbool.h>
#include <stdint.h>

#include "vqlift/driver.h"

/* Split: the used index.  `used` is the device area. */
void vql_vpci_position_split(const void *used, struct vql_position *ret_at);

/*
 * Packed: the slot behind the last used descriptor, of a ring whose buffers come back in order.
 * Returns false when the memory has two meanings: the buffer behind the last used descriptor bears
 * the same id, so it may be the rest of that descriptor's chain, or a new buffer whose id the
 * driver took again at once.  The position is then the earlier one.
 */
bool vql_vpci_position_packed(const void *ring, uint16_t size, struct vql_position *ret_at);

#endif
