/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "base/fd.h"

enum { DEADLINE_ACCURACY_US = 10000 };

enum state { MOVING, DONE, FAILED };

typedef ssize_t mover(int fd, void *bytes, size_t n, enum vql_direction direction);

struct vql_transfer {
        struct vql_transfer_params p;
        sd_event_source *io, *deadline;
        enum state state;
        mover *move;
        /* A mapping of its own, written before anything of it is sent and never again: a pipe keeps
         * references to its pages, also when the transfer is gone. */
        uint8_t *bytes;
        size_t room, moved;
        int err; /* of FAILED, with its sentence */
        struct vql_error error;
};

/*
 * vmsplice() is the call for pipes that can be told not to wait, each time: O_NONBLOCK belongs to
 * the front-end as much as to us, which has the same open file and can take the flag away.  The end
 * of the pipe decides over the direction; check_pipe() has looked at it.
 */
static ssize_t move_pipe(int fd, void *bytes, size_t n, enum vql_direction direction)
{
        struct iovec iov = { bytes, n };
        const struct timespec at_once = { 0 };
        sigset_t pipe_signal, before;
        ssize_t rc;

        (void)direction;
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
        rc = vmsplice(fd, &iov, 1, SPLICE_F_NONBLOCK);
        if (rc < 0)
                rc = -errno;
        /* There is no flag against the signal; it is for this thread, and taken back here. */
        if (rc == -EPIPE && !sigismember(&before, SIGPIPE))
                sigtimedwait(&pipe_signal, NULL, &at_once);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return rc;
}

static ssize_t move_socket(int fd, void *bytes, size_t n, enum vql_direction direction)
{
        ssize_t rc = direction == VQL_SAVE ? send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL)
                                           : recv(fd, bytes, n, MSG_DONTWAIT);

        return rc < 0 ? -errno : rc;
}

static int check_pipe(int fd, enum vql_direction direction, struct vql_error *e)
{
        const int flags = fcntl(fd, F_GETFL);
        const int wanted = direction == VQL_SAVE ? O_WRONLY : O_RDONLY;

        if (flags >= 0 && (flags & O_ACCMODE) == wanted)
                return 0;
        return vql_fail(e, EINVAL, "the descriptor is not the end of a pipe for %s",
                        direction == VQL_SAVE ? "writing" : "reading");
}

/* Files and the like never make us wait in poll(), but they may in read(); and have no end. */
static int choose_mover(struct vql_transfer *t, struct vql_error *e)
{
        int type = 0;
        socklen_t len = sizeof(type);
        struct stat st;

        if (fstat(t->p.fd, &st) < 0)
                return vql_fail(e, errno, "fstat: %s", strerror(errno));
        if (S_ISFIFO(st.st_mode)) {
                t->move = move_pipe;
                return check_pipe(t->p.fd, t->p.direction, e);
        }
        if (S_ISSOCK(st.st_mode) && getsockopt(t->p.fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
            type == SOCK_STREAM) {
                t->move = move_socket;
                return 0;
        }
        return vql_fail(e, EINVAL,
                        "the descriptor is of type 0%o, expected a pipe or a stream socket",
                        st.st_mode & S_IFMT);
}

/* Our end is closed at once: that is how the front-end sees the end of a state that is saved. */
static void finish(struct vql_transfer *t, enum state state)
{
        const char *what = t->p.direction == VQL_SAVE ? "saved" : "loaded";

        t->state = state;
        t->io = sd_event_source_disable_unref(t->io);
        t->deadline = sd_event_source_disable_unref(t->deadline);
        if (t->p.direction == VQL_SAVE && state == DONE && t->move == move_socket)
                shutdown(t->p.fd, SHUT_WR); /* the front-end may have a duplicate of our end */
        vql_fd_close(&t->p.fd);
        if (state == DONE)
                vql_log(t->p.log, LOG_INFO, "device state %s, %zu bytes", what, t->moved);
        else
                vql_log(t->p.log, LOG_WARNING, "device state not %s: %s", what, t->error.text);
}

static void give_up(struct vql_transfer *t, int err)
{
        t->err = err;
        finish(t, FAILED);
}

/* The end of a stream that is loaded. */
static void take_all(struct vql_transfer *t)
{
        const int rc = t->p.arrived(t->p.arg, t->bytes, t->moved, &t->error);

        if (rc < 0)
                give_up(t, rc);
        else
                finish(t, DONE);
}

static int restart_deadline(struct vql_transfer *t)
{
        return sd_event_source_set_time_relative(t->deadline, t->p.deadline_us);
}

/* Move what goes without waiting. */
static void advance(struct vql_transfer *t)
{
        const size_t before = t->moved;

        while (t->state == MOVING) {
                ssize_t n =
                        t->move(t->p.fd, t->bytes + t->moved, t->room - t->moved, t->p.direction);

                if (n == -EINTR)
                        continue;
                if (n == -EAGAIN)
                        break;
                if (n < 0) {
                        give_up(t, vql_fail(&t->error, (int)-n, "after %zu bytes: %s", t->moved,
                                            strerror((int)-n)));
                        return;
                }
                t->moved += (size_t)n;
                if (t->p.direction == VQL_SAVE && t->moved == t->p.n)
                        finish(t, DONE);
                else if (n == 0)
                        take_all(t);
                else if (t->moved > t->p.n)
                        give_up(t, vql_fail(&t->error, EFBIG, "more than %zu bytes", t->p.n));
        }
        if (t->state == MOVING && t->moved > before && restart_deadline(t) < 0)
                give_up(t, vql_fail(&t->error, EIO, "the event loop refused to wait"));
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
        (void)source;
        (void)fd;
        (void)revents;
        advance(arg);
        return 0;
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *arg)
{
        struct vql_transfer *t = arg;

        (void)source;
        (void)usec;
        give_up(t, vql_fail(&t->error, ETIMEDOUT,
                            "after %zu bytes none moved for %" PRIu64 " ms, without an end",
                            t->moved, t->p.deadline_us / 1000));
        return 0;
}

/* To load there is room for one byte more than may come: that one tells an endless stream. */
static int make_room(struct vql_transfer *t)
{
        void *va;

        t->room = t->p.n + (t->p.direction == VQL_LOAD ? 1 : 0);
        va = mmap(NULL, t->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (va == MAP_FAILED)
                return -errno;
        t->bytes = va;
        if (t->p.direction == VQL_SAVE)
                memcpy(t->bytes, t->p.bytes, t->p.n);
        return 0;
}

static int watch(struct vql_transfer *t)
{
        int rc = sd_event_add_io(t->p.loop, &t->io, t->p.fd,
                                 t->p.direction == VQL_SAVE ? EPOLLOUT : EPOLLIN, on_io, t);

        if (rc < 0)
                return rc;
        return sd_event_add_time_relative(t->p.loop, &t->deadline, CLOCK_MONOTONIC,
                                          t->p.deadline_us, DEADLINE_ACCURACY_US, on_deadline, t);
}

int vql_transfer_new(const struct vql_transfer_params *params, struct vql_transfer **ret_transfer,
                     struct vql_error *e)
{
        struct vql_transfer *t = calloc(1, sizeof(*t));
        int fd = params->fd, rc;

        if (!t) {
                vql_fd_close(&fd);
                return vql_fail(e, ENOMEM, "out of memory");
        }
        t->p = *params;
        sd_event_ref(t->p.loop);
        rc = choose_mover(t, e);
        if (rc < 0)
                goto fail;
        rc = make_room(t);
        if (rc == 0)
                rc = watch(t);
        if (rc < 0) {
                vql_fail(e, -rc, "%s", strerror(-rc));
                goto fail;
        }
        advance(t);
        *ret_transfer = t;
        return 0;
fail:
        vql_transfer_free(t);
        return rc;
}

void vql_transfer_free(struct vql_transfer *t)
{
        if (!t)
                return;
        sd_event_source_disable_unref(t->io);
        sd_event_source_disable_unref(t->deadline);
        sd_event_unref(t->p.loop);
        vql_fd_close(&t->p.fd);
        if (t->bytes)
                munmap(t->bytes, t->room);
        free(t);
}

int vql_transfer_check(struct vql_transfer *t, struct vql_error *e)
{
        advance(t);
        switch (t->state) {
        case DONE:
                return 0;
        case FAILED:
                return vql_fail(e, -t->err, "%s", t->error.text);
        default:
                return vql_fail(e, EAGAIN, "%zu bytes so far, the end was not seen", t->moved);
        }
}

const uint8_t *vql_transfer_bytes(const struct vql_transfer *t, size_t *ret_n)
{
        *ret_n = t->p.direction == VQL_SAVE ? t->p.n : t->moved;
        return t->bytes;
}
