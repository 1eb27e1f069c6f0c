/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PROGRESS_H
#define VQLIFT_BENCH_PROGRESS_H

/* How far a run is, on standard error: a bar if that is a terminal, else one line with how long it
 * will take. */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct progress {
        size_t total;
        struct timespec begin;
        bool terminal;
};

void progress_start(struct progress *p, size_t total);
/* `done` of them are done. */
void progress_step(const struct progress *p, size_t done);
/* Make room for a line of the table. */
void progress_hide(const struct progress *p);

#endif
