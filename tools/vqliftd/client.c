/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "vqliftd/linebuf.h"

/* Lines that are answered before other clients have their turn. */
enum { LINES_A_TURN = 16 };

enum state {
        OPEN,
        ENDING, /* nothing more is read; what was read is answered */
};

struct vql_client {
        struct vql_client_params params;
        struct ucred peer;
        enum state state;
        sd_event_source *io, *timer;
        struct vql_linebuf in;
        char *out; /* the answer that is being written, or NULL */
        size_t out_written, out_size;
};

static void end(struct vql_client *c, const char *why)
{
        vql_logger_print(c->params.rpc->log, why ? LOG_NOTICE : LOG_DEBUG,
                         "control: client of pid %d uid %u %s", c->peer.pid, c->peer.uid,
                         why ? why : "is done");
        c->params.closed(c->params.arg, c);
}

/* Take over an answer as it came from the allocator. */
static int set_out(struct vql_client *c, char *answer)
{
        size_t n = strlen(answer);
        char *line = realloc(answer, n + 1);

        if (!line) {
                free(answer);
                return -ENOMEM;
        }
        line[n] = '\n';
        c->out = line;
        c->out_written = 0;
        c->out_size = n + 1;
        return 0;
}

/* Write what the socket takes.  *progress becomes true if that is something. */
static int flush(struct vql_client *c, bool *progress)
{
        ssize_t n;

        while (c->out) {
                n = send(c->params.fd, c->out + c->out_written, c->out_size - c->out_written,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                *progress = true;
                c->out_written += (size_t)n;
                if (c->out_written == c->out_size) {
                        free(c->out);
                        c->out = NULL;
                }
        }
        return 0;
}

static bool is_blank(const char *line, size_t n)
{
        while (n > 0 && strchr(" \t\r", line[n - 1]) && line[n - 1])
                n--;
        return n == 0;
}

static int answer(struct vql_client *c, const char *line, size_t n)
{
        char *text = NULL;
        int r;

        if (is_blank(line, n))
                return 0;
        r = vql_rpc_answer(c->params.rpc, &c->peer, line, n, &text);
        return r == 0 && text ? set_out(c, text) : r;
}

static int refuse_long_line(struct vql_client *c)
{
        char *text;

        if (asprintf(&text,
                     "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":%d,\"message\":"
                     "\"a line of more than %d bytes, expected a shorter one\"}}",
                     VQL_RPC_INVALID_REQUEST, VQL_CLIENT_LINE_MAX) < 0)
                return -ENOMEM;
        vql_linebuf_fini(&c->in);
        c->state = ENDING;
        return set_out(c, text);
}

static bool take_line(struct vql_client *c, const char **ret_line, size_t *ret_n)
{
        return vql_linebuf_take(&c->in, ret_line, ret_n) ||
               (c->state == ENDING && vql_linebuf_take_rest(&c->in, ret_line, ret_n));
}

/* Answer lines until the peer has to read, nothing is left, or others should have their turn. */
static int take_turn(struct vql_client *c, bool *progress)
{
        const char *line;
        size_t n;
        int r;

        r = flush(c, progress);
        for (int i = 0; r == 0 && i < LINES_A_TURN && !c->out; i++) {
                if (!take_line(c, &line, &n))
                        break;
                *progress = true;
                r = answer(c, line, n);
                if (r == 0)
                        r = flush(c, progress);
        }
        if (r == 0 && !c->out && vql_linebuf_is_full(&c->in))
                r = refuse_long_line(c);
        return r;
}

static bool is_done(struct vql_client *c)
{
        return c->state == ENDING && !c->out && c->in.start == c->in.end;
}

/* Wait for what comes next.  The deadline starts anew only with progress. */
static int arm(struct vql_client *c, bool progress)
{
        bool busy = c->out || vql_linebuf_has_line(&c->in) || c->state == ENDING;
        int r, enabled = SD_EVENT_OFF;

        r = sd_event_source_set_io_events(c->io, busy ? EPOLLOUT : EPOLLIN);
        if (r < 0)
                return r;
        if (!c->out && !vql_linebuf_is_partial(&c->in))
                return sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        sd_event_source_get_enabled(c->timer, &enabled);
        if (enabled != SD_EVENT_OFF && !progress)
                return 0;
        r = sd_event_source_set_time_relative(c->timer, c->params.deadline_us);
        return r < 0 ? r : sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
}

/* Read what is there, at most once a turn. */
static int receive(struct vql_client *c)
{
        size_t room;
        char *at = vql_linebuf_room(&c->in, &room);
        ssize_t n;

        if (!at)
                return -ENOMEM;
        n = recv(c->params.fd, at, room, MSG_DONTWAIT);
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0)
                c->state = ENDING;
        vql_linebuf_added(&c->in, (size_t)n);
        return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *arg)
{
        struct vql_client *c = arg;
        bool progress = false;
        int r = 0;

        (void)source;
        (void)fd;
        if (c->state == OPEN && !c->out && !vql_linebuf_has_line(&c->in) && !(events & EPOLLOUT))
                r = receive(c);
        if (r == 0)
                r = take_turn(c, &progress);
        if (r == 0 && !is_done(c))
                r = arm(c, progress);
        if (r < 0)
                end(c, r == -EPIPE || r == -ECONNRESET ? "went away" : strerror(-r));
        else if (is_done(c))
                end(c, NULL);
        return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *arg)
{
        struct vql_client *c = arg;

        (void)source;
        (void)usec;
        end(c,
            c->out ? "is cut: it does not read its answer" : "is cut: it does not finish its line");
        return 0;
}

static int add_sources(struct vql_client *c)
{
        socklen_t n = sizeof(c->peer);
        int r;

        if (getsockopt(c->params.fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &n) < 0)
                return -errno;
        r = sd_event_add_io(c->params.loop, &c->io, c->params.fd, EPOLLIN, on_io, c);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(c->params.loop, &c->timer, CLOCK_MONOTONIC,
                                       c->params.deadline_us, 0, on_deadline, c);
        return r < 0 ? r : sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
}

int vql_client_new(const struct vql_client_params *params, struct vql_client **ret_client)
{
        struct vql_client *c = calloc(1, sizeof(*c));
        int r;

        if (!c) {
                close(params->fd);
                return -ENOMEM;
        }
        c->params = *params;
        sd_event_ref(c->params.loop);
        vql_linebuf_init(&c->in, VQL_CLIENT_LINE_MAX);
        r = add_sources(c);
        if (r < 0) {
                vql_client_free(c);
                return r;
        }
        *ret_client = c;
        return 0;
}

void vql_client_free(struct vql_client *c)
{
        if (!c)
                return;
        sd_event_source_disable_unref(c->timer);
        sd_event_source_disable_unref(c->io);
        sd_event_unref(c->params.loop);
        vql_linebuf_fini(&c->in);
        close(c->params.fd);
        free(c->out);
        free(c);
}
