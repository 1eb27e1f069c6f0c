/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Guests that move from one port to another with their device's state in a pipe, as front-ends do
 * that leave the state to the back-end; and front-ends that make something else of it.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"

enum { ROOM = 1 << 16, PAIRS = 2, PACKETS = 777 };

struct blob {
        uint8_t at[ROOM];
        size_t n;
};

/* ---- as a front-end does ---- */

static void open_line(bool sockets, int fds[2])
{
        if (sockets)
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        else
                assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
}

static void save(struct fe_frontend *fe, bool sockets, struct blob *ret_blob)
{
        int fds[2];
        ssize_t n;

        open_line(sockets, fds);
        expect_fe(fe, fe_set_device_state_fd(&fe->link, FE_STATE_SAVE, fds[1]), 0);
        close(fds[1]);
        ret_blob->n = 0;
        while ((n = read(fds[0], ret_blob->at + ret_blob->n, ROOM - ret_blob->n)) > 0)
                ret_blob->n += (size_t)n;
        assert_int_equal(n, 0);
        close(fds[0]);
        expect_fe(fe, fe_check_device_state(&fe->link), 0);
}

/* What CHECK_DEVICE_STATE says of a stream. */
static int load(struct fe_frontend *fe, bool sockets, const struct blob *b)
{
        int fds[2];

        open_line(sockets, fds);
        expect_fe(fe, fe_set_device_state_fd(&fe->link, FE_STATE_LOAD, fds[0]), 0);
        close(fds[0]);
        assert_int_equal(write(fds[1], b->at, b->n), b->n);
        close(fds[1]);
        return fe_check_device_state(&fe->link);
}

/* Leave the port and negotiate with another one: memory and rings stay as they are. */
static void leave_for(struct guest *g, struct host *h, const char *name)
{
        struct fe_frontend *fe = g->fe;
        struct fe_setup s = fe->setup;
        int fd;

        s.no_base = true;
        assert_int_equal(fe_socket_connect(host_path(h, name), HOST_WAIT_MS, &fd), 0);
        fe_channel_close(&fe->link.ch);
        if (fe->backend_fd >= 0)
                close(fe->backend_fd);
        fe->backend_fd = -1;
        fe_channel_init(&fe->link.ch, fd);
        expect_fe(fe, fe_frontend_negotiate(fe, &s), 0);
}

static void start(struct guest *g)
{
        struct fe_frontend *fe = g->fe;

        expect_fe(fe, fe_frontend_send_features(fe), 0);
        expect_fe(fe, fe_frontend_send_memory(fe), 0);
        for (unsigned int i = 0; i < fe->n_rings; i++)
                expect_fe(fe, fe_frontend_start_ring(fe, i), 0);
        for (unsigned int i = 0; i < fe->n_rings; i++)
                expect_fe(fe, fe_frontend_enable_ring(fe, i, true), 0);
}

static void stop_rings(struct fe_frontend *fe)
{
        for (unsigned int i = 0; i < fe->n_rings; i++)
                expect_fe(fe, fe_frontend_stop_ring(fe, i), 0);
}

static struct fe_setup setup_of(uint64_t features)
{
        return (struct fe_setup){ .features = features, .queue_pairs = PAIRS, .guard = true };
}

/* ---- guests that move ---- */

static uint32_t position(struct fe_frontend *fe, unsigned int ring)
{
        struct fe_driver *d = fe->ring[ring].driver;
        const struct fe_position at = fe_driver_position(d);

        return fe_position_encode(&at, fe_driver_params(d)->packed);
}

/* There and back, with no position but those in the state; the ring is left in any lap. */
static void move(struct host *h, uint64_t features, bool sockets)
{
        const struct fe_setup s = setup_of(features);
        struct blob b;
        struct guest g;
        uint32_t num;

        host_add(h, "a", PAIRS);
        host_add(h, "b", PAIRS);
        guest_start(&g, h, "a", &s);
        for (unsigned int i = 0; i < 6; i++) {
                guest_traffic(&g, PACKETS + 37 * i);
                /* With STATUS this ends with a device reset, as QEMU does before it saves. */
                expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
                save(g.fe, sockets, &b);
                leave_for(&g, h, i % 2 ? "a" : "b");
                assert_int_equal(load(g.fe, sockets, &b), 0);
                expect_fe(g.fe, fe_get_vring_base(&g.fe->link, 1, &num), 0);
                assert_int_equal(num, position(g.fe, 1));
                start(&g);
        }
        guest_traffic(&g, PACKETS);
        stop_rings(g.fe);
        guest_end(&g);
        host_del(h, "a");
        host_del(h, "b");
}

static void test_split(void **state)
{
        move(*state, FE_FEATURES_MODERN, false);
}

static void test_packed(void **state)
{
        move(*state, FE_FEATURES_PACKED, false);
}

static void test_packed_by_socket(void **state)
{
        move(*state, FE_FEATURES_PACKED, true);
}

/* Without the state the same packed guest stands still: the tests above could fail. */
static void test_nothing_loaded(void **state)
{
        struct host *h = *state;
        const struct fe_setup s = setup_of(FE_FEATURES_PACKED);
        struct guest g;

        host_add(h, "a", PAIRS);
        host_add(h, "b", PAIRS);
        guest_start(&g, h, "a", &s);
        guest_traffic(&g, PACKETS);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        leave_for(&g, h, "b");
        start(&g);
        g.flow.stall_ms = 300;
        assert_int_equal(fe_flow_run(&g.flow, 10), -ETIMEDOUT);
        guest_end(&g);
        host_del(h, "a");
        host_del(h, "b");
}

/* The newest word counts: a SET_VRING_BASE after the load. */
static void test_base_after_load(void **state)
{
        struct host *h = *state;
        const struct fe_setup s = setup_of(FE_FEATURES_PACKED);
        struct guest g;
        struct blob old;

        host_add(h, "a", PAIRS);
        host_add(h, "b", PAIRS);
        guest_start(&g, h, "a", &s);
        guest_traffic(&g, 100);
        stop_rings(g.fe);
        save(g.fe, false, &old);
        start(&g);
        guest_traffic(&g, 50);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        leave_for(&g, h, "b");
        assert_int_equal(load(g.fe, false, &old), 0);
        g.fe->setup.no_base = false;
        start(&g);
        guest_traffic(&g, PACKETS);
        guest_end(&g);
        host_del(h, "a");
        host_del(h, "b");
}

/* ---- what is refused ---- */

static int set_fd(struct fe_frontend *fe, enum fe_state_direction direction, int fd)
{
        const int rc = fe_set_device_state_fd(&fe->link, direction, fd);

        close(fd);
        return rc;
}

static void test_rings_run(void **state)
{
        struct host *h = *state;
        const struct fe_setup s = setup_of(FE_FEATURES_PACKED);
        struct guest g;
        struct blob b;
        int fds[2];

        host_add(h, "a", PAIRS);
        guest_start(&g, h, "a", &s);
        guest_traffic(&g, 10);
        host_log_clear();
        open_line(false, fds);
        assert_int_equal(set_fd(g.fe, FE_STATE_SAVE, fds[1]), -EREMOTEIO);
        close(fds[0]);
        assert_true(host_logged("SET_DEVICE_STATE_FD: ring 0 is running, expected stopped"));
        stop_rings(g.fe);
        save(g.fe, false, &b);
        start(&g);
        guest_traffic(&g, 10);
        /* What was saved is no longer so. */
        assert_int_equal(fe_check_device_state(&g.fe->link), -EREMOTEIO);
        host_log_clear();
        assert_int_equal(load(g.fe, false, &b), -EREMOTEIO);
        assert_true(host_logged("device state not loaded: ring 0 is running, expected stopped"));
        guest_traffic(&g, PACKETS);
        guest_end(&g);
        host_del(h, "a");
}

/* The state of a guest that ran in that format. */
static void saved_state(struct host *h, uint64_t features, struct blob *ret_blob)
{
        const struct fe_setup s = setup_of(features);
        struct guest g;

        host_add(h, "from", PAIRS);
        guest_start(&g, h, "from", &s);
        guest_traffic(&g, 100);
        stop_rings(g.fe);
        save(g.fe, false, ret_blob);
        guest_end(&g);
        host_del(h, "from");
}

static void test_does_not_fit(void **state)
{
        struct host *h = *state;
        struct fe_setup s = setup_of(FE_FEATURES_MODERN);
        struct blob b;
        struct guest g;

        saved_state(h, FE_FEATURES_PACKED, &b);
        host_add(h, "a", PAIRS);
        host_add(h, "small", 1);
        guest_start(&g, h, "a", &s);
        stop_rings(g.fe);
        host_log_clear();
        assert_int_equal(load(g.fe, false, &b), -EREMOTEIO);
        assert_true(host_logged("bit 34 (RING_PACKED) differs from what was acknowledged here"));
        guest_end(&g);
        host_wait_state(h, "a", "waiting");

        s.features = FE_FEATURES_PACKED;
        s.ring_size = 128;
        guest_start(&g, h, "a", &s);
        stop_rings(g.fe);
        assert_int_equal(load(g.fe, false, &b), -EREMOTEIO);
        assert_true(host_logged("ring 0: size 256, expected 128 as set here"));
        start(&g);
        guest_traffic(&g, 100); /* nothing of it was taken */
        guest_end(&g);

        s.ring_size = 0;
        s.queue_pairs = 1;
        guest_start(&g, h, "small", &s);
        stop_rings(g.fe);
        assert_int_equal(load(g.fe, false, &b), -EREMOTEIO);
        assert_true(host_logged("ring 2, expected below 2"));
        guest_end(&g);
        host_del(h, "a");
        host_del(h, "small");
}

/* The ring that is set up after a load is another one: it must not start where that one stood. */
static void test_other_ring(void **state)
{
        struct host *h = *state;
        struct fe_setup s = setup_of(FE_FEATURES_PACKED);
        struct fe_frontend *fe;
        struct fe_memory *mem;
        struct blob b;

        saved_state(h, FE_FEATURES_PACKED, &b);
        host_add(h, "a", PAIRS);
        assert_int_equal(fe_memory_new_layout(FE_ONE_REGION, &mem), 0);
        s.mem = mem;
        s.ring_size = 512;
        s.no_base = true;
        fe = host_connect(h, "a");
        expect_fe(fe, fe_frontend_negotiate(fe, &s), 0);
        assert_int_equal(load(fe, false, &b), 0);
        expect_fe(fe, fe_frontend_send_features(fe), 0);
        expect_fe(fe, fe_frontend_send_memory(fe), 0);
        host_log_clear();
        expect_fe(fe, fe_frontend_start_ring(fe, 0), -EREMOTEIO);
        assert_true(host_logged("ring 0: size 512, expected 256 as in the state that was loaded"));
        fe->setup.no_base = false;
        expect_fe(fe, fe_frontend_start_ring(fe, 1), 0);
        fe_frontend_free(fe);
        fe_memory_free(mem);
        host_del(h, "a");
}

/* ---- hostile ---- */

static struct fe_frontend *negotiated(struct host *h)
{
        const struct fe_setup s = setup_of(FE_FEATURES_PACKED);
        struct fe_frontend *fe = host_connect(h, "a");

        expect_fe(fe, fe_frontend_negotiate(fe, &s), 0);
        return fe;
}

static void expect_bad(struct fe_frontend *fe, const struct blob *b, const char *sentence)
{
        host_log_clear();
        assert_int_equal(load(fe, false, b), -EREMOTEIO);
        if (!host_logged(sentence))
                fail_msg("not logged: %s", sentence);
}

static void test_hostile_streams(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        struct host_counts before;
        struct blob good, b;

        saved_state(h, FE_FEATURES_PACKED, &good);
        host_add(h, "a", PAIRS);
        fe = negotiated(h);
        expect_bad(fe, &(const struct blob){ .n = 0 }, "0 bytes that are not a device state");
        before = host_count();
        memset(b.at, 0xa7, ROOM);
        for (b.n = 1; b.n < ROOM; b.n *= 3)
                expect_bad(fe, &b, b.n > 8192 ? "more than 8192 bytes" : "not a device state");
        b = good;
        b.at[4] = 2;
        expect_bad(fe, &b, "device state of version 2, expected 1");
        b = good;
        b.at[18] = b.at[19] = 0xff;
        expect_bad(fe, &b, "with 65535 rings");
        b = good;
        b.at[40] ^= 1;
        expect_bad(fe, &b, "device state with checksum");
        b = good;
        b.n--;
        expect_bad(fe, &b, "device state of");
        assert_int_equal(load(fe, false, &good), 0);
        assert_int_equal(host_count().fds, before.fds);
        fe_frontend_free(fe);
        host_del(h, "a");
}

/* Nobody writes, nobody reads: the port answers, others too, and nothing stays when it is over. */
static void test_peers_that_stall(void **state)
{
        static const uint8_t dust[ROOM];
        struct host *h = *state;
        struct fe_frontend *fe;
        struct host_counts before;
        uint64_t features;
        int in[2], out[2];

        host_add(h, "a", PAIRS);
        fe = negotiated(h);
        assert_int_equal(fe_check_device_state(&fe->link), -EREMOTEIO); /* without SET */
        fe_frontend_free(fe);
        host_wait_state(h, "a", "waiting");
        before = host_count();
        for (unsigned int i = 0; i < 10; i++) {
                fe = negotiated(h);
                open_line(false, in);
                open_line(false, out);
                assert_int_equal(write(out[1], dust, ROOM), ROOM); /* it is full */
                expect_fe(fe, set_fd(fe, FE_STATE_SAVE, dup(out[1])), 0);
                assert_int_equal(fe_check_device_state(&fe->link), -EREMOTEIO);
                expect_fe(fe, set_fd(fe, FE_STATE_LOAD, dup(in[0])), 0);
                assert_int_equal(write(in[1], dust, 3), 3);
                assert_int_equal(fe_check_device_state(&fe->link), -EREMOTEIO);
                expect_fe(fe, fe_get_u64(&fe->link, FE_GET_FEATURES, &features), 0);
                assert_string_equal(host_info(h, "a").state, "connected");
                fe_frontend_free(fe); /* in the middle of it */
                host_wait_state(h, "a", "waiting");
                for (unsigned int k = 0; k < 2; k++) {
                        close(in[k]);
                        close(out[k]);
                }
        }
        assert_int_equal(host_count().fds, before.fds);
        host_del(h, "a");
}

static void test_wrong_descriptors(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        struct host_counts before;
        int fds[2];

        host_add(h, "a", PAIRS);
        fe = negotiated(h);
        before = host_count();
        for (enum fe_state_direction d = FE_STATE_SAVE; d <= FE_STATE_LOAD; d++) {
                assert_int_equal(set_fd(fe, d, eventfd(0, EFD_CLOEXEC)), -EREMOTEIO);
                assert_int_equal(set_fd(fe, d, open("/dev/null", O_RDWR | O_CLOEXEC)), -EREMOTEIO);
                open_line(false, fds);
                assert_int_equal(set_fd(fe, d, fds[d == FE_STATE_SAVE ? 0 : 1]), -EREMOTEIO);
                close(fds[d == FE_STATE_SAVE ? 1 : 0]);
        }
        /* Nobody will read it: SIGPIPE would end this process. */
        signal(SIGPIPE, SIG_DFL);
        open_line(false, fds);
        close(fds[0]);
        expect_fe(fe, set_fd(fe, FE_STATE_SAVE, fds[1]), 0);
        assert_int_equal(fe_check_device_state(&fe->link), -EREMOTEIO);
        assert_int_equal(host_count().fds, before.fds);
        fe_frontend_free(fe);
        host_del(h, "a");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_split),
                host_test(test_packed),
                host_test(test_packed_by_socket),
                host_test(test_nothing_loaded),
                host_test(test_base_after_load),
                host_test(test_rings_run),
                host_test(test_does_not_fit),
                host_test(test_other_ring),
                host_test(test_hostile_streams),
                host_test(test_peers_that_stall),
                host_test(test_wrong_descriptors),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
