/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Queues in numbers: one of many, many at once, in any order, half a pair.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { MOST_PAIRS = 128 };

/* A firmware's driver: one pair of the many that are offered, legacy or not. */
static void test_one_of_many(void **state)
{
        static const uint64_t features[] = { 0, FE_FEATURES_MODERN, FE_FEATURES_PACKED };
        struct host *h = *state;

        for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
                const struct fe_setup s = { .features = features[i], .queue_pairs = 1 };
                struct guest g;

                host_add(h, "p", MOST_PAIRS);
                guest_start(&g, h, "p", &s);
                assert_int_equal(g.fe->queue_pairs_offered, MOST_PAIRS);
                guest_traffic(&g, 300);
                assert_int_equal(host_info(h, "p").rings_running, 2);
                expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
                guest_end(&g);
                host_del(h, "p");
        }
}

/* Without PROTOCOL_FEATURES no SET_VRING_ENABLE comes: a ring that is set up runs. */
static void test_no_protocol_features(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN,
                                    .protocol_features = FE_PROTOCOL_NONE };
        struct host *h = *state;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 300);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        host_del(h, "p");
}

/* Each protocol feature absent once: the others do not lean on it. */
static void test_protocol_features_one_by_one(void **state)
{
        struct host *h = *state;

        host_add(h, "p", 1);
        for (unsigned int bit = 0; bit <= FE_P_STATUS; bit++) {
                const struct fe_setup s = {
                        .features = FE_FEATURES_MODERN,
                        .protocol_features = FE_PROTOCOL_QEMU & ~FE_BIT(bit),
                        .inflight = true,
                };
                struct guest g;

                if (!fe_has(FE_PROTOCOL_QEMU, bit))
                        continue;
                guest_start(&g, h, "p", &s);
                guest_traffic(&g, 100);
                expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
                guest_end(&g);
                host_wait_state(h, "p", "waiting");
        }
        host_del(h, "p");
}

/* Rings told in an order that leaves holes, and enabled before they are told of. */
static void test_any_order(void **state)
{
        static const unsigned int order[] = { 7, 2, 0, 5, 1, 6, 3, 4 };
        const struct fe_setup s = { .features = FE_FEATURES_MODERN, .queue_pairs = 4 };
        const struct fe_net_params p = { .pair = 3, .region = FE_ANY_REGION, .buffers = 64 };
        struct host *h = *state;
        struct fe_setup with_memory = s;
        struct guest g = { 0 };

        host_add(h, "p", 4);
        assert_int_equal(fe_memory_new_layout(FE_PC, &g.mem), 0);
        with_memory.mem = g.mem;
        g.fe = host_connect(h, "p");
        expect_fe(g.fe, fe_frontend_negotiate(g.fe, &with_memory), 0);
        expect_fe(g.fe, fe_frontend_send_features(g.fe), 0);
        for (unsigned int i = 0; i < 8; i++)
                expect_fe(g.fe, fe_frontend_enable_ring(g.fe, order[7 - i], true), 0);
        expect_fe(g.fe, fe_frontend_send_memory(g.fe), 0);
        for (unsigned int i = 0; i < 8; i++)
                expect_fe(g.fe, fe_frontend_start_ring(g.fe, order[i]), 0);
        assert_int_equal(host_info(h, "p").rings_running, 8);
        guest_net(&g, &p);
        guest_traffic(&g, 300);
        guest_end(&g);
        host_del(h, "p");
}

/* Memory last: rings start when there is something to start in. */
static void test_memory_last(void **state)
{
        struct host *h = *state;
        struct fe_setup s = { .features = FE_FEATURES_PACKED };
        struct guest g = { 0 };

        host_add(h, "p", 1);
        assert_int_equal(fe_memory_new_layout(FE_PC, &g.mem), 0);
        s.mem = g.mem;
        g.fe = host_connect(h, "p");
        expect_fe(g.fe, fe_frontend_negotiate(g.fe, &s), 0);
        expect_fe(g.fe, fe_frontend_send_features(g.fe), 0);
        for (unsigned int i = 0; i < 2; i++) {
                expect_fe(g.fe, fe_frontend_start_ring(g.fe, i), 0);
                expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, true), 0);
        }
        expect_fe(g.fe, fe_frontend_send_mem_table(g.fe), 0);
        guest_net(&g, &(struct fe_net_params){ .region = FE_ANY_REGION, .buffers = 64 });
        guest_traffic(&g, 300);
        guest_end(&g);
        host_del(h, "p");
}

/* Only the ring from the guest: what it sends goes, and every buffer comes back. */
static void test_half_a_pair(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct host *h = *state;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 50);
        expect_fe(g.fe, fe_frontend_stop_ring(g.fe, 0), 0);
        for (unsigned int i = 0; i < 100; i++) {
                while (fe_net_send(g.net, NULL, "\2\0\0\0\0\1\2\0\0\0\0\2\x88\xb6", 14) != 0)
                        assert_true(fe_net_reap(g.net) >= 0);
        }
        for (int ms = 0; ms < HOST_WAIT_MS && fe_net_unreaped(g.net) > 0; ms++) {
                assert_true(fe_net_reap(g.net) >= 0);
                poll(NULL, 0, 1);
        }
        assert_int_equal(fe_net_unreaped(g.net), 0);
        expect_fe(g.fe, fe_frontend_start_ring(g.fe, 0), 0);
        guest_traffic(&g, 50);
        guest_end(&g);
        host_del(h, "p");
}

/* ---- all pairs at once ---- */

struct crowd {
        struct fe_net *net[MOST_PAIRS];
        bool seen[MOST_PAIRS];
        unsigned int received;
};

static void fill_packet(uint8_t packet[64], unsigned int pair)
{
        static const uint8_t head[14] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };

        memset(packet, (int)pair, 64);
        memcpy(packet, head, sizeof(head));
        packet[5] = (uint8_t)pair;
}

/* Where a packet comes back is the back-end's choice; that it does, once and whole, is not. */
static void receive_from(struct crowd *c, unsigned int pair)
{
        uint8_t packet[2048], expected[64];
        size_t len = sizeof(packet);
        unsigned int from;

        while (fe_net_receive(c->net[pair], NULL, packet, &len) > 0) {
                from = packet[63];
                assert_in_range(from, 0, MOST_PAIRS - 1);
                fill_packet(expected, from);
                assert_int_equal(len, sizeof(expected));
                assert_memory_equal(packet, expected, sizeof(expected));
                assert_false(c->seen[from]);
                c->seen[from] = true;
                c->received++;
                len = sizeof(packet);
        }
}

static void crowd_round(struct crowd *c)
{
        uint8_t packet[64];

        memset(c->seen, 0, sizeof(c->seen));
        c->received = 0;
        for (unsigned int i = 0; i < MOST_PAIRS; i++) {
                fill_packet(packet, i);
                assert_true(fe_net_refill(c->net[i]) >= 0);
                assert_int_equal(fe_net_send(c->net[i], NULL, packet, sizeof(packet)), 0);
        }
        for (int ms = 0; ms < HOST_WAIT_MS && c->received < MOST_PAIRS; ms++) {
                for (unsigned int i = 0; i < MOST_PAIRS; i++)
                        receive_from(c, i);
                poll(NULL, 0, 1);
        }
        assert_int_equal(c->received, MOST_PAIRS);
        for (unsigned int i = 0; i < MOST_PAIRS; i++)
                assert_true(fe_net_reap(c->net[i]) >= 0);
}

static void test_all_pairs(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_PACKED,
                                    .queue_pairs = MOST_PAIRS,
                                    .ring_size = 160 };
        struct host *h = *state;
        struct crowd *c = calloc(1, sizeof(*c));
        struct guest g;

        assert_non_null(c);
        host_add(h, "p", MOST_PAIRS);
        guest_start(&g, h, "p", &s);
        assert_int_equal(host_info(h, "p").rings_running, 2 * MOST_PAIRS);
        for (unsigned int i = 0; i < MOST_PAIRS; i++) {
                /* All packets may choose the same pair. */
                const struct fe_net_params p = {
                        .fe = g.fe,
                        .pair = i,
                        .region = FE_ANY_REGION,
                        .buffers = MOST_PAIRS,
                        .rx_bytes = 128,
                        .tx_bytes = 64,
                };

                assert_int_equal(fe_net_new(&p, &c->net[i]), 0);
        }
        for (unsigned int i = 0; i < 20; i++)
                crowd_round(c);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        for (unsigned int i = 0; i < MOST_PAIRS; i++)
                fe_net_free(c->net[i]);
        free(c);
        guest_end(&g);
        host_del(h, "p");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_one_of_many),
                host_test(test_no_protocol_features),
                host_test(test_protocol_features_one_by_one),
                host_test(test_any_order),
                host_test(test_memory_last),
                host_test(test_half_a_pair),
                host_test(test_all_pairs),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
