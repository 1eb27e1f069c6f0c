/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/pair.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#include "vqlift-bench/guest.h"
#include "vqlift-bench/sample.h"

enum { LINE = 64, ROUND_TRIPS = 63, WAIT_SECONDS = 10, SPINS_BEFORE_YIELD = 20000 };

enum wish { WISH_QUIET, WISH_RUN, WISH_ECHO, WISH_END };

struct pair {
        struct guest *guest;
        pthread_t thread;
        _Alignas(LINE) _Atomic(int) wish; /* written by the back-end's thread */
        _Alignas(LINE) _Atomic(int) done; /* the wish that the guest follows */
        _Atomic(int) error;               /* 0, or why it follows none any more */
        _Alignas(LINE) _Atomic(uint64_t) given;
        _Alignas(LINE) _Atomic(uint32_t) ball; /* odd: for the guest to return */
};

/* Spin, and from time to time let somebody else have the CPU, who may be the one waited for. */
static void relax(unsigned int *spins)
{
        if (++*spins % SPINS_BEFORE_YIELD == 0)
                sched_yield();
        else
                rte_pause();
}

/* ---- the guest's thread ---- */

/* Packets that came are looked at, those that go are written; one round of the driver. */
static int work(struct guest *g)
{
        const struct guest_manner manner = { .touch = true };
        const unsigned int burst = g->cell.burst * guest_buffers_of_packet(&g->cell);
        int n = guest_reap(g, burst, manner);

        if (n < 0 || g->cell.to_guest || guest_room(g) < burst)
                return n;
        return guest_send(g, burst, manner);
}

static int run(struct pair *p)
{
        unsigned int spins = 0;
        int rc = 0;

        while (rc >= 0 && atomic_load_explicit(&p->wish, memory_order_relaxed) == WISH_RUN) {
                rc = work(p->guest);
                if (rc > 0 ||
                    p->guest->given != atomic_load_explicit(&p->given, memory_order_relaxed))
                        atomic_store_explicit(&p->given, p->guest->given, memory_order_release);
                else
                        relax(&spins);
        }
        return rc < 0 ? rc : 0;
}

static void echo(struct pair *p)
{
        unsigned int spins = 0;

        while (atomic_load_explicit(&p->wish, memory_order_relaxed) == WISH_ECHO) {
                const uint32_t ball = atomic_load_explicit(&p->ball, memory_order_acquire);

                if (ball % 2 == 1)
                        atomic_store_explicit(&p->ball, ball + 1, memory_order_release);
                else if (++spins % SPINS_BEFORE_YIELD == 0)
                        sched_yield();
        }
}

static void *guest_main(void *arg)
{
        struct pair *p = arg;
        unsigned int spins = 0;
        int wish;

        while ((wish = atomic_load_explicit(&p->wish, memory_order_acquire)) != WISH_END) {
                if (wish != atomic_load_explicit(&p->done, memory_order_relaxed))
                        atomic_store_explicit(&p->done, wish, memory_order_release);
                if (wish == WISH_RUN && atomic_load(&p->error) == 0)
                        atomic_store(&p->error, run(p));
                else if (wish == WISH_ECHO)
                        echo(p);
                else
                        relax(&spins);
        }
        return NULL;
}

/* ---- life cycle ---- */

static int start(struct pair *p, int cpu)
{
        pthread_attr_t attr;
        cpu_set_t cpus;
        int rc = pthread_attr_init(&attr);

        if (rc != 0)
                return -rc;
        CPU_ZERO(&cpus);
        CPU_SET(cpu, &cpus);
        rc = pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
        if (rc == 0)
                rc = pthread_create(&p->thread, &attr, guest_main, p);
        pthread_attr_destroy(&attr);
        return -rc;
}

int pair_new(struct guest *g, int cpu, struct pair **ret_pair)
{
        struct pair *p = aligned_alloc(LINE, sizeof(*p));
        int rc;

        if (!p)
                return -ENOMEM;
        memset(p, 0, sizeof(*p));
        p->guest = g;
        p->given = g->given;
        rc = start(p, cpu);
        if (rc < 0) {
                free(p);
                return rc;
        }
        *ret_pair = p;
        return 0;
}

void pair_free(struct pair *p)
{
        if (!p)
                return;
        atomic_store_explicit(&p->wish, WISH_END, memory_order_release);
        pthread_join(p->thread, NULL);
        free(p);
}

/* ---- the back-end's side ---- */

/* Is it later than WAIT_SECONDS after `begin`? */
static bool too_late(uint64_t begin)
{
        return rte_rdtsc() - begin > WAIT_SECONDS * rte_get_tsc_hz();
}

/* The guest's thread always follows: it waits for nothing but wishes. */
static void wish(struct pair *p, enum wish w)
{
        unsigned int spins = 0;

        atomic_store_explicit(&p->wish, w, memory_order_release);
        while (atomic_load_explicit(&p->done, memory_order_acquire) != (int)w)
                relax(&spins);
}

void pair_run(struct pair *p)
{
        wish(p, WISH_RUN);
}

int pair_quiet(struct pair *p)
{
        wish(p, WISH_QUIET);
        return atomic_load(&p->error);
}

int pair_wait_given(struct pair *p, uint64_t n)
{
        const uint64_t begin = rte_rdtsc();
        unsigned int spins = 0;

        while (atomic_load_explicit(&p->given, memory_order_acquire) < n) {
                if (atomic_load(&p->error) != 0)
                        return atomic_load(&p->error);
                if (too_late(begin))
                        return -ETIMEDOUT;
                relax(&spins);
        }
        return 0;
}

double pair_round_trip(struct pair *p)
{
        double ticks[ROUND_TRIPS];

        wish(p, WISH_ECHO);
        for (unsigned int i = 0; i < ROUND_TRIPS; i++) {
                const uint32_t ball = atomic_load_explicit(&p->ball, memory_order_relaxed) + 1;
                const uint64_t begin = rte_rdtsc();
                unsigned int spins = 0;

                atomic_store_explicit(&p->ball, ball, memory_order_release);
                while (atomic_load_explicit(&p->ball, memory_order_acquire) == ball)
                        if (++spins % SPINS_BEFORE_YIELD == 0)
                                sched_yield();
                ticks[i] = (double)(rte_rdtsc() - begin);
        }
        wish(p, WISH_QUIET);
        return sample_median(ticks, ROUND_TRIPS);
}
