/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/measure.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_common.h>
#include <rte_cycles.h>

enum {
        WARM_UP = 32, /* bursts at each turn that are not counted */
        PACKETS_PER_TURN = 6400,
        LARGE = 2000, /* packets above this size: a quarter as many */
};

struct samples {
        double *value;
        size_t n, room;
};

static int by_value(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double median(struct samples *s)
{
        qsort(s->value, s->n, sizeof(*s->value), by_value);
        return s->value[s->n / 2];
}

/* What two readings of the clock cost by themselves. */
static uint64_t clock_cost(void)
{
        uint64_t least = UINT64_MAX;

        for (int i = 0; i < 1000; i++) {
                uint64_t t = rte_rdtsc_precise();

                t = rte_rdtsc_precise() - t;
                least = RTE_MIN(least, t);
        }
        return least;
}

static int take_turn(struct rig *r, enum backend b, unsigned int bursts, struct samples *s)
{
        const uint64_t clock = clock_cost();
        int rc = rig_use(r, b);

        for (unsigned int i = 0; rc >= 0 && i < WARM_UP + bursts; i++) {
                uint64_t tsc;

                rc = rig_burst(r, i == 0, &tsc);
                if (rc == 0)
                        rc = -EIO;
                if (rc > 0 && i >= WARM_UP && s->n < s->room)
                        s->value[s->n++] = (double)(tsc > clock ? tsc - clock : 0) / rc;
        }
        return rc;
}

int measure_cell(const struct cell *cell, unsigned int rounds, struct rte_mempool *pool,
                 struct measurement *ret_measurement)
{
        const unsigned int bursts = PACKETS_PER_TURN / cell->burst / (cell->size > LARGE ? 4 : 1);
        struct samples s[BACKENDS] = { 0 };
        struct rig *r = NULL;
        int rc = rig_new(cell, pool, &r);

        for (enum backend b = 0; b < BACKENDS; b++) {
                s[b].room = (size_t)rounds * bursts;
                s[b].value = calloc(s[b].room, sizeof(double));
                if (!s[b].value)
                        rc = -ENOMEM;
        }
        for (unsigned int i = 0; rc >= 0 && i < rounds; i++)
                for (enum backend b = 0; rc >= 0 && b < BACKENDS; b++)
                        rc = take_turn(r, b, bursts, &s[b]);
        for (enum backend b = 0; b < BACKENDS; b++) {
                if (rc >= 0)
                        ret_measurement->median[b] = median(&s[b]);
                free(s[b].value);
        }
        rig_free(r);
        return rc < 0 ? rc : 0;
}
