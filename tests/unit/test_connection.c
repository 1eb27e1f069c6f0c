/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "loop.h"
#include "process.h"
#include "session_peer.h"
#include "vhost_user/connection.h"

/* Bytes and descriptors on a real socket.  FAULTS A3 to A5, A14, A17, D21. */

enum { LONG_US = 60 * 1000 * 1000, SHORT_US = 100 * 1000, MANY_FDS = 20 };

struct line {
        sd_event *loop;
        struct peer *peer;
        struct vql_connection *connection;
        int fd; /* the front-end's end, non-blocking */
        size_t fds_before;
        volatile int closed; /* how often */
        int err;
        char reason[VQL_ERROR_TEXT];
};

static void on_closed(void *arg, int err, const char *reason)
{
        struct line *l = arg;

        l->closed++;
        l->err = err;
        snprintf(l->reason, sizeof(l->reason), "%s", reason);
        vql_connection_free(l->connection);
        l->connection = NULL;
}

/* `narrow`: with a small send buffer on the connection's side, so that replies soon wait. */
static struct line *line_make(uint64_t deadline_us, bool narrow)
{
        struct line *l = calloc(1, sizeof(*l));
        struct vql_connection_params params = { .deadline_us = deadline_us,
                                                .closed = on_closed,
                                                .arg = l };
        int sv[2], least = 1;

        l->fds_before = process_count_fds();
        l->loop = loop_new();
        l->peer = peer_new();
        peer_u64(l->peer, VQL_REQ_SET_PROTOCOL_FEATURES, FAKE_PROTOCOL_FEATURES);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
        if (narrow)
                assert_int_equal(setsockopt(sv[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)),
                                 0);
        l->fd = sv[0];
        params.fd = sv[1];
        params.loop = l->loop;
        params.session = l->peer->session;
        assert_int_equal(vql_connection_new(&params, &l->connection), 0);
        return l;
}

static struct line *line_new(uint64_t deadline_us)
{
        return line_make(deadline_us, false);
}

static struct line *line_new_narrow(uint64_t deadline_us)
{
        return line_make(deadline_us, true);
}

static void line_free(struct line *l)
{
        vql_connection_free(l->connection);
        close(l->fd);
        peer_free(l->peer);
        sd_event_unref(l->loop);
        assert_int_equal(process_count_fds(), l->fds_before);
        free(l);
}

struct bytes {
        size_t len;
        uint8_t at[VQL_MSG_HEADER + VQL_MSG_MAX_BODY];
};

static struct bytes message(uint32_t request, const void *body, uint32_t size)
{
        const struct vql_wire_header h = { request, VQL_WIRE_VERSION, size };
        struct bytes b = { .len = sizeof(h) + size };

        memcpy(b.at, &h, sizeof(h));
        if (body)
                memcpy(b.at + sizeof(h), body, size);
        return b;
}

/* sendmsg() with descriptors, which are closed here afterwards. */
static ssize_t transmit(const struct line *l, const void *at, size_t len, const int *fds,
                        unsigned int nfds)
{
        union {
                struct cmsghdr align;
                uint8_t bytes[CMSG_SPACE(sizeof(int) * MANY_FDS)];
        } control = { .bytes = { 0 } };
        struct iovec iov = { (void *)(uintptr_t)at, len };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
        ssize_t n;

        if (nfds) {
                struct cmsghdr *m = &control.align;

                msg.msg_control = &control;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
                m->cmsg_level = SOL_SOCKET;
                m->cmsg_type = SCM_RIGHTS;
                m->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
                memcpy(CMSG_DATA(m), fds, sizeof(int) * nfds);
        }
        n = sendmsg(l->fd, &msg, MSG_NOSIGNAL);
        for (unsigned int i = 0; i < nfds; i++)
                close(fds[i]);
        return n;
}

static void transmit_all(const struct line *l, const struct bytes *b)
{
        assert_int_equal(transmit(l, b->at, b->len, NULL, 0), b->len);
}

static void receive_exactly(const struct line *l, void *at, size_t len)
{
        size_t have = 0;

        while (have < len) {
                ssize_t n = recv(l->fd, (uint8_t *)at + have, len - have, 0);

                if (n < 0 && errno == EAGAIN)
                        loop_settle(l->loop);
                else
                        assert_true(n > 0);
                have += n > 0 ? (size_t)n : 0;
        }
}

static void receive_u64(const struct line *l, uint32_t request, uint64_t expected)
{
        struct {
                struct vql_wire_header h;
                uint64_t value;
        } __attribute__((packed)) reply;

        receive_exactly(l, &reply, sizeof(reply));
        assert_int_equal(reply.h.request, request);
        assert_int_equal(reply.h.flags, 5);
        assert_int_equal(reply.h.size, 8);
        assert_true(reply.value == expected);
}

static void assert_line_closed(struct line *l, int err, const char *sentence)
{
        loop_until(l->loop, &l->closed);
        loop_settle(l->loop);
        assert_int_equal(l->closed, 1);
        assert_int_equal(l->err, err);
        if (!strstr(l->reason, sentence))
                fail_msg("\"%s\" does not say \"%s\"", l->reason, sentence);
}

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
                struct bytes reply;

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
        static const uint8_t body[BIG];
        const struct bytes b = message(1000, body, BIG);
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
                cmocka_unit_test(messages_in_one_piece_are_handled_in_turns),
                cmocka_unit_test(descriptors_stay_with_their_message),
                cmocka_unit_test(byte_by_byte),
                cmocka_unit_test(descriptor_comes_with_the_reply_once),
                cmocka_unit_test(close_between_messages_is_clean),
                cmocka_unit_test(slow_reader_gets_everything),
                cmocka_unit_test(reader_that_never_reads_is_not_read_from),
                cmocka_unit_test(reader_that_never_reads_is_cut),
                cmocka_unit_test(reader_that_goes_away),
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
