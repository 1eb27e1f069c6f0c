/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A device that does wrong while a guest works on it: the rings go where they can be served and say
 * why, and every buffer comes back once.  What was on the wire of a device that is gone is lost, as
 * anywhere.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "path_rig.h"

static const uint64_t formats[] = { FE_FEATURES_MODERN, FE_FEATURES_PACKED };

static const char failed_here[] = "the device failed on this queue";

/* Traffic that may lose what is on a wire. */
static void begin_lossy(struct host *h, const char *device, uint64_t features, struct guest *g)
{
        const struct fe_setup s = { .required = features, .guard = true };

        path_begin(h, device, &s, g);
        g->flow.any_order = g->flow.may_lose = true;
        g->flow.stall_ms = 100;
}

/* From now on nothing may be lost any more, and no buffer is. */
static void end_lossless(struct host *h, struct guest *g)
{
        g->flow.may_lose = false;
        path_check_buffers(h, g);
        path_end(h, g);
}

/* When was a ring last moved to that path for that reason?  0: never, as far as is told.  Moves
 * that come meanwhile push others back, so that one may be seen twice, but none is passed over. */
static int64_t last_move(struct host *h, unsigned int ring, const char *to, const char *why)
{
        struct vql_move_info m;

        for (unsigned int i = 0; vql_port_get_move(h->vql, "p", i, &m) == 0; i++)
                if (m.ring == ring && strcmp(m.to, to) == 0 && strcmp(m.why, why) == 0)
                        return m.at_us;
        return 0;
}

/* ---- buffers out of order ---- */

static int switch_paths(void *arg)
{
        static const char *const ways[] = { "software", "relay" };
        static unsigned int n;

        path_go(arg, ways[n++ % 2]);
        return 0;
}

/* Such a device serves by relay alone.  What it passed over is given to it again, or back to the
 * guest unused, which then counts the packet as lost. */
static void test_shuffle(void **state)
{
        static const char device[] = "sim,shuffle=1,prefetch=16";
        static const char why[] = "the device returns buffers out of order";
        const struct fe_net_params net = { .region = FE_ANY_REGION,
                                           .buffers = PATH_BUFFERS,
                                           .unused_ok = true };

        for (unsigned int i = 0; i < PATH_FORMATS; i++) {
                struct guest g;

                begin_lossy(*state, device, path_formats[i], &g);
                guest_net(&g, &net);
                path_both(*state, "relay", why);
                path_ask(*state, "direct");
                path_both(*state, "relay", why);
                g.flow.may_lose = false;
                guest_traffic(&g, 1000);
                g.flow.may_lose = true;
                g.flow.hook = switch_paths;
                g.flow.hook_arg = *state;
                g.flow.hook_every = 100;
                guest_traffic(&g, 1000);
                g.flow.hook = NULL;
                path_go(*state, "relay");
                end_lossless(*state, &g);
        }
}

/* ---- queues that stand still ---- */

static void stuck(struct host *h, uint64_t features, unsigned int ring)
{
        /* Small buffers: the ring to the guest uses more of them, and stands still first. */
        const struct fe_net_params net = { .region = FE_ANY_REGION,
                                           .buffers = PATH_BUFFERS,
                                           .rx_bytes = ring == 0 ? 256 : 0 };
        struct guest g;

        begin_lossy(h, "sim,stuck_after=300", features, &g);
        guest_net(&g, &net);
        g.flow.window = 16;
        guest_traffic(&g, 400);
        path_wait(h, ring, "software", failed_here);
        assert_true(last_move(h, ring, "relay", "the device failed on the guest's ring") > 0);
        path_go(h, "software");
        end_lossless(h, &g);
}

static void test_stuck(void **state)
{
        for (unsigned int i = 0; i < 4; i++)
                stuck(*state, formats[i / 2], i % 2);
}

/* What failed may be tried again when the guest begins anew. */
static void test_forgiven(void **state)
{
        const struct fe_setup s = { .required = FE_FEATURES_MODERN };
        struct host *h = *state;
        int64_t before;
        struct guest g;

        begin_lossy(h, "sim,stuck_after=300", FE_FEATURES_MODERN, &g);
        guest_traffic(&g, 400);
        path_wait(h, 1, "software", failed_here);
        before = last_move(h, 1, "direct", "");
        guest_end(&g);
        host_wait_state(h, "p", "waiting");
        guest_start(&g, h, "p", &s);
        /* Though this device does not get better. */
        assert_true(last_move(h, 1, "direct", "") > before);
        path_end(h, &g);
}

/* ---- devices that need a reset ---- */

static const char again[] = "the device failed again and again";

static void broken(struct host *h, uint64_t features, const char *path)
{
        struct guest g;

        begin_lossy(h, "sim,break_after=400", features, &g);
        path_go(h, path);
        guest_traffic(&g, 600);
        path_wait_both(h, "software", again);
        end_lossless(h, &g);
}

static void test_broken(void **state)
{
        for (unsigned int i = 0; i < 2; i++) {
                broken(*state, formats[i] & ~FE_BIT(VIRTIO_RING_F_EVENT_IDX), "relay");
                broken(*state, formats[i], "relay");
        }
        broken(*state, FE_FEATURES_MODERN, "direct");
        broken(*state, FE_FEATURES_MODERN & ~FE_BIT(VIRTIO_RING_F_EVENT_IDX), "direct");
}

static void send_until_broken(struct host *h, struct guest *g)
{
        static const uint8_t noise[64] = { [12] = FE_NOISE_TYPE >> 8, [13] = FE_NOISE_TYPE & 0xff };
        uint8_t packet[2048];
        size_t len = sizeof(packet);

        for (unsigned int i = 0; i < 4000 && strcmp(path_info(h, 1).path, "direct") == 0; i++) {
                assert_true(fe_net_refill(g->net) >= 0);
                assert_true(fe_net_reap(g->net) >= 0);
                while (fe_net_receive(g->net, NULL, packet, &len) > 0)
                        len = sizeof(packet);
                (void)fe_net_send(g->net, NULL, noise, sizeof(noise));
        }
}

/* Nobody knows how far a device came on a packed ring of the guest's: that ring is broken, which
 * the guest is told, and goes on when it begins anew. */
static void test_packed_broken(void **state)
{
        struct host *h = *state;
        struct guest g;

        begin_lossy(h, "sim,break_after=400", FE_FEATURES_PACKED, &g);
        send_until_broken(h, &g);
        for (unsigned int r = 0; r < 2; r++)
                assert_int_equal(fe_frontend_wait_broken(g.fe, r, HOST_WAIT_MS), 0);
        for (unsigned int r = 0; r < 2; r++) {
                assert_string_equal(path_info(h, r).state, "broken");
                assert_string_equal(path_info(h, r).path, "none");
        }
        /* This device would break again. */
        path_ask(h, "software");
        for (unsigned int r = 0; r < 2; r++)
                expect_fe(g.fe, fe_frontend_revive_ring(g.fe, r), 0);
        fe_net_reset(g.net);
        path_both(h, "software", "as requested");
        end_lossless(h, &g);
}

/* ---- devices that go and come ---- */

static const char gone[] = "the device is gone";

static void go_and_come(struct host *h, uint64_t features, const char *path)
{
        struct guest g;

        begin_lossy(h, "sim,gone_after=1000", features, &g);
        path_go(h, path);
        guest_traffic(&g, 600);
        assert_true(last_move(h, 1, "software", gone) > 0);
        path_wait_both(h, path, NULL);
        guest_traffic(&g, 600);
        path_go(h, "software");
        end_lossless(h, &g);
}

static void test_gone(void **state)
{
        go_and_come(*state, FE_FEATURES_MODERN, "direct");
        go_and_come(*state, FE_FEATURES_MODERN, "relay");
        go_and_come(*state, FE_FEATURES_PACKED, "relay");
}

/* Without an uplink rings keep what they have until the device is back. */
static void held(struct host *h, uint64_t features, const char *path)
{
        const struct fe_setup s = { .required = features, .guard = true };
        struct guest g;

        path_add(h, "sim,gone_after=1000", NULL);
        guest_start(&g, h, "p", &s);
        g.flow.any_order = g.flow.may_lose = g.flow.by_interrupt = true;
        /* Longer than the device is away: what is in a ring is not lost. */
        g.flow.stall_ms = 1500;
        path_go(h, path);
        guest_traffic(&g, 600);
        assert_true(last_move(h, 1, "held", gone) > 0);
        assert_true(g.flow.lost <= 32);
        path_wait_both(h, path, NULL);
        path_ask(h, "software");
        path_both(h, "held", "as requested");
        path_go(h, path);
        guest_traffic(&g, 200);
        path_end(h, &g);
}

static void test_held(void **state)
{
        held(*state, FE_FEATURES_MODERN, "direct");
        held(*state, FE_FEATURES_PACKED, "relay");
}

/* ---- a stop that does not come to an end ---- */

static void slow_stop(struct host *h, uint64_t features, const char *from, const char *to)
{
        const struct fe_setup s = { .required = features, .guard = true };
        struct guest g;

        path_begin(h, "sim,stop_ms=1200", &s, &g);
        if (strcmp(from, "direct") != 0)
                path_ask(h, from);
        host_log_clear();
        guest_traffic(&g, 100);
        path_go(h, to);
        assert_true(host_logged("it was reset"));
        /* The reset left the wire alone: nothing is missing. */
        guest_traffic(&g, 300);
        path_both(h, to, NULL);
        path_end(h, &g);
}

static void test_slow_stop(void **state)
{
        slow_stop(*state, FE_FEATURES_MODERN, "direct", "relay");
        slow_stop(*state, FE_FEATURES_MODERN, "direct", "software");
}

/* ---- devices that do not serve from the start ---- */

static void test_unfit(void **state)
{
        static const struct {
                const char *device, *why;
        } unfit[] = {
                { "sim,refuse_start=1", "the device does not start" },
                { "sim,vectors=1", failed_here },
                { "sim,maps=1", "the guest's memory cannot be mapped for the device" },
        };

        for (size_t i = 0; i < 2 * sizeof(unfit) / sizeof(unfit[0]); i++) {
                const struct fe_setup s = { .required = formats[i % 2], .guard = true };
                struct guest g;

                path_begin(*state, unfit[i / 2].device, &s, &g);
                path_both(*state, "software", unfit[i / 2].why);
                guest_traffic(&g, 400);
                path_both(*state, "software", unfit[i / 2].why);
                path_end(*state, &g);
        }
}

/* One ring without an interrupt: the other one is the device's. */
static void test_one_vector(void **state)
{
        const struct fe_setup s = { .required = FE_FEATURES_MODERN, .guard = true };
        struct guest g;

        path_begin(*state, "sim,vectors=2", &s, &g);
        path_is(*state, 0, "direct", "");
        path_is(*state, 1, "software", failed_here);
        path_go(*state, "software");
        guest_traffic(&g, 400);
        path_end(*state, &g);
}

/* Wrong positions are found out, and the ring's own word counts. */
static void test_wrong_positions(void **state)
{
        static const char *const devices[] = { "sim,tell_off=1", "sim,tell_off=-1" };

        for (unsigned int i = 0; i < 2; i++) {
                const struct fe_setup s = { .required = FE_FEATURES_MODERN, .guard = true };
                struct guest g;

                path_begin(*state, devices[i], &s, &g);
                guest_traffic(&g, 100);
                path_go(*state, "relay");
                guest_traffic(&g, 300);
                path_end(*state, &g);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_shuffle),
                host_test(test_stuck),
                host_test(test_forgiven),
                host_test(test_broken),
                host_test(test_packed_broken),
                host_test(test_gone),
                host_test(test_held),
                host_test(test_slow_stop),
                host_test(test_unfit),
                host_test(test_one_vector),
                host_test(test_wrong_positions),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
