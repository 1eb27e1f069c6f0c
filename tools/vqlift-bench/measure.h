/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_MEASURE_H
#define VQLIFT_BENCH_MEASURE_H

#include "vqlift-bench/rig.h"

/* Ticks of the time-stamp counter per packet: the median over all bursts of a back-end. */
struct measurement {
        double median[BACKENDS];
};

/*
 * Measure a cell: the back-ends take turns, `rounds` times each, after a warm-up at each turn, and
 * the first burst of each turn is compared byte by byte.  -EBADMSG if a back-end moved wrong bytes,
 * -EIO if it moved nothing, or what building the rig failed with.
 */
int measure_cell(const struct cell *cell, unsigned int rounds, struct rte_mempool *pool,
                 struct measurement *ret_measurement);

#endif
