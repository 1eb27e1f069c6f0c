/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A ring moves from any path to any other while packets run: every buffer comes back exactly once,
 * every packet arrives once with every byte right, and nobody sleeps through anything.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "path_rig.h"

enum { EVERY = 8, PACKETS = 2000 };

static const char *const paths[] = { "software", "relay", "direct" };

/* ---- between the two paths of the device, in order and under traffic ---- */

struct mover {
        struct host *h;
        const char *way[2];
        unsigned int moves;
};

static int move_on(void *arg)
{
        struct mover *m = arg;

        path_go(m->h, m->way[m->moves++ % 2]);
        return 0;
}

static void device_moves(struct host *h, const struct fe_setup *s, const struct fe_net_params *net)
{
        struct mover m = { .h = h, .way = { "relay", "direct" } };
        struct guest g;

        path_begin(h, "sim", s, &g);
        path_both(h, "direct", "");
        guest_net(&g, net);
        g.flow.window = net->buffers < 32 ? net->buffers : 32;
        g.flow.hook = move_on;
        g.flow.hook_arg = &m;
        g.flow.hook_every = EVERY;
        guest_traffic(&g, PACKETS);
        assert_true(m.moves >= PACKETS / EVERY / 2);
        path_end(h, &g);
}

static void test_device_moves(void **state)
{
        const struct fe_net_params net = { .region = FE_ANY_REGION, .buffers = PATH_BUFFERS };

        for (unsigned int i = 0; i < PATH_FORMATS; i++) {
                const struct fe_setup s = { .required = path_formats[i],
                                            .guard = true,
                                            .pick = (enum fe_pick)(i % 3) };

                device_moves(*state, &s, &net);
        }
}

/* Tables, chains, rings of odd sizes that begin next to their wrap, and buffers in order. */
static void test_device_shapes(void **state)
{
        static const struct {
                struct fe_setup s;
                struct fe_net_params net;
        } shapes[] = {
                { { .required = FE_FEATURES_MODERN }, { .buffers = 64, .tx_segs = 3 } },
                { { .required = FE_FEATURES_PACKED }, { .buffers = 64, .tx_segs = 3 } },
                { { .required = FE_FEATURES_MODERN },
                  { .buffers = 64, .tx_segs = 7, .indirect = true } },
                { { .required = FE_FEATURES_PACKED },
                  { .buffers = 64, .tx_segs = 7, .indirect = true } },
                { { .required = FE_FEATURES_MODERN | FE_BIT(VIRTIO_F_IN_ORDER) },
                  { .buffers = 64 } },
                { { .required = FE_FEATURES_PACKED | FE_BIT(VIRTIO_F_IN_ORDER) },
                  { .buffers = 64 } },
                { { .required = FE_FEATURES_MODERN, .ring_size = 8, .start = 65500 },
                  { .buffers = 8 } },
                { { .required = FE_FEATURES_MODERN, .ring_size = 1024, .start = 65000 },
                  { .buffers = 128 } },
                { { .required = FE_FEATURES_PACKED, .ring_size = 7, .start = 6 },
                  { .buffers = 7 } },
                { { .required = FE_FEATURES_PACKED,
                    .ring_size = 300,
                    .start = 299,
                    .start_wrap_0 = true },
                  { .buffers = 128 } },
        };

        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                struct fe_setup s = shapes[i].s;

                s.guard = true;
                device_moves(*state, &s, &shapes[i].net);
        }
}

/* ---- all three, at random, from another thread ---- */

enum { WALK_MOVES = 400 };

struct walker {
        struct host *h;
        atomic_uint moves;
        atomic_bool stop;
        atomic_int failed;
        unsigned int seed;
};

/* Not in the thread of the test: it tells what fails. */
static void *walk(void *arg)
{
        struct walker *w = arg;

        while (!atomic_load(&w->stop)) {
                const unsigned int n = (unsigned int)rand_r(&w->seed);
                const char *to = paths[n % 3];
                struct vql_ring_info i[2];
                int rc = vql_port_set_path(w->h->vql, "p", to);

                for (unsigned int ring = 0; rc == 0 && ring < 2; ring++) {
                        rc = vql_port_get_ring(w->h->vql, "p", ring, &i[ring]);
                        if (rc == 0 && strcmp(i[ring].path, to) != 0)
                                rc = -1;
                }
                if (rc < 0)
                        atomic_store(&w->failed, rc);
                atomic_fetch_add(&w->moves, 1);
                poll(NULL, 0, (int)(n / 3 % 3));
        }
        return NULL;
}

static void random_walk(struct host *h, unsigned int i)
{
        const struct fe_setup s = { .required = path_formats[i], .guard = true };
        static struct walker w; /* its thread outlives a failure */
        pthread_t thread;
        struct guest g;

        path_begin(h, "sim", &s, &g);
        w = (struct walker){ .h = h, .seed = i + 1 };
        g.flow.any_order = true;
        assert_int_equal(pthread_create(&thread, NULL, walk, &w), 0);
        while (atomic_load(&w.moves) < WALK_MOVES)
                guest_traffic(&g, 100);
        atomic_store(&w.stop, true);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&w.failed), 0);
        assert_int_equal(g.flow.received, g.flow.sent);
        path_end(h, &g);
}

static void test_random_walk(void **state)
{
        for (unsigned int i = 0; i < PATH_FORMATS; i++)
                random_walk(*state, i);
}

/* ---- each of the nine moves, with both sides asleep ---- */

/* A packet that is kicked, perhaps seen, perhaps not, when the path changes, is taken. */
static void send_and_go(struct host *h, struct guest *g, const char *to)
{
        static const uint8_t noise[64] = { [12] = FE_NOISE_TYPE >> 8, [13] = FE_NOISE_TYPE & 0xff };

        assert_int_equal(fe_net_send(g->net, NULL, noise, sizeof(noise)), 0);
        path_go(h, to);
        while (fe_net_unreaped(g->net) > 0) {
                int err = fe_net_wait(g->net, HOST_WAIT_MS);

                if (err < 0)
                        fail_msg("to %s: the packet sent before is not taken: %s", to,
                                 strerror(-err));
                assert_true(fe_net_reap(g->net) >= 0);
                if (fe_net_unreaped(g->net) > 0)
                        poll(NULL, 0, 1);
        }
}

/* What the last owner told the guest does not hold any more: the device is to be kicked when there
 * are new receive buffers.  (With EVENT_IDX this is a matter of where the event is.) */
static void expect_kicks_wanted(const struct guest *g)
{
        const struct fe_area_pointers p = fe_driver_pointers(g->fe->ring[0].driver);

        if (fe_has(g->fe->features, VIRTIO_RING_F_EVENT_IDX))
                return;
        if (fe_has(g->fe->features, VIRTIO_F_RING_PACKED))
                assert_int_equal(__atomic_load_n(&p.device_event->flags, __ATOMIC_ACQUIRE),
                                 VRING_PACKED_EVENT_FLAG_ENABLE);
        else
                assert_int_equal(__atomic_load_n(&p.used->flags, __ATOMIC_ACQUIRE), 0);
}

static void nine_moves(struct host *h, uint64_t features)
{
        const struct fe_setup s = { .required = features, .guard = true };
        struct guest g;

        path_begin(h, "sim", &s, &g);
        for (unsigned int round = 0; round < 4; round++)
                for (unsigned int move = 0; move < 9; move++) {
                        path_go(h, paths[move / 3]);
                        guest_traffic(&g, round);
                        if (round % 2)
                                send_and_go(h, &g, paths[move % 3]);
                        else
                                path_go(h, paths[move % 3]);
                        if (strcmp(paths[move % 3], "direct") == 0)
                                expect_kicks_wanted(&g);
                        guest_traffic(&g, 3);
                }
        assert_int_equal(g.flow.lost, 0);
        path_end(h, &g);
}

static void test_nine_moves(void **state)
{
        for (unsigned int i = 0; i < PATH_FORMATS; i++)
                nine_moves(*state, path_formats[i]);
}

/* ---- a device that starts rings at their beginning only ---- */

static const char no_seek[] = "the device cannot start where the ring stands";

static void by_wrap(struct host *h, uint64_t features, uint64_t round, unsigned int rounds)
{
        const struct fe_setup s = { .required = features, .guard = true };
        struct guest g;

        path_begin(h, "sim,without=seek", &s, &g);
        path_both(h, "direct", "");
        guest_traffic(&g, 100);
        for (unsigned int i = 0; i < rounds; i++) {
                path_go(h, i % 2 ? "software" : "relay");
                guest_traffic(&g, 50);
                path_ask(h, "auto");
                path_both(h, "relay", no_seek);
                /* Each buffer counts once on its way round. */
                guest_traffic(&g, round + 2 * PATH_BUFFERS);
                path_wait_both(h, "direct", "");
                guest_traffic(&g, 100);
        }
        path_end(h, &g);
}

static void test_by_wrap(void **state)
{
        by_wrap(*state, FE_FEATURES_PACKED, 2 * 256, 4);
        by_wrap(*state, FE_FEATURES_PACKED & ~FE_BIT(VIRTIO_RING_F_EVENT_IDX), 2 * 256, 4);
        by_wrap(*state, FE_FEATURES_MODERN, 65536, 1);
}

/* Changing one's mind while the relay waits for the wrap. */
static void test_wrap_recalled(void **state)
{
        const struct fe_setup s = { .required = FE_FEATURES_PACKED, .guard = true };
        struct guest g;

        path_begin(*state, "sim,without=seek", &s, &g);
        for (unsigned int i = 0; i < 40; i++) {
                guest_traffic(&g, 30);
                path_go(*state, "relay");
                guest_traffic(&g, 7);
                path_ask(*state, "auto");
                guest_traffic(&g, 23 * (i % 5));
        }
        path_end(*state, &g);
}

/* ---- what is told of moves ---- */

static void test_history(void **state)
{
        const struct fe_setup s = { .required = FE_FEATURES_MODERN };
        struct host *h = *state;
        struct vql_move_info m;
        struct guest g;
        unsigned int n = 0;

        path_add(h, "sim", "loopback");
        assert_int_equal(vql_port_get_move(h->vql, "p", 0, &m), -ERANGE);
        guest_start(&g, h, "p", &s);
        path_go(h, "relay");
        assert_int_equal(vql_port_get_move(h->vql, "p", 0, &m), 0);
        assert_int_equal(m.ring, 1);
        assert_string_equal(m.from, "direct");
        assert_string_equal(m.to, "relay");
        assert_string_equal(m.why, "as requested");
        for (unsigned int i = 0; i < 100; i++)
                path_go(h, paths[i % 3]);
        while (vql_port_get_move(h->vql, "p", n, &m) == 0)
                n++;
        assert_int_equal(n, 64);
        path_end(h, &g);
        host_add(h, "q", 1);
        assert_int_equal(vql_port_set_path(h->vql, "q", "direct"), -EINVAL);
        assert_int_equal(vql_port_set_path(h->vql, "nobody", "direct"), -ENOENT);
        host_del(h, "q");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_device_moves), host_test(test_device_shapes),
                host_test(test_nine_moves),   host_test(test_random_walk),
                host_test(test_by_wrap),      host_test(test_wrap_recalled),
                host_test(test_history),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
