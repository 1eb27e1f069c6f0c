/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/probe.h"

#include <rte_common.h>
#include <rte_cycles.h>

enum { READINGS = 200, SPIN = 1000, SPINS = 3 };

uint64_t probe_clock(void)
{
        uint64_t least = UINT64_MAX;

        for (int i = 0; i < READINGS; i++) {
                uint64_t t = rte_rdtsc_precise();

                t = rte_rdtsc_precise() - t;
                least = RTE_MIN(least, t);
        }
        return least;
}

static uint64_t spin(void)
{
        const uint64_t begin = rte_rdtsc_precise();
        uint64_t x = begin;

        /* Each step waits for the one before it, and the compiler must not shorten them. */
        for (int i = 0; i < SPIN; i++) {
                x *= 0x9e3779b97f4a7c15;
                __asm__ volatile("" : "+r"(x));
        }
        return rte_rdtsc_precise() - begin;
}

/* The middle one of three: a single interrupt is no change of the machine. */
uint64_t probe_spin(void)
{
        uint64_t t[SPINS];
        uint64_t least, most;

        for (int i = 0; i < SPINS; i++)
                t[i] = spin();
        least = RTE_MIN(RTE_MIN(t[0], t[1]), t[2]);
        most = RTE_MAX(RTE_MAX(t[0], t[1]), t[2]);
        return t[0] + t[1] + t[2] - least - most;
}
