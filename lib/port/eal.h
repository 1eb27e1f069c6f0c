/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_EAL_H
#define VQLIFT_PORT_EAL_H

/* DPDK's environment: started once a process, kept away from devices that are not ours. */

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"

struct vql_eal_params {
        const char *const *pci; /* allowed PCI addresses; none: the PCI bus is not scanned */
        unsigned int n_pci;
        unsigned int memory_mb;
        bool no_huge;
        const struct vql_log *log; /* lives as long as the process */
};

/*
 * Start it, or find it started by the application.  The calling thread keeps its CPU affinity.
 * -EALREADY it was tried before and failed; -errno as DPDK says.
 */
int vql_eal_start(const struct vql_eal_params *params, struct vql_error *e);

#endif
