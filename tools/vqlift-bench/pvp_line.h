/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PVP_LINE_H
#define VQLIFT_BENCH_PVP_LINE_H

/*
 * Nanoseconds that a cache line takes from one CPU to another and back, while both are idle.  Where
 * the hypervisor puts its virtual CPUs decides over it, and over every exchange of packets between
 * them.  -errno of making the threads.
 */
int pvp_line_round_trip(int cpu, int other_cpu, double *ret_ns);

#endif
