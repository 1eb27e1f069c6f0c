/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_DEVICE_CHECK_H
#define VQLIFT_PORT_DEVICE_CHECK_H

/* What can be said about the values that go to a driver and come from it, without the device. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "vqlift/driver.h"

/* Are the abilities possible, and does the driver have the operations for them?  -EIO. */
int vql_device_check_caps(const struct vql_driver *driver, const struct vql_dev_caps *caps,
                          struct vql_error *e);
/* A ring and a position that a queue of such a device could have.  -EINVAL. */
int vql_device_check_ring(const struct vql_dev_caps *caps, const struct vql_dev_ring *ring,
                          const struct vql_position *at, struct vql_error *e);
/* Whole pages, which the device can address.  -EINVAL. */
int vql_device_check_map(const struct vql_dev_caps *caps, const struct vql_map *m,
                         struct vql_error *e);
/* Does a driver's answer name a place in the ring where a queue can stand?  -EIO. */
int vql_device_check_stop(const struct vql_dev_ring *ring, const struct vql_stop *stop,
                          struct vql_error *e);

#endif
