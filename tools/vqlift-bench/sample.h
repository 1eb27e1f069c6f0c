/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_SAMPLE_H
#define VQLIFT_BENCH_SAMPLE_H

/*
 * From readings of the clock to numbers that can be compared.
 *
 * A burst is one call, a batch is what a back-end did in one turn.  Bursts that an interrupt fell
 * into are left out of their batch; batches around which the machine was not itself are left out of
 * their series; of a series, the median and the range of the middle half count.
 */

#include <stdbool.h>
#include <stddef.h>

struct batch {
        double value;         /* ticks per packet */
        double probe;         /* ticks that the same work took before or after it: the worse */
        double round_trip[2]; /* of a cache line to the other CPU, before and after; 0: no such */
};

struct series {
        struct batch *batch;
        size_t n, room;
};

int series_init(struct series *s, size_t room); /* -ENOMEM */
void series_fini(struct series *s);
void series_add(struct series *s, const struct batch *b); /* past the room: nothing */

/* The value below which the part q of the sorted values is. */
double sample_quantile(const double *sorted, size_t n, double q);
/* Sorts the values. */
double sample_median(double *value, size_t n);

/* The mean of bursts without those that took so long that they were interrupted.  Sorts. */
double sample_burst_mean(double *ticks, size_t n);

/* Which batches of a cell may be compared. */
struct verdict {
        double most_probe; /* a slower probe: disturbed */
        double near_far;   /* round trips from here on are far; 0: all are alike */
        bool far;          /* which of both counts */
};

/* From all series of one cell together, which were taken in turn. */
int verdict_reach(const struct series *s, size_t n_series, struct verdict *ret_verdict);

struct statistic {
        double median;
        double spread;     /* the middle half's range, as part of the median */
        double round_trip; /* median, of the batches that count */
        size_t used;
        size_t disturbed, moved; /* left out for the probe, and for the placement */
};

/* -ENODATA if no batch is left, -ENOMEM. */
int series_statistic(const struct series *s, const struct verdict *v,
                     struct statistic *ret_statistic);

#endif
