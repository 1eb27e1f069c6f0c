/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_LANES_H
#define VQLIFT_BENCH_LANES_H

/*
 * A worker of the product with lanes as ports of one queue pair have them: one whose guest always
 * has packets to send, and others that nothing happens on.
 *
 * The busy guest's driver is called in the worker's thread, from where the worker asks for packets;
 * what that takes is not counted.  All else between two such calls is: the burst, the uplink, and
 * looking at the idle lanes.
 */

#include <stdbool.h>
#include <stddef.h>

#include "vqlift-bench/machine.h"

struct lanes;

struct lanes_params {
        const struct machine *machine;
        unsigned int idle; /* queues, an even number: each guest has one to it and one from it */
        bool packed;
};

/* -errno, with a line on stderr. */
int lanes_new(const struct lanes_params *params, struct lanes **ret_lanes);
void lanes_free(struct lanes *l); /* NULL is fine */

/* Give the idle lanes to the worker, and take them back. */
int lanes_attach_idle(struct lanes *l);
void lanes_detach_idle(struct lanes *l);

/* Ticks per packet, the median over many rounds of the worker.  -ETIMEDOUT. */
int lanes_measure(struct lanes *l, double *ret_ticks);

/* Bytes of memory that a queue takes which is attached and idle. */
double lanes_bytes_per_queue(const struct lanes *l);

#endif
