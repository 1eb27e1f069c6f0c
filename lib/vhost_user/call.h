/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_CALL_H
#define VQLIFT_VHOST_USER_CALL_H

/*
 * One message on its way through the session: what a handler is given and what it leaves behind.
 *
 * A handler changes the session's wanted state and notes in `changes` what it changed.  Whatever it
 * replaces goes to `old`, since the datapath may use it until the host's apply() has returned.
 */

#include "vhost_user/codec.h"
#include "vhost_user/session.h"

struct vql_call {
        struct vql_session *s;
        struct vql_msg_in *in;
        union vql_payload body;
        struct vql_msg_out *out;
        struct vql_error *e;

        unsigned int changes; /* enum vql_change */
        uint16_t ring;

        struct {
                struct vql_mem_table *mem;
                struct vql_dirty_log *log;
                struct vql_inflight *inflight;
                int fd; /* or -1 */
        } old;
};

/* Change the wanted state.  0, or -errno with the sentence in c->e and the state as it was. */
typedef int vql_handler(struct vql_call *c);
/* After apply(): `err` is what it returned.  Lets go of what the change made useless, and writes
 * the reply of a request that has its own. */
typedef void vql_finisher(struct vql_call *c, int err);
/* Write the form of "no" that a request with a reply of its own has. */
typedef void vql_refuser(struct vql_call *c);

/* Does the front-end wait for an ack to this message?  (NEED_REPLY, with REPLY_ACK negotiated.) */
bool vql_call_wants_ack(const struct vql_call *c);

/* Write the reply; body may be NULL for zeroes. */
void vql_call_reply(struct vql_call *c, const void *body, uint32_t size);
void vql_call_reply_u64(struct vql_call *c, uint64_t value);

/* Descriptor i of the message, which now belongs to the caller. */
int vql_call_take_fd(struct vql_call *c, unsigned int i);

/* The ring of that index, with c->ring set; or NULL and a sentence.  The only way to a ring. */
struct vql_vring *vql_call_vring(struct vql_call *c, uint32_t index);

/* Where a ring stands, for a front-end that asks: a device reset does not change the answer. */
uint32_t vql_call_position(const struct vql_vring *v);

/* Close what the call replaced and what it did not take. */
void vql_call_release(struct vql_call *c);

#endif
