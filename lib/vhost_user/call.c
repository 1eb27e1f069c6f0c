/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/call.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/fd.h"

bool vql_call_wants_ack(const struct vql_call *c)
{
        return (c->in->flags & VQL_WIRE_NEED_REPLY) &&
               vql_has(c->s->protocol_features, VQL_PF_REPLY_ACK);
}

void vql_call_reply(struct vql_call *c, const void *body, uint32_t size)
{
        struct vql_msg_out *out = c->out;

        out->present = true;
        out->request = c->in->request;
        out->flags = VQL_WIRE_REPLY_FLAGS;
        out->size = size;
        if (body)
                memcpy(out->body, body, size);
        else
                memset(out->body, 0, size);
}

void vql_call_reply_u64(struct vql_call *c, uint64_t value)
{
        vql_call_reply(c, &value, sizeof(value));
}

int vql_call_take_fd(struct vql_call *c, unsigned int i)
{
        int fd = c->in->fds[i];

        c->in->fds[i] = -1;
        return fd;
}

struct vql_vring *vql_call_vring(struct vql_call *c, uint32_t index)
{
        if (index >= c->s->offer->max_rings) {
                vql_fail(c->e, EINVAL, "ring %u, expected one below %u", index,
                         c->s->offer->max_rings);
                return NULL;
        }
        c->ring = (uint16_t)index;
        return &c->s->vring[index];
}

uint32_t vql_call_position(const struct vql_vring *v)
{
        bool touched = v->base_set || v->addr_set; /* since the last reset, if there was one */

        return touched ? v->base : v->reset_base;
}

void vql_call_release(struct vql_call *c)
{
        vql_mem_table_put(c->old.mem);
        vql_dirty_log_unmap(c->old.log);
        vql_inflight_unmap(c->old.inflight);
        vql_fd_close(&c->old.fd);
        for (unsigned int i = 0; i < c->in->nfds; i++)
                vql_fd_close(&c->in->fds[i]);
        c->in->nfds = 0;
}
