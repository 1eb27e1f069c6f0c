/* SPDX-License-Identifier: BSD-3-Clause */

/* Lanes, one round at a time, without a worker. */

#include <rte_ring.h>

#include "sw-fallback/lane.h"
#include "test_lane.h"

enum { LATER = 1 }; /* a time at which nothing has waited long enough to be dropped */

static uint64_t faults_told(const struct vql_lane *lane)
{
        uint64_t n = 0;

        return read(lane->fault_fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

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
                struct rte_mbuf *m = make_packet(pool, 1, 0);

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
                struct rte_mbuf *m = make_packet(pool, 9, (uint8_t)q);

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
        };

        return test_pools_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
