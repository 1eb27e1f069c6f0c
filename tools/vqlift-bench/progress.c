/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/progress.h"

#include <stdio.h>
#include <unistd.h>

enum {
        WIDTH = 40,
        ENOUGH = 12, /* cells, to tell how long the rest takes */
};

void progress_start(struct progress *p, size_t total)
{
        p->total = total;
        p->terminal = isatty(STDERR_FILENO);
        clock_gettime(CLOCK_MONOTONIC, &p->begin);
}

static double seconds_left(const struct progress *p, size_t done)
{
        struct timespec now;
        double spent;

        clock_gettime(CLOCK_MONOTONIC, &now);
        spent = (double)(now.tv_sec - p->begin.tv_sec) +
                (double)(now.tv_nsec - p->begin.tv_nsec) / 1e9;
        return spent / (double)done * (double)(p->total - done);
}

void progress_step(const struct progress *p, size_t done)
{
        static const char full[WIDTH + 1] = "########################################";
        const int filled = (int)(WIDTH * done / p->total);

        if (!p->terminal) {
                if (done == ENOUGH)
                        fprintf(stderr, "%zu cells, about %.0f s to go\n", p->total,
                                seconds_left(p, done));
                return;
        }
        fprintf(stderr, "\r[%.*s%*s] %zu of %zu cells", filled, full, WIDTH - filled, "", done,
                p->total);
        if (done > 0)
                fprintf(stderr, ", %.0f s to go  ", seconds_left(p, done));
        fflush(stderr);
}

void progress_hide(const struct progress *p)
{
        if (p->terminal)
                fprintf(stderr, "\r\033[K");
}
