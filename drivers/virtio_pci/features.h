/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRIVERS_VIRTIO_PCI_FEATURES_H
#define DRIVERS_VIRTIO_PCI_FEATURES_H

#include <stdint.h>

/* Of what a device offers, what may be offered on: without bits of the transport, without what has
 * no meaning to us, and without features whose parents are missing (virtio 1.2, 5.1.3.1). */
uint64_t vql_vpci_features_usable(uint64_t offered);

/* Of what a device offers, what the driver agrees to by itself whatever the guest wants: bits of
 * the transport, and those of the control queue, which the guest does not see. */
uint64_t vql_vpci_features_own(uint64_t offered);

#endif
