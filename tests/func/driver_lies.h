/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_DRIVER_LIES_H
#define FUNC_DRIVER_LIES_H

/* Drivers that break the contract in one place each: the simulated NIC, and something between. */

#include <stdbool.h>
#include <stddef.h>

#include "vqlift/driver.h"

struct conf_lie {
        const char *check; /* that has to find it */
        const char *what;  /* it does wrong */
        const char *args;  /* of the device */
        const struct vql_driver *driver;
};

/* Lie number i, or false past the last.  One at a time: the driver is made for it. */
bool conf_lie_get(size_t i, struct conf_lie *ret_lie);

#endif
