/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <string.h>

/*
 * How to say "no" to a request that has a reply of its own: an ack would be read as that reply.
 */

void vql_refuse_nothing_back(struct vql_call *c)
{
        vql_call_reply(c, NULL, 0);
}

void vql_refuse_zero(struct vql_call *c)
{
        vql_call_reply_u64(c, 0);
}

void vql_refuse_one(struct vql_call *c)
{
        vql_call_reply_u64(c, 1);
}

/* GET_INFLIGHT_FD: mmap_size 0 is "none".  GET_SHARED_OBJECT: what counts is the absent fd. */
void vql_refuse_same_size(struct vql_call *c)
{
        vql_call_reply(c, NULL, c->in->size);
}

/* A session id below 0, wherever this version of the front-end keeps it (first and last were seen).
 */
void vql_refuse_crypto_session(struct vql_call *c)
{
        vql_call_reply(c, NULL, c->in->size);
        memset(c->out->body, 0xff, c->out->size);
}

void vql_refuse_device_state(struct vql_call *c)
{
        vql_call_reply_u64(c, VQL_WIRE_STATE_REFUSED);
}

/* No shared memory regions. */
void vql_refuse_shmem_config(struct vql_call *c)
{
        vql_call_reply(c, NULL, sizeof(struct vql_wire_shmem_config));
}
