/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_REGISTRY_H
#define VQLIFT_PORT_REGISTRY_H

/* The drivers of drivers/drivers.h, to be found by name or by what they could serve. */

#include <stddef.h>

#include "vqlift/driver.h"

/* Driver i, NULL past the last. */
const struct vql_driver *vql_registry_at(size_t i);
/* NULL: there is none of that name. */
const struct vql_driver *vql_registry_find(const char *name);
/* The first that could serve the device at this address, or NULL. */
const struct vql_driver *vql_registry_match(const char *address);

#endif
