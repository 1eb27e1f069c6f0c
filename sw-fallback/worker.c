/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/worker.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_rcu_qsbr.h>

#include "sw-fallback/worker_impl.h"

/* The fds of a lane on their way into epoll: how many are in. */
struct fd_use {
        int epoll_fd;
        unsigned int n;
};

static int add_fd(void *arg, int fd)
{
        struct fd_use *use = arg;
        /* Edge-triggered: what is not read (kicks belong to the guest) does not keep us awake. */
        struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

        if (epoll_ctl(use->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
                return -errno;
        use->n++;
        return 0;
}

static int remove_fd(void *arg, int fd)
{
        struct fd_use *use = arg;

        if (use->n == 0)
                return 1;
        use->n--;
        epoll_ctl(use->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return 0;
}

static int watch_lane(struct vql_worker *w, const struct vql_lane *lane, struct vql_error *e)
{
        struct fd_use use = { .epoll_fd = w->epoll_fd };
        int rc = vql_lane_each_fd(lane, add_fd, &use);

        if (rc == 0)
                return 0;
        vql_lane_each_fd(lane, remove_fd, &use);
        return vql_fail(e, -rc, "worker %u: a kick fd cannot be waited for: %s", w->index,
                        strerror(-rc));
}

static void unwatch_lane(struct vql_worker *w, const struct vql_lane *lane)
{
        struct fd_use use = { .epoll_fd = w->epoll_fd, .n = UINT_MAX };

        vql_lane_each_fd(lane, remove_fd, &use);
}

static struct vql_lane_table *new_table(unsigned int room)
{
        const size_t bytes =
                sizeof(struct vql_lane_table) + 2 * (size_t)room * sizeof(struct vql_lane_state *);
        struct vql_lane_table *t = calloc(1, bytes);

        if (t)
                t->hot = &t->lane[room];
        return t;
}

static void fill_table(struct vql_lane_table *t, const struct vql_lane_table *from,
                       const struct vql_lane_state *without)
{
        t->n = t->n_hot = 0;
        for (unsigned int i = 0; i < from->n; i++)
                if (from->lane[i] != without)
                        t->lane[t->n++] = from->lane[i];
}

/* Put a table in place and wait until the thread cannot have the old one any more, then return it.
 */
static struct vql_lane_table *publish(struct vql_worker *w, struct vql_lane_table *t)
{
        struct vql_lane_table *old = atomic_exchange(&w->table, t);
        uint64_t token = rte_rcu_qsbr_start(w->readers);

        /* A round of polling at most; yield, as the worker may wait for this very CPU. */
        while (!rte_rcu_qsbr_check(w->readers, token, false))
                sched_yield();
        atomic_store(&w->lanes, t->n);
        return old;
}

/* All memory that the change back will need is taken here too, so that detach cannot fail. */
static int add_lane(struct vql_worker *w, struct vql_lane *lane)
{
        const struct vql_lane_table *now = atomic_load(&w->table);
        struct vql_lane_table *t = new_table(now->n + 1), *spare = new_table(now->n + 1);
        struct vql_lane_state *s = NULL;

        if (!t || !spare || vql_lane_open(lane, &s) < 0) {
                free(t);
                free(spare);
                return -ENOMEM;
        }
        fill_table(t, now, NULL);
        t->lane[t->n++] = s;
        free(w->spare);
        w->spare = spare;
        free(publish(w, t));
        return 0;
}

int vql_worker_attach(struct vql_worker *w, struct vql_lane *lane, struct vql_error *e)
{
        int rc;

        pthread_mutex_lock(&w->control);
        rc = watch_lane(w, lane, e);
        if (rc == 0 && add_lane(w, lane) < 0) {
                unwatch_lane(w, lane);
                rc = vql_fail(e, ENOMEM, "worker %u: no memory for another lane", w->index);
        }
        pthread_mutex_unlock(&w->control);
        if (rc == 0)
                vql_worker_wake(w);
        return rc;
}

static struct vql_lane_state *find_lane(struct vql_worker *w, const struct vql_lane *lane)
{
        const struct vql_lane_table *t = atomic_load(&w->table);

        for (unsigned int i = 0; i < t->n; i++)
                if (t->lane[i]->lane == lane)
                        return t->lane[i];
        return NULL;
}

void vql_worker_detach(struct vql_worker *w, struct vql_lane *lane)
{
        struct vql_lane_state *s;

        pthread_mutex_lock(&w->control);
        s = find_lane(w, lane);
        if (s) {
                fill_table(w->spare, atomic_load(&w->table), s);
                w->spare = publish(w, w->spare);
                unwatch_lane(w, lane);
                vql_lane_close(s);
        }
        pthread_mutex_unlock(&w->control);
}

void vql_worker_wake(struct vql_worker *w)
{
        const uint64_t one = 1;

        /* Fails only if the counter is full, and then the worker is awake. */
        if (write(w->wake_fd, &one, sizeof(one)) < 0)
                return;
}

void vql_worker_read_stats(const struct vql_worker *w, struct vql_worker_stats *ret_stats)
{
        *ret_stats = (struct vql_worker_stats){
                .polls = atomic_load_explicit(&w->polls, memory_order_relaxed),
                .polls_busy = atomic_load_explicit(&w->polls_busy, memory_order_relaxed),
                .sleeps = atomic_load_explicit(&w->sleeps, memory_order_relaxed),
                .lanes = atomic_load_explicit(&w->lanes, memory_order_relaxed),
        };
}

static int make_readers(struct vql_worker *w)
{
        size_t bytes = RTE_ALIGN_CEIL(rte_rcu_qsbr_get_memsize(1), (size_t)RTE_CACHE_LINE_SIZE);

        w->readers = aligned_alloc(RTE_CACHE_LINE_SIZE, bytes);
        if (!w->readers || rte_rcu_qsbr_init(w->readers, 1) != 0 ||
            rte_rcu_qsbr_thread_register(w->readers, 0) != 0)
                return -ENOMEM;
        return 0;
}

static int make_fds(struct vql_worker *w, struct vql_error *e)
{
        const struct timespec now = { 0 };
        struct fd_use use;
        struct epoll_event ev;

        w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (w->epoll_fd < 0 || w->wake_fd < 0)
                return vql_fail(e, errno, "worker %u: no epoll or event descriptor: %s", w->index,
                                strerror(errno));
        use = (struct fd_use){ .epoll_fd = w->epoll_fd };
        if (add_fd(&use, w->wake_fd) < 0 || epoll_pwait2(w->epoll_fd, &ev, 1, &now, NULL) < 0)
                return vql_fail(e, errno, "worker %u: epoll_pwait2 (Linux 5.11) does not work: %s",
                                w->index, strerror(errno));
        return 0;
}

/*
 * The CPU set and the signal mask would be inherited from whatever thread creates the worker (DPDK
 * pins the one that started it).  A worker runs where it is told, or anywhere, and lets the signals
 * of the application go to other threads; those that a fault of its own raises cannot be blocked.
 */
static int set_attributes(pthread_attr_t *attr, int cpu)
{
        static const int own[] = { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
        sigset_t blocked;
        cpu_set_t cpus;
        int rc;

        CPU_ZERO(&cpus);
        for (size_t i = 0; i < CPU_SETSIZE; i++)
                if (cpu < 0 || (size_t)cpu == i)
                        CPU_SET(i, &cpus);
        sigfillset(&blocked);
        for (size_t i = 0; i < RTE_DIM(own); i++)
                sigdelset(&blocked, own[i]);
        rc = pthread_attr_setaffinity_np(attr, sizeof(cpus), &cpus);
        return rc ? rc : pthread_attr_setsigmask_np(attr, &blocked);
}

static int start_thread(struct vql_worker *w, int cpu, struct vql_error *e)
{
        pthread_attr_t attr;
        int rc = pthread_attr_init(&attr);

        if (rc == 0) {
                rc = set_attributes(&attr, cpu);
                if (rc == 0)
                        rc = pthread_create(&w->thread, &attr, vql_worker_run, w);
                pthread_attr_destroy(&attr);
        }
        if (rc == EINVAL && cpu >= 0)
                return vql_fail(e, EINVAL, "worker %u: this machine lets no thread run on CPU %d",
                                w->index, cpu);
        if (rc != 0)
                return vql_fail(e, rc, "worker %u: no thread: %s", w->index, strerror(rc));
        w->running = true;
        return 0;
}

int vql_worker_new(const struct vql_worker_params *params, struct vql_worker **ret_worker,
                   struct vql_error *e)
{
        struct vql_worker *w = calloc(1, sizeof(*w));
        int rc = -ENOMEM;

        if (!w)
                return vql_fail(e, ENOMEM, "worker %u: no memory", params->index);
        w->epoll_fd = -1;
        w->wake_fd = -1;
        w->index = params->index;
        w->log = params->log;
        pthread_mutex_init(&w->control, NULL);
        atomic_store(&w->table, new_table(0));
        w->spare = new_table(0);
        if (!atomic_load(&w->table) || !w->spare || make_readers(w) < 0) {
                vql_fail(e, ENOMEM, "worker %u: no memory", params->index);
                goto fail;
        }
        rc = make_fds(w, e);
        if (rc < 0)
                goto fail;
        rc = start_thread(w, params->cpu, e);
        if (rc < 0)
                goto fail;
        *ret_worker = w;
        return 0;

fail:
        vql_worker_free(w);
        return rc;
}

void vql_worker_free(struct vql_worker *w)
{
        if (!w)
                return;
        if (w->running) {
                atomic_store_explicit(&w->stop, true, memory_order_release);
                vql_worker_wake(w);
                pthread_join(w->thread, NULL);
        }
        if (w->epoll_fd >= 0)
                close(w->epoll_fd);
        if (w->wake_fd >= 0)
                close(w->wake_fd);
        free(atomic_load(&w->table));
        free(w->spare);
        free(w->readers);
        pthread_mutex_destroy(&w->control);
        free(w);
}
