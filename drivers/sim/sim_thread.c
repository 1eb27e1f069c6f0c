/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "drivers/sim/sim_impl.h"

enum { MS_PER_S = 1000, NS_PER_MS = 1000000, NS_PER_S = 1000000000, MOST_FDS = 1 + SIM_MAX_PAIRS };

/* ---- operations ---- */

void vql_sim_lock(struct sim *s)
{
        atomic_fetch_add(&s->waiting, 1);
        pthread_mutex_lock(&s->lock);
        atomic_fetch_sub(&s->waiting, 1);
}

void vql_sim_unlock(struct sim *s)
{
        pthread_cond_broadcast(&s->turn);
        pthread_mutex_unlock(&s->lock);
}

void vql_sim_wake(struct sim *s)
{
        const uint64_t one = 1;

        /* An eventfd that is full wakes, too. */
        while (write(s->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

void vql_sim_wait(struct sim *s, uint32_t ms)
{
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += ms / MS_PER_S;
        until.tv_nsec += (long)(ms % MS_PER_S) * NS_PER_MS;
        if (until.tv_nsec >= NS_PER_S) {
                until.tv_nsec -= NS_PER_S;
                until.tv_sec++;
        }
        while (pthread_cond_timedwait(&s->turn, &s->lock, &until) != ETIMEDOUT)
                ;
}

/* ---- the thread ---- */

/* A mutex is not fair: without this, a busy device would keep operations out for long. */
static void lock_after_operations(struct sim *s)
{
        pthread_mutex_lock(&s->lock);
        while (atomic_load(&s->waiting))
                pthread_cond_wait(&s->turn, &s->lock);
}

static bool moves(const struct sim *s)
{
        return s->life == SIM_RUN && s->health == SIM_WELL;
}

static bool work(struct sim *s)
{
        bool more = false;

        for (uint16_t q = 0; q < s->caps.queues && moves(s); q++)
                if (s->queue[q].state == SIM_QUEUE_RUNNING && vql_sim_queue_work(s, &s->queue[q]))
                        more = true;
        return more;
}

/* Packets are waited for where there is room for one, and a queue to give it to. */
static nfds_t list_fds(const struct sim *s, struct pollfd *ret_fds)
{
        nfds_t n = 0;

        ret_fds[n++] = (struct pollfd){ .fd = s->wake_fd, .events = POLLIN };
        for (uint16_t pair = 0; pair < s->args.pairs && moves(s); pair++)
                if (s->queue[2 * (size_t)pair].state == SIM_QUEUE_RUNNING &&
                    !s->wire[pair].pending && pair < s->filter.pairs)
                        ret_fds[n++] = (struct pollfd){ .fd = s->wire[pair].in, .events = POLLIN };
        return n;
}

/* A far end that hung up is readable for ever; nothing is to be had from it. */
static void forget_hung_up(struct sim *s, const struct pollfd *fds, nfds_t n)
{
        for (nfds_t i = 1; i < n; i++) {
                if (!(fds[i].revents & (POLLHUP | POLLERR | POLLNVAL)) || (fds[i].revents & POLLIN))
                        continue;
                for (uint16_t pair = 0; pair < s->args.pairs; pair++)
                        if (s->wire[pair].in == fds[i].fd)
                                s->wire[pair].in = -1;
        }
}

/* Whatever woke us came before what the next look will find. */
static void take_wake_up(const struct sim *s)
{
        uint64_t count;

        while (read(s->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
                ;
}

void *vql_sim_thread(void *sim)
{
        struct sim *s = sim;
        struct pollfd fds[MOST_FDS];
        nfds_t n = 0;

        for (;;) {
                bool more;

                lock_after_operations(s);
                if (s->life == SIM_CLOSING)
                        break;
                forget_hung_up(s, fds, n);
                more = work(s);
                n = list_fds(s, fds);
                pthread_mutex_unlock(&s->lock);
                if (poll(fds, n, more ? 0 : -1) < 0)
                        n = 0;
                if (n && fds[0].revents)
                        take_wake_up(s);
        }
        pthread_mutex_unlock(&s->lock);
        return NULL;
}
