/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/sample.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* A burst of more than twice the usual and this many ticks was interrupted: leaving a virtual
 * machine and coming back takes longer, refilling a cache of packet buffers does not. */
#define INTERRUPTED 3000.0
/* A probe slower by a seventh was disturbed. */
#define DISTURBED 1.15
/* Round trips differ by far more than this if CPUs are placed otherwise, and by less if not. */
#define PLACEMENTS_APART 2.5

int series_init(struct series *s, size_t room)
{
        s->n = 0;
        s->room = room;
        s->batch = calloc(room, sizeof(*s->batch));
        return s->batch ? 0 : -ENOMEM;
}

void series_fini(struct series *s)
{
        free(s->batch);
        s->batch = NULL;
}

void series_add(struct series *s, const struct batch *b)
{
        if (s->n < s->room)
                s->batch[s->n++] = *b;
}

static int by_value(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void sort(double *value, size_t n)
{
        qsort(value, n, sizeof(*value), by_value);
}

double sample_quantile(const double *sorted, size_t n, double q)
{
        const double at = q * (double)(n - 1);
        const size_t i = (size_t)at;

        if (i + 1 >= n)
                return sorted[n - 1];
        return sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]);
}

double sample_median(double *value, size_t n)
{
        sort(value, n);
        return sample_quantile(value, n, 0.5);
}

double sample_burst_mean(double *ticks, size_t n)
{
        const double most = 2 * sample_median(ticks, n) + INTERRUPTED;
        double sum = 0;
        size_t i;

        for (i = 0; i < n && ticks[i] <= most; i++)
                sum += ticks[i];
        return sum / (double)i;
}

static double round_trip(const struct batch *b)
{
        return fmax(b->round_trip[0], b->round_trip[1]);
}

/* All batches' values of one kind, sorted. */
static double *collect(const struct series *s, size_t n_series, double (*of)(const struct batch *),
                       size_t *ret_n)
{
        size_t n = 0, k = 0;
        double *value;

        for (size_t i = 0; i < n_series; i++)
                n += s[i].n;
        value = calloc(n ? n : 1, sizeof(*value));
        for (size_t i = 0; value && i < n_series; i++)
                for (size_t j = 0; j < s[i].n; j++)
                        value[k++] = of(&s[i].batch[j]);
        if (value)
                sort(value, n);
        *ret_n = n;
        return value;
}

static double probe(const struct batch *b)
{
        return b->probe;
}

static double value(const struct batch *b)
{
        return b->value;
}

/* Where near ends and far begins: between the extremes, if they are too far apart for one class. */
static double border(const double *sorted, size_t n)
{
        const double near = sample_quantile(sorted, n, 0.02);
        const double far = sample_quantile(sorted, n, 0.98);

        return near > 0 && far > PLACEMENTS_APART * near ? sqrt(near * far) : 0;
}

static bool is_moved(const struct batch *b, const struct verdict *v)
{
        const bool before = b->round_trip[0] >= v->near_far,
                   after = b->round_trip[1] >= v->near_far;

        return v->near_far > 0 && (before != v->far || after != v->far);
}

static bool is_disturbed(const struct batch *b, const struct verdict *v)
{
        return b->probe > v->most_probe;
}

static size_t usable(const struct series *s, const struct verdict *v)
{
        size_t n = 0;

        for (size_t i = 0; i < s->n; i++)
                n += !is_moved(&s->batch[i], v) && !is_disturbed(&s->batch[i], v);
        return n;
}

/* How many batches the series with the fewest has. */
static size_t fewest(const struct series *s, size_t n_series, const struct verdict *v)
{
        size_t least = SIZE_MAX;

        for (size_t i = 0; i < n_series; i++) {
                const size_t n = usable(&s[i], v);

                least = n < least ? n : least;
        }
        return least;
}

int verdict_reach(const struct series *s, size_t n_series, struct verdict *ret_verdict)
{
        size_t n;
        double *probes = collect(s, n_series, probe, &n);
        double *trips = collect(s, n_series, round_trip, &n);
        struct verdict near = { 0 }, far;
        int rc = probes && trips ? n > 0 ? 0 : -ENODATA : -ENOMEM;

        if (rc == 0) {
                near.most_probe = DISTURBED * sample_quantile(probes, n, 0.5);
                near.near_far = border(trips, n);
                far = near;
                far.far = true;
                *ret_verdict = fewest(s, n_series, &far) > fewest(s, n_series, &near) ? far : near;
        }
        free(probes);
        free(trips);
        return rc;
}

/* A series of only those that count. */
static int select_batches(const struct series *s, const struct verdict *v,
                          struct series *ret_series, struct statistic *count)
{
        int rc = series_init(ret_series, s->n ? s->n : 1);

        for (size_t i = 0; i < s->n && rc == 0; i++) {
                if (is_disturbed(&s->batch[i], v))
                        count->disturbed++;
                else if (is_moved(&s->batch[i], v))
                        count->moved++;
                else
                        series_add(ret_series, &s->batch[i]);
        }
        count->used = ret_series->n;
        return rc;
}

int series_statistic(const struct series *s, const struct verdict *v,
                     struct statistic *ret_statistic)
{
        struct statistic r = { 0 };
        struct series good;
        double *values = NULL, *trips = NULL;
        size_t n;
        int rc = select_batches(s, v, &good, &r);

        if (rc == 0) {
                values = collect(&good, 1, value, &n);
                trips = collect(&good, 1, round_trip, &n);
                rc = values && trips ? n > 0 ? 0 : -ENODATA : -ENOMEM;
        }
        if (rc == 0) {
                r.median = sample_quantile(values, n, 0.5);
                r.spread = (sample_quantile(values, n, 0.75) - sample_quantile(values, n, 0.25)) /
                           r.median;
                r.round_trip = sample_quantile(trips, n, 0.5);
                *ret_statistic = r;
        }
        free(values);
        free(trips);
        series_fini(&good);
        return rc;
}
