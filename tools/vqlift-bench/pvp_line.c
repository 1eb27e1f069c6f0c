/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/pvp_line.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { TRIPS = 2000, BATCHES = 5 };

struct line {
        _Alignas(64) _Atomic(uint32_t) turn; /* odd: the other thread's */
        _Alignas(64) double ns[BATCHES];
};

static void *answer(void *arg)
{
        struct line *l = arg;

        for (uint32_t i = 0; i < TRIPS * BATCHES; i++) {
                while (atomic_load_explicit(&l->turn, memory_order_acquire) != 2 * i + 1)
                        ;
                atomic_store_explicit(&l->turn, 2 * i + 2, memory_order_release);
        }
        return NULL;
}

static double now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *ask(void *arg)
{
        struct line *l = arg;
        uint32_t i = 0;

        for (int batch = 0; batch < BATCHES; batch++) {
                const double begin = now_ns();

                for (int trip = 0; trip < TRIPS; trip++, i++) {
                        atomic_store_explicit(&l->turn, 2 * i + 1, memory_order_release);
                        while (atomic_load_explicit(&l->turn, memory_order_acquire) != 2 * i + 2)
                                ;
                }
                l->ns[batch] = (now_ns() - begin) / TRIPS;
        }
        return NULL;
}

static int start(void *(*run)(void *), struct line *l, int cpu, pthread_t *ret_thread)
{
        pthread_attr_t attr;
        cpu_set_t set;
        int rc;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        pthread_attr_init(&attr);
        pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
        rc = pthread_create(ret_thread, &attr, run, l);
        pthread_attr_destroy(&attr);
        return -rc;
}

static int by_value(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

int pvp_line_round_trip(int cpu, int other_cpu, double *ret_ns)
{
        struct line l = { .turn = 0 };
        pthread_t asking, answering;
        int rc = start(answer, &l, other_cpu, &answering);

        if (rc < 0)
                return rc;
        rc = start(ask, &l, cpu, &asking);
        if (rc < 0) {
                ask(&l); /* else the other one waits for ever */
                pthread_join(answering, NULL);
                return rc;
        }
        pthread_join(asking, NULL);
        pthread_join(answering, NULL);
        qsort(l.ns, BATCHES, sizeof(l.ns[0]), by_value);
        *ret_ns = l.ns[BATCHES / 2];
        return 0;
}
