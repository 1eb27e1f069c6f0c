/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PLOT_H
#define VQLIFT_BENCH_PLOT_H

/* Ticks per packet against its size, a plot for each mode, direction and ring of a run. */

struct run;

/* Write them to a folder, as MODE-DIRECTION-RING.svg.  -errno, with a line on stderr. */
int plot_write(const struct run *run, const char *folder);

#endif
