/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "connection_line.h"

/* What a good front-end does, and one that is slow to read.  FAULTS A17, D21. */

/* ---- what a good front-end does ---- */

static void messages_in_one_piece_are_handled_in_turns(void **state)
{
        struct line *l = line_new(LONG_US);
        const struct bytes b = message(VQL_REQ_GET_FEATURES, NULL, 0);
        uint64_t before = l->peer->session->messages;
        uint8_t many[100 * VQL_MSG_HEADER];

        (void)state;
        for (size_t i = 0; i < 100; i++)
                memcpy(many + i * b.len, b.at, b.len);
        assert_int_equal(transmit(l, many, sizeof(many), NULL, 0), sizeof(many));
        assert_true(sd_event_run(l->loop, 0) > 0);
        assert_true(l->peer->session->messages > before);
        assert_true(l->peer->session->messages < before + 100); /* others get their turn */
        for (int i = 0; i < 100; i++)
                receive_u64(l, VQL_REQ_GET_FEATURES, FAKE_FEATURES);
        assert_int_equal(l->peer->session->messages, before + 100);
        line_free(l);
}

static uint64_t counter(int fd)
{
        uint64_t n = 0;

        assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
        return n;
}

static int marked_eventfd(uint64_t mark)
{
        int fd = peer_eventfd();

        assert_int_equal(write(fd, &mark, sizeof(mark)), sizeof(mark));
        return fd;
}

/* All of them wait in the socket, and none is taken for another's. */
static void descriptors_stay_with_their_message(void **state)
{
        struct line *l = line_new(LONG_US);

        (void)state;
        for (uint64_t i = 0; i < 8; i++) {
                const struct bytes b = message(VQL_REQ_SET_VRING_KICK, &i, sizeof(i));
                const struct bytes plain = message(VQL_REQ_SET_OWNER, NULL, 0);
                int fd = marked_eventfd(100 + i);

                assert_int_equal(transmit(l, b.at, b.len, &fd, 1), b.len);
                transmit_all(l, &plain);
        }
        loop_settle(l->loop);
        for (uint64_t i = 0; i < 8; i++)
                assert_int_equal(counter(l->peer->session->vring[i].kick_fd), 100 + i);
        assert_int_equal(l->closed, 0);
        line_free(l);
}

static void byte_by_byte(void **state)
{
        struct line *l = line_new(LONG_US);
        uint64_t index = 5;
        const struct bytes b = message(VQL_REQ_SET_VRING_CALL, &index, sizeof(index));
        const struct bytes next = message(VQL_REQ_GET_QUEUE_NUM, NULL, 0);
        int fd = marked_eventfd(77);

        (void)state;
        assert_int_equal(transmit(l, b.at, 1, &fd, 1), 1);
        for (size_t i = 1; i < b.len; i++) {
                loop_settle(l->loop);
                assert_int_equal(l->peer->session->vring[5].call_fd, -1);
                assert_int_equal(transmit(l, b.at + i, 1, NULL, 0), 1);
        }
        loop_settle(l->loop);
        assert_int_equal(counter(l->peer->session->vring[5].call_fd), 77);
        for (size_t i = 0; i < next.len; i++) {
                assert_int_equal(transmit(l, next.at + i, 1, NULL, 0), 1);
                loop_settle(l->loop);
        }
        receive_u64(l, VQL_REQ_GET_QUEUE_NUM, 4);
        line_free(l);
}

static void descriptor_comes_with_the_reply_once(void **state)
{
        const struct vql_wire_inflight w = { .num_queues = 2, .queue_size = 256 };
        const struct bytes b = message(VQL_REQ_GET_INFLIGHT_FD, &w, sizeof(w));
        struct line *l = line_new(LONG_US);
        union {
                struct cmsghdr align;
                uint8_t bytes[CMSG_SPACE(sizeof(int) * 4)];
        } control;
        uint8_t reply[64];
        struct iovec iov = { reply, sizeof(reply) };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
        struct stat st;
        int fd;

        (void)state;
        msg.msg_controllen = sizeof(control);
        transmit_all(l, &b);
        loop_settle(l->loop);
        assert_int_equal(recvmsg(l->fd, &msg, MSG_CMSG_CLOEXEC), VQL_MSG_HEADER + sizeof(w));
        assert_int_equal(control.align.cmsg_len, CMSG_LEN(sizeof(int)));
        memcpy(&fd, CMSG_DATA(&control.align), sizeof(fd));
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_size, vql_inflight_bytes(2, 256, false));
        close(fd);
        line_free(l);
}

static void close_between_messages_is_clean(void **state)
{
        struct line *l = line_new(LONG_US);
        const struct bytes b = message(VQL_REQ_SET_OWNER, NULL, 0);

        (void)state;
        transmit_all(l, &b);
        shutdown(l->fd, SHUT_RDWR);
        assert_line_closed(l, 0, "closed by the front-end");
        assert_true(l->peer->session->owned); /* its last word counts */
        line_free(l);
}

/* ---- replies that wait ---- */

enum { BIG = VQL_MSG_MAX_BODY };

/* Its reply is as large as itself: every byte of it 0xff. */
static struct bytes big_question(void)
{
        static const uint8_t body[BIG];

        return message(VQL_REQ_CREATE_CRYPTO_SESSION, body, BIG);
}

static void slow_reader_gets_everything(void **state)
{
        struct line *l = line_new_narrow(LONG_US);
        const struct bytes b = big_question();
        size_t rounds = 20;

        (void)state;
        for (size_t i = 0; i < rounds; i++) {
                struct bytes reply = { .len = b.len };

                transmit_all(l, &b);
                loop_settle(l->loop);
                for (size_t at = 0; at < b.len; at += 79) {
                        size_t piece = b.len - at < 79 ? b.len - at : 79;

                        receive_exactly(l, reply.at + at, piece);
                        loop_settle(l->loop);
                }
                assert_int_equal(reply.at[0], VQL_REQ_CREATE_CRYPTO_SESSION);
                assert_int_equal(reply.at[4], 5);
                for (size_t at = VQL_MSG_HEADER; at < b.len; at++)
                        assert_int_equal(reply.at[at], 0xff);
        }
        assert_int_equal(l->closed, 0);
        line_free(l);
}

/* Send until the socket is full and nothing moves any more. */
static void ask_without_reading(struct line *l)
{
        const struct bytes b = message(VQL_REQ_GET_FEATURES, NULL, 0);
        uint64_t before;

        do {
                before = l->peer->session->messages;
                while (transmit(l, b.at, b.len, NULL, 0) == (ssize_t)b.len)
                        ;
                loop_settle(l->loop);
        } while (l->connection && l->peer->session->messages != before);
}

static void reader_that_never_reads_is_not_read_from(void **state)
{
        struct line *l = line_new_narrow(LONG_US);
        uint64_t handled;

        (void)state;
        ask_without_reading(l);
        assert_int_equal(l->closed, 0);
        handled = l->peer->session->messages;
        loop_settle(l->loop);
        assert_int_equal(l->peer->session->messages, handled);
        for (int i = 0; i < 10; i++) /* reading makes it go on */
                receive_u64(l, VQL_REQ_GET_FEATURES, FAKE_FEATURES);
        loop_settle(l->loop);
        line_free(l);
}

static void reader_that_never_reads_is_cut(void **state)
{
        struct line *l = line_new_narrow(SHORT_US);

        (void)state;
        ask_without_reading(l);
        assert_line_closed(l, -ETIMEDOUT, "a reply was not read for 100 ms");
        line_free(l);
}

static void reader_that_goes_away(void **state)
{
        struct line *l = line_new_narrow(LONG_US);

        (void)state;
        ask_without_reading(l);
        close(l->fd);
        l->fd = -1;
        assert_line_closed(l, -EPIPE, "sending a reply");
        line_free(l);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(messages_in_one_piece_are_handled_in_turns),
                cmocka_unit_test(descriptors_stay_with_their_message),
                cmocka_unit_test(byte_by_byte),
                cmocka_unit_test(descriptor_comes_with_the_reply_once),
                cmocka_unit_test(close_between_messages_is_clean),
                cmocka_unit_test(slow_reader_gets_everything),
                cmocka_unit_test(reader_that_never_reads_is_not_read_from),
                cmocka_unit_test(reader_that_never_reads_is_cut),
                cmocka_unit_test(reader_that_goes_away),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
