/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_MACHINE_H
#define VQLIFT_BENCH_MACHINE_H

/* What a run is made on: CPUs, packet buffers, and what to say about them beside the results. */

#include <stdbool.h>

struct rte_mempool;

struct machine {
        struct rte_mempool *pool;
        int cpu, guest_cpu;  /* of the back-ends, which this thread is pinned to; -1: no other */
        bool huge;           /* packet buffers lie in huge pages */
        char model[80];      /* of the CPU */
        char rte_vhost[256]; /* file of DPDK's vhost library */
        char dpdk[64];       /* its version */
};

/* Start DPDK, once a process.  -errno, with a line on stderr. */
int machine_start(const char *program, struct machine *ret_machine);
void machine_stop(struct machine *m);

#endif
