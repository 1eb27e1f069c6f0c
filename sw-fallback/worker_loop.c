/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_pause.h>
#include <rte_rcu_qsbr.h>

#include "sw-fallback/worker_impl.h"

enum {
        SPIN_US = 50,       /* polling in vain before the worker thinks of sleep */
        SWEEP_US = 100,     /* between two looks at lanes without work while others have some */
        NAP_MIN_US = 100,   /* first sleep where something has no fd to wake us, */
        NAP_MAX_US = 16000, /* and how long it may get by doubling */
        EVENTS = 64,
};

static void bump(_Atomic(uint64_t) *counter)
{
        uint64_t n = atomic_load_explicit(counter, memory_order_relaxed);

        atomic_store_explicit(counter, n + 1, memory_order_relaxed);
}

static struct vql_lane_table *current_table(struct vql_worker *w)
{
        return atomic_load_explicit(&w->table, memory_order_acquire);
}

static void count_round(struct vql_worker *w, bool busy)
{
        bump(&w->polls);
        if (busy)
                bump(&w->polls_busy);
}

/* A lane that is busy needs neither kicks nor interrupts. */
static bool poll_lane(struct vql_lane_state *s, uint64_t now)
{
        if (!vql_lane_poll(s, now))
                return false;
        vql_lane_disarm(s);
        s->worked = true;
        return true;
}

/* One round over all lanes; those that had work since the last one are hot. */
static bool sweep_lanes(struct vql_worker *w, struct vql_lane_table *t, uint64_t now)
{
        bool any = false;

        t->n_hot = 0;
        for (unsigned int i = 0; i < t->n; i++) {
                any |= poll_lane(t->lane[i], now);
                if (t->lane[i]->worked)
                        t->hot[t->n_hot++] = t->lane[i];
                t->lane[i]->worked = false;
        }
        w->swept = now;
        count_round(w, any);
        return any;
}

static bool poll_hot_lanes(struct vql_worker *w, const struct vql_lane_table *t, uint64_t now)
{
        bool any = false;

        for (unsigned int i = 0; i < t->n_hot; i++)
                any |= poll_lane(t->hot[i], now);
        if (any)
                count_round(w, true);
        return any;
}

/* What lanes without work cost does not grow with the work of the others: these are looked at once
 * in a while, unless none of the others has any. */
static bool poll_lanes(struct vql_worker *w, struct vql_lane_table *t, uint64_t now)
{
        if (now - w->swept < w->sweep_ticks && poll_hot_lanes(w, t, now))
                return true;
        return sweep_lanes(w, t, now);
}

/* The round after a nap. */
static bool glance_at_lanes(struct vql_worker *w, const struct vql_lane_table *t)
{
        bool any = false;

        for (unsigned int i = 0; i < t->n; i++) {
                if (vql_lane_glance(t->lane[i])) {
                        vql_lane_disarm(t->lane[i]);
                        any = true;
                }
        }
        count_round(w, any);
        return any;
}

static void arm_lanes(const struct vql_lane_table *t)
{
        for (unsigned int i = 0; i < t->n; i++)
                vql_lane_arm(t->lane[i]);
}

static bool needs_timer(const struct vql_lane_table *t)
{
        for (unsigned int i = 0; i < t->n; i++)
                if (vql_lane_needs_timer(t->lane[i]))
                        return true;
        return false;
}

/*
 * Sleep until an fd has news, or for a nap if `timed`.  True: news.  While it sleeps the thread is
 * no reader of the table, so that control need not wait for it.  Which fd it was does not matter,
 * and must not: its lane may be gone by now.
 */
static bool sleep_for_news(struct vql_worker *w, bool timed)
{
        const struct timespec nap = { .tv_nsec = (long)w->nap_us * 1000 };
        struct epoll_event events[EVENTS];
        int n;

        bump(&w->sleeps);
        rte_rcu_qsbr_thread_offline(w->readers, 0);
        n = epoll_pwait2(w->epoll_fd, events, EVENTS, timed ? &nap : NULL, NULL);
        rte_rcu_qsbr_thread_online(w->readers, 0);
        return n != 0;
}

/*
 * Nothing to do: ask for kicks and interrupts, look once more (what came before that was asked for
 * tells nobody), and sleep.  A nap that ends in vain is followed by a longer one, with all lanes
 * left armed.  Returns when there is something to do, or may be.
 */
static void rest(struct vql_worker *w, struct vql_lane_table *t)
{
        bool timed;

        arm_lanes(t);
        if (sweep_lanes(w, t, rte_rdtsc()))
                return;
        do {
                timed = needs_timer(t);
                if (sleep_for_news(w, timed))
                        return;
                w->nap_us = RTE_MIN(w->nap_us * 2, (uint64_t)NAP_MAX_US);
                t = current_table(w);
        } while (!glance_at_lanes(w, t));
}

static void loop(struct vql_worker *w)
{
        const uint64_t spin = rte_get_tsc_hz() / 1000000 * SPIN_US;
        uint64_t idle_since = rte_rdtsc();

        while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
                struct vql_lane_table *t = current_table(w);
                uint64_t now = rte_rdtsc();

                if (poll_lanes(w, t, now)) {
                        idle_since = now;
                        w->nap_us = NAP_MIN_US;
                } else if (now - idle_since >= spin) {
                        rest(w, t);
                        idle_since = rte_rdtsc();
                } else {
                        rte_pause();
                }
                rte_rcu_qsbr_quiescent(w->readers, 0);
        }
}

/* An lcore id gives the thread caches of its own in the packet pools; it works without, slower. */
static void register_thread(struct vql_worker *w)
{
        char name[16];

        snprintf(name, sizeof(name), "vql-worker-%u", w->index % 1000);
        pthread_setname_np(pthread_self(), name);
        if (rte_thread_register() < 0)
                vql_log(w->log, LOG_NOTICE, "worker %u: DPDK has no lcore id for it: %s", w->index,
                        rte_strerror(rte_errno));
}

void *vql_worker_run(void *worker)
{
        struct vql_worker *w = worker;

        register_thread(w);
        w->nap_us = NAP_MIN_US;
        w->sweep_ticks = rte_get_tsc_hz() / 1000000 * SWEEP_US;
        rte_rcu_qsbr_thread_online(w->readers, 0);
        loop(w);
        rte_rcu_qsbr_thread_offline(w->readers, 0);
        rte_thread_unregister();
        return NULL;
}
