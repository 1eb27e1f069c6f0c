/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PAIR_H
#define VQLIFT_BENCH_PAIR_H

/*
 * The guest on a CPU of its own: a thread that does what its driver does, as fast as it can, while
 * it is let run.  Otherwise it is quiet, and touches neither guest nor ring.
 */

#include <stdint.h>

struct guest;
struct pair;

/* The guest is quiet at first.  -errno of making the thread or of pinning it to the CPU. */
int pair_new(struct guest *g, int cpu, struct pair **ret_pair);
void pair_free(struct pair *p); /* NULL is fine */

void pair_run(struct pair *p);
/* Returns once the guest is quiet: 0, or the error that it met. */
int pair_quiet(struct pair *p);

/*
 * Wait until the guest has given n buffers in all since the beginning.  -ETIMEDOUT; the error that
 * the guest met.
 */
int pair_wait_given(struct pair *p, uint64_t n);

/* Ticks of a cache line's way to the guest's CPU and back; only while it is quiet. */
double pair_round_trip(struct pair *p);

#endif
