/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/sigbus.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the handler needs to know of a range. */
struct extent {
        uintptr_t start, end; /* equal: the slot is free */
        size_t page;
        int notify_fd;
};

/*
 * One slot of the table.  The handler reads it without a lock: `seq` is odd while the slot changes,
 * and an extent counts only if `seq` was even and the same before and after.  To skip a slot that
 * is changing is right, since whoever touches a range keeps it from being released meanwhile.
 */
struct vql_sigbus_range {
        atomic_uint seq;
        _Atomic(uintptr_t) start, end;
        atomic_size_t page;
        atomic_int notify_fd;
        atomic_bool hit;
        struct vql_sigbus_range *next_free; /* under the mutex */
};

static struct {
        pthread_mutex_t mutex; /* slots being taken and given back; never taken by the handler */
        enum { ABSENT, INSTALLED } state;
        struct sigaction previous;     /* constant once the handler is installed */
        struct vql_sigbus_range *free; /* slots that were given back */
        atomic_size_t used;            /* slots from here on were never taken */
        struct vql_sigbus_range slots[VQL_SIGBUS_RANGES];
} guard = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void slot_write(struct vql_sigbus_range *r, const struct extent *x)
{
        unsigned int seq = atomic_load_explicit(&r->seq, memory_order_relaxed);

        atomic_store_explicit(&r->seq, seq + 1, memory_order_relaxed);
        /* Release, paired with the acquire loads of slot_read(): who sees a new field sees an odd
         * seq, or a later one. */
        atomic_store_explicit(&r->start, x->start, memory_order_release);
        atomic_store_explicit(&r->end, x->end, memory_order_release);
        atomic_store_explicit(&r->page, x->page, memory_order_release);
        atomic_store_explicit(&r->notify_fd, x->notify_fd, memory_order_release);
        /* Likewise: who sees the even seq sees all fields. */
        atomic_store_explicit(&r->seq, seq + 2, memory_order_release);
}

static bool slot_read(struct vql_sigbus_range *r, struct extent *ret_x)
{
        unsigned int seq = atomic_load_explicit(&r->seq, memory_order_acquire);
        struct extent x = {
                .start = atomic_load_explicit(&r->start, memory_order_acquire),
                .end = atomic_load_explicit(&r->end, memory_order_acquire),
                .page = atomic_load_explicit(&r->page, memory_order_acquire),
                .notify_fd = atomic_load_explicit(&r->notify_fd, memory_order_acquire),
        };

        if (seq & 1 || seq != atomic_load_explicit(&r->seq, memory_order_relaxed))
                return false;
        *ret_x = x;
        return true;
}

static struct vql_sigbus_range *slot_find(uintptr_t addr, struct extent *ret_x)
{
        size_t used = atomic_load_explicit(&guard.used, memory_order_acquire);

        for (size_t i = 0; i < used; i++) {
                struct vql_sigbus_range *r = &guard.slots[i];

                if (slot_read(r, ret_x) && addr >= ret_x->start && addr < ret_x->end)
                        return r;
        }
        return NULL;
}

static bool replace(uintptr_t start, uintptr_t end)
{
        void *va = (void *)start;

        return mmap(va, end - start, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == va;
}

/*
 * A file loses its tail: behind a page that is gone there is nothing to keep, so everything from
 * there to the end of the range is replaced at once.  Page by page, a front-end could make us split
 * the mapping until vm.max_map_count is reached, and with it the end of all.  Where that much
 * address space may not be had (strict overcommit), or for a page of broken hardware, which has
 * good ones behind it, it is the page alone.
 *
 * Two threads may do this one after the other for the same page.  What the first wrote is lost
 * then, like everything in a range that was hit.
 */
static bool replace_lost(uintptr_t addr, int code, const struct extent *x)
{
        uintptr_t page = addr & ~(uintptr_t)(x->page - 1);

        if (code != BUS_MCEERR_AR && replace(page, x->end))
                return true;
        return replace(page, page + x->page);
}

/* Did this thread fault because there is no page?  (Not: bad alignment, kill(), late news.) */
static bool is_lost_page(const siginfo_t *info)
{
        return info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
               info->si_code == BUS_MCEERR_AR;
}

static void notify(int fd)
{
        uint64_t one = 1;
        ssize_t n;

        if (fd < 0)
                return;
        /* It only fails when the counter is full, and then the reader has been told. */
        n = write(fd, &one, sizeof(one));
        (void)n;
}

static bool repair(const siginfo_t *info)
{
        uintptr_t addr = (uintptr_t)info->si_addr;
        struct vql_sigbus_range *r;
        struct extent x;

        if (!is_lost_page(info))
                return false;
        r = slot_find(addr, &x);
        if (!r || !replace_lost(addr, info->si_code, &x))
                return false;
        atomic_store_explicit(&r->hit, true, memory_order_release);
        notify(x.notify_fd);
        return true;
}

/* Back to the default: a faulting instruction runs again and faults again, with its address in the
 * core dump; any other signal is raised again and waits for the handler's return. */
static void die(const siginfo_t *info)
{
        const struct sigaction dfl = { .sa_handler = SIG_DFL };

        sigaction(SIGBUS, &dfl, NULL);
        if (!is_lost_page(info) && info->si_code != BUS_ADRALN)
                raise(SIGBUS);
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
        const struct sigaction *p = &guard.previous;

        if (p->sa_flags & SA_SIGINFO)
                p->sa_sigaction(sig, info, context);
        else if (p->sa_handler == SIG_IGN && info->si_code <= 0)
                return;
        else if (p->sa_handler == SIG_IGN || p->sa_handler == SIG_DFL)
                die(info);
        else
                p->sa_handler(sig);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
        int saved = errno;

        if (!repair(info))
                pass_on(sig, info, context);
        errno = saved;
}

/* SA_ONSTACK, since a host program may run us on stacks too small for a handler. */
static int install_locked(void)
{
        struct sigaction act = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK };

        if (guard.state == INSTALLED)
                return 0;
        sigemptyset(&act.sa_mask);
        /* Asked for first, so that it is complete when our handler may run. */
        if (sigaction(SIGBUS, NULL, &guard.previous) < 0 || sigaction(SIGBUS, &act, NULL) < 0)
                return -errno;
        guard.state = INSTALLED;
        return 0;
}

int vql_sigbus_install(void)
{
        int ret;

        pthread_mutex_lock(&guard.mutex);
        ret = install_locked();
        pthread_mutex_unlock(&guard.mutex);
        return ret;
}

static struct vql_sigbus_range *take_locked(void)
{
        size_t used = atomic_load_explicit(&guard.used, memory_order_relaxed);
        struct vql_sigbus_range *r = guard.free;

        if (r) {
                guard.free = r->next_free;
                return r;
        }
        if (used == VQL_SIGBUS_RANGES)
                return NULL;
        atomic_store_explicit(&guard.used, used + 1, memory_order_release);
        return &guard.slots[used];
}

int vql_sigbus_guard(void *va, size_t len, size_t page, int notify_fd,
                     struct vql_sigbus_range **ret_range)
{
        const struct extent x = { (uintptr_t)va, (uintptr_t)va + len, page, notify_fd };
        struct vql_sigbus_range *r = NULL;
        int ret;

        pthread_mutex_lock(&guard.mutex);
        ret = install_locked();
        if (ret == 0) {
                r = take_locked();
                ret = r ? 0 : -ENOSPC;
        }
        pthread_mutex_unlock(&guard.mutex);
        if (ret < 0)
                return ret;
        atomic_store_explicit(&r->hit, false, memory_order_relaxed);
        slot_write(r, &x);
        *ret_range = r;
        return 0;
}

void vql_sigbus_release(struct vql_sigbus_range *r)
{
        if (!r)
                return;
        slot_write(r, &(const struct extent){ .notify_fd = -1 });
        pthread_mutex_lock(&guard.mutex);
        r->next_free = guard.free;
        guard.free = r;
        pthread_mutex_unlock(&guard.mutex);
}

bool vql_sigbus_hit(const struct vql_sigbus_range *r)
{
        return atomic_load_explicit(&r->hit, memory_order_acquire);
}
