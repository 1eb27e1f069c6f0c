/* SPDX-License-Identifier: BSD-3-Clause */

/* What a front-end does meanwhile, on each path: rings stopped and started, descriptors replaced,
 * memory plugged in and out, the dirty log, resets, and front-ends that go. */

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

#include "path_rig.h"

enum { EVERY = 20, PACKETS = 800, FORMATS = 4 };

#define MIB(n) ((uint64_t)(n) << 20)

static const char *const paths[] = { "direct", "relay", "software" };

struct scene {
        struct host *h;
        struct guest g;
        const char *path;   /* the best one for now */
        unsigned int extra; /* a region that is not plugged in */
};

static void begin(struct scene *s, struct host *h, const char *path, const struct fe_setup *setup)
{
        *s = (struct scene){ .h = h, .path = path };
        path_begin(h, "sim", setup, &s->g);
        path_go(h, path);
}

/* Traffic with `hook` every few packets, on each path and in each format; the path stays. */
static void on_each_path(struct host *h, int (*hook)(void *arg))
{
        static struct scene s;

        for (unsigned int i = 0; i < 3 * FORMATS; i++) {
                const struct fe_setup setup = { .required = path_formats[i / 3], .guard = true };

                begin(&s, h, paths[i % 3], &setup);
                s.g.flow.hook = hook;
                s.g.flow.hook_arg = &s;
                s.g.flow.hook_every = EVERY;
                guest_traffic(&s.g, PACKETS);
                path_both(h, s.path, NULL);
                if (s.extra > 0)
                        fe_memory_remove(s.g.mem, s.extra);
                path_end(h, &s.g);
        }
}

/* ---- rings and their descriptors ---- */

static int bounce_tx(void *arg)
{
        struct scene *s = arg;

        expect_fe(s->g.fe, fe_frontend_stop_ring(s->g.fe, 1), 0);
        path_is(s->h, 1, "none", "");
        path_is(s->h, 0, s->path, NULL);
        expect_fe(s->g.fe, fe_frontend_start_ring(s->g.fe, 1), 0);
        path_is(s->h, 1, s->path, NULL);
        return 0;
}

static void test_tx_bounced(void **state)
{
        on_each_path(*state, bounce_tx);
}

static int bounce_rx(void *arg)
{
        struct scene *s = arg;

        /* What comes while the ring is stopped waits on the wire; the uplink's is dropped. */
        if (strcmp(s->path, "software") == 0)
                return 0;
        expect_fe(s->g.fe, fe_frontend_stop_ring(s->g.fe, 0), 0);
        path_is(s->h, 0, "none", "");
        expect_fe(s->g.fe, fe_frontend_start_ring(s->g.fe, 0), 0);
        path_is(s->h, 0, s->path, NULL);
        return 0;
}

static void test_rx_bounced(void **state)
{
        on_each_path(*state, bounce_rx);
}

static int replace_kick(void *arg)
{
        struct scene *s = arg;
        struct fe_frontend *fe = s->g.fe;

        for (unsigned int i = 0; i < 2; i++) {
                int old = fe->ring[i].kick_fd;

                fe->ring[i].kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                assert_true(fe->ring[i].kick_fd >= 0);
                expect_fe(fe, fe_set_vring_fd(&fe->link, FE_SET_VRING_KICK, i, fe->ring[i].kick_fd),
                          0);
                close(old);
        }
        return 0;
}

static void test_kick_replaced(void **state)
{
        on_each_path(*state, replace_kick);
}

static int replace_calls(void *arg)
{
        struct scene *s = arg;

        for (unsigned int i = 0; i < 2; i++)
                expect_fe(s->g.fe, fe_frontend_replace_call(s->g.fe, i), 0);
        return 0;
}

static void test_call_replaced(void **state)
{
        on_each_path(*state, replace_calls);
}

/* A ring that is disabled does not get to the device, and goes back when it is enabled. */
static void test_disabled(void **state)
{
        const struct fe_setup setup = { .required = FE_FEATURES_PACKED, .guard = true };
        struct host *h = *state;
        struct guest g;

        path_begin(h, "sim", &setup, &g);
        for (unsigned int round = 0; round < 3; round++) {
                guest_traffic(&g, 200);
                for (unsigned int i = 0; i < 2; i++)
                        expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, false), 0);
                path_both(h, "software", "the ring is disabled");
                for (unsigned int i = 0; i < 2; i++)
                        expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, true), 0);
                path_both(h, "direct", "");
        }
        guest_traffic(&g, 200);
        path_end(h, &g);
}

/* ---- memory ---- */

static const struct fe_region_spec extra_region = { .gpa = UINT64_C(1) << 40, .size = MIB(2) };

static int replug(void *arg)
{
        struct scene *s = arg;
        struct guest *g = &s->g;

        if (s->extra == 0)
                assert_int_equal(fe_memory_add(g->mem, &extra_region, &s->extra), 0);
        expect_fe(g->fe, fe_frontend_add_region(g->fe, s->extra), 0);
        path_both(s->h, s->path, NULL);
        expect_fe(g->fe, fe_frontend_remove_region(g->fe, s->extra), 0);
        path_both(s->h, s->path, NULL);
        return 0;
}

static void test_memory_plugged(void **state)
{
        on_each_path(*state, replug);
}

/* Buffers in memory that came later: the device reaches it, and the old. */
static void test_new_memory(void **state)
{
        for (unsigned int i = 0; i < 6; i++) {
                const struct fe_setup setup = { .required = path_formats[i / 3], .guard = true };
                struct fe_net_params net = { .buffers = PATH_BUFFERS };
                unsigned int extra;
                struct scene s;

                begin(&s, *state, paths[i % 3], &setup);
                guest_traffic(&s.g, 200);
                assert_int_equal(fe_memory_add(s.g.mem, &extra_region, &extra), 0);
                expect_fe(s.g.fe, fe_frontend_add_region(s.g.fe, extra), 0);
                /* No receive buffer is out but those that the old net has posted. */
                for (unsigned int r = 0; r < 2; r++) {
                        expect_fe(s.g.fe, fe_frontend_stop_ring(s.g.fe, r), 0);
                        fe_driver_restart(s.g.fe->ring[r].driver);
                }
                net.region = (int)extra;
                guest_net(&s.g, &net);
                for (unsigned int r = 0; r < 2; r++)
                        expect_fe(s.g.fe, fe_frontend_start_ring(s.g.fe, r), 0);
                guest_traffic(&s.g, 400);
                path_both(*state, s.path, NULL);
                path_end(*state, &s.g);
        }
}

/* ---- the dirty log ---- */

struct log {
        uint8_t *map;
        uint64_t bytes;
        int fd;
};

static void log_on(struct guest *g, struct log *l)
{
        const uint64_t set = g->fe->features | FE_BIT(FE_F_LOG_ALL);

        l->bytes = (fe_memory_end(g->fe->setup.mem) / FE_PAGE + 7) / 8;
        l->fd = memfd_create("log", MFD_CLOEXEC);
        assert_int_equal(ftruncate(l->fd, (off_t)l->bytes), 0);
        l->map = mmap(NULL, l->bytes, PROT_READ, MAP_SHARED, l->fd, 0);
        assert_ptr_not_equal(l->map, MAP_FAILED);
        expect_fe(g->fe, fe_set_log_base(&g->fe->link, l->bytes, 0, l->fd), 0);
        expect_fe(g->fe, fe_set_u64(&g->fe->link, FE_SET_FEATURES, set), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_send_addr(g->fe, i, true), 0);
}

static void log_off(struct guest *g, struct log *l)
{
        expect_fe(g->fe, fe_set_u64(&g->fe->link, FE_SET_FEATURES, g->fe->features), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_send_addr(g->fe, i, false), 0);
        munmap(l->map, l->bytes);
        close(l->fd);
}

/* As at the start and the cancellation of a migration, under traffic. */
static int toggle_log(void *arg)
{
        struct scene *s = arg;
        const bool by_device = strcmp(s->path, "software") != 0;
        struct log l;

        log_on(&s->g, &l);
        path_both(s->h, by_device ? "relay" : "software", NULL);
        log_off(&s->g, &l);
        path_both(s->h, s->path, NULL);
        return 0;
}

static void test_log_toggled(void **state)
{
        on_each_path(*state, toggle_log);
}

static bool is_logged(const struct log *l, uint64_t gpa)
{
        return l->map[gpa / FE_PAGE / 8] >> (gpa / FE_PAGE % 8) & 1;
}

/* A piece of memory that only the device writes, as it was. */
struct witness {
        uint64_t gpa, len;
        uint8_t *was;
};

static void remember(struct guest *g, struct witness *w, uint64_t from, uint64_t to)
{
        w->gpa = from;
        w->len = to - from;
        w->was = malloc(w->len);
        assert_non_null(w->was);
        assert_int_equal(fe_memory_read(g->fe->setup.mem, w->gpa, w->was, w->len), 0);
}

/* Each page that differs is in the log.  Number of pages that differ. */
static unsigned int compare(struct guest *g, struct witness *w, const struct log *l)
{
        const uint8_t *now = fe_memory_at(g->fe->setup.mem, w->gpa, w->len);
        unsigned int differ = 0;
        uint64_t last = UINT64_MAX;

        assert_non_null(now);
        for (uint64_t i = 0; i < w->len; i++) {
                const uint64_t page = (w->gpa + i) / FE_PAGE;

                if (now[i] == w->was[i] || page == last)
                        continue;
                last = page;
                differ++;
                if (!is_logged(l, w->gpa + i))
                        fail_msg("0x%jx was written and is not in the log", (uintmax_t)w->gpa + i);
        }
        free(w->was);
        return differ;
}

/* All receive buffers are overwritten with the log on: each page of them, and of what the device
 * writes of the rings, is in it. */
static void one_log(struct host *h, uint64_t features, const char *path)
{
        enum { BUFFER_BYTES = 2048 };
        const bool packed = features & FE_BIT(VIRTIO_F_RING_PACKED);
        struct fe_setup setup = { .required = features };
        struct fe_net_params net = { .region = FE_ANY_REGION, .buffers = PATH_BUFFERS };
        struct witness buffers, used;
        struct fe_areas areas;
        uint64_t from;
        struct log l;
        struct scene s;

        assert_int_equal(fe_memory_new_layout(FE_ONE_REGION, &setup.mem), 0);
        begin(&s, h, path, &setup);
        assert_int_equal(fe_memory_alloc(setup.mem, 0, FE_PAGE, FE_PAGE, &from), 0);
        guest_net(&s.g, &net); /* first of all its receive buffers, one behind the other */
        s.g.flow.min_bytes = s.g.flow.max_bytes = 1500;
        areas = fe_driver_areas(s.g.fe->ring[0].driver);
        log_on(&s.g, &l);
        path_both(h, strcmp(path, "software") == 0 ? path : "relay", NULL);
        remember(&s.g, &buffers, from + FE_PAGE, from + FE_PAGE + PATH_BUFFERS * BUFFER_BYTES);
        remember(&s.g, &used, packed ? areas.desc : areas.device,
                 (packed ? areas.desc : areas.device) + 256);
        guest_traffic(&s.g, 2 * PATH_BUFFERS);
        assert_true(compare(&s.g, &buffers, &l) >= PATH_BUFFERS * BUFFER_BYTES / FE_PAGE);
        assert_true(compare(&s.g, &used, &l) >= 1);
        log_off(&s.g, &l);
        path_both(h, path, NULL);
        guest_traffic(&s.g, 200);
        path_end(h, &s.g);
        fe_memory_free(setup.mem);
}

static void test_log_complete(void **state)
{
        for (unsigned int i = 0; i < 3; i++) {
                one_log(*state, FE_FEATURES_MODERN, paths[i]);
                one_log(*state, FE_FEATURES_PACKED, paths[i]);
        }
}

/* ---- what keeps rings from the device, or on a relay ---- */

static void test_reasons(void **state)
{
        static const struct {
                struct fe_setup s;
                const char *device, *path, *why;
        } reasons[] = {
                { { .inflight = true, .required = FE_FEATURES_PACKED },
                  "sim",
                  "relay",
                  "the front-end wants buffers in flight recorded" },
                { { .no_kick_fd = true, .required = FE_FEATURES_MODERN },
                  "sim",
                  "relay",
                  "the guest does not kick by eventfd" },
                { { .required = FE_FEATURES_MODERN },
                  "sim,size=64",
                  "relay",
                  "the ring is larger than the device can" },
                { { .required = FE_FEATURES_PACKED },
                  "sim,without=irq_anyfd",
                  "relay",
                  "the device cannot interrupt the guest itself" },
                { { .required = FE_FEATURES_MODERN },
                  "sim,without=in_order",
                  "relay",
                  "the device returns buffers out of order" },
                { { .required = FE_BIT(VIRTIO_NET_F_MRG_RXBUF) },
                  "sim",
                  "software",
                  "the guest's driver is a legacy one" },
                { { .required = FE_FEATURES_MODERN },
                  "sim,without=live",
                  "software",
                  "the device cannot stop and start one queue alone" },
        };

        for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
                struct fe_setup setup = reasons[i].s;
                struct guest g;

                setup.guard = true;
                path_begin(*state, reasons[i].device, &setup, &g);
                path_both(*state, reasons[i].path, reasons[i].why);
                guest_traffic(&g, 400);
                path_both(*state, reasons[i].path, reasons[i].why);
                path_end(*state, &g);
        }
}

/* Firmware with a legacy driver is not what the operating system after it is judged by: a front-end
 * need not tell of the reset in between. */
static void test_legacy_for_a_while(void **state)
{
        struct fe_setup setup = { .required = FE_BIT(VIRTIO_NET_F_MRG_RXBUF), .guard = true };
        uint64_t modern;
        struct guest g;

        path_begin(*state, "sim", &setup, &g);
        path_both(*state, "software", "the guest's driver is a legacy one");
        modern = g.fe->features | FE_BIT(VIRTIO_F_VERSION_1);
        expect_fe(g.fe, fe_set_u64(&g.fe->link, FE_SET_FEATURES, modern), 0);
        path_both(*state, "direct", "");
        expect_fe(g.fe, fe_set_u64(&g.fe->link, FE_SET_FEATURES, g.fe->features), 0);
        path_both(*state, "software", "the guest's driver is a legacy one");
        path_end(*state, &g);
}

/* What the device cannot is not offered: the port's face is the same on all paths. */
static void test_offer(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        const struct fe_setup setup = { .features = FE_FEATURES_PACKED };

        path_add(h, "sim,without=packed+RING_EVENT_IDX", "loopback");
        fe = host_connect(h, "p");
        expect_fe(fe, fe_frontend_negotiate(fe, &setup), 0);
        assert_false(fe_has(fe->offered, VIRTIO_F_RING_PACKED));
        assert_false(fe_has(fe->offered, VIRTIO_RING_F_EVENT_IDX));
        assert_true(fe_has(fe->offered, VIRTIO_NET_F_MRG_RXBUF));
        assert_false(fe_has(fe->offered, VIRTIO_NET_F_CSUM));
        fe_frontend_free(fe);
        host_del(h, "p");
}

/* ---- ends ---- */

/* The front-end goes without a word, and another comes: buffers under way come back. */
static void test_reconnects(void **state)
{
        struct host *h = *state;

        for (unsigned int i = 0; i < 3 * FORMATS; i++) {
                const struct fe_setup setup = { .required = path_formats[i / 3], .guard = true };
                struct scene s;
                int fd;

                begin(&s, h, paths[i % 3], &setup);
                s.g.flow.may_lose = true;
                s.g.flow.stall_ms = 300;
                for (unsigned int k = 0; k < 4; k++) {
                        guest_traffic(&s.g, 100);
                        for (unsigned int n = 0; n < 4; n++)
                                (void)fe_net_send(s.g.net, NULL, "\2\0\0\0\0\1\2\0\0\0\0\2\x88\xb6",
                                                  14);
                        fe_channel_close(&s.g.fe->link.ch);
                        assert_int_equal(fe_socket_connect(host_path(h, "p"), HOST_WAIT_MS, &fd),
                                         0);
                        expect_fe(s.g.fe, fe_frontend_reconnect(s.g.fe, fd), 0);
                        path_both(h, s.path, NULL);
                }
                assert_true(s.g.flow.received > 300);
                path_end(h, &s.g);
        }
}

/* Gone with its memory, again and again; the next guest finds all as new. */
static void test_guests_come_and_go(void **state)
{
        struct host *h = *state;
        struct host_counts before = { 0 }, after;

        path_add(h, "sim", "loopback");
        for (unsigned int i = 0; i < 24; i++) {
                const struct fe_setup setup = { .required = path_formats[i % PATH_FORMATS],
                                                .guard = true };
                struct guest g;

                guest_start(&g, h, "p", &setup);
                path_ask(h, paths[i % 3]);
                g.flow.any_order = g.flow.may_lose = true;
                g.flow.stall_ms = 300;
                g.flow.tag = 7;
                guest_traffic(&g, 100);
                guest_end(&g);
                host_wait_state(h, "p", "waiting");
                if (i == 5)
                        before = host_count();
        }
        after = host_count();
        assert_int_equal(after.fds, before.fds);
        assert_int_equal(after.shared_maps, before.shared_maps);
        host_del(h, "p");
}

static void revive(struct guest *g)
{
        expect_fe(g->fe, fe_reset_device(&g->fe->link), 0);
        for (unsigned int i = 0; i < 2; i++)
                fe_driver_restart(g->fe->ring[i].driver);
        fe_net_reset(g->net);
        expect_fe(g->fe, fe_frontend_send_features(g->fe), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_start_ring(g->fe, i), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_enable_ring(g->fe, i, true), 0);
}

/* After a reset rings are at their beginning, where any device can start. */
static void test_reset(void **state)
{
        for (unsigned int i = 0; i < FORMATS; i++) {
                const struct fe_setup setup = { .required = path_formats[i], .guard = true };
                struct guest g;

                path_begin(*state, "sim,without=seek", &setup, &g);
                for (unsigned int k = 0; k < 6; k++) {
                        path_both(*state, "direct", "");
                        guest_traffic(&g, 100);
                        path_go(*state, paths[k % 3]);
                        guest_traffic(&g, 50);
                        path_ask(*state, "auto");
                        revive(&g);
                }
                path_end(*state, &g);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_tx_bounced),
                host_test(test_rx_bounced),
                host_test(test_kick_replaced),
                host_test(test_call_replaced),
                host_test(test_disabled),
                host_test(test_memory_plugged),
                host_test(test_new_memory),
                host_test(test_log_toggled),
                host_test(test_log_complete),
                host_test(test_reasons),
                host_test(test_legacy_for_a_while),
                host_test(test_offer),
                host_test(test_reconnects),
                host_test(test_guests_come_and_go),
                host_test(test_reset),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
