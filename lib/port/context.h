/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_CONTEXT_H
#define VQLIFT_PORT_CONTEXT_H

/* What struct vql is: workers, packet memory, ports.  One thread at a time calls in. */

#include "port/port.h"
#include "sw-fallback/worker.h"
#include "vqlift/vqlift.h"

struct vql {
        struct vql_log log;
        struct vql_error error; /* of the last call */
        char *state_dir;
        struct rte_mempool *pool, *indirect_pool;
        struct vql_worker **workers;
        int *worker_cpu;            /* -1: not pinned */
        unsigned int *worker_lanes; /* lanes promised to each, for the automatic choice */
        unsigned int n_workers;
        struct vql_vfio *vfio; /* what PCI devices share */
        struct vql_port **ports;
        size_t n_ports;
};

/* The port of that name, or NULL with the sentence set. */
struct vql_port *vql_context_port(struct vql *v, const char *name);

#endif
