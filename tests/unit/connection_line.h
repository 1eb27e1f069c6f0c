/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_CONNECTION_LINE_H
#define TESTS_UNIT_CONNECTION_LINE_H

/* A session behind a real socket, and the front-end's end of it.  For cmocka tests. */

#include <sys/socket.h>

#include "loop.h"
#include "process.h"
#include "session_peer.h"
#include "vhost_user/connection.h"

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

static inline void on_closed(void *arg, int err, const char *reason)
{
        struct line *l = arg;

        l->closed++;
        l->err = err;
        snprintf(l->reason, sizeof(l->reason), "%s", reason);
        vql_connection_free(l->connection);
        l->connection = NULL;
}

/* `narrow`: with a small send buffer on the connection's side, so that replies soon wait. */
static inline struct line *line_make(uint64_t deadline_us, bool narrow)
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

static inline struct line *line_new(uint64_t deadline_us)
{
        return line_make(deadline_us, false);
}

static inline struct line *line_new_narrow(uint64_t deadline_us)
{
        return line_make(deadline_us, true);
}

static inline void line_free(struct line *l)
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

static inline struct bytes message(uint32_t request, const void *body, uint32_t size)
{
        const struct vql_wire_header h = { request, VQL_WIRE_VERSION, size };
        struct bytes b = { .len = sizeof(h) + size };

        memcpy(b.at, &h, sizeof(h));
        if (body)
                memcpy(b.at + sizeof(h), body, size);
        return b;
}

/* sendmsg() with descriptors, which are closed here afterwards. */
static inline ssize_t transmit(const struct line *l, const void *at, size_t len, const int *fds,
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

static inline void transmit_all(const struct line *l, const struct bytes *b)
{
        assert_int_equal(transmit(l, b->at, b->len, NULL, 0), b->len);
}

static inline void receive_exactly(const struct line *l, void *at, size_t len)
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

static inline void receive_u64(const struct line *l, uint32_t request, uint64_t expected)
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

static inline void assert_line_closed(struct line *l, int err, const char *sentence)
{
        loop_until(l->loop, &l->closed);
        loop_settle(l->loop);
        assert_int_equal(l->closed, 1);
        assert_int_equal(l->err, err);
        if (!strstr(l->reason, sentence))
                fail_msg("\"%s\" does not say \"%s\"", l->reason, sentence);
}

#endif
