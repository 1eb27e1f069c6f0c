/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_OPTIONS_H
#define VQLIFT_BENCH_OPTIONS_H

#include "vqlift-bench/cell.h"

struct options {
        struct cell_choice cells;
        unsigned int rounds; /* how often the back-ends take turns in a cell */
};

/* 0, 1 for --help, or -EINVAL with a line on stderr that names the option and what it takes. */
int options_parse(int argc, char **argv, struct options *ret_options);

#endif
