/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

enum {
        BACKLOG = 8,
        LOGGED_CLIENTS = 4, /* of those refused during one connection */
        PAUSE_US = 100000,  /* after accept() found no free descriptor */
};

struct vql_listener {
        const struct vql_endpoint_params *p;
        int fd;
        int dir_fd; /* the directory of the socket */
        char temp[24];
        const char *base;    /* name in the directory: the last part of the path */
        dev_t dev;           /* of the socket file, to know it again */
        ino_t ino;           /* 0: no file of ours */
        unsigned int served; /* clients since the last resume: the first is the connection */
        sd_event_source *io, *pause;
};

/*
 * The name appears by rename() when connect() already works and permissions are right.  The
 * temporary name is addressed through the directory's descriptor: the path with a longer last part
 * might not fit into a socket address.
 */
static int bind_temp(struct vql_listener *l, struct vql_error *e)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        uint32_t salt;

        if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
                return vql_fail(e, errno, "getrandom: %s", strerror(errno));
        snprintf(l->temp, sizeof(l->temp), ".vqlift-%08x", salt);
        snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", l->dir_fd, l->temp);
        if (bind(l->fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
                return 0;
        l->temp[0] = '\0';
        return vql_fail(e, errno, "%s: cannot make a socket in its directory: %s", l->p->path,
                        strerror(errno));
}

static int set_permissions(const struct vql_listener *l, struct vql_error *e)
{
        const struct vql_endpoint_params *p = l->p;

        if (fchownat(l->dir_fd, l->temp, p->uid, p->gid, AT_SYMLINK_NOFOLLOW) < 0)
                return vql_fail(e, errno, "%s: owner %ld, group %ld: %s", p->path, (long)p->uid,
                                (long)p->gid, strerror(errno));
        if (fchmodat(l->dir_fd, l->temp, p->mode, 0) < 0)
                return vql_fail(e, errno, "%s: mode %04o: %s", p->path, (unsigned int)p->mode,
                                strerror(errno));
        return 0;
}

static int publish(struct vql_listener *l, struct vql_error *e)
{
        struct stat st;

        if (listen(l->fd, BACKLOG) < 0 ||
            fstatat(l->dir_fd, l->temp, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            renameat(l->dir_fd, l->temp, l->dir_fd, l->base) < 0)
                return vql_fail(e, errno, "%s: cannot listen: %s", l->p->path, strerror(errno));
        l->temp[0] = '\0';
        l->dev = st.st_dev;
        l->ino = st.st_ino;
        return 0;
}

/* Does anybody listen on the socket file that is there?  Only a refused connection says no. */
static int check_stale(const char *path, struct vql_error *e)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int err = 0;

        if (fd < 0)
                return vql_fail(e, errno, "%s: socket: %s", path, strerror(errno));
        memcpy(sa.sun_path, path, strlen(path));
        if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
                err = vql_fail(e, EADDRINUSE, "%s: somebody listens on it already", path);
        else if (errno != ECONNREFUSED && errno != ENOENT)
                err = vql_fail(e, EADDRINUSE, "%s: a socket that may be in use: %s", path,
                               strerror(errno));
        vql_fd_close(&fd);
        return err;
}

static int check_path(const struct vql_listener *l, struct vql_error *e)
{
        struct stat st;

        if (fstatat(l->dir_fd, l->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0
                                       : vql_fail(e, errno, "%s: %s", l->p->path, strerror(errno));
        if (!S_ISSOCK(st.st_mode))
                return vql_fail(e, EEXIST, "%s exists and is not a socket", l->p->path);
        return check_stale(l->p->path, e);
}

static int open_directory(struct vql_listener *l, struct vql_error *e)
{
        const char *path = l->p->path, *slash = strrchr(path, '/');
        char dir[sizeof(((struct sockaddr_un *)NULL)->sun_path)] = ".";

        l->base = slash ? slash + 1 : path;
        if (slash)
                snprintf(dir, sizeof(dir), "%.*s", (int)(slash + 1 - path), path);
        l->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (l->dir_fd < 0)
                return vql_fail(e, errno, "%s: the directory: %s", path, strerror(errno));
        return 0;
}

/* Clients that cannot be taken stay in the backlog, and the socket readable: look away for a while.
 */
static void pause_accepting(struct vql_listener *l, int err)
{
        vql_log(l->p->log, LOG_ERR, "%s: accept: %s, trying again", l->p->path, strerror(err));
        sd_event_source_set_enabled(l->io, SD_EVENT_OFF);
        sd_event_source_set_time_relative(l->pause, PAUSE_US);
        sd_event_source_set_enabled(l->pause, SD_EVENT_ONESHOT);
}

static int on_pause_over(sd_event_source *source, uint64_t usec, void *arg)
{
        struct vql_listener *l = arg;

        (void)source;
        (void)usec;
        sd_event_source_set_enabled(l->io, SD_EVENT_ON);
        return 0;
}

static void refuse_client(struct vql_listener *l, int fd)
{
        vql_fd_close(&fd);
        if (l->served <= LOGGED_CLIENTS + 1)
                vql_log(l->p->log, LOG_WARNING, "%s: refused a client: one is connected already",
                        l->p->path);
}

static int on_client(sd_event_source *source, int listen_fd, uint32_t revents, void *arg)
{
        struct vql_listener *l = arg;
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        (void)source;
        (void)revents;
        if (fd < 0) {
                if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                        pause_accepting(l, errno);
                return 0;
        }
        l->served++;
        if (l->served > 1)
                refuse_client(l, fd);
        else
                l->p->connected(l->p->arg, fd);
        return 0;
}

static int add_sources(struct vql_listener *l, struct vql_error *e)
{
        int err = sd_event_add_io(l->p->loop, &l->io, l->fd, EPOLLIN, on_client, l);

        /* The end of a connection goes before the next client: a front-end that was killed and
         * comes straight back must not meet its own ghost. */
        if (err >= 0)
                err = sd_event_source_set_priority(l->io, SD_EVENT_PRIORITY_NORMAL + 1);
        if (err >= 0)
                err = sd_event_add_time_relative(l->p->loop, &l->pause, CLOCK_MONOTONIC, 0, 0,
                                                 on_pause_over, l);
        if (err >= 0)
                err = sd_event_source_set_enabled(l->pause, SD_EVENT_OFF);
        if (err < 0)
                return vql_fail(e, -err, "%s: event loop: %s", l->p->path, strerror(-err));
        return 0;
}

static int open_socket(struct vql_listener *l, struct vql_error *e)
{
        l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (l->fd < 0)
                return vql_fail(e, errno, "%s: socket: %s", l->p->path, strerror(errno));
        return 0;
}

int vql_listener_new(const struct vql_endpoint_params *params, struct vql_listener **ret_listener,
                     struct vql_error *e)
{
        struct vql_listener *l = calloc(1, sizeof(*l));
        int err;

        if (!l)
                return vql_fail(e, ENOMEM, "%s: out of memory", params->path);
        l->p = params;
        l->fd = -1;
        l->dir_fd = -1;
        err = open_directory(l, e);
        if (err == 0)
                err = check_path(l, e);
        if (err == 0)
                err = open_socket(l, e);
        if (err == 0)
                err = bind_temp(l, e);
        if (err == 0)
                err = set_permissions(l, e);
        if (err == 0)
                err = add_sources(l, e);
        if (err == 0)
                err = publish(l, e);
        if (err < 0) {
                vql_listener_free(l);
                return err;
        }
        *ret_listener = l;
        return 0;
}

void vql_listener_resume(struct vql_listener *l)
{
        l->served = 0;
}

/* The name goes before the socket does: from then on nobody can begin to connect to a listener
 * that is about to die, and nobody else's file can be at the name yet. */
static void remove_files(const struct vql_listener *l)
{
        struct stat st;

        if (l->temp[0])
                unlinkat(l->dir_fd, l->temp, 0);
        if (l->ino && fstatat(l->dir_fd, l->base, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_dev == l->dev && st.st_ino == l->ino)
                unlinkat(l->dir_fd, l->base, 0);
}

void vql_listener_free(struct vql_listener *l)
{
        if (!l)
                return;
        remove_files(l);
        sd_event_source_disable_unref(l->io);
        sd_event_source_disable_unref(l->pause);
        vql_fd_close(&l->fd);
        vql_fd_close(&l->dir_fd);
        free(l);
}
