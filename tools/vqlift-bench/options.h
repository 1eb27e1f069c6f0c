/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_OPTIONS_H
#define VQLIFT_BENCH_OPTIONS_H

#include <stdbool.h>

#include "vqlift-bench/cell.h"

struct options {
        struct cell_choice cells;
        unsigned int rounds; /* how often the contenders take turns in a cell */
        bool json, limit;
        const char *set;     /* of instances, by name, or NULL */
        const char *control; /* or NULL: compare with DPDK's library */
        const char *plot;    /* folder for plots, or NULL */
        const char *report;  /* folder for results and plots, or NULL */
        const char *prefix;  /* of another DPDK, or NULL */
        double fail_under;   /* a cell with a smaller ratio is a failure; 0: none is */
};

/* 0; 1 if --help or a list was asked for and printed; -EINVAL with a line on stderr that names the
 * option and what it takes. */
int options_parse(int argc, char **argv, struct options *ret_options);

#endif
