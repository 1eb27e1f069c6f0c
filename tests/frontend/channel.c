/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- sockets ---- */

static int address(const char *path, struct sockaddr_un *ret_a)
{
        *ret_a = (struct sockaddr_un){ .sun_family = AF_UNIX };
        if (strlen(path) >= sizeof(ret_a->sun_path))
                return -ENAMETOOLONG;
        snprintf(ret_a->sun_path, sizeof(ret_a->sun_path), "%s", path);
        return 0;
}

int fe_socket_connect(const char *path, int timeout_ms, int *ret_fd)
{
        int64_t end = now_ms() + timeout_ms;
        struct sockaddr_un a;
        int err = address(path, &a), fd;

        if (err < 0)
                return err;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
                err = -errno;
                if ((err != -ENOENT && err != -ECONNREFUSED && err != -EINTR) || now_ms() >= end) {
                        close(fd);
                        return err;
                }
                poll(NULL, 0, 5);
        }
        *ret_fd = fd;
        return 0;
}

int fe_socket_listen(const char *path, int *ret_fd)
{
        struct sockaddr_un a;
        int err = address(path, &a), fd;

        if (err < 0)
                return err;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4) < 0) {
                err = -errno;
                close(fd);
                return err;
        }
        *ret_fd = fd;
        return 0;
}

int fe_socket_accept(int listen_fd, int timeout_ms, int *ret_fd)
{
        struct pollfd p = { .fd = listen_fd, .events = POLLIN };
        int fd;

        if (poll(&p, 1, timeout_ms) == 0)
                return -ETIMEDOUT;
        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}

void fe_channel_init(struct fe_channel *c, int fd)
{
        *c = (struct fe_channel){ .fd = fd, .timeout_ms = FE_TIMEOUT_MS };
}

void fe_channel_close(struct fe_channel *c)
{
        if (c->fd >= 0)
                close(c->fd);
        c->fd = -1;
}

/* ---- sending ---- */

void fe_message_init(struct fe_message *m, uint32_t request, const void *body, size_t len)
{
        memset(m, 0, sizeof(*m));
        m->request = request;
        m->flags = FE_VERSION;
        m->size = (uint32_t)len;
        m->body_len = len;
        if (body)
                memcpy(m->body, body, len);
}

void fe_message_close_fds(struct fe_message *m)
{
        while (m->nfds > 0)
                close(m->fds[--m->nfds]);
}

union control {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FE_MAX_FDS)];
};

/* One sendmsg; the number of bytes that went out, or -errno. */
static ssize_t send_some(int fd, const void *bytes, size_t len, const int *fds, unsigned int nfds)
{
        struct iovec iov = { .iov_base = (void *)bytes, .iov_len = len };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
        union control control = { 0 };
        ssize_t n;

        if (nfds > 0) {
                struct cmsghdr *c = &control.align;

                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
                msg.msg_control = control.bytes;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        }
        do {
                n = sendmsg(fd, &msg, MSG_NOSIGNAL);
        } while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

static int send_failed(struct fe_channel *c, int err)
{
        if (err == -EPIPE || err == -ECONNRESET)
                return fe_fail(&c->error, ECONNRESET, "the back-end closed the connection");
        return fe_fail(&c->error, -err, "cannot send: %s", strerror(-err));
}

int fe_channel_send_bytes(struct fe_channel *c, const void *bytes, size_t len, const int *fds,
                          unsigned int nfds)
{
        const uint8_t *at = bytes;

        while (len > 0) {
                ssize_t n = send_some(c->fd, at, len, fds, nfds);

                if (n < 0)
                        return send_failed(c, (int)n);
                at += n;
                len -= (size_t)n;
                nfds = 0;
        }
        return 0;
}

/* Header and body in one piece; its length. */
static size_t serialise(const struct fe_message *m, uint8_t ret_bytes[FE_HEADER + FE_MAX_BODY])
{
        const uint32_t header[3] = { m->request, m->flags, m->size };

        memcpy(ret_bytes, header, FE_HEADER);
        memcpy(ret_bytes + FE_HEADER, m->body, m->body_len);
        return FE_HEADER + m->body_len;
}

int fe_channel_send(struct fe_channel *c, const struct fe_message *m)
{
        uint8_t bytes[FE_HEADER + FE_MAX_BODY];
        size_t len = serialise(m, bytes);

        return fe_channel_send_bytes(c, bytes, len, m->fds, m->nfds);
}

int fe_channel_send_slowly(struct fe_channel *c, const struct fe_message *m, size_t piece,
                           int pause_ms, size_t limit)
{
        uint8_t bytes[FE_HEADER + FE_MAX_BODY];
        size_t len = serialise(m, bytes), at = 0;

        if (len > limit)
                len = limit;
        while (at < len) {
                size_t n = len - at < piece ? len - at : piece;
                int err = fe_channel_send_bytes(c, bytes + at, n, m->fds, at == 0 ? m->nfds : 0);

                if (err < 0)
                        return err;
                at += n;
                if (pause_ms > 0 && at < len)
                        poll(NULL, 0, pause_ms);
        }
        return 0;
}

/* ---- receiving ---- */

static void take_fds(struct msghdr *msg, struct fe_message *m)
{
        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
                size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                memcpy(m->fds, CMSG_DATA(c), n * sizeof(int));
                m->nfds = (unsigned int)n;
        }
}

/* Exactly `len` bytes by the deadline; fds of any piece go to m. */
static int receive_bytes(struct fe_channel *c, void *to, size_t len, int64_t end,
                         struct fe_message *m)
{
        uint8_t *at = to;

        while (len > 0) {
                struct pollfd p = { .fd = c->fd, .events = POLLIN };
                struct iovec iov = { .iov_base = at, .iov_len = len };
                union control control;
                struct msghdr msg = { .msg_iov = &iov,
                                      .msg_iovlen = 1,
                                      .msg_control = control.bytes,
                                      .msg_controllen = sizeof(control.bytes) };
                int64_t left = end - now_ms();
                ssize_t n;

                if (poll(&p, 1, left > 0 ? (int)left : 0) == 0)
                        return fe_fail(&c->error, ETIMEDOUT, "no answer within %d ms",
                                       c->timeout_ms);
                n = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
                if (n < 0 && (errno == EINTR || errno == EAGAIN))
                        continue;
                if (n <= 0)
                        return fe_fail(&c->error, ECONNRESET, "the back-end closed the connection");
                take_fds(&msg, m);
                at += n;
                len -= (size_t)n;
        }
        return 0;
}

int fe_channel_receive(struct fe_channel *c, struct fe_message *ret_message)
{
        struct fe_message *m = ret_message;
        int64_t end = now_ms() + c->timeout_ms;
        uint32_t header[3] = { 0 };
        int err;

        memset(m, 0, sizeof(*m));
        err = receive_bytes(c, header, sizeof(header), end, m);
        if (err < 0)
                return err;
        m->request = header[0];
        m->flags = header[1];
        m->size = header[2];
        m->body_len = m->size;
        if (m->size > FE_MAX_BODY) {
                fe_message_close_fds(m);
                return fe_fail(&c->error, EBADMSG, "a message %u of %u bytes", m->request, m->size);
        }
        err = receive_bytes(c, m->body, m->size, end, m);
        if (err < 0)
                fe_message_close_fds(m);
        return err;
}

int fe_channel_receive_reply(struct fe_channel *c, uint32_t request, void *ret_body, size_t len,
                             int *ret_fd)
{
        struct fe_message m;
        int err = fe_channel_receive(c, &m);

        if (err < 0)
                return err;
        /* QEMU compares the flags for equality: version 1, REPLY, nothing else. */
        if (m.request != request || m.flags != (FE_VERSION | FE_REPLY) || m.size != len)
                err = fe_fail(&c->error, EBADMSG,
                              "reply %u flags 0x%x size %u to request %u, expected flags 0x5 and "
                              "size %zu",
                              m.request, m.flags, m.size, request, len);
        else if (m.nfds > (ret_fd ? 1u : 0u))
                err = fe_fail(&c->error, EBADMSG, "reply to request %u has %u fds", request,
                              m.nfds);
        if (err < 0) {
                fe_message_close_fds(&m);
                return err;
        }
        if (len > 0)
                memcpy(ret_body, m.body, len);
        if (ret_fd)
                *ret_fd = m.nfds ? m.fds[0] : -1;
        return 0;
}

int fe_channel_wait_closed(struct fe_channel *c, int timeout_ms)
{
        int64_t end = now_ms() + timeout_ms;
        char drop[4096];

        for (;;) {
                struct pollfd p = { .fd = c->fd, .events = POLLIN };
                int64_t left = end - now_ms();
                ssize_t n;

                if (left <= 0 || poll(&p, 1, (int)left) == 0)
                        return fe_fail(&c->error, ETIMEDOUT, "the connection is still open");
                n = recv(c->fd, drop, sizeof(drop), MSG_DONTWAIT);
                if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
                        return 0;
        }
}

int fe_channel_check_silent(struct fe_channel *c)
{
        char byte;
        ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

        if (n > 0)
                return fe_fail(&c->error, EBADMSG, "the back-end said something unasked");
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        return fe_fail(&c->error, ECONNRESET, "the back-end closed the connection");
}
