/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <errno.h>

#include "base/bits.h"
#include "virtqueue/cursor.h"
#include "virtqueue/features.h"

int vql_handle_set_log_base(struct vql_call *c)
{
        struct vql_session *s = c->s;
        uint64_t end = s->mem ? vql_mem_table_end(s->mem) : 0;
        struct vql_dirty_log *log;
        int err = vql_dirty_log_map(c->in->fds[0], c->body.log.size, c->body.log.offset, end, &log,
                                    c->e);

        if (err < 0)
                return err;
        c->old.log = s->log;
        s->log = log;
        c->changes |= VQL_CHANGE_LOG;
        return 0;
}

/*
 * With LOG_SHMFD a reply comes whether asked for or not, and front-ends differ in what they wait
 * for: QEMU never asks for an ack and reads any reply with this number; those that do ask wait for
 * the ack's eight bytes.
 */
void vql_finish_set_log_base(struct vql_call *c, int err)
{
        if (err == 0 && !vql_call_wants_ack(c))
                vql_call_reply(c, NULL, 0);
}

/* An eventfd that a back-end may signal when the log changed.  Front-ends look into the log by
 * themselves, and the datapath has better to do; the caller closes it. */
int vql_handle_set_log_fd(struct vql_call *c)
{
        (void)c;
        return 0;
}

static int check_inflight(const struct vql_call *c)
{
        uint32_t queues = c->body.inflight.num_queues, size = c->body.inflight.queue_size;

        if (queues < 1 || queues > c->s->offer->max_rings)
                return vql_fail(c->e, EINVAL, "%u queues, expected 1 to %u", queues,
                                c->s->offer->max_rings);
        if (size < 1 || size > VQL_QUEUE_MAX_SIZE)
                return vql_fail(c->e, EINVAL, "queue size %u, expected 1 to %d", size,
                                VQL_QUEUE_MAX_SIZE);
        return 0;
}

int vql_handle_get_inflight_fd(struct vql_call *c)
{
        struct vql_wire_inflight reply = c->body.inflight;
        uint64_t bytes;
        int fd, err = check_inflight(c);

        if (err < 0)
                return err;
        err = vql_inflight_create(reply.num_queues, reply.queue_size,
                                  vql_has(c->s->features, VIRTIO_F_RING_PACKED), &fd, &bytes, c->e);
        if (err < 0)
                return err;
        reply.mmap_size = bytes;
        reply.mmap_offset = 0;
        vql_call_reply(c, &reply, c->in->size);
        c->out->fd = fd;
        return 0;
}

int vql_handle_set_inflight_fd(struct vql_call *c)
{
        const struct vql_wire_inflight *w = &c->body.inflight;
        struct vql_session *s = c->s;
        const struct vql_inflight_desc d = {
                .bytes = w->mmap_size,
                .offset = w->mmap_offset,
                .num_queues = w->num_queues,
                .queue_size = w->queue_size,
                .packed = vql_has(s->features, VIRTIO_F_RING_PACKED),
        };
        struct vql_inflight *map;
        int err = check_inflight(c);

        if (err < 0)
                return err;
        err = vql_inflight_map(c->in->fds[0], &d, &map, c->e);
        if (err < 0)
                return err;
        c->old.inflight = s->inflight;
        s->inflight = map;
        s->inflight_queues = w->num_queues;
        c->changes |= VQL_CHANGE_INFLIGHT;
        return 0;
}
