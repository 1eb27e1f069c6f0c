/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/fd.h"
#include "vhost_user/codec.h"

enum {
        /* Messages handled before the loop gets its turn again: a front-end that never pauses must
         * not keep timers and other sources waiting. */
        MESSAGES_PER_TURN = 16,
        DEADLINE_ACCURACY_US = 1000,
};

struct vql_connection {
        struct vql_connection_params p;
        sd_event_source *io, *deadline;

        size_t have; /* bytes of the message that is coming in, its header included */
        uint8_t header[VQL_MSG_HEADER];
        struct vql_msg_in in;

        /* The reply that is going out.  There is never more than one: nothing is read while a
         * reply waits, so a peer that does not read cannot make us hoard. */
        size_t sent; /* bytes of it, its header included */
        uint8_t out_header[VQL_MSG_HEADER];
        struct vql_msg_out out;
};

/* Over.  The callee frees the connection: it must not be touched after this. */
static void end(struct vql_connection *c, int err, const char *reason)
{
        sd_event_source_set_enabled(c->io, SD_EVENT_OFF);
        sd_event_source_set_enabled(c->deadline, SD_EVENT_OFF);
        c->p.closed(c->p.arg, err, reason);
}

static size_t expected_bytes(const struct vql_connection *c)
{
        return c->have < VQL_MSG_HEADER ? VQL_MSG_HEADER : VQL_MSG_HEADER + (size_t)c->in.size;
}

/* Take the descriptors of a control message, cut short or not: those that did arrive are ours. */
static unsigned int take_fds(struct vql_msg_in *in, struct cmsghdr *m)
{
        size_t n = (m->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        unsigned int surplus = 0;

        for (size_t i = 0; i < n; i++) {
                int fd;

                memcpy(&fd, CMSG_DATA(m) + i * sizeof(fd), sizeof(fd));
                if (in->nfds < VQL_MSG_MAX_FDS) {
                        in->fds[in->nfds++] = fd;
                } else {
                        vql_fd_close(&fd);
                        surplus++;
                }
        }
        return surplus;
}

static int take_control(struct vql_connection *c, struct msghdr *msg, struct vql_error *e)
{
        unsigned int surplus = 0;

        for (struct cmsghdr *m = CMSG_FIRSTHDR(msg); m; m = CMSG_NXTHDR(msg, m))
                if (m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_RIGHTS)
                        surplus += take_fds(&c->in, m);
        if (surplus == 0 && !(msg->msg_flags & MSG_CTRUNC))
                return 0;
        return vql_fail(e, EPROTO,
                        "more than %d descriptors with a message, or no free descriptors here",
                        VQL_MSG_MAX_FDS);
}

/* recvmsg's result, -EAGAIN, or a negative errno and a sentence. */
static ssize_t receive(int fd, struct msghdr *msg, struct vql_error *e)
{
        ssize_t n;

        do
                n = recvmsg(fd, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return n;
        return errno == EAGAIN ? -EAGAIN : vql_fail(e, errno, "receiving: %s", strerror(errno));
}

/* Descriptors come with the header.  Reading stops where it ends, or the next message's ones would
 * be mixed up with them. */
static ssize_t receive_header(struct vql_connection *c, struct vql_error *e)
{
        union {
                struct cmsghdr align;
                uint8_t bytes[CMSG_SPACE(sizeof(int) * VQL_MSG_MAX_FDS)];
        } control;
        struct iovec iov = { c->header + c->have, VQL_MSG_HEADER - c->have };
        struct msghdr msg = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control),
        };
        ssize_t n = receive(c->p.fd, &msg, e);

        if (n >= 0 && take_control(c, &msg, e) < 0)
                return -EPROTO;
        return n;
}

/* No room for descriptors is given here: the kernel closes them and says so. */
static ssize_t receive_body(struct vql_connection *c, struct vql_error *e)
{
        size_t at = c->have - VQL_MSG_HEADER;
        struct iovec iov = { c->in.body + at, c->in.size - at };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
        ssize_t n = receive(c->p.fd, &msg, e);

        if (n >= 0 && (msg.msg_flags & MSG_CTRUNC))
                return vql_fail(e, EPROTO, "request %u: descriptors in the middle of the message",
                                c->in.request);
        return n;
}

/*
 * Read on.  1: a message is complete; 0: nothing more for now, or the peer closed between two
 * messages, which *ret_eof tells; a negative errno and a sentence.
 */
static int read_message(struct vql_connection *c, bool *ret_eof, struct vql_error *e)
{
        *ret_eof = false;
        do {
                bool in_header = c->have < VQL_MSG_HEADER;
                ssize_t n = in_header ? receive_header(c, e) : receive_body(c, e);

                if (n < 0)
                        return n == -EAGAIN ? 0 : (int)n;
                if (n == 0 && c->have > 0)
                        return vql_fail(e, EPROTO,
                                        "closed in the middle of a message, after %zu of %zu bytes",
                                        c->have, expected_bytes(c));
                if (n == 0) {
                        *ret_eof = true;
                        return 0;
                }
                c->have += (size_t)n;
                if (in_header && c->have == VQL_MSG_HEADER &&
                    vql_header_decode(c->header, &c->in, e) < 0)
                        return -EPROTO;
        } while (c->have < expected_bytes(c));
        return 1;
}

static void attach_fd(struct msghdr *msg, void *control, size_t size, int fd)
{
        struct cmsghdr *m;

        msg->msg_control = control;
        msg->msg_controllen = size;
        m = CMSG_FIRSTHDR(msg);
        m->cmsg_level = SOL_SOCKET;
        m->cmsg_type = SCM_RIGHTS;
        m->cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(m), &fd, sizeof(fd));
}

/* Send a piece of the reply, its descriptor with the first byte. */
static ssize_t send_piece(struct vql_connection *c)
{
        size_t head = c->sent < VQL_MSG_HEADER ? c->sent : VQL_MSG_HEADER;
        size_t body = c->sent - head;
        union {
                struct cmsghdr align;
                uint8_t bytes[CMSG_SPACE(sizeof(int))];
        } control = { .bytes = { 0 } };
        struct iovec iov[] = {
                { c->out_header + head, VQL_MSG_HEADER - head },
                { c->out.body + body, c->out.size - body },
        };
        struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
        ssize_t n;

        if (c->out.fd >= 0)
                attach_fd(&msg, &control, sizeof(control), c->out.fd);
        do
                n = sendmsg(c->p.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

/* Send what the peer's buffer takes of the reply. */
static int send_reply(struct vql_connection *c, struct vql_error *e)
{
        while (c->out.present) {
                ssize_t n = send_piece(c);

                if (n == -EAGAIN)
                        return 0;
                if (n < 0)
                        return vql_fail(e, (int)-n, "sending a reply: %s", strerror((int)-n));
                vql_fd_close(&c->out.fd);
                c->sent += (size_t)n;
                if (c->sent == VQL_MSG_HEADER + (size_t)c->out.size) {
                        c->out.present = false;
                        sd_event_source_set_enabled(c->deadline, SD_EVENT_OFF);
                }
        }
        return 0;
}

static int handle_message(struct vql_connection *c, struct vql_error *e)
{
        struct vql_wire_header h;
        int err;

        sd_event_source_set_enabled(c->deadline, SD_EVENT_OFF);
        c->have = 0;
        err = vql_session_handle(c->p.session, &c->in, &c->out, e);
        if (err < 0 || !c->out.present)
                return err;
        h = (struct vql_wire_header){ c->out.request, c->out.flags, c->out.size };
        memcpy(c->out_header, &h, sizeof(h));
        c->sent = 0;
        return send_reply(c, e);
}

/* Wait for what comes next: room for the reply, or a message; the latter two have a deadline once
 * they have begun. */
static int wait_on(struct vql_connection *c)
{
        bool unfinished = c->out.present || c->have > 0;
        int enabled, err;

        err = sd_event_source_set_io_events(c->io, c->out.present ? EPOLLOUT : EPOLLIN);
        if (err < 0 || !unfinished)
                return err;
        err = sd_event_source_get_enabled(c->deadline, &enabled);
        if (err < 0 || enabled != SD_EVENT_OFF)
                return err;
        err = sd_event_source_set_time_relative(c->deadline, c->p.deadline_us);
        if (err < 0)
                return err;
        return sd_event_source_set_enabled(c->deadline, SD_EVENT_ONESHOT);
}

static int run_turn(struct vql_connection *c, bool *ret_eof, struct vql_error *e)
{
        int err = send_reply(c, e);

        *ret_eof = false;
        for (unsigned int i = 0; i < MESSAGES_PER_TURN && err == 0 && !c->out.present; i++) {
                err = read_message(c, ret_eof, e);
                if (err <= 0)
                        return err;
                err = handle_message(c, e);
        }
        return err;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
        struct vql_connection *c = arg;
        struct vql_error e = { .text = "" };
        bool eof;
        int err;

        (void)source;
        (void)fd;
        (void)revents;
        err = run_turn(c, &eof, &e);
        if (err < 0) {
                end(c, err, e.text);
                return 0;
        }
        if (eof) {
                end(c, 0, "closed by the front-end");
                return 0;
        }
        err = wait_on(c);
        if (err < 0)
                end(c, err, "the event loop refused to wait");
        return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *arg)
{
        struct vql_connection *c = arg;
        uint64_t ms = c->p.deadline_us / 1000;
        char reason[VQL_ERROR_TEXT];

        (void)source;
        (void)usec;
        if (c->out.present)
                snprintf(reason, sizeof(reason), "a reply was not read for %" PRIu64 " ms", ms);
        else
                snprintf(reason, sizeof(reason),
                         "a message was unfinished after %" PRIu64 " ms, with %zu of %zu bytes", ms,
                         c->have, expected_bytes(c));
        end(c, -ETIMEDOUT, reason);
        return 0;
}

int vql_connection_new(const struct vql_connection_params *params,
                       struct vql_connection **ret_connection)
{
        struct vql_connection *c = calloc(1, sizeof(*c));
        int fd = params->fd, err = -ENOMEM;

        if (!c) {
                vql_fd_close(&fd);
                return err;
        }
        c->p = *params;
        c->out.fd = -1;
        sd_event_ref(c->p.loop);
        c->p.session->loop = c->p.loop;
        err = sd_event_add_io(c->p.loop, &c->io, c->p.fd, EPOLLIN, on_io, c);
        if (err < 0)
                goto fail;
        err = sd_event_add_time_relative(c->p.loop, &c->deadline, CLOCK_MONOTONIC, 0,
                                         DEADLINE_ACCURACY_US, on_deadline, c);
        if (err < 0)
                goto fail;
        err = sd_event_source_set_enabled(c->deadline, SD_EVENT_OFF);
        if (err < 0)
                goto fail;
        *ret_connection = c;
        return 0;
fail:
        vql_connection_free(c);
        return err;
}

void vql_connection_free(struct vql_connection *c)
{
        if (!c)
                return;
        sd_event_source_disable_unref(c->io);
        sd_event_source_disable_unref(c->deadline);
        sd_event_unref(c->p.loop);
        for (unsigned int i = 0; i < c->in.nfds; i++)
                vql_fd_close(&c->in.fds[i]);
        vql_fd_close(&c->out.fd);
        vql_fd_close(&c->p.fd);
        free(c);
}
