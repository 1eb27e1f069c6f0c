/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Front-ends that are odd rather than wrong, over a real socket to a real port: in little pieces,
 * too much at once, one too many, with descriptors of any kind and number.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host.h"

enum { PAIRS = 2, FILE_BYTES = 1 << 20 };

static int file_fd(void)
{
        int fd = memfd_create("message", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
        return fd;
}

static struct fe_frontend *negotiated(struct host *h, const char *name)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN, .queue_pairs = PAIRS };
        struct fe_frontend *fe = host_connect(h, name);

        expect_fe(fe, fe_frontend_negotiate(fe, &s), 0);
        return fe;
}

static bool alive(struct fe_frontend *fe)
{
        uint64_t features;
        int err = fe_get_u64(&fe->link, FE_GET_FEATURES, &features);

        if (err < 0 && err != -ECONNRESET)
                fail_msg("GET_FEATURES: %s", fe_frontend_error(fe));
        return err == 0;
}

/* ---- pace ---- */

static void test_byte_by_byte(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        uint64_t features = 0, value;
        struct fe_message m;

        host_add(h, "p", PAIRS);
        fe = negotiated(h, "p");
        fe_message_init(&m, FE_GET_FEATURES, NULL, 0);
        assert_int_equal(fe_channel_send_slowly(&fe->link.ch, &m, 1, 2, SIZE_MAX), 0);
        expect_fe(fe,
                  fe_channel_receive_reply(&fe->link.ch, FE_GET_FEATURES, &features,
                                           sizeof(features), NULL),
                  0);
        assert_int_equal(features, fe->offered);
        fe_message_init(&m, FE_SET_FEATURES, &fe->features, sizeof(fe->features));
        m.flags |= FE_NEED_REPLY;
        assert_int_equal(fe_channel_send_slowly(&fe->link.ch, &m, 1, 2, SIZE_MAX), 0);
        expect_fe(fe,
                  fe_channel_receive_reply(&fe->link.ch, FE_SET_FEATURES, &value, sizeof(value),
                                           NULL),
                  0);
        assert_int_equal(value, 0);
        fe_frontend_free(fe);
        host_del(h, "p");
}

/* Descriptors that come with the first byte stay with their message, however it is cut. */
static void test_fd_with_first_byte(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        const uint64_t ring = 0;
        struct fe_message m;
        uint64_t value;

        host_add(h, "p", PAIRS);
        fe = negotiated(h, "p");
        for (size_t piece = 1; piece < 20; piece++) {
                fe_message_init(&m, FE_SET_VRING_CALL, &ring, sizeof(ring));
                m.flags |= FE_NEED_REPLY;
                m.fds[0] = fe->ring[0].call_fd;
                m.nfds = 1;
                assert_int_equal(fe_channel_send_slowly(&fe->link.ch, &m, piece, 1, SIZE_MAX), 0);
                expect_fe(fe,
                          fe_channel_receive_reply(&fe->link.ch, FE_SET_VRING_CALL, &value,
                                                   sizeof(value), NULL),
                          0);
                assert_int_equal(value, 0);
        }
        fe_frontend_free(fe);
        host_del(h, "p");
}

/* Fifty messages in one write, one of them with an fd in the middle: answered one by one. */
static void test_many_at_once(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        uint32_t bytes[50][5];
        uint64_t features;

        host_add(h, "p", PAIRS);
        fe = negotiated(h, "p");
        for (unsigned int i = 0; i < 50; i++) {
                const uint32_t one[5] = { FE_SET_VRING_NUM, FE_VERSION | FE_NEED_REPLY, 8, 0, 256 };

                memcpy(bytes[i], one, sizeof(one));
        }
        assert_int_equal(fe_channel_send_bytes(&fe->link.ch, bytes, sizeof(bytes), NULL, 0), 0);
        for (unsigned int i = 0; i < 50; i++) {
                uint64_t value;

                expect_fe(fe,
                          fe_channel_receive_reply(&fe->link.ch, FE_SET_VRING_NUM, &value,
                                                   sizeof(value), NULL),
                          0);
                assert_int_equal(value, 0);
        }
        expect_fe(fe, fe_get_u64(&fe->link, FE_GET_FEATURES, &features), 0);
        expect_fe(fe, fe_channel_check_silent(&fe->link.ch), 0);
        fe_frontend_free(fe);
        host_del(h, "p");
}

/* A header, half a header, a body cut short, and then the end. */
static void test_cut_short(void **state)
{
        struct host *h = *state;
        struct host_counts before;
        int fd = file_fd();

        host_add(h, "p", PAIRS);
        host_wait_state(h, "p", "waiting");
        before = host_count();
        for (size_t limit = 0; limit < FE_HEADER + 40; limit++) {
                struct fe_frontend *fe = host_connect(h, "p");
                struct fe_message m;

                fe_message_init(&m, FE_SET_MEM_TABLE, NULL, 40);
                m.fds[0] = fd;
                m.nfds = 1;
                assert_int_equal(fe_channel_send_slowly(&fe->link.ch, &m, 64, 0, limit), 0);
                fe_frontend_free(fe);
                host_wait_state(h, "p", "waiting");
        }
        assert_int_equal(host_count().fds, before.fds);
        close(fd);
        host_del(h, "p");
}

/* ---- clients ---- */

static void test_second_client(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN, .queue_pairs = 1 };
        struct host *h = *state;
        struct fe_frontend *second;
        struct host_counts before;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 200);
        before = host_count();
        host_log_clear();
        for (unsigned int i = 0; i < 50; i++) {
                second = host_connect(h, "p");
                expect_fe(second, fe_channel_wait_closed(&second->link.ch, HOST_WAIT_MS), 0);
                fe_frontend_free(second);
        }
        assert_true(host_logged("p:"));
        guest_traffic(&g, 200);
        assert_int_equal(host_count().fds, before.fds);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        host_wait_state(h, "p", "waiting");
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 200);
        guest_end(&g);
        host_del(h, "p");
}

/* A front-end that was killed and comes straight back is not refused for its own ghost. */
static void test_straight_back(void **state)
{
        struct host *h = *state;

        host_add(h, "p", 1);
        for (unsigned int i = 0; i < 300; i++) {
                struct fe_frontend *fe = host_connect(h, "p");

                if (i % 3 > 0)
                        assert_true(alive(fe));
                if (i % 3 == 2)
                        assert_int_equal(fe_channel_send_bytes(&fe->link.ch, "\1\0\0", 3, NULL, 0),
                                         0);
                fe_frontend_free(fe);
        }
        host_wait_state(h, "p", "waiting");
        assert_int_equal(host_info(h, "p").connections, 300);
        host_del(h, "p");
}

/* More than 1024 descriptors: what select() cannot do. */
static void test_high_fds(void **state)
{
        enum { MANY = 1200 };
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct host *h = *state;
        struct rlimit limit;
        static int fds[MANY];
        struct guest g;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        if (limit.rlim_max < 2 * MANY)
                skip();
        limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        for (unsigned int i = 0; i < MANY; i++)
                assert_true((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        assert_in_range(g.fe->ring[0].kick_fd, 1024, 4096);
        g.flow.by_interrupt = true;
        guest_traffic(&g, 500);
        guest_end(&g);
        host_del(h, "p");
        for (unsigned int i = 0; i < MANY; i++)
                close(fds[i]);
}

/* kick, call and error descriptors that are anything but eventfds. */
static void test_odd_descriptors(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct host *h = *state;
        int pipes[2], odd[3];
        struct guest g;

        assert_int_equal(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
        odd[0] = file_fd();
        odd[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
        odd[2] = pipes[0];
        host_add(h, "p", 1);
        for (unsigned int i = 0; i < 9; i++) {
                const enum fe_request request =
                        (enum fe_request[]){ FE_SET_VRING_KICK, FE_SET_VRING_CALL,
                                             FE_SET_VRING_ERR }[i / 3];
                struct fe_frontend *fe;
                int err;

                guest_start(&g, h, "p", &s);
                guest_traffic(&g, 50);
                fe = g.fe;
                /* Accepted or refused: it is up to the back-end.  It stays in its senses. */
                err = fe_set_vring_fd(&fe->link, request, 1, odd[i % 3]);
                if (err != 0 && err != -EREMOTEIO)
                        expect_fe(fe, err, 0);
                g.flow.may_lose = true;
                g.flow.stall_ms = 500;
                (void)fe_net_send(g.net, NULL, "0123456789abcdef0123456789abcdef", 32);
                assert_true(alive(fe));
                guest_end(&g);
        }
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 50);
        guest_end(&g);
        host_del(h, "p");
        close(odd[0]);
        close(odd[1]);
        close(pipes[0]);
        close(pipes[1]);
}

/* Without kick fd the back-end polls, without call fd we do. */
static void test_no_eventfds(void **state)
{
        const struct fe_setup setups[] = {
                { .features = FE_FEATURES_MODERN, .no_kick_fd = true },
                { .features = FE_FEATURES_MODERN, .no_call_fd = true },
                { .features = FE_FEATURES_PACKED, .no_kick_fd = true, .no_call_fd = true },
        };
        struct host *h = *state;

        for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
                struct guest g;

                host_add(h, "p", 1);
                guest_start(&g, h, "p", &setups[i]);
                guest_traffic(&g, 200);
                poll(NULL, 0, 300); /* long enough for it to fall asleep */
                guest_traffic(&g, 200);
                expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
                guest_end(&g);
                host_del(h, "p");
        }
}

static void expect_packets(struct guest *g, unsigned int n)
{
        unsigned int got = 0;

        for (int ms = 0; got < n && ms < HOST_WAIT_MS; ms++) {
                uint8_t packet[2048];
                size_t len = sizeof(packet);
                int one = fe_net_receive(g->net, NULL, packet, &len);

                assert_in_range(one, 0, 1);
                got += (unsigned int)one;
                if (!one)
                        poll(NULL, 0, 1);
        }
        assert_int_equal(got, n);
}

/* Buffers offered, and kicked for, while the ring was stopped: no further kick comes for them. */
static void kick_before_start(struct host *h, uint64_t features, bool enable_last)
{
        const struct fe_setup s = { .features = features };
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_stop_ring(g.fe, i), 0);
        for (unsigned int i = 0; enable_last && i < 2; i++)
                expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, false), 0);
        assert_true(fe_net_refill(g.net) > 0);
        for (unsigned int i = 0; i < 5; i++)
                assert_int_equal(fe_net_send(g.net, NULL, "\2\0\0\0\0\1\2\0\0\0\0\2\x88\xb6", 14),
                                 0);
        /* To the guest first: what is sent while it cannot receive is lost. */
        for (unsigned int i = 0; enable_last && i < 2; i++)
                expect_fe(g.fe, fe_frontend_enable_ring(g.fe, i, true), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_start_ring(g.fe, i), 0);
        expect_packets(&g, 5);
        guest_end(&g);
        host_del(h, "p");
}

static void test_kick_before_start(void **state)
{
        for (unsigned int last = 0; last < 2; last++) {
                kick_before_start(*state, FE_FEATURES_MODERN, last);
                kick_before_start(*state, FE_FEATURES_PACKED, last);
        }
}

/* Calls for rings of which nothing else is known yet, then silence after a ring was stopped. */
static void test_silent_after_stop(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct host *h = *state;
        uint64_t count;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 200);
        expect_fe(g.fe, fe_frontend_stop_ring(g.fe, 1), 0);
        (void)!read(g.fe->ring[1].call_fd, &count, sizeof(count));
        for (unsigned int i = 0; i < 10; i++)
                (void)fe_net_send(g.net, NULL, "0123456789abcdef0123456789abcdef", 32);
        count = 1;
        assert_int_equal(write(g.fe->ring[1].kick_fd, &count, sizeof(count)), sizeof(count));
        poll(NULL, 0, 50);
        assert_false(fe_driver_pending(g.fe->ring[1].driver));
        assert_int_equal(read(g.fe->ring[1].call_fd, &count, sizeof(count)), -1);
        assert_true(alive(g.fe));
        guest_end(&g);
        host_del(h, "p");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_byte_by_byte),      host_test(test_fd_with_first_byte),
                host_test(test_many_at_once),      host_test(test_cut_short),
                host_test(test_second_client),     host_test(test_straight_back),
                host_test(test_high_fds),          host_test(test_odd_descriptors),
                host_test(test_no_eventfds),       host_test(test_kick_before_start),
                host_test(test_silent_after_stop),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
