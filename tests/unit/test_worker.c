/* SPDX-License-Identifier: BSD-3-Clause */

/* Workers: sleeping and waking, lanes that come and go. */

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <rte_cycles.h>

#include "test_lane.h"

enum { WAIT_MS = 30000 };

static bool own_namespace;

static uint64_t read_counter(const uint64_t *c)
{
        return __atomic_load_n(c, __ATOMIC_ACQUIRE);
}

#define wait_until(condition)                                               \
        do {                                                                \
                for (int waited_ = 0; !(condition); waited_++) {            \
                        if (waited_ == WAIT_MS)                             \
                                fail_msg("never happened: %s", #condition); \
                        usleep(1000);                                       \
                }                                                           \
        } while (0)

static struct vql_worker *start_worker(int cpu)
{
        const struct vql_worker_params p = { .index = 3, .cpu = cpu };
        struct vql_worker *w = NULL;
        struct vql_error e = { "" };

        if (vql_worker_new(&p, &w, &e) < 0)
                fail_msg("%s", e.text);
        return w;
}

static void attach(struct vql_worker *w, struct vql_lane *lane)
{
        struct vql_error e = { "" };

        if (vql_worker_attach(w, lane, &e) < 0)
                fail_msg("%s", e.text);
}

static struct vql_worker_stats stats_of(const struct vql_worker *w)
{
        struct vql_worker_stats st;

        vql_worker_read_stats(w, &st);
        return st;
}

static void finish(struct vql_worker *w, struct vql_lane *lane, struct vql_uplink *u)
{
        vql_worker_detach(w, lane);
        vql_worker_free(w);
        lane_free(lane);
        vql_uplink_close(u);
        assert_int_equal(rte_mempool_in_use_count(pool), 0);
}

static void worker_moves_packets(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx = add_rx(lane);
        struct vql_worker *w = start_worker(-1);
        struct vql_worker_stats st;

        (void)state;
        attach(w, lane);
        for (int i = 0; i < 200; i++) {
                uint64_t before = read_counter(&tx->q.packets);

                guest_adds(tx, 100);
                wait_until(read_counter(&tx->q.packets) == before + 100);
        }
        wait_until(atomic_load(&rx->got) == 20000);
        st = stats_of(w);
        assert_int_equal(st.lanes, 1);
        assert_true(st.polls_busy > 0 && st.polls > st.polls_busy);
        finish(w, lane, u);
}

/* A ring whose kicks come from nowhere is looked after by timer. */
static void worker_polls_rings_without_kick(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane);
        struct vql_worker *w = start_worker(-1);

        (void)state;
        lane->tx[0].kick_fd = -1;
        attach(w, lane);
        for (uint64_t i = 1; i <= 5; i++) {
                uint64_t sleeps = stats_of(w).sleeps;

                wait_until(stats_of(w).sleeps > sleeps + 2);
                guest_adds(tx, 1);
                wait_until(read_counter(&tx->q.packets) == i);
        }
        finish(w, lane, u);
}

static bool need_tap(void)
{
        if (own_namespace && access("/dev/net/tun", R_OK | W_OK) == 0)
                return true;
        print_message("skipped: no namespace of our own or no /dev/net/tun\n");
        return false;
}

/*
 * With interrupts on both sides a worker sleeps until somebody wakes it: a single kick that is lost
 * between arming and sleeping would leave it asleep for ever.
 */
static void worker_sleeps_and_wakes_by_kick(void **state)
{
        struct vql_uplink *u;
        struct vql_lane *lane;
        struct fake *tx;
        struct vql_worker *w;
        struct vql_worker_stats st;

        (void)state;
        if (!need_tap())
                skip();
        u = open_uplink("net_tap0,iface=vqlwt0", 1);
        lane = lane_new(u);
        tx = add_tx(lane);
        w = start_worker(-1);
        attach(w, lane);
        srandom(1);
        for (uint64_t i = 1; i <= 3000; i++) {
                guest_adds(tx, 1);
                for (int k = 0; read_counter(&tx->q.packets) < i; k++) {
                        if (k == WAIT_MS * 10)
                                fail_msg("packet %u was never taken", (unsigned int)i);
                        usleep(100);
                }
                for (uint64_t end = rte_rdtsc() +
                                    (uint64_t)(random() % 150) * (rte_get_tsc_hz() / 1000000);
                     rte_rdtsc() < end;)
                        sched_yield();
        }
        assert_true(tx->kicks > 0);
        /* Asleep, it does nothing at all. */
        wait_until((st = stats_of(w), usleep(200000), stats_of(w).polls == st.polls));
        assert_int_equal(stats_of(w).sleeps, st.sleeps);
        finish(w, lane, u);
}

static void worker_wakes_by_packet(void **state)
{
        const uint8_t frame[60] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, [12] = 0x88, 0xb5 };
        struct sockaddr_ll to = { .sll_family = AF_PACKET };
        struct vql_uplink *u;
        struct vql_lane *lane;
        struct fake *rx;
        struct vql_worker *w;
        int fd;

        (void)state;
        if (!need_tap())
                skip();
        u = open_uplink("net_tap0,iface=vqlwt0", 1);
        lane = lane_new(u);
        rx = add_rx(lane);
        w = start_worker(-1);
        attach(w, lane);
        fd = socket(AF_PACKET, SOCK_RAW, 0);
        assert_true(fd >= 0);
        to.sll_ifindex = (int)if_nametoindex("vqlwt0");
        for (int i = 0; i < 200; i++) {
                unsigned int got = atomic_load(&rx->got);

                assert_int_equal(
                        sendto(fd, frame, sizeof(frame), 0, (struct sockaddr *)&to, sizeof(to)),
                        sizeof(frame));
                wait_until(atomic_load(&rx->got) > got);
                usleep((useconds_t)(i * 5));
        }
        close(fd);
        finish(w, lane, u);
}

static void worker_sends_what_is_injected(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *rx = add_rx(lane);
        struct vql_worker *w = start_worker(-1);

        (void)state;
        attach(w, lane);
        for (unsigned int i = 0; i < 20; i++) {
                assert_null(atomic_exchange(&lane->inject, make_packet(pool, 9, (uint8_t)i)));
                vql_worker_wake(w);
                wait_until(atomic_load(&rx->got) == i + 1);
                assert_null(atomic_load(&lane->inject));
        }
        finish(w, lane, u);
}

struct changer {
        struct vql_worker *w;
        struct vql_uplink *u;
        uint16_t queue;
        unsigned int rounds, failed;
};

/* Attach, let packets move, detach; after that a touch of the queues is a mistake. */
static void *attach_and_detach(void *arg)
{
        struct changer *c = arg;

        for (unsigned int i = 0; i < c->rounds; i++) {
                struct vql_lane *lane = lane_new(c->u);
                struct fake *tx = add_tx(lane), *rx = add_rx(lane);
                unsigned int calls;

                lane->uplink_queue = c->queue;
                rx->room = i % 3 ? 1000000 : 3;
                if (vql_worker_attach(c->w, lane, NULL) < 0) {
                        c->failed++;
                        lane_free(lane);
                        continue;
                }
                guest_adds(tx, (uint16_t)(1 + i % 200));
                if (i % 4 == 0)
                        usleep(i % 500);
                vql_worker_detach(c->w, lane);
                atomic_store(&tx->alive, false);
                atomic_store(&rx->alive, false);
                calls = atomic_load(&tx->calls) + atomic_load(&rx->calls);
                guest_adds(tx, 1);
                sched_yield();
                if (atomic_load(&tx->calls) + atomic_load(&rx->calls) != calls)
                        c->failed++;
                lane_free(lane);
                vql_uplink_drain(c->u, c->queue);
        }
        return NULL;
}

static void lanes_change_under_load(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 3);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx = add_rx(lane);
        struct vql_worker *w = start_worker(-1);
        struct changer changer[2] = { { w, u, 1, 700, 0 }, { w, u, 2, 700, 0 } };
        pthread_t thread[2];
        uint64_t sent = 0;

        (void)state;
        attach(w, lane);
        for (int i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, attach_and_detach, &changer[i]),
                                 0);
        /* A lane that stays has its traffic all the while. */
        for (int i = 0; i < 50; i++) {
                guest_adds(tx, 10);
                sent += 10;
                wait_until(read_counter(&tx->q.packets) == sent);
        }
        for (int i = 0; i < 2; i++) {
                assert_int_equal(pthread_join(thread[i], NULL), 0);
                assert_int_equal(changer[i].failed, 0);
        }
        wait_until(atomic_load(&rx->got) == sent);
        assert_int_equal(stats_of(w).lanes, 1);
        finish(w, lane, u);
}

static void fd_that_cannot_be_waited_for(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane);
        struct vql_worker *w = start_worker(-1);
        struct vql_error e = { "" };
        int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

        (void)state;
        add_tx(lane);
        lane->tx[1].kick_fd = file;
        assert_int_equal(vql_worker_attach(w, lane, &e), -EPERM);
        assert_string_equal(e.text,
                            "worker 3: a kick fd cannot be waited for: Operation not permitted");
        assert_int_equal(stats_of(w).lanes, 0);
        assert_int_equal(tx->calls, 0);
        close(file);
        lane->tx[1].kick_fd = -1;
        attach(w, lane);
        guest_adds(tx, 1);
        wait_until(read_counter(&tx->q.packets) == 1);
        finish(w, lane, u);
}

static void cpu_that_is_not_there(void **state)
{
        static const int cpus[] = { 1023, 5000 };
        struct vql_error e = { "" };
        char sentence[80];

        (void)state;
        for (int i = 0; i < 2; i++) {
                const struct vql_worker_params p = { .index = 3, .cpu = cpus[i] };
                struct vql_worker *w = NULL;

                assert_int_equal(vql_worker_new(&p, &w, &e), -EINVAL);
                snprintf(sentence, sizeof(sentence),
                         "worker 3: this machine lets no thread run on CPU %d", cpus[i]);
                assert_string_equal(e.text, sentence);
        }
        vql_worker_free(start_worker(sched_getcpu()));
}

/* Workers come and go without leaving descriptors or lcore ids behind. */
static void workers_leave_nothing_behind(void **state)
{
        int first = dup(0);

        (void)state;
        close(first);
        for (int i = 0; i < 300; i++)
                vql_worker_free(start_worker(-1));
        assert_int_equal(dup(0), first);
        close(first);
        vql_worker_free(NULL);
}

static double cpu_seconds(void)
{
        struct rusage r;

        getrusage(RUSAGE_SELF, &r);
        return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
               (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

/* Printed, not judged: what 64 idle lanes cost whose uplinks have no interrupts. */
/*
 * A lane without work is looked at less often than its busy neighbour's rounds come, and still gets
 * its turn, although nobody kicks: the worker has not asked for it.
 */
static void idle_lane_beside_a_busy_one(void **state)
{
        struct vql_uplink *u[2] = { open_uplink("net_null20", 1), open_uplink("loopback", 1) };
        struct vql_lane *busy = lane_new(u[0]), *idle = lane_new(u[1]);
        struct fake *rx = add_rx(busy), *tx = add_tx(idle);
        struct vql_worker *w = start_worker(-1);

        (void)state;
        atomic_store(&rx->room, UINT_MAX);
        attach(w, busy);
        attach(w, idle);
        for (uint64_t i = 1; i <= 20; i++) {
                const unsigned int rounds = atomic_load(&rx->calls);

                wait_until(atomic_load(&rx->calls) > rounds + 20000);
                guest_adds(tx, 1);
                wait_until(read_counter(&tx->q.packets) == i);
        }
        assert_true(atomic_load(&tx->calls) < atomic_load(&rx->calls));
        vql_worker_detach(w, busy);
        lane_free(busy);
        vql_uplink_close(u[0]);
        finish(w, idle, u[1]);
}

static void idle_lanes(void **state)
{
        struct vql_worker *w = start_worker(-1);
        struct vql_uplink *u[16];
        struct vql_lane *lane[64];
        struct vql_worker_stats a, b;
        double cpu;

        (void)state;
        for (int i = 0; i < 64; i++) {
                char spec[32];

                snprintf(spec, sizeof(spec), "net_null%d,no-rx=1", i / 4);
                if (i % 4 == 0)
                        u[i / 4] = open_uplink(spec, 4);
                lane[i] = lane_new(u[i / 4]);
                lane[i]->uplink_queue = (uint16_t)(i % 4);
                add_tx(lane[i]);
                add_rx(lane[i]);
                attach(w, lane[i]);
        }
        sleep(1);
        a = stats_of(w);
        cpu = cpu_seconds();
        sleep(3);
        cpu = cpu_seconds() - cpu;
        b = stats_of(w);
        print_message("64 idle lanes without interrupts: %.2f %% of a core, %.0f naps a second\n",
                      cpu / 3 * 100, (double)(b.sleeps - a.sleeps) / 3);
        for (int i = 0; i < 64; i++) {
                vql_worker_detach(w, lane[i]);
                lane_free(lane[i]);
                if (i % 4 == 3)
                        vql_uplink_close(u[i / 4]);
        }
        vql_worker_free(w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(worker_moves_packets),
                cmocka_unit_test(worker_polls_rings_without_kick),
                cmocka_unit_test(worker_sleeps_and_wakes_by_kick),
                cmocka_unit_test(worker_wakes_by_packet),
                cmocka_unit_test(worker_sends_what_is_injected),
                cmocka_unit_test(lanes_change_under_load),
                cmocka_unit_test(fd_that_cannot_be_waited_for),
                cmocka_unit_test(cpu_that_is_not_there),
                cmocka_unit_test(workers_leave_nothing_behind),
                cmocka_unit_test(idle_lane_beside_a_busy_one),
                cmocka_unit_test(idle_lanes),
        };

        own_namespace = unshare(CLONE_NEWNET) == 0;
        return test_pools_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
