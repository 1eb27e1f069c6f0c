/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "virtqueue/cursor.h"

int vql_handle_set_vring_num(struct vql_call *c)
{
        struct vql_vring *v = vql_call_vring(c, c->body.state.index);

        if (!v)
                return -EINVAL;
        /* Whether it must be a power of two is known when the ring starts: the features may still
         * be on their way. */
        if (c->body.state.num < 1 || c->body.state.num > VQL_QUEUE_MAX_SIZE)
                return vql_fail(c->e, EINVAL, "ring %u: size %u, expected 1 to %d", c->ring,
                                c->body.state.num, VQL_QUEUE_MAX_SIZE);
        v->num = c->body.state.num;
        c->changes |= VQL_CHANGE_RING;
        return 0;
}

/* Kept as they come: memory may follow, or change, before the ring starts. */
int vql_handle_set_vring_addr(struct vql_call *c)
{
        const struct vql_wire_addr *a = &c->body.addr;
        struct vql_vring *v = vql_call_vring(c, a->index);

        if (!v)
                return -EINVAL;
        v->desc_uva = a->desc_uva;
        v->avail_uva = a->avail_uva;
        v->used_uva = a->used_uva;
        v->log_gpa = a->log_gpa;
        v->log = a->flags & VQL_WIRE_ADDR_LOG;
        v->addr_set = true;
        c->changes |= VQL_CHANGE_RING;
        return 0;
}

int vql_handle_set_vring_base(struct vql_call *c)
{
        struct vql_vring *v = vql_call_vring(c, c->body.state.index);

        if (!v)
                return -EINVAL;
        v->base = c->body.state.num;
        v->base_set = true;
        v->loaded = false;
        c->changes |= VQL_CHANGE_RING;
        return 0;
}

int vql_handle_get_vring_base(struct vql_call *c)
{
        if (!vql_call_vring(c, c->body.state.index))
                return -EINVAL;
        c->changes |= VQL_CHANGE_RING_STOP;
        return 0;
}

/* A stopped ring starts again with a new base and a new kick; its call descriptor stays. */
void vql_finish_get_vring_base(struct vql_call *c, int err)
{
        struct vql_vring *v = &c->s->vring[c->ring];
        struct vql_wire_state reply = {
                .index = c->ring,
                .num = vql_call_position(v),
        };

        vql_fd_close(&v->kick_fd);
        v->kick_set = false;
        if (err == 0)
                vql_call_reply(c, &reply, sizeof(reply));
}

int vql_handle_set_vring_enable(struct vql_call *c)
{
        struct vql_vring *v = vql_call_vring(c, c->body.state.index);

        if (!v)
                return -EINVAL;
        if (c->body.state.num > 1)
                return vql_fail(c->e, EINVAL, "ring %u: %u, expected 0 or 1", c->ring,
                                c->body.state.num);
        v->enabled = c->body.state.num;
        c->changes |= VQL_CHANGE_RING;
        return 0;
}

/*
 * Only an eventfd has the semantics that the datapath counts on: eight bytes, never a partial
 * write, readable until it is read once.
 */
static int check_eventfd(int fd, struct vql_error *e)
{
        char path[32], what[32];
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, what, sizeof(what) - 1);
        if (n < 0)
                return vql_fail(e, errno, "cannot read %s: %s", path, strerror(errno));
        what[n] = '\0';
        if (strcmp(what, "anon_inode:[eventfd]") != 0)
                return vql_fail(e, EINVAL, "the descriptor is %s, expected an eventfd", what);
        return 0;
}

/* Neither a worker nor this thread may ever wait in a read or write of it. */
static int make_nonblocking(int fd, struct vql_error *e)
{
        int flags = fcntl(fd, F_GETFL);

        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return vql_fail(e, errno, "cannot make the descriptor non-blocking: %s",
                                strerror(errno));
        return 0;
}

/* Put the message's descriptor, or -1, into *slot; what was there is closed after apply(). */
static int replace_fd(struct vql_call *c, int *slot)
{
        int err;

        if (c->body.vring_fd.no_fd) {
                c->old.fd = *slot;
                *slot = -1;
                return 0;
        }
        err = check_eventfd(c->in->fds[0], c->e);
        if (err == 0)
                err = make_nonblocking(c->in->fds[0], c->e);
        if (err < 0)
                return err;
        c->old.fd = *slot;
        *slot = vql_call_take_fd(c, 0);
        return 0;
}

int vql_handle_set_vring_kick(struct vql_call *c)
{
        struct vql_vring *v = vql_call_vring(c, c->body.vring_fd.index);
        int err = v ? replace_fd(c, &v->kick_fd) : -EINVAL;

        if (err < 0)
                return err;
        v->kick_set = true;
        c->changes |= VQL_CHANGE_RING;
        return 0;
}

int vql_handle_set_vring_call(struct vql_call *c)
{
        struct vql_vring *v = vql_call_vring(c, c->body.vring_fd.index);
        int err = v ? replace_fd(c, &v->call_fd) : -EINVAL;

        if (err < 0)
                return err;
        c->changes |= VQL_CHANGE_CALL;
        return 0;
}

int vql_handle_set_vring_err(struct vql_call *c)
{
        struct vql_vring *v = vql_call_vring(c, c->body.vring_fd.index);
        int err = v ? replace_fd(c, &v->err_fd) : -EINVAL;

        if (err < 0)
                return err;
        c->changes |= VQL_CHANGE_RING;
        return 0;
}
