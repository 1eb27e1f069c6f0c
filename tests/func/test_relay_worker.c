/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A relay on a worker, which sleeps when there is nothing to do, a device on a thread of its own
 * that sleeps as well, and a guest that does: with one buffer at a time under way, one kick or
 * interrupt that is missed leaves them asleep for ever.  All the while the relay is taken from its
 * worker, settled, and opened again.
 *
 * An argument is the number of stops of each scenario.
 */

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "relay_rig.h"
#include "sw-fallback/worker.h"
#include "unit/eal.h"
#include "virtqueue/notify.h"

enum { WAIT_MS = 60000, BUFFERS = 30, SIZE = 16 };

static unsigned int stops = 12;

struct host {
        struct rr_rig r;
        struct vql_worker *w;
        struct vql_lane *lane;
        int kick_fd, device_fd; /* of the guest; the device's interrupt */
        pthread_t thread;
        atomic_bool stop;
        /* Of the books: guest and device see the same memory at the same address, and sanitizers do
         * not know that the worker, which sees it at another one, has put them in order. */
        pthread_mutex_t books;
};

/* ---- the device ---- */

static void drain_fd(int fd)
{
        uint64_t n;

        if (read(fd, &n, sizeof(n)) < 0)
                return;
}

static void write_fd(int fd)
{
        const uint64_t one = 1;

        assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static bool work(struct host *h)
{
        unsigned int taken;

        pthread_mutex_lock(&h->books);
        taken = rr_take(&h->r, UINT32_MAX);
        rr_complete(&h->r, UINT32_MAX);
        h->r.done.n = 0; /* nobody looks at that here */
        pthread_mutex_unlock(&h->books);
        if (taken == 0)
                return false;
        if (ref_call_due(&h->r.dev))
                write_fd(h->device_fd);
        return true;
}

static void *run_device(void *arg)
{
        struct host *h = arg;
        struct pollfd p = { .fd = h->r.device_kick_fd, .events = POLLIN };

        while (!atomic_load(&h->stop)) {
                ref_kicks_off(&h->r.dev);
                while (work(h))
                        ;
                ref_kicks_on(&h->r.dev, 0);
                if (work(h))
                        continue;
                poll(&p, 1, -1);
                drain_fd(h->r.device_kick_fd);
        }
        return NULL;
}

/* ---- start and stop, as a port does ---- */

static void start(struct host *h)
{
        struct vql_error e;

        h->lane->n_relay = 1;
        h->lane->relay[0] = (struct vql_lane_relay){ .relay = h->r.relay,
                                                     .kick_fd = h->kick_fd,
                                                     .device_fd = h->device_fd };
        atomic_store(&h->stop, false);
        assert_int_equal(pthread_create(&h->thread, NULL, run_device, h), 0);
        if (vql_worker_attach(h->w, h->lane, &e) < 0)
                fail_msg("%s", e.text);
}

static void stop(struct host *h)
{
        vql_worker_detach(h->w, h->lane);
        atomic_store(&h->stop, true);
        write_fd(h->r.device_kick_fd);
        pthread_join(h->thread, NULL);
        h->r.pending = vql_relay_settle(h->r.relay);
        vql_relay_close(h->r.relay);
        h->r.relay = NULL;
        h->r.held.n = 0;
        assert_null(h->r.pending);
}

static void restart(struct host *h)
{
        stop(h);
        rr_open(&h->r);
        vql_signal_always(&h->r.q);
        start(h);
}

/* ---- the guest ---- */

static void wait_for_one(struct host *h)
{
        const int rc = fe_driver_wait(h->r.d, h->r.call_fd, WAIT_MS);

        if (rc < 0)
                fail_msg("nothing came: %d, %u of %u returned, relay has %u", rc,
                         (unsigned int)h->r.got, (unsigned int)h->r.offered,
                         vql_relay_outstanding(h->r.relay));
        pthread_mutex_lock(&h->books);
        rr_get(&h->r);
        pthread_mutex_unlock(&h->books);
}

static void send_some(struct host *h)
{
        unsigned int pause;

        pthread_mutex_lock(&h->books);
        pause = rr_random(&h->r, 300);
        pthread_mutex_unlock(&h->books);

        /* The worker sleeps after 50 us without work. */
        if (pause > 20)
                usleep(pause);
        pthread_mutex_lock(&h->books);
        rr_add(&h->r, 1 + rr_random(&h->r, 3) * rr_random(&h->r, SIZE));
        pthread_mutex_unlock(&h->books);
        assert_true(fe_driver_kick(h->r.d, h->kick_fd) >= 0);
        while (fe_driver_outstanding(h->r.d) > SIZE / 4)
                wait_for_one(h);
}

static void play(const struct rr_setup *s)
{
        struct host *h = calloc(1, sizeof(*h));
        const struct vql_worker_params wp = { .cpu = -1 };
        struct vql_error e;

        assert_non_null(h);
        rr_init(&h->r, s);
        pthread_mutex_init(&h->books, NULL);
        h->r.device_kick_fd = eventfd(0, EFD_NONBLOCK);
        h->kick_fd = eventfd(0, EFD_NONBLOCK);
        h->device_fd = eventfd(0, EFD_NONBLOCK);
        h->lane = calloc(1, sizeof(*h->lane));
        h->lane->fault_fd = -1;
        assert_int_equal(vql_worker_new(&wp, &h->w, &e), 0);
        start(h);
        for (unsigned int i = 0; i < stops; i++) {
                for (unsigned int k = 0; k < BUFFERS; k++)
                        send_some(h);
                restart(h);
        }
        while (fe_driver_outstanding(h->r.d) > 0)
                wait_for_one(h);
        assert_int_equal(h->r.got, h->r.offered);
        stop(h);
        vql_worker_free(h->w);
        close(h->r.device_kick_fd);
        close(h->kick_fd);
        close(h->device_fd);
        pthread_mutex_destroy(&h->books);
        free(h->lane);
        rr_fini(&h->r);
        free(h);
}

static void nobody_sleeps_for_ever(void **state)
{
        (void)state;
        for (int i = 0; i < 8; i++) {
                const struct rr_setup s = { .packed = i & 1,
                                            .event_idx = i & 2,
                                            .rx = i & 4,
                                            .indirect = true,
                                            .whole = true,
                                            .size = SIZE,
                                            .seed = 11 };

                play(&s);
        }
}

/* The shadow has less room than the guest's ring: chains wait for the device, not for a kick. */
static void nobody_waits_for_room_for_ever(void **state)
{
        (void)state;
        for (int i = 0; i < 4; i++) {
                const struct rr_setup s = { .packed = i & 1,
                                            .event_idx = i & 2,
                                            .rx = true,
                                            .whole = true,
                                            .size = SIZE,
                                            .shadow = 4,
                                            .seed = 12 };

                play(&s);
        }
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nobody_sleeps_for_ever),
                cmocka_unit_test(nobody_waits_for_room_for_ever),
        };

        if (argc > 1)
                stops = (unsigned int)strtoul(argv[1], NULL, 10);
        return test_eal_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
