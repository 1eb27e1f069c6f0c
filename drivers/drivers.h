/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_DRIVERS_DRIVERS_H
#define VQLIFT_DRIVERS_DRIVERS_H

/*
 * The drivers that there are: driver NAME lives in the folder of that name and defines
 * vql_driver_NAME.  Where several could serve a device, the first one does.
 */

#include "vqlift/driver.h"

#define VQL_DRIVERS(X) X(sim) X(virtio_pci)

#define VQL_DRIVER_DECLARE(name) extern const struct vql_driver vql_driver_##name;
VQL_DRIVERS(VQL_DRIVER_DECLARE)
#undef VQL_DRIVER_DECLARE

#endif
