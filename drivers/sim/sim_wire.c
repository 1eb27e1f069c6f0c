/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if.h>
#include <linux/if_tun.h>

#include "base/fd.h"
#include "drivers/sim/sim_impl.h"

enum { SOCKET_BYTES = 4 << 20 };

/* What is sent comes back. */
static int open_loopback(struct sim_wire *w, struct vql_error *e)
{
        const int bytes = SOCKET_BYTES;
        int fd[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
                return vql_fail(e, errno, "wire: socketpair: %s", strerror(errno));
        /* A longer wire where we may; else it loses packets sooner. */
        if (setsockopt(fd[0], SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
                setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
        w->out = fd[0];
        w->in = fd[1];
        return 0;
}

static int open_tap(struct sim_wire *w, const char *name, bool multi, struct vql_error *e)
{
        struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
        int err;

        if (multi)
                request.ifr_flags |= IFF_MULTI_QUEUE;
        if (!*name || strlen(name) >= sizeof(request.ifr_name))
                return vql_fail(e, EINVAL, "wire: tap \"%s\", expected a name of 1 to %zu bytes",
                                name, sizeof(request.ifr_name) - 1);
        memcpy(request.ifr_name, name, strlen(name) + 1);
        w->in = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (w->in < 0)
                return vql_fail(e, errno, "wire: /dev/net/tun: %s", strerror(errno));
        if (ioctl(w->in, TUNSETIFF, &request) < 0) {
                err = errno;
                vql_fd_close(&w->in);
                return vql_fail(e, err, "wire: tap %s: %s", name, strerror(err));
        }
        w->out = w->in;
        return 0;
}

/* A socket of the caller's, which keeps its own descriptor. */
static int open_fd(struct sim_wire *w, int fd, struct vql_error *e)
{
        const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        int flags;

        if (copy < 0)
                return vql_fail(e, errno, "wire: descriptor %d: %s", fd, strerror(errno));
        flags = fcntl(copy, F_GETFL);
        if (flags < 0 || fcntl(copy, F_SETFL, flags | O_NONBLOCK) < 0) {
                const int err = errno;

                close(copy);
                return vql_fail(e, err, "wire: descriptor %d: %s", fd, strerror(err));
        }
        w->in = w->out = copy;
        return 0;
}

/* The next number of "7+8+9". */
static int next_fd(const char **io_list, struct vql_error *e)
{
        char *end;
        unsigned long fd;

        errno = 0;
        fd = strtoul(*io_list, &end, 10);
        if (end == *io_list || errno || fd > INT32_MAX || (*end && *end != '+'))
                return vql_fail(e, EINVAL, "wire: \"%s\", expected a descriptor for each pair",
                                *io_list);
        *io_list = *end ? end + 1 : end;
        return (int)fd;
}

static int open_one(const struct sim_args *args, const char **io_list, struct sim_wire *w,
                    struct vql_error *e)
{
        int fd;

        w->packet = malloc(SIM_PACKET_BYTES);
        if (!w->packet)
                return vql_fail(e, ENOMEM, "wire: out of memory");
        if (strcmp(args->wire, "loopback") == 0)
                return open_loopback(w, e);
        if (strncmp(args->wire, "tap:", 4) == 0)
                return open_tap(w, args->wire + 4, args->pairs > 1, e);
        if (strncmp(args->wire, "fd:", 3) != 0)
                return vql_fail(e, EINVAL,
                                "wire \"%s\", expected loopback, tap:NAME or fd:NUMBER+NUMBER...",
                                args->wire);
        fd = next_fd(io_list, e);
        return fd < 0 ? fd : open_fd(w, fd, e);
}

int vql_sim_wires_open(const struct sim_args *args, struct sim_wire *wire, struct vql_error *e)
{
        const char *list = strncmp(args->wire, "fd:", 3) == 0 ? args->wire + 3 : "";
        int err = 0;

        for (uint16_t pair = 0; !err && pair < args->pairs; pair++)
                err = open_one(args, &list, &wire[pair], e);
        return err;
}

void vql_sim_wires_close(struct sim_wire *wire, uint16_t pairs)
{
        for (uint16_t pair = 0; pair < pairs; pair++) {
                if (wire[pair].out != wire[pair].in)
                        vql_fd_close(&wire[pair].in);
                vql_fd_close(&wire[pair].out);
                free(wire[pair].packet);
        }
}

bool vql_sim_wire_send(const struct sim_wire *w, const void *packet, size_t n)
{
        struct iovec piece = { (void *)(uintptr_t)packet, n };
        const struct msghdr m = { .msg_iov = &piece, .msg_iovlen = 1 };
        ssize_t sent = sendmsg(w->out, &m, MSG_NOSIGNAL);

        if (sent < 0 && errno == ENOTSOCK)
                sent = write(w->out, packet, n);
        return sent == (ssize_t)n;
}

/* The end of a stream of packets, or a packet of no bytes? */
static bool has_hung_up(int fd)
{
        struct pollfd p = { .fd = fd };

        return poll(&p, 1, 0) < 0 || (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

bool vql_sim_wire_receive(struct sim_wire *w)
{
        ssize_t n = read(w->in, w->packet, SIM_PACKET_BYTES);

        if (n == 0 && has_hung_up(w->in))
                w->in = -1;
        if (n <= 0)
                return false;
        w->pending = (size_t)n;
        return true;
}
