/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages while packets run: nothing is lost, doubled or changed, no wake-up is missed, and what
 * concerns one ring leaves the others alone.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

enum { PACKETS = 2000, EVERY = 20 };

static const uint64_t formats[] = {
        FE_FEATURES_MODERN,
        FE_FEATURES_PACKED,
        FE_FEATURES_MODERN & ~FE_BIT(VIRTIO_RING_F_EVENT_IDX),
        FE_FEATURES_PACKED & ~FE_BIT(VIRTIO_RING_F_EVENT_IDX),
};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

/* Run a flow that sleeps on interrupts and calls `hook` every few packets. */
static void with_hook(struct host *h, const struct fe_setup *setup, int (*hook)(void *arg))
{
        struct guest g;

        host_add(h, "p", setup->queue_pairs ? setup->queue_pairs : 1);
        guest_start(&g, h, "p", setup);
        g.flow.by_interrupt = true;
        g.flow.hook = hook;
        g.flow.hook_arg = &g;
        g.flow.hook_every = EVERY;
        guest_traffic(&g, PACKETS);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        host_del(h, "p");
}

static void in_all_formats(struct host *h, int (*hook)(void *arg))
{
        for (unsigned int i = 0; i < FORMATS; i++) {
                const struct fe_setup s = { .features = formats[i], .guard = true };

                with_hook(h, &s, hook);
        }
}

/* ---- plain ---- */

/* No more packets under way than there are buffers to receive them. */
static unsigned int window(const struct fe_net_params *p, size_t max_bytes)
{
        size_t bytes = p->rx_bytes ? p->rx_bytes : 2048;
        size_t packets = p->buffers / ((max_bytes + 12 + bytes - 1) / bytes);

        return packets < 32 ? (unsigned int)packets : 32;
}

static void plain(struct host *h, const struct fe_setup *setup, const struct fe_net_params *p,
                  size_t max_bytes)
{
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", setup);
        guest_net(&g, p);
        g.flow.max_bytes = max_bytes;
        g.flow.window = window(p, max_bytes);
        guest_traffic(&g, 600);
        g.flow.by_interrupt = true;
        guest_traffic(&g, 600);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        host_del(h, "p");
}

/* Legacy header, split header, tables, many pieces, small mergeable buffers, in order. */
static void test_shapes(void **state)
{
        static const struct {
                uint64_t features;
                struct fe_net_params net;
                size_t max_bytes;
        } shapes[] = {
                { 0, { .buffers = 64, .split_header = true }, 1514 },
                { FE_BIT(VIRTIO_NET_F_MRG_RXBUF), { .buffers = 64 }, 1514 },
                { FE_BIT(VIRTIO_F_VERSION_1), { .buffers = 64 }, 1514 },
                { FE_FEATURES_MODERN, { .buffers = 256, .rx_bytes = 256 }, 1514 },
                { FE_FEATURES_PACKED, { .buffers = 256, .rx_bytes = 256 }, 1514 },
                { FE_FEATURES_MODERN, { .buffers = 64, .indirect = true, .tx_segs = 7 }, 1514 },
                { FE_FEATURES_PACKED, { .buffers = 64, .indirect = true, .tx_segs = 7 }, 1514 },
                { FE_FEATURES_MODERN, { .buffers = 16, .tx_segs = 5, .split_header = true }, 1514 },
                { FE_FEATURES_PACKED, { .buffers = 16, .tx_segs = 5, .split_header = true }, 1514 },
                { FE_FEATURES_MODERN | FE_BIT(VIRTIO_F_IN_ORDER), { .buffers = 64 }, 1514 },
                { FE_FEATURES_PACKED | FE_BIT(VIRTIO_F_IN_ORDER), { .buffers = 64 }, 1514 },
                { FE_FEATURES_MODERN,
                  { .buffers = 64, .rx_bytes = 10000, .tx_bytes = 9000 },
                  9000 },
                { FE_FEATURES_PACKED, { .buffers = 256, .tx_bytes = 9000 }, 9000 },
                /* Buffers over one border, and over a whole one-page region. */
                { FE_FEATURES_MODERN, { .buffers = 8, .cross_rx = 1, .cross_tx = 2 }, 1514 },
                { FE_FEATURES_PACKED, { .buffers = 8, .cross_rx = 1, .cross_tx = 2 }, 1514 },
                { FE_FEATURES_MODERN, { .buffers = 8, .rx_bytes = 9100, .cross_rx = 1 }, 1514 },
                { FE_FEATURES_PACKED, { .buffers = 8, .tx_bytes = 9000, .cross_tx = 1 }, 9000 },
        };

        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                const struct fe_setup s = { .required = shapes[i].features,
                                            .guard = true,
                                            .pick = (enum fe_pick)(i % 3) };

                plain(*state, &s, &shapes[i].net, shapes[i].max_bytes);
        }
}

/* Rings of odd sizes that begin next to the wrap, each for more than a lap of indices. */
static void test_ring_positions(void **state)
{
        static const struct {
                uint64_t features;
                uint16_t size, start;
                bool wrap_0;
        } rings[] = {
                { FE_FEATURES_MODERN, 256, 65500, false },
                { FE_FEATURES_MODERN, 4, 65535, false },
                { FE_FEATURES_MODERN, 32768, 65535, false },
                { FE_FEATURES_PACKED, 7, 6, true },
                { FE_FEATURES_PACKED, 300, 299, false },
                { FE_FEATURES_PACKED, 1, 0, true },
                { FE_FEATURES_PACKED, 32768, 32767, true },
        };

        for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
                const struct fe_setup s = {
                        .required = rings[i].features,
                        .ring_size = rings[i].size,
                        .start = rings[i].start,
                        .start_wrap_0 = rings[i].wrap_0,
                        .guard = true,
                };
                struct guest g;

                host_add(*state, "p", 1);
                guest_start(&g, *state, "p", &s);
                g.flow.window = rings[i].size < 32 ? rings[i].size : 32;
                guest_net(&g, &(struct fe_net_params){ .buffers = g.flow.window });
                guest_traffic(&g, 700);
                expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
                guest_end(&g);
                host_del(*state, "p");
        }
}

/* ---- call and kick descriptors ---- */

static int replace_calls(void *arg)
{
        struct guest *g = arg;

        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_replace_call(g->fe, i), 0);
        return 0;
}

static void test_call_replaced(void **state)
{
        in_all_formats(*state, replace_calls);
}

static int replace_kick(void *arg)
{
        struct guest *g = arg;

        for (unsigned int i = 0; i < 2; i++) {
                int old = g->fe->ring[i].kick_fd;

                g->fe->ring[i].kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                assert_true(g->fe->ring[i].kick_fd >= 0);
                expect_fe(
                        g->fe,
                        fe_set_vring_fd(&g->fe->link, FE_SET_VRING_KICK, i, g->fe->ring[i].kick_fd),
                        0);
                close(old);
        }
        return 0;
}

static void test_kick_replaced(void **state)
{
        in_all_formats(*state, replace_kick);
}

/* The same call fd again and again: QEMU masks and unmasks vectors that way. */
static int repeat_call(void *arg)
{
        struct guest *g = arg;

        for (unsigned int i = 0; i < 2; i++)
                expect_fe(
                        g->fe,
                        fe_set_vring_fd(&g->fe->link, FE_SET_VRING_CALL, i, g->fe->ring[i].call_fd),
                        0);
        return 0;
}

static void test_call_repeated(void **state)
{
        in_all_formats(*state, repeat_call);
}

/* ---- addresses and features ---- */

static int repeat_addresses(void *arg)
{
        struct guest *g = arg;

        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_send_addr(g->fe, i, g->flow.sent / EVERY % 2), 0);
        return 0;
}

static void test_log_flag(void **state)
{
        in_all_formats(*state, repeat_addresses);
}

static int repeat_features(void *arg)
{
        struct guest *g = arg;

        expect_fe(g->fe, fe_set_u64(&g->fe->link, FE_SET_FEATURES, g->fe->features), 0);
        return 0;
}

static void test_features_repeated(void **state)
{
        in_all_formats(*state, repeat_features);
}

/* As QEMU does at the start and the cancellation of a migration. */
static int toggle_log(void *arg)
{
        struct guest *g = arg;
        uint64_t bytes = (fe_memory_end(g->mem) / FE_PAGE + 7) / 8;
        int fd = memfd_create("log", MFD_CLOEXEC);

        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
        expect_fe(g->fe, fe_set_log_base(&g->fe->link, bytes, 0, fd), 0);
        close(fd);
        expect_fe(g->fe,
                  fe_set_u64(&g->fe->link, FE_SET_FEATURES, g->fe->features | FE_BIT(FE_F_LOG_ALL)),
                  0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_send_addr(g->fe, i, true), 0);
        if (g->flow.sent / EVERY % 2)
                return 0;
        expect_fe(g->fe, fe_set_u64(&g->fe->link, FE_SET_FEATURES, g->fe->features), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_send_addr(g->fe, i, false), 0);
        return 0;
}

static void test_log_toggled(void **state)
{
        in_all_formats(*state, toggle_log);
}

/* The ring format cannot change under a running ring: refused, and the ring runs on. */
static int change_format(void *arg)
{
        struct guest *g = arg;

        expect_fe(g->fe,
                  fe_set_u64(&g->fe->link, FE_SET_FEATURES,
                             g->fe->features ^ FE_BIT(VIRTIO_F_RING_PACKED)),
                  -EREMOTEIO);
        return 0;
}

static void test_format_changed(void **state)
{
        in_all_formats(*state, change_format);
}

/* ---- rings stopped and started ---- */

static int bounce_tx(void *arg)
{
        struct guest *g = arg;

        expect_fe(g->fe, fe_frontend_stop_ring(g->fe, 1), 0);
        expect_fe(g->fe, fe_frontend_start_ring(g->fe, 1), 0);
        return 0;
}

/* The ring from the guest stops and goes on from where it told: nothing is lost. */
static void test_tx_bounced(void **state)
{
        in_all_formats(*state, bounce_tx);
}

static int bounce_rx(void *arg)
{
        struct guest *g = arg;

        expect_fe(g->fe, fe_frontend_stop_ring(g->fe, 0), 0);
        expect_fe(g->fe, fe_frontend_start_ring(g->fe, 0), 0);
        return 0;
}

/* While the ring to the guest is stopped packets for it are lost, as at any NIC; what comes is
 * right, and it goes on. */
static void test_rx_bounced(void **state)
{
        for (unsigned int i = 0; i < FORMATS; i++) {
                const struct fe_setup s = { .features = formats[i], .guard = true };
                struct guest g;

                host_add(*state, "p", 1);
                guest_start(&g, *state, "p", &s);
                g.flow.by_interrupt = true;
                g.flow.may_lose = true;
                /* A packet that comes after this long was not lost, and the flow says so. */
                g.flow.stall_ms = 500;
                g.flow.hook = bounce_rx;
                g.flow.hook_arg = &g;
                g.flow.hook_every = 100;
                guest_traffic(&g, 1000);
                assert_true(g.flow.received > 300);
                g.flow.hook = NULL;
                g.flow.may_lose = false;
                guest_traffic(&g, 100);
                guest_end(&g);
                host_del(*state, "p");
        }
}

struct pairs {
        struct guest g;
        struct fe_net *other;
        struct fe_flow flow;
        struct fe_flow_thread *thread;
};

/* Two queue pairs; the second one has traffic all the time. */
static void pairs_start(struct pairs *p, struct host *h, uint64_t features)
{
        const struct fe_setup s = { .features = features, .queue_pairs = 2 };
        struct fe_net_params n = { .pair = 1, .buffers = 128 };

        host_add(h, "p", 2);
        guest_start(&p->g, h, "p", &s);
        n.fe = p->g.fe;
        assert_int_equal(fe_net_new(&n, &p->other), 0);
        p->flow = (struct fe_flow){ .net = p->other, .tag = 2 };
        p->g.flow.tag = 1;
        assert_int_equal(fe_flow_start(&p->flow, &p->thread), 0);
}

static void pairs_end(struct pairs *p, struct host *h)
{
        bool moves = flow_moves(&p->flow, 100);

        if (fe_flow_stop(p->thread) < 0)
                fail_msg("the other pair: %s", p->flow.error.s);
        assert_true(moves);
        fe_net_free(p->other);
        guest_end(&p->g);
        host_del(h, "p");
}

static void stop_one_pair(struct host *h, uint64_t features)
{
        static struct pairs p; /* its thread outlives a failure */

        pairs_start(&p, h, features);
        for (unsigned int i = 0; i < 50; i++) {
                guest_traffic(&p.g, 20);
                expect_fe(p.g.fe, fe_frontend_stop_ring(p.g.fe, 1), 0);
                expect_fe(p.g.fe, fe_frontend_stop_ring(p.g.fe, 0), 0);
                expect_fe(p.g.fe, fe_frontend_start_ring(p.g.fe, 0), 0);
                expect_fe(p.g.fe, fe_frontend_start_ring(p.g.fe, 1), 0);
        }
        guest_traffic(&p.g, 200);
        pairs_end(&p, h);
}

static void test_one_pair_stops(void **state)
{
        for (unsigned int i = 0; i < 2; i++)
                stop_one_pair(*state, formats[i]);
}

static void toggle_one_pair(struct host *h, uint64_t features)
{
        static struct pairs p; /* its thread outlives a failure */

        pairs_start(&p, h, features);
        for (unsigned int i = 0; i < 50; i++) {
                guest_traffic(&p.g, 20);
                for (unsigned int k = 0; k < 2; k++)
                        expect_fe(p.g.fe, fe_frontend_enable_ring(p.g.fe, k, false), 0);
                for (unsigned int k = 0; k < 2; k++)
                        expect_fe(p.g.fe, fe_frontend_enable_ring(p.g.fe, k, true), 0);
        }
        guest_traffic(&p.g, 200);
        pairs_end(&p, h);
}

static void test_one_pair_toggled(void **state)
{
        for (unsigned int i = 0; i < 2; i++)
                toggle_one_pair(*state, formats[i]);
}

/* Started but disabled: buffers from the guest come back, nothing of them does, none are filled. */
static void test_disabled(void **state)
{
        struct host *h = *state;
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct guest g;
        uint8_t packet[64] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };
        size_t len = sizeof(packet);

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 100);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, false), 0);
        for (unsigned int i = 0; i < 10; i++)
                assert_int_equal(fe_net_send(g.net, NULL, packet, sizeof(packet)), 0);
        for (int ms = 0; ms < HOST_WAIT_MS && fe_net_unreaped(g.net) > 0; ms++) {
                assert_true(fe_net_reap(g.net) >= 0);
                usleep(1000);
        }
        assert_int_equal(fe_net_unreaped(g.net), 0);
        assert_int_equal(fe_net_receive(g.net, NULL, packet, &len), 0);
        assert_int_equal(host_stat(h, "p", 1, "drop_disabled"), 10);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, true), 0);
        guest_traffic(&g, 100);
        guest_end(&g);
        host_del(h, "p");
}

/* Reset from within: RESET_DEVICE and SET_STATUS 0 stop all rings, the rest is negotiated anew on
 * the same connection; memory stays. */
static void reset(struct host *h, uint64_t features, bool by_status)
{
        const struct fe_setup s = { .features = features };
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        for (unsigned int n = 0; n < 20; n++) {
                guest_traffic(&g, 50);
                if (by_status)
                        expect_fe(g.fe, fe_set_u64(&g.fe->link, FE_SET_STATUS, 0), 0);
                else
                        expect_fe(g.fe, fe_reset_device(&g.fe->link), 0);
                assert_int_equal(host_info(h, "p").rings_running, 0);
                expect_fe(g.fe, fe_frontend_send_features(g.fe), 0);
                for (unsigned int i = 0; i < 2; i++) {
                        fe_driver_restart(g.fe->ring[i].driver);
                        expect_fe(g.fe, fe_frontend_start_ring(g.fe, i), 0);
                        expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, true), 0);
                }
                fe_net_reset(g.net);
        }
        guest_end(&g);
        host_del(h, "p");
}

static void test_reset(void **state)
{
        for (unsigned int i = 0; i < 2; i++) {
                reset(*state, formats[i], true);
                reset(*state, formats[i], false);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_shapes),
                host_test(test_ring_positions),
                host_test(test_call_replaced),
                host_test(test_kick_replaced),
                host_test(test_call_repeated),
                host_test(test_log_flag),
                host_test(test_features_repeated),
                host_test(test_log_toggled),
                host_test(test_format_changed),
                host_test(test_tx_bounced),
                host_test(test_rx_bounced),
                host_test(test_one_pair_stops),
                host_test(test_one_pair_toggled),
                host_test(test_disabled),
                host_test(test_reset),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
