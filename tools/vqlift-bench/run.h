/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_RUN_H
#define VQLIFT_BENCH_RUN_H

/* All cells that were asked for, one after another. */

#include <stddef.h>

#include "vqlift-bench/cell.h"
#include "vqlift-bench/machine.h"
#include "vqlift-bench/measure.h"
#include "vqlift-bench/options.h"

struct result {
        struct cell cell;
        int rc; /* of measure_cell() */
        struct measurement m;
};

struct run {
        const struct options *options;
        struct machine machine;
        size_t n, room;
        struct result *results;
};

/* Measure.  A cell that fails has its rc in the list.  0, -ENOMEM, -ENODEV (mode pair, one CPU). */
int run_cells(const struct options *o, const struct machine *machine, struct run *ret_run);
void run_fini(struct run *run);

struct summary {
        double geomean, least; /* of the ratios; 0 without any */
        size_t cells;          /* that were measured */
        size_t failed;         /* that were not */
        size_t under;          /* whose ratio was below what was asked for */
};
struct summary run_summary(const struct run *run);

#endif
