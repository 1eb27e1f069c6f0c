/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_MEASURE_H
#define VQLIFT_BENCH_MEASURE_H

#include "vqlift-bench/rig.h"
#include "vqlift-bench/sample.h"

/* Ticks of the time-stamp counter per packet. */
struct measurement {
        struct statistic of[CONTENDERS];
        bool far; /* mode pair: of two placements of the CPUs, the one with longer round trips */
};

/* How the others compare with vqlift: their ticks for each tick of it. */
double measurement_ratio(const struct measurement *m, enum contender than);

/*
 * Measure a cell: the contenders take `rounds` short turns each, after a warm-up at each turn, and
 * before and after all of them each one is checked byte by byte.  -EBADMSG if a back-end moved
 * wrong bytes, -EIO if it moved too few packets, -ENODATA if the machine was never at rest, or what
 * building the rig failed with.
 */
int measure_cell(const struct rig_params *params, unsigned int rounds,
                 struct measurement *ret_measurement);

/* What that means, for people. */
const char *measure_error(int rc);

#endif
