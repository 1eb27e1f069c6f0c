/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two threads that sleep: the driver until an interrupt comes, the device until a kick comes.
 * Neither side looks at the ring again without having been told to, so that a notification that is
 * missing once, in whatever interleaving, is a time-out here.  And the moment itself, alone.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "bare_queue.h"
#include "base/bits.h"
#include "frontend/driver.h"
#include "memory/memory.h"
#include "sw-fallback/burst.h"
#include "sw-fallback/worker.h"
#include "unit/eal.h"
#include "virtqueue/features.h"
#include "virtqueue/notify.h"

enum { BUFFERS = 30000, PLACES = 16, BYTES = 100, PATIENCE_MS = 60000 };
enum { DUEL_ROUNDS = 100000, DUEL_SECONDS = 3 };

struct pair {
        struct fe_memory *mem;
        struct vql_mem_table *table;
        struct fe_driver *d;
        struct fe_seg seg[PLACES];
        bool rx;
        int call_fd, kick_fd;
        atomic_bool done; /* the driver has all it wanted */
        uint32_t random;
        struct vql_queue q;
        const char *complaint; /* of the device's thread */
};

static struct rte_mempool *packets;

static uint32_t rnd(struct pair *p, uint32_t below)
{
        p->random = p->random * 1664525 + 1013904223;
        return (p->random >> 16) % below;
}

/* ---- set-up ---- */

static struct pair *pair_new(uint64_t features, bool rx, uint16_t size)
{
        struct pair *p = aligned_alloc(VQL_CACHE_LINE, RTE_ALIGN(sizeof(*p), VQL_CACHE_LINE));
        struct fe_driver_params params = {
                .size = size,
                .packed = vql_has(features, VIRTIO_F_RING_PACKED),
                .event_idx = vql_has(features, VIRTIO_RING_F_EVENT_IDX),
        };
        struct fe_text e;

        assert_non_null(p);
        memset(p, 0, sizeof(*p));
        p->rx = rx;
        p->random = 1;
        p->call_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        p->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        assert_true(p->call_fd >= 0 && p->kick_fd >= 0);
        assert_int_equal(fe_memory_new_layout(FE_ONE_REGION, &p->mem), 0);
        p->table = bare_table_new(p->mem);
        params.mem = p->mem;
        assert_int_equal(fe_driver_new(&params, &p->d, &e), 0);
        for (int i = 0; i < PLACES; i++)
                assert_int_equal(fe_seg_alloc(p->mem, 0, BYTES, rx, &p->seg[i]), 0);
        bare_queue_init(&p->q, &(struct bare_params){
                                       .d = p->d,
                                       .table = p->table,
                                       .features = vql_bit(VIRTIO_F_VERSION_1),
                                       .rx = rx,
                                       .call_fd = p->call_fd,
                               });
        return p;
}

static void pair_free(struct pair *p)
{
        fe_driver_free(p->d);
        vql_mem_table_put(p->table);
        fe_memory_free(p->mem);
        close(p->call_fd);
        close(p->kick_fd);
        free(p);
}

/* ---- the device ---- */

static uint16_t serve(struct pair *p)
{
        struct rte_mbuf *m[VQL_BURST];
        uint16_t n;

        if (!p->rx) {
                n = p->q.dequeue(&p->q, packets, m, VQL_BURST);
                rte_pktmbuf_free_bulk(m, n);
                return n;
        }
        if (rte_pktmbuf_alloc_bulk(packets, m, VQL_BURST) < 0)
                return 0;
        for (int i = 0; i < VQL_BURST; i++)
                rte_pktmbuf_append(m[i], BYTES - 12);
        n = p->q.enqueue(&p->q, m, VQL_BURST);
        rte_pktmbuf_free_bulk(m, VQL_BURST);
        return n;
}

static void *run_device(void *arg)
{
        struct pair *p = arg;
        struct pollfd pfd = { .fd = p->kick_fd, .events = POLLIN };
        uint64_t count;

        while (!p->done) {
                vql_notify_disable(&p->q);
                while (serve(p) > 0)
                        ;
                if (vql_notify_enable(&p->q))
                        continue;
                if (poll(&pfd, 1, PATIENCE_MS) != 1) {
                        p->complaint = vql_queue_has_avail(&p->q) ? "a kick is missing"
                                                                  : "the driver sleeps for ever";
                        return NULL;
                }
                if (read(p->kick_fd, &count, sizeof(count)) < 0)
                        p->complaint = "kick fd";
        }
        return NULL;
}

/* ---- the driver ---- */

static unsigned int offer(struct pair *p, unsigned int most)
{
        unsigned int n = RTE_MIN(1 + rnd(p, 6), most), i;

        for (i = 0; i < n; i++) {
                /* Any place will do: nobody looks at what is in the buffers. */
                const struct fe_chain c = { .segs = &p->seg[rnd(p, PLACES)], .n = 1 };

                if (fe_driver_add(p->d, &c, NULL) < 0)
                        break;
        }
        assert_true(fe_driver_kick(p->d, p->kick_fd) >= 0);
        return i;
}

/* Sleep until more than `after` buffers are there, by interrupt alone. */
static void sleep_for_more(struct pair *p, uint16_t after)
{
        struct pollfd pfd = { .fd = p->call_fd, .events = POLLIN };
        uint64_t count;

        while (!fe_driver_calls_on(p->d, after)) {
                if (poll(&pfd, 1, PATIENCE_MS) != 1)
                        fail_msg("no interrupt after %u more of %u", after + 1,
                                 fe_driver_outstanding(p->d));
                assert_true(read(p->call_fd, &count, sizeof(count)) > 0);
        }
        fe_driver_calls_off(p->d);
}

static void run_driver(struct pair *p, bool event_idx)
{
        unsigned int offered = 0, back = 0;

        fe_driver_calls_off(p->d);
        while (back < BUFFERS) {
                struct fe_done done;
                int err;

                offered += offer(p, BUFFERS - offered);
                if (event_idx && rnd(p, 2)) {
                        sleep_for_more(p, (uint16_t)rnd(p, fe_driver_outstanding(p->d)));
                } else if (rnd(p, 4)) {
                        err = fe_driver_wait(p->d, p->call_fd, PATIENCE_MS);
                        if (err < 0)
                                fail_msg("buffer %u of %u: %s", back, offered,
                                         err == -ETIME ? "an interrupt is missing" : "no answer");
                }
                while ((err = fe_driver_get(p->d, &done)) == 1)
                        back++;
                if (err < 0)
                        fail_msg("%s", fe_driver_error(p->d));
        }
}

/* ---- the tests ---- */

static void sleep_and_wake(uint64_t features, bool rx, uint16_t size)
{
        const uint64_t one = 1;
        struct pair *p = pair_new(features, rx, size);
        pthread_t device;

        assert_int_equal(pthread_create(&device, NULL, run_device, p), 0);
        run_driver(p, vql_has(features, VIRTIO_RING_F_EVENT_IDX));
        p->done = true;
        assert_true(write(p->kick_fd, &one, sizeof(one)) > 0);
        pthread_join(device, NULL);
        if (p->complaint)
                fail_msg("%s", p->complaint);
        pair_free(p);
}

/* Rings that a burst goes around more than once, if the driver is quick, and larger ones. */
static void all_directions(bool packed)
{
        static const uint16_t sizes[] = { 1, 4, 64 };
        const uint64_t format = packed ? vql_bit(VIRTIO_F_RING_PACKED) : 0;

        for (size_t i = 0; i < RTE_DIM(sizes); i++) {
                for (int rx = 0; rx < 2; rx++) {
                        sleep_and_wake(format, rx, sizes[i]);
                        sleep_and_wake(format | vql_bit(VIRTIO_RING_F_EVENT_IDX), rx, sizes[i]);
                }
        }
}

static void test_split(void **state)
{
        (void)state;
        all_directions(false);
}

static void test_packed(void **state)
{
        (void)state;
        all_directions(true);
}

/* ---- fences ---- */

/*
 * One side says that it is done and looks at the other's wish, while the other states its wish and
 * looks whether something is done.  One of the two must see the other, every time; that takes a
 * full fence on both sides.
 */
struct duel {
        struct pair *p;
        bool kicks; /* the driver publishes and the device wishes, else the other way round */
        atomic_uint arrived;
        atomic_bool over;
        bool device_saw;
};

/* Run on the nth of the CPUs that we may use; false: there are not that many. */
static bool pin(int nth)
{
        cpu_set_t all, one;

        CPU_ZERO(&one);
        if (sched_getaffinity(0, sizeof(all), &all) < 0)
                return false;
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &all) && nth-- == 0)
                        CPU_SET(cpu, &one);
        return pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0;
}

/* Both threads leave at the same moment, nearly. */
static void meet(struct duel *d, unsigned int *rounds)
{
        *rounds += 2;
        atomic_fetch_add(&d->arrived, 1);
        for (unsigned int i = 0; atomic_load(&d->arrived) < *rounds; i++)
                if (i % 1024 == 1023)
                        sched_yield();
}

static void dither(unsigned int n)
{
        for (volatile unsigned int i = 0; i < n; i++)
                ;
}

static void *duel_device(void *arg)
{
        struct duel *d = arg;
        struct vql_queue *q = &d->p->q;
        unsigned int rounds = 0;
        uint64_t signals;

        pin(1);
        for (unsigned int i = 0;; i++) {
                if (d->kicks)
                        vql_notify_disable(q);
                signals = q->signals;
                meet(d, &rounds);
                if (d->over)
                        return NULL;
                dither(i * 7 % 401);
                if (d->kicks) {
                        d->device_saw = vql_notify_enable(q);
                } else {
                        serve(d->p);
                        d->device_saw = q->signals != signals;
                }
                meet(d, &rounds);
                if (d->kicks)
                        serve(d->p);
                meet(d, &rounds);
        }
}

/* The driver's part of a round: did it see the other side? */
static bool duel_round(struct duel *d, unsigned int i, unsigned int *rounds)
{
        const struct fe_chain c = { .segs = &d->p->seg[0], .n = 1 };
        struct fe_driver *driver = d->p->d;
        struct fe_done done;
        bool saw;

        fe_driver_calls_off(driver);
        assert_int_equal(fe_driver_add(driver, &c, NULL), 0);
        if (!d->kicks)
                fe_driver_kick(driver, -1);
        meet(d, rounds);
        dither(i * 11 % 1511);
        saw = d->kicks ? fe_driver_kick(driver, -1) == 1 : fe_driver_calls_on(driver, 0);
        meet(d, rounds);
        saw |= d->device_saw;
        meet(d, rounds);
        assert_int_equal(fe_driver_get(driver, &done), 1);
        return saw;
}

/* For so many rounds, or as long as it may take on a machine that does other things too. */
static void duel(uint64_t features, bool kicks)
{
        struct duel d = { .p = pair_new(features, false, 4), .kicks = kicks };
        const time_t end = time(NULL) + DUEL_SECONDS;
        unsigned int rounds = 0, missed = 0, i;
        pthread_t device;

        assert_int_equal(pthread_create(&device, NULL, duel_device, &d), 0);
        pin(0);
        for (i = 0; i < DUEL_ROUNDS && time(NULL) < end; i++)
                missed += !duel_round(&d, i, &rounds);
        d.over = true;
        meet(&d, &rounds);
        pthread_join(device, NULL);
        if (missed > 0)
                fail_msg("%u of %u %s got lost", missed, i, kicks ? "kicks" : "interrupts");
        pair_free(d.p);
}

static void test_fences(void **state)
{
        const uint64_t event_idx = vql_bit(VIRTIO_RING_F_EVENT_IDX);
        const uint64_t packed = vql_bit(VIRTIO_F_RING_PACKED);
        cpu_set_t cpus;

        (void)state;
        assert_int_equal(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
        if (CPU_COUNT(&cpus) < 2)
                skip();
        for (int i = 0; i < 8; i++) {
                duel((i & 1 ? event_idx : 0) | (i & 2 ? packed : 0), i & 4);
                assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_split),
                cmocka_unit_test(test_packed),
                cmocka_unit_test(test_fences),
        };

        if (test_eal_start() < 0)
                return 1;
        packets = test_pool("packets", 255, 2048);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
