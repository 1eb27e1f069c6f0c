/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PVP_RUN_H
#define VQLIFT_BENCH_PVP_RUN_H

/* Samples, alternating between the back-ends, and what they come to. */

#include <stddef.h>

#include "vqlift-bench/pvp_options.h"

enum pvp_backend { PVP_VQLIFT, PVP_RTE_VHOST, PVP_BACKENDS };

struct pvp_sample {
        double mpps;    /* that came back to the guest */
        double trip[2]; /* of a cache line, before and after, ns */
        double waited;  /* share of the time in which guest or back-end waited for their CPU */
};

/* One sample of each back-end, one after the other. */
struct pvp_round {
        struct pvp_sample sample[PVP_BACKENDS];
        bool kept; /* all four trips alike, and nobody else took the CPUs */
};

struct pvp_cell {
        const struct pvp_ring *ring;
        bool mergeable;
        unsigned int size;
        struct pvp_round *round;
        unsigned int rounds, kept;
        /* Medians of the rounds that were kept; 0 if none was. */
        double mpps[PVP_BACKENDS], ratio, trip;
};

struct pvp_run {
        const struct pvp_options *options;
        struct pvp_cell *cell;
        size_t cells;
};

/*
 * Measure every cell; `done` is called after each.  0; -EINTR: ended by a signal; -EBADMSG: packets
 * did not go both ways; others with a line on stderr.  The cells that were measured are there in
 * any case.
 */
int pvp_run(const struct pvp_options *o, void (*done)(const struct pvp_cell *cell),
            struct pvp_run *ret_run);
void pvp_run_fini(struct pvp_run *run);

#endif
