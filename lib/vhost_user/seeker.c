/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/seeker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "base/fd.h"

/*
 * How a socket is found: a watch on its directory, or on the nearest ancestor that exists, tells
 * when to look.  There is no event for listen(), which follows bind() a moment later, so a socket
 * that refuses is tried again for a while, at growing intervals; then only the watch is left.
 */
enum {
        STEPS = 13, /* 1 ms, 2 ms, ... 4.096 s: 8 s in all */
        FIRST_STEP_US = 1000,
        /* A connection that lasted less was one to a listener that is going away: the next attempt
         * waits for a step, so that the two do not chase each other. */
        SHORT_CONNECTION_US = 1000000,
        TIMER_ACCURACY_US = 100,
        /* A directory may come into being between the look and the watch; how often to start over
         * before the timer takes it up. */
        WATCH_ATTEMPTS = 16,
};

#define WATCH_GONE (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT | IN_Q_OVERFLOW)
#define WATCH_FOR  (IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* The part of the path that the watched directory is to get. */
struct name {
        const char *start; /* in the path, not terminated */
        size_t len;
};

struct vql_seeker {
        const struct vql_endpoint_params *p;
        sd_event_source *watch; /* NULL: none */
        struct name awaited;    /* in the watched directory */
        sd_event_source *timer; /* the next attempt */
        unsigned int step;      /* attempts since something happened */
        uint64_t connected_at;  /* monotonic, us */
        int told, watch_told;   /* the errors that were logged last */
};

static void attempt_in(struct vql_seeker *s, uint64_t us)
{
        int err = sd_event_source_set_time_relative(s->timer, us);

        if (err >= 0)
                err = sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
        if (err < 0)
                vql_log(s->p->log, LOG_ERR, "%s: event loop: %s", s->p->path, strerror(-err));
}

/* Wait for one step; after the last one, that one again. */
static void attempt_later(struct vql_seeker *s)
{
        unsigned int step = s->step < STEPS ? s->step : STEPS - 1;

        s->step = step + 1;
        attempt_in(s, (uint64_t)FIRST_STEP_US << step);
}

/* The last part of the first `len` bytes of the path. */
static struct name last_part(const char *path, size_t len)
{
        size_t end = len, start;

        while (end > 0 && path[end - 1] == '/')
                end--;
        start = end;
        while (start > 0 && path[start - 1] != '/')
                start--;
        return (struct name){ path + start, end - start };
}

/* Is it the socket itself that is awaited, not a directory on the way there? */
static bool awaits_socket(const struct vql_seeker *s)
{
        return s->awaited.start[s->awaited.len] == '\0';
}

static bool awaited_is_directory(const struct vql_seeker *s)
{
        char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
        struct stat st;

        snprintf(path, sizeof(path), "%.*s", (int)(s->awaited.start + s->awaited.len - s->p->path),
                 s->p->path);
        return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int on_change(sd_event_source *source, const struct inotify_event *event, void *arg);

/* Watch for the last part of the path's first `len` bytes. */
static int watch_for(struct vql_seeker *s, size_t len)
{
        struct name name = last_part(s->p->path, len);
        char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

        if (name.start == s->p->path)
                snprintf(dir, sizeof(dir), ".");
        else
                snprintf(dir, sizeof(dir), "%.*s", (int)(name.start - s->p->path), s->p->path);
        s->awaited = name;
        return sd_event_add_inotify(s->p->loop, &s->watch, dir, WATCH_FOR, on_change, s);
}

static void drop_watch(struct vql_seeker *s)
{
        s->watch = sd_event_source_disable_unref(s->watch);
}

/* Watch the nearest directory that exists. */
static int watch_nearest(struct vql_seeker *s)
{
        size_t len = strlen(s->p->path);
        int err = watch_for(s, len);

        while (err == -ENOENT || err == -ENOTDIR) {
                len = (size_t)(s->awaited.start - s->p->path);
                if (last_part(s->p->path, len).len == 0)
                        return err;
                err = watch_for(s, len);
        }
        return err;
}

static void ensure_watch(struct vql_seeker *s)
{
        int err = 0;

        for (unsigned int i = 0; i < WATCH_ATTEMPTS && !s->watch && err >= 0; i++) {
                err = watch_nearest(s);
                if (err >= 0 && !awaits_socket(s) && awaited_is_directory(s))
                        drop_watch(s);
        }
        if (err < 0 && err != s->watch_told)
                vql_log(s->p->log, LOG_WARNING,
                        "%s: cannot watch for it: %s; looking every few seconds instead",
                        s->p->path, strerror(-err));
        s->watch_told = err;
}

static int on_change(sd_event_source *source, const struct inotify_event *event, void *arg)
{
        struct vql_seeker *s = arg;
        bool gone = event->mask & WATCH_GONE;

        (void)source;
        if (!gone && (event->len == 0 || strlen(event->name) != s->awaited.len ||
                      memcmp(event->name, s->awaited.start, s->awaited.len) != 0))
                return 0;
        if (gone || !awaits_socket(s))
                drop_watch(s);
        s->step = 0;
        attempt_in(s, 0);
        return 0;
}

/* A connected socket or a negative errno.  Never waits: a full backlog is -EAGAIN. */
static int try_connect(const char *path)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int err;

        if (fd < 0)
                return -errno;
        memcpy(sa.sun_path, path, strlen(path));
        if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
                return fd;
        err = -errno;
        vql_fd_close(&fd);
        return err;
}

/* Will the watch tell when it is worth to try again? */
static bool watch_suffices(const struct vql_seeker *s, int err)
{
        switch (err) {
        case -ENOENT:
        case -ENOTDIR:
        case -EACCES: /* IN_ATTRIB comes when that changes */
        case -EPERM:
        case -EPROTOTYPE: /* a socket of another type */
                return s->watch;
        case -ECONNREFUSED:
                return s->watch && s->step >= STEPS;
        default:
                return false;
        }
}

static void tell(struct vql_seeker *s, int err)
{
        if (s->told != err)
                vql_log(s->p->log, LOG_INFO, "waiting for %s: %s", s->p->path, strerror(-err));
        s->told = err;
}

static int on_attempt(sd_event_source *source, uint64_t usec, void *arg)
{
        struct vql_seeker *s = arg;
        int fd;

        (void)source;
        (void)usec;
        ensure_watch(s);
        fd = try_connect(s->p->path);
        if (fd >= 0) {
                drop_watch(s);
                s->told = 0;
                sd_event_now(s->p->loop, CLOCK_MONOTONIC, &s->connected_at);
                s->p->connected(s->p->arg, fd);
                return 0;
        }
        tell(s, fd);
        if (!watch_suffices(s, fd))
                attempt_later(s);
        return 0;
}

int vql_seeker_new(const struct vql_endpoint_params *params, struct vql_seeker **ret_seeker,
                   struct vql_error *e)
{
        struct vql_seeker *s = calloc(1, sizeof(*s));
        int err;

        if (!s)
                return vql_fail(e, ENOMEM, "%s: out of memory", params->path);
        s->p = params;
        err = sd_event_add_time_relative(params->loop, &s->timer, CLOCK_MONOTONIC, 0,
                                         TIMER_ACCURACY_US, on_attempt, s);
        if (err < 0) {
                vql_seeker_free(s);
                return vql_fail(e, -err, "%s: event loop: %s", params->path, strerror(-err));
        }
        *ret_seeker = s;
        return 0;
}

void vql_seeker_resume(struct vql_seeker *s)
{
        uint64_t now = 0;

        sd_event_now(s->p->loop, CLOCK_MONOTONIC, &now);
        ensure_watch(s);
        if (now - s->connected_at < SHORT_CONNECTION_US) {
                attempt_later(s);
                return;
        }
        s->step = 0;
        attempt_in(s, 0);
}

void vql_seeker_free(struct vql_seeker *s)
{
        if (!s)
                return;
        drop_watch(s);
        sd_event_source_disable_unref(s->timer);
        free(s);
}
