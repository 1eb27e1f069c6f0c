/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "connection_line.h"

/* What ends a connection: deadlines and broken rules.  FAULTS A3 to A5, A14, A17. */

/* ---- deadlines ---- */

static void unfinished_message_is_cut(void **state)
{
        static const size_t stop_after[] = { 1, 11, 12, 13, 111 };
        static const uint8_t body[100];
        const struct bytes b = message(VQL_REQ_SET_MEM_TABLE, body, sizeof(body));

        (void)state;
        for (size_t i = 0; i < sizeof(stop_after) / sizeof(stop_after[0]); i++) {
                struct line *l = line_new(SHORT_US);
                int fd = peer_eventfd();

                assert_int_equal(transmit(l, b.at, stop_after[i], &fd, 1), stop_after[i]);
                assert_line_closed(l, -ETIMEDOUT, "a message was unfinished after 100 ms");
                line_free(l);
        }
}

/* Bytes that keep coming do not move the deadline of their message. */
static void trickle_is_cut(void **state)
{
        static const uint8_t body[VQL_MSG_MAX_BODY];
        const struct bytes b = message(1000, body, sizeof(body));
        struct line *l = line_new(SHORT_US);
        size_t sent = 0;

        (void)state;
        while (!l->closed && sent < b.len) {
                assert_int_equal(transmit(l, b.at + sent, 1, NULL, 0), 1);
                sent++;
                assert_true(sd_event_run(l->loop, 0) >= 0);
                assert_true(sd_event_run(l->loop, 1000) >= 0);
        }
        assert_line_closed(l, -ETIMEDOUT, "a message was unfinished after 100 ms");
        assert_true(sent < b.len);
        line_free(l);
}

/* Silence between messages may last for ever, and each message has the whole deadline. */
static void silence_is_no_offence(void **state)
{
        const uint64_t deadline = 2000000;
        struct line *l = line_new(deadline);
        const struct bytes b = message(VQL_REQ_GET_FEATURES, NULL, 0);

        (void)state;
        for (int i = 0; i < 2; i++) {
                const uint64_t end = loop_now_us() + deadline * 2 / 3;

                assert_int_equal(transmit(l, b.at, 5, NULL, 0), 5);
                loop_settle(l->loop);
                assert_int_equal(transmit(l, b.at + 5, b.len - 5, NULL, 0), b.len - 5);
                loop_settle(l->loop);
                receive_u64(l, VQL_REQ_GET_FEATURES, FAKE_FEATURES);
                while (loop_now_us() < end)
                        assert_true(sd_event_run(l->loop, 10000) >= 0);
        }
        assert_int_equal(l->closed, 0);
        line_free(l);
}

/* ---- what ends it ---- */

static void close_in_the_middle_is_an_error(void **state)
{
        static const size_t stop_after[] = { 1, 11, 12, 19 };
        uint64_t index = 0;
        const struct bytes b = message(VQL_REQ_SET_VRING_KICK, &index, sizeof(index));

        (void)state;
        for (size_t i = 0; i < sizeof(stop_after) / sizeof(stop_after[0]); i++) {
                struct line *l = line_new(LONG_US);
                int fd = peer_eventfd();

                assert_int_equal(transmit(l, b.at, stop_after[i], &fd, 1), stop_after[i]);
                shutdown(l->fd, SHUT_WR);
                assert_line_closed(l, -EPROTO, "closed in the middle of a message");
                assert_int_equal(l->peer->session->vring[0].kick_fd, -1);
                line_free(l);
        }
}

static void bad_headers_end_it(void **state)
{
        static const struct vql_wire_header bad[] = {
                { 1, 0, 0 },    /* version 0 */
                { 1, 2, 0 },    /* version 2 */
                { 1, 5, 0 },    /* a reply */
                { 1, 1, 4097 }, /* too large */
                { 1, 9, UINT32_MAX },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct line *l = line_new(LONG_US);
                int fds[2] = { peer_eventfd(), peer_eventfd() };

                assert_int_equal(transmit(l, &bad[i], sizeof(bad[i]), fds, 2), sizeof(bad[i]));
                assert_line_closed(l, -EPROTO, "request 1: ");
                line_free(l);
        }
}

static void session_that_gives_up_ends_it(void **state)
{
        const struct vql_wire_state body = { 99, 256 };
        const struct bytes b = message(VQL_REQ_SET_VRING_NUM, &body, sizeof(body));
        struct line *l = line_new(LONG_US);

        (void)state;
        transmit_all(l, &b);
        transmit_all(l, &b);
        assert_line_closed(l, -EPROTO, "SET_VRING_NUM: ring 99, expected one below 8");
        line_free(l);
}

static void too_many_descriptors_end_it(void **state)
{
        uint64_t index = 0;
        const struct bytes b = message(VQL_REQ_SET_VRING_KICK, &index, sizeof(index));

        (void)state;
        for (unsigned int n = VQL_MSG_MAX_FDS + 1; n <= MANY_FDS; n++) {
                struct line *l = line_new(LONG_US);
                int fds[MANY_FDS];

                for (unsigned int i = 0; i < n; i++)
                        fds[i] = peer_eventfd();
                assert_int_equal(transmit(l, b.at, b.len, fds, n), b.len);
                assert_line_closed(l, -EPROTO, "more than 8 descriptors");
                line_free(l);
        }
}

/* A few with each byte of the header come to too many, too. */
static void too_many_descriptors_in_pieces_end_it(void **state)
{
        const struct bytes b = message(VQL_REQ_SET_OWNER, NULL, 0);
        struct line *l = line_new(LONG_US);

        (void)state;
        for (size_t i = 0; i < b.len; i++) {
                int fd = peer_eventfd();

                assert_int_equal(transmit(l, b.at + i, 1, &fd, 1), 1);
        }
        assert_line_closed(l, -EPROTO, "more than 8 descriptors");
        line_free(l);
}

static void descriptors_with_the_body_end_it(void **state)
{
        uint64_t index = 0;
        const struct bytes b = message(VQL_REQ_SET_VRING_KICK, &index, sizeof(index));

        (void)state;
        for (size_t at = VQL_MSG_HEADER; at < b.len; at += 3) {
                struct line *l = line_new(LONG_US);
                int fd = peer_eventfd();

                assert_int_equal(transmit(l, b.at, at, NULL, 0), at);
                assert_int_equal(transmit(l, b.at + at, b.len - at, &fd, 1), b.len - at);
                assert_line_closed(l, -EPROTO, "descriptors in the middle of the message");
                line_free(l);
        }
}

/* Out of descriptors: this client goes, the process stays. */
static void no_free_descriptor_here(void **state)
{
        uint64_t index = 0;
        const struct bytes b = message(VQL_REQ_SET_VRING_KICK, &index, sizeof(index));
        struct line *l = line_new(LONG_US);
        struct rlimit limit, none;
        int fd = peer_eventfd();

        (void)state;
        assert_int_equal(transmit(l, b.at, b.len, &fd, 1), b.len);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        none = (struct rlimit){ .rlim_cur = 3, .rlim_max = limit.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        loop_settle(l->loop);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_line_closed(l, -EPROTO, "no free descriptors here");
        line_free(l);
}

static void freed_in_the_middle(void **state)
{
        uint64_t index = 0;
        const struct bytes b = message(VQL_REQ_SET_VRING_KICK, &index, sizeof(index));
        struct line *l = line_new(LONG_US);
        int fd = peer_eventfd();

        (void)state;
        assert_int_equal(transmit(l, b.at, b.len - 1, &fd, 1), b.len - 1);
        loop_settle(l->loop);
        line_free(l); /* checks that the descriptor went, too */
        vql_connection_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(unfinished_message_is_cut),
                cmocka_unit_test(trickle_is_cut),
                cmocka_unit_test(silence_is_no_offence),
                cmocka_unit_test(close_in_the_middle_is_an_error),
                cmocka_unit_test(bad_headers_end_it),
                cmocka_unit_test(session_that_gives_up_ends_it),
                cmocka_unit_test(too_many_descriptors_end_it),
                cmocka_unit_test(too_many_descriptors_in_pieces_end_it),
                cmocka_unit_test(descriptors_with_the_body_end_it),
                cmocka_unit_test(no_free_descriptor_here),
                cmocka_unit_test(freed_in_the_middle),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
