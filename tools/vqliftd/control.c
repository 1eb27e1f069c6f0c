/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "vqliftd/client.h"

enum {
        ACCEPTS_A_TURN = 16,
        PAUSE_US = 1000000, /* without file descriptors: give others time to end */
};

struct vql_control {
        struct vql_control_params params;
        sd_event_source *io, *pause;
        struct vql_client *clients[VQL_CONTROL_MAX_CLIENTS];
        size_t n_clients;
};

static void on_closed(void *arg, struct vql_client *client)
{
        struct vql_control *c = arg;
        size_t i = 0;

        while (c->clients[i] != client)
                i++;
        c->clients[i] = c->clients[--c->n_clients];
        vql_client_free(client);
}

static void refuse_client(struct vql_control *c, int fd)
{
        static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,"
                                   "\"message\":\"too many clients are connected\"}}\n";

        vql_logger_print(c->params.rpc->log, LOG_WARNING,
                         "control: a client is refused: %d are connected", VQL_CONTROL_MAX_CLIENTS);
        if (send(fd, line, sizeof(line) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                vql_logger_print(c->params.rpc->log, LOG_DEBUG, "control: it is gone already");
        close(fd);
}

static void take_client(struct vql_control *c, int fd)
{
        struct vql_client_params params = {
                .loop = c->params.loop,
                .rpc = c->params.rpc,
                .fd = fd,
                .deadline_us = c->params.deadline_us,
                .closed = on_closed,
                .arg = c,
        };
        int r;

        if (c->n_clients == VQL_CONTROL_MAX_CLIENTS) {
                refuse_client(c, fd);
                return;
        }
        r = vql_client_new(&params, &c->clients[c->n_clients]);
        if (r == 0)
                c->n_clients++;
        else
                vql_logger_print(c->params.rpc->log, LOG_WARNING, "control: a client: %s",
                                 strerror(-r));
}

/* Nothing can be accepted now, and the socket stays readable: look away for a while. */
static int pause_accepting(struct vql_control *c, int err)
{
        int r;

        vql_logger_print(c->params.rpc->log, LOG_WARNING, "control: accept: %s", strerror(err));
        r = sd_event_source_set_enabled(c->io, SD_EVENT_OFF);
        if (r == 0)
                r = sd_event_source_set_time_relative(c->pause, PAUSE_US);
        return r < 0 ? r : sd_event_source_set_enabled(c->pause, SD_EVENT_ONESHOT);
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *arg)
{
        struct vql_control *c = arg;

        (void)source;
        (void)usec;
        return sd_event_source_set_enabled(c->io, SD_EVENT_ON);
}

static int on_connection(sd_event_source *source, int listener, uint32_t events, void *arg)
{
        struct vql_control *c = arg;
        int fd;

        (void)source;
        (void)events;
        for (int i = 0; i < ACCEPTS_A_TURN; i++) {
                fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd >= 0)
                        take_client(c, fd);
                else if (errno == EAGAIN)
                        break;
                else if (errno != EINTR && errno != ECONNABORTED)
                        return pause_accepting(c, errno);
        }
        return 0;
}

static int add_sources(struct vql_control *c)
{
        int r;

        r = sd_event_add_io(c->params.loop, &c->io, c->params.fd, EPOLLIN, on_connection, c);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(c->params.loop, &c->pause, CLOCK_MONOTONIC, PAUSE_US, 0,
                                       on_pause_over, c);
        return r < 0 ? r : sd_event_source_set_enabled(c->pause, SD_EVENT_OFF);
}

int vql_control_new(const struct vql_control_params *params, struct vql_control **ret_control)
{
        struct vql_control *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        c->params = *params;
        sd_event_ref(c->params.loop);
        r = add_sources(c);
        if (r < 0) {
                vql_control_free(c);
                return r;
        }
        *ret_control = c;
        return 0;
}

void vql_control_free(struct vql_control *c)
{
        if (!c)
                return;
        while (c->n_clients > 0)
                vql_client_free(c->clients[--c->n_clients]);
        sd_event_source_disable_unref(c->pause);
        sd_event_source_disable_unref(c->io);
        sd_event_unref(c->params.loop);
        free(c);
}
