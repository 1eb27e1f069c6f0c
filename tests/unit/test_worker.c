/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Workers and lanes with queues whose bursts are functions of this test: they see every touch of a
 * queue, also one that comes too late.  The rings behind them are real enough for notifications.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include "eal.h"
#include "sw-fallback/lane.h"
#include "sw-fallback/uplink.h"
#include "sw-fallback/worker.h"
#include "virtqueue/features.h"

enum { ROOM = 2048, RING = 256, WAIT_MS = 30000, LATER = 1 };

static struct rte_mempool *pool, *indirect;
static bool own_namespace;

/* ---- a queue of the test's own ---- */

struct fake {
        struct vql_queue q;
        int kick_fd;
        _Atomic(bool) alive; /* false: nobody may touch it */
        _Atomic(unsigned int) touched_dead, calls;

        /* from the guest */
        _Atomic(unsigned int) fault_after; /* buffers until the ring is found broken; 0: never */
        unsigned int kicks;
        uint16_t port; /* destination port that its packets have */

        /* to the guest */
        _Atomic(unsigned int) room, got;
        uint8_t marks[4096]; /* a byte of each packet, in order */

        _Alignas(16) uint8_t desc[RING * 16];
        _Alignas(4) uint16_t avail[RING + 3];
        _Alignas(4) uint8_t used[RING * 8 + 6];
};

static struct fake *fake_of(struct vql_queue *q)
{
        return (struct fake *)((char *)q - offsetof(struct fake, q));
}

static void note_touch(struct fake *f)
{
        atomic_fetch_add(&f->calls, 1);
        if (!atomic_load(&f->alive))
                atomic_fetch_add(&f->touched_dead, 1);
}

/* A UDP packet of 60 bytes; its last byte says which buffer it was in. */
static struct rte_mbuf *make_packet(uint16_t port, uint8_t mark)
{
        static const uint8_t head[] = {
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0,  0,  0, 1,  8,   0, /* Ethernet */
                0x45, 0,    0,    46,   0,    0,    0, 0, 64, 17, 0, 0,  192, 0,
                2,    1,    192,  0,    2,    2,    0, 9, 0,  9,  0, 26, 0,   0,
        };
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
        uint8_t *p = m ? (uint8_t *)rte_pktmbuf_append(m, 60) : NULL;

        if (!p)
                return NULL;
        memset(p, 0, 60);
        memcpy(p, head, sizeof(head));
        p[36] = (uint8_t)(port >> 8);
        p[37] = (uint8_t)port;
        p[59] = mark;
        return m;
}

static uint16_t fake_dequeue(struct vql_queue *q, struct rte_mempool *from, struct rte_mbuf **pkts,
                             uint16_t n)
{
        struct fake *f = fake_of(q);
        uint16_t there, i;
        unsigned int left = atomic_load(&f->fault_after);

        note_touch(f);
        if (q->fault != VQL_FAULT_NONE)
                return 0;
        there = (uint16_t)(__atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) - q->last_avail);
        n = (uint16_t)RTE_MIN(n, there);
        if (left > 0 && left <= n) {
                vql_queue_fail(q, VQL_FAULT_DESC_LOOP);
                return 0;
        }
        if (left > 0)
                atomic_store(&f->fault_after, left - n);
        if (!from) {
                q->last_avail = (uint16_t)(q->last_avail + n);
                __atomic_store_n(&q->drop_disabled, q->drop_disabled + n, __ATOMIC_RELAXED);
                return 0;
        }
        for (i = 0; i < n; i++) {
                pkts[i] = make_packet(f->port, (uint8_t)q->last_avail);
                if (!pkts[i])
                        break;
                q->last_avail++;
        }
        __atomic_store_n(&q->packets, q->packets + i, __ATOMIC_RELEASE);
        return i;
}

static uint16_t fake_enqueue(struct vql_queue *q, struct rte_mbuf **pkts, uint16_t n)
{
        struct fake *f = fake_of(q);
        unsigned int room = atomic_load(&f->room), got = atomic_load(&f->got);

        note_touch(f);
        if (atomic_load(&f->fault_after) > 0)
                vql_queue_fail(q, VQL_FAULT_DESC_ADDRESS);
        if (q->fault != VQL_FAULT_NONE)
                return 0;
        n = (uint16_t)RTE_MIN(n, room);
        for (uint16_t i = 0; i < n; i++)
                f->marks[(got + i) % sizeof(f->marks)] =
                        *rte_pktmbuf_mtod_offset(pkts[i], uint8_t *, 59);
        atomic_fetch_sub(&f->room, n);
        atomic_fetch_add(&f->got, n);
        return n;
}

static struct fake *fake_new(bool rx)
{
        struct fake *f = aligned_alloc(64, (sizeof(*f) + 63) / 64 * 64);
        struct vql_queue_params params = {
                .features = 1ull << VIRTIO_F_VERSION_1,
                .size = RING,
                .rx = rx,
                .call_fd = -1,
        };

        assert_non_null(f);
        memset(f, 0, sizeof(*f));
        params.area[VQL_AREA_DESC] = f->desc;
        params.area[VQL_AREA_DRIVER] = f->avail;
        params.area[VQL_AREA_DEVICE] = f->used;
        vql_queue_init(&f->q, &params);
        if (rx)
                f->q.enqueue = fake_enqueue;
        else
                f->q.dequeue = fake_dequeue;
        f->kick_fd = rx ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        f->room = 1000000;
        f->alive = true;
        return f;
}

static void fake_free(struct fake *f)
{
        assert_int_equal(f->touched_dead, 0);
        if (f->kick_fd >= 0)
                close(f->kick_fd);
        free(f);
}

/* The guest makes n buffers available, and kicks if it is asked to (virtio 1.2, 2.7.13). */
static void guest_adds(struct fake *f, uint16_t n)
{
        const uint64_t one = 1;

        __atomic_store_n(&f->q.avail->idx, (uint16_t)(f->q.avail->idx + n), __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (!(__atomic_load_n(&f->q.used->flags, __ATOMIC_RELAXED) & VRING_USED_F_NO_NOTIFY)) {
                f->kicks++;
                assert_int_equal(write(f->kick_fd, &one, sizeof(one)), sizeof(one));
        }
}

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

/* ---- lanes ---- */

static struct vql_uplink *open_uplink(const char *spec, uint16_t queues)
{
        struct vql_uplink_params p = {
                .name = "port1",
                .spec = spec,
                .queues = queues,
                .pool = pool,
                .indirect_pool = indirect,
        };
        struct vql_uplink *u = NULL;
        struct vql_error e = { "" };

        if (vql_uplink_open(&p, &u, &e) < 0)
                fail_msg("%s", e.text);
        return u;
}

static struct vql_lane *lane_new(struct vql_uplink *u)
{
        struct vql_lane *lane = calloc(1, sizeof(*lane));

        assert_non_null(lane);
        lane->uplink = u;
        lane->pool = pool;
        lane->fault_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        return lane;
}

static struct fake *add_tx(struct vql_lane *lane)
{
        struct fake *f = fake_new(false);

        lane->tx[lane->n_tx++] = (struct vql_lane_ring){ .q = &f->q, .kick_fd = f->kick_fd };
        return f;
}

static struct fake *add_rx(struct vql_lane *lane)
{
        struct fake *f = fake_new(true);

        lane->rx[lane->n_rx++] = (struct vql_lane_ring){ .q = &f->q, .kick_fd = -1 };
        return f;
}

static void lane_free(struct vql_lane *lane)
{
        for (uint16_t i = 0; i < lane->n_tx; i++)
                fake_free(fake_of(lane->tx[i].q));
        for (uint16_t i = 0; i < lane->n_rx; i++)
                fake_free(fake_of(lane->rx[i].q));
        close(lane->fault_fd);
        free(lane);
}

static uint64_t faults_told(const struct vql_lane *lane)
{
        uint64_t n = 0;

        return read(lane->fault_fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

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

/* ---- one round at a time, without a worker ---- */

static struct vql_lane_state *lane_open(struct vql_lane *lane)
{
        struct vql_lane_state *s = NULL;

        assert_int_equal(vql_lane_open(lane, &s), 0);
        return s;
}

static void close_all(struct vql_lane_state *s, struct vql_lane *lane, struct vql_uplink *u)
{
        vql_lane_close(s);
        lane_free(lane);
        vql_uplink_close(u);
        assert_int_equal(rte_mempool_in_use_count(pool), 0);
}

static void packets_go_round(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx = add_rx(lane);
        struct vql_lane_state *s = lane_open(lane);

        (void)state;
        assert_false(vql_lane_poll(s, LATER));
        assert_int_equal(lane->first_packet_tsc, 0);
        guest_adds(tx, 100);
        assert_int_equal(tx->kicks, 0); /* it was asked not to */
        while (vql_lane_poll(s, LATER))
                ;
        assert_int_equal(rx->got, 100);
        for (int i = 0; i < 100; i++)
                assert_int_equal(rx->marks[i], i);
        assert_int_not_equal(lane->first_packet_tsc, 0);
        close_all(s, lane, u);
}

static void packets_wait_for_buffers(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx = add_rx(lane);
        struct vql_lane_state *s = lane_open(lane);

        (void)state;
        rx->room = 5;
        guest_adds(tx, 40);
        for (int i = 0; i < 5; i++)
                assert_true(vql_lane_poll(s, LATER));
        /* 32 were received, and none after; 5 got through. */
        assert_int_equal(rx->got, 5);
        assert_int_equal(s->n_held, 27);
        assert_int_equal(rx->q.drop_no_buffer, 0);
        rx->room = 10;
        assert_true(vql_lane_poll(s, LATER));
        assert_int_equal(s->n_held, 17);
        rx->room = 100;
        while (vql_lane_poll(s, LATER))
                ;
        assert_int_equal(rx->got, 40);
        for (int i = 0; i < 40; i++)
                assert_int_equal(rx->marks[i], i);
        assert_int_equal(rx->q.drop_no_buffer, 0);
        close_all(s, lane, u);
}

static void packets_do_not_wait_for_ever(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx = add_rx(lane);
        struct vql_lane_state *s = lane_open(lane);

        (void)state;
        rx->room = 0;
        guest_adds(tx, 10);
        vql_lane_poll(s, LATER);
        assert_int_equal(s->n_held, 10);
        vql_lane_poll(s, UINT64_MAX);
        assert_int_equal(s->n_held, 0);
        assert_int_equal(rx->q.drop_no_buffer, 10);
        /* A ring that takes nothing is not waited for a second time. */
        guest_adds(tx, 10);
        vql_lane_poll(s, LATER);
        assert_int_equal(s->n_held, 0);
        assert_int_equal(rx->q.drop_no_buffer, 20);
        /* Until it takes something again. */
        rx->room = 4;
        guest_adds(tx, 10);
        vql_lane_poll(s, LATER);
        assert_int_equal(rx->got, 4);
        assert_int_equal(s->n_held, 6);
        /* What is held when the lane goes is counted, too. */
        close_all(s, lane, u);
}

static void starved_ring_does_not_hold_up_others(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx[4];
        struct vql_lane_state *s;
        unsigned int total = 0;

        (void)state;
        for (int i = 0; i < 4; i++)
                rx[i] = add_rx(lane);
        s = lane_open(lane);
        for (int k = 0; k < 4; k++)
                rx[k]->room = k ? 1000000 : 0;
        for (int k = 0; k < 1000; k++) {
                tx->port = (uint16_t)(k * 7);
                guest_adds(tx, 1);
                vql_lane_poll(s, s->n_held ? UINT64_MAX : LATER);
        }
        while (vql_lane_poll(s, UINT64_MAX))
                ;
        assert_int_equal(rx[0]->got, 0);
        for (int i = 1; i < 4; i++) {
                assert_in_range(rx[i]->got, 100, 500); /* spread by flow */
                total += rx[i]->got;
        }
        assert_int_equal(total + rx[0]->q.drop_no_buffer, 1000);
        close_all(s, lane, u);
}

static void flows_keep_to_their_ring(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx[3];
        struct vql_lane_state *s;

        (void)state;
        for (int i = 0; i < 3; i++)
                rx[i] = add_rx(lane);
        s = lane_open(lane);
        for (uint16_t port = 1; port < 20; port++) {
                unsigned int rings = 0;

                for (int i = 0; i < 3; i++)
                        rx[i]->got = 0;
                tx->port = port;
                guest_adds(tx, 20);
                while (vql_lane_poll(s, LATER))
                        ;
                for (int i = 0; i < 3; i++) {
                        rings += rx[i]->got > 0;
                        for (unsigned int k = 1; k < rx[i]->got; k++)
                                assert_int_equal(rx[i]->marks[k],
                                                 (uint8_t)(rx[i]->marks[k - 1] + 1));
                }
                assert_int_equal(rings, 1);
        }
        close_all(s, lane, u);
}

/* The device's own hash is used where it has one. */
static void device_hash_chooses_the_ring(void **state)
{
        struct rte_ring *in;
        struct vql_uplink *u;
        struct vql_lane *lane;
        struct fake *rx[4];
        struct vql_lane_state *s;

        (void)state;
        u = open_uplink("net_ring0", 1);
        in = rte_ring_lookup("ETH_RXTX0_net_ring0"); /* as the driver names it */
        assert_non_null(in);
        lane = lane_new(u);
        for (int i = 0; i < 4; i++)
                rx[i] = add_rx(lane);
        s = lane_open(lane);
        for (uint32_t i = 0; i < 4; i++) {
                struct rte_mbuf *m = make_packet(1, 0);

                m->ol_flags = RTE_MBUF_F_RX_RSS_HASH;
                m->hash.rss = i << 30;
                assert_int_equal(rte_ring_enqueue(in, m), 0);
        }
        vql_lane_poll(s, LATER);
        for (int i = 0; i < 4; i++)
                assert_int_equal(rx[i]->got, 1);
        close_all(s, lane, u);
}

static void disabled_rings_move_nothing(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *off = add_tx(lane), *on = add_tx(lane), *rx_off = add_rx(lane),
                    *rx_on = add_rx(lane);
        struct vql_lane_state *s;

        (void)state;
        lane->tx[0].discard = true;
        lane->rx[0].discard = true;
        s = lane_open(lane);
        for (uint16_t port = 0; port < 50; port++) {
                on->port = port;
                guest_adds(on, 1);
                guest_adds(off, 1);
                assert_true(vql_lane_poll(s, LATER));
        }
        while (vql_lane_poll(s, LATER))
                ;
        assert_int_equal(off->q.drop_disabled, 50);
        assert_int_equal(rx_off->calls, 0);
        assert_int_equal(rx_on->got, 50);
        vql_lane_close(s);

        /* No ring left that takes anything. */
        lane->rx[1].discard = true;
        s = lane_open(lane);
        guest_adds(on, 5);
        while (vql_lane_poll(s, LATER))
                ;
        assert_int_equal(rx_on->got, 50);
        assert_int_equal(rx_off->q.drop_disabled, 5);
        close_all(s, lane, u);
}

/* A burst of chains that bear no packet, or are given back, is work like any other. */
static void giving_back_is_work(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *off = add_tx(lane);
        struct vql_lane_state *s;

        (void)state;
        lane->tx[0].discard = true;
        s = lane_open(lane);
        guest_adds(off, 33);
        assert_true(vql_lane_poll(s, LATER));
        assert_true(vql_lane_poll(s, LATER));
        assert_false(vql_lane_poll(s, LATER));
        close_all(s, lane, u);
}

static void fault_stops_one_ring(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *bad = add_tx(lane), *good = add_tx(lane), *rx = add_rx(lane);
        struct vql_lane_state *s;
        unsigned int calls;

        (void)state;
        bad->fault_after = 20;
        s = lane_open(lane);
        for (int i = 0; i < 40; i++) {
                guest_adds(bad, 1);
                guest_adds(good, 1);
                vql_lane_poll(s, LATER);
        }
        assert_int_equal(bad->q.packets, 19);
        assert_int_equal(good->q.packets, 40);
        assert_int_equal(faults_told(lane), 1);
        calls = bad->calls;
        vql_lane_arm(s);
        vql_lane_poll(s, LATER);
        vql_lane_disarm(s);
        assert_int_equal(bad->calls, calls);
        while (vql_lane_poll(s, LATER))
                ;
        assert_int_equal(rx->got, 59);
        vql_lane_close(s);

        /* Known before: it is neither polled nor told again. */
        s = lane_open(lane);
        vql_lane_poll(s, LATER);
        assert_int_equal(bad->calls, calls);
        assert_int_equal(faults_told(lane), 0);
        close_all(s, lane, u);
}

static void fault_to_the_guest(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *bad = add_rx(lane), *good = add_rx(lane);
        struct vql_lane_state *s;

        (void)state;
        bad->fault_after = 1;
        s = lane_open(lane);
        for (uint16_t port = 0; port < 100; port++) {
                tx->port = port;
                guest_adds(tx, 1);
                vql_lane_poll(s, LATER);
        }
        while (vql_lane_poll(s, LATER))
                ;
        assert_int_equal(faults_told(lane), 1);
        assert_int_equal(bad->calls, 1);
        assert_int_equal(bad->got, 0);
        assert_int_equal(good->got + bad->q.drop_no_buffer, 100);
        assert_true(good->got > 60); /* those that come later go where they can */
        close_all(s, lane, u);
}

/* The loopback holds 1023 packets and is not read while others wait for buffers. */
static void wire_that_takes_no_more(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 1);
        struct vql_lane *lane = lane_new(u);
        struct fake *tx = add_tx(lane), *rx = add_rx(lane);
        struct vql_lane_state *s = lane_open(lane);

        (void)state;
        rx->room = 0;
        for (int i = 0; i < 14; i++) {
                guest_adds(tx, 100);
                for (int k = 0; k < 4; k++)
                        vql_lane_poll(s, LATER);
        }
        assert_int_equal(tx->q.packets, 1400);
        assert_int_equal(s->n_held, 32);
        assert_int_equal(tx->q.drop_uplink, 1400 - 32 - 1023);
        close_all(s, lane, u);
}

/* A lane may receive from more queues than it sends to. */
static void lane_of_several_queues(void **state)
{
        struct vql_uplink *u = open_uplink("loopback", 5);
        struct vql_lane *lane = lane_new(u);
        struct fake *rx = add_rx(lane);
        struct vql_lane_state *s;

        (void)state;
        lane->uplink_queue = 1;
        lane->rx_stride = 2;
        s = lane_open(lane);
        for (uint16_t q = 0; q < 5; q++) {
                struct rte_mbuf *m = make_packet(9, (uint8_t)q);

                assert_int_equal(vql_uplink_send(u, q, &m, 1), 0);
        }
        while (vql_lane_poll(s, LATER))
                ;
        assert_int_equal(rx->got, 2);
        assert_int_equal(rx->marks[0], 1);
        assert_int_equal(rx->marks[1], 3);
        close_all(s, lane, u);
}

/* After a nap only that is looked at which no fd tells of. */
static void glance_sees_what_has_no_fd(void **state)
{
        struct vql_uplink *quiet = open_uplink("loopback", 1);
        struct vql_uplink *loud = open_uplink("net_null0", 1); /* receives for ever */
        struct vql_lane *lane = lane_new(quiet);
        struct fake *tx = add_tx(lane), *rx = add_rx(lane);
        struct vql_lane_state *s = lane_open(lane);

        (void)state;
        assert_false(vql_lane_needs_timer(s));
        vql_lane_arm(s);
        guest_adds(tx, 1);
        assert_int_equal(tx->kicks, 1);
        assert_false(vql_lane_glance(s));
        assert_int_equal(tx->calls, 0);
        vql_lane_disarm(s);
        /* It was there already when the lane was armed: no kick comes for it. */
        vql_lane_arm(s);
        assert_true(vql_lane_needs_timer(s));
        assert_true(vql_lane_glance(s));
        assert_int_equal(tx->q.packets, 1);
        vql_lane_close(s);

        lane->tx[0].kick_fd = -1;
        s = lane_open(lane);
        assert_true(vql_lane_needs_timer(s));
        vql_lane_arm(s);
        guest_adds(tx, 1);
        assert_true(vql_lane_glance(s));
        vql_lane_close(s);
        lane->tx[0].kick_fd = tx->kick_fd;

        lane->uplink = loud;
        s = lane_open(lane);
        assert_true(vql_lane_needs_timer(s));
        assert_true(vql_lane_glance(s));
        assert_true(rx->got > 0);
        vql_uplink_close(loud);
        close_all(s, lane, quiet);
}

/* ---- with a worker ---- */

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
                assert_null(atomic_exchange(&lane->inject, make_packet(9, (uint8_t)i)));
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
                cmocka_unit_test(packets_go_round),
                cmocka_unit_test(packets_wait_for_buffers),
                cmocka_unit_test(packets_do_not_wait_for_ever),
                cmocka_unit_test(starved_ring_does_not_hold_up_others),
                cmocka_unit_test(flows_keep_to_their_ring),
                cmocka_unit_test(device_hash_chooses_the_ring),
                cmocka_unit_test(disabled_rings_move_nothing),
                cmocka_unit_test(giving_back_is_work),
                cmocka_unit_test(fault_stops_one_ring),
                cmocka_unit_test(fault_to_the_guest),
                cmocka_unit_test(wire_that_takes_no_more),
                cmocka_unit_test(lane_of_several_queues),
                cmocka_unit_test(glance_sees_what_has_no_fd),
                cmocka_unit_test(worker_moves_packets),
                cmocka_unit_test(worker_polls_rings_without_kick),
                cmocka_unit_test(worker_sleeps_and_wakes_by_kick),
                cmocka_unit_test(worker_wakes_by_packet),
                cmocka_unit_test(worker_sends_what_is_injected),
                cmocka_unit_test(lanes_change_under_load),
                cmocka_unit_test(fd_that_cannot_be_waited_for),
                cmocka_unit_test(cpu_that_is_not_there),
                cmocka_unit_test(workers_leave_nothing_behind),
                cmocka_unit_test(idle_lanes),
        };

        own_namespace = unshare(CLONE_NEWNET) == 0;
        if (test_eal_start() < 0)
                return 1;
        pool = test_pool("pool", 8192, ROOM);
        indirect = test_pool("indirect", 4096, 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
