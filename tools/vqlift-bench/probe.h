/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PROBE_H
#define VQLIFT_BENCH_PROBE_H

/* What the clock says about work that is always the same. */

#include <stdint.h>

/* Ticks that two readings of the clock cost by themselves. */
uint64_t probe_clock(void);

/*
 * Ticks that a fixed chain of multiplications takes: more than usual if the hypervisor gave the CPU
 * to somebody else meanwhile, or if the CPU runs at another speed.
 */
uint64_t probe_spin(void);

#endif
