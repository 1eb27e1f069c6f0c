/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/fd.h"
#include "vhost_user/call.h"
#include "vhost_user/message_table.h"
#include "virtqueue/features.h"

/* A front-end that is refused again and again must not fill the disk with it. */
enum { LOGGED_REFUSALS = 32 };

void vql_session_init(struct vql_session *s, const struct vql_offer *offer,
                      const struct vql_session_host *ops, void *host, const struct vql_log *log_to,
                      int broken_fd)
{
        *s = (struct vql_session){
                .offer = offer,
                .ops = ops,
                .host = host,
                .log_to = log_to,
                .broken_fd = broken_fd,
                .backend_fd = -1,
                .fault_fd = -1,
        };
        for (unsigned int i = 0; i < VQL_MAX_RINGS; i++) {
                s->vring[i].kick_fd = -1;
                s->vring[i].call_fd = -1;
                s->vring[i].err_fd = -1;
        }
}

void vql_session_fini(struct vql_session *s)
{
        for (unsigned int i = 0; i < VQL_MAX_RINGS; i++) {
                vql_fd_close(&s->vring[i].kick_fd);
                vql_fd_close(&s->vring[i].call_fd);
                vql_fd_close(&s->vring[i].err_fd);
        }
        vql_fd_close(&s->backend_fd);
        vql_session_end_postcopy(s);
        vql_transfer_free(s->transfer);
        s->transfer = NULL;
        vql_mem_table_put(s->mem);
        s->mem = NULL;
        vql_dirty_log_unmap(s->log);
        s->log = NULL;
        vql_inflight_unmap(s->inflight);
        s->inflight = NULL;
}

bool vql_session_logging(const struct vql_session *s)
{
        return s->log && vql_has(s->features, VQL_F_LOG_ALL);
}

/* How a message went; the later ones say how far it came. */
enum outcome {
        UNSUPPORTED, /* no such request, or not one that was negotiated */
        MALFORMED,   /* size or descriptors are not what the request has */
        FAILED,      /* the handler or the host said no */
        DONE,
};

static bool negotiated(const struct vql_session *s, const struct vql_request *r)
{
        switch (r->need) {
        case VQL_NEED_NOTHING:
                return true;
        case VQL_NEED_PROTOCOL:
                return vql_has(s->offer->features, VQL_F_PROTOCOL_FEATURES);
        default:
                return vql_has(s->protocol_features, (unsigned int)r->need);
        }
}

static int check_fds(const struct vql_call *c, const struct vql_request *r)
{
        unsigned int expected = vql_request_fds(r, &c->body);

        if (r->fds == VQL_FDS_IGNORED || c->in->nfds == expected)
                return 0;
        return vql_fail(c->e, EBADMSG, "number of descriptors %u, expected %u", c->in->nfds,
                        expected);
}

static enum outcome carry_out(struct vql_call *c, const struct vql_request *r)
{
        struct vql_session *s = c->s;
        int err;

        if (!r->handle || !negotiated(s, r)) {
                vql_fail(c->e, EOPNOTSUPP, "not negotiated");
                return UNSUPPORTED;
        }
        if (vql_body_decode(r->body, c->in->body, c->in->size, &c->body, c->e) < 0 ||
            check_fds(c, r) < 0)
                return MALFORMED;
        if (r->handle(c) < 0)
                return FAILED;
        err = c->changes ? s->ops->apply(s->host, c->changes, c->ring, c->e) : 0;
        if (r->finish)
                r->finish(c, err);
        return err < 0 ? FAILED : DONE;
}

/* See to it that there is exactly one reply or none, as the front-end expects.  -EPROTO: what it
 * expects cannot be given. */
static int answer(struct vql_call *c, const struct vql_request *r, enum outcome outcome)
{
        enum vql_reply_rule rule = r ? r->reply : VQL_REPLY_ACK;

        if (rule == VQL_REPLY_OWN) {
                if (outcome == DONE)
                        return 0;
                if (outcome == MALFORMED || !r->refuse)
                        return -EPROTO;
                r->refuse(c);
                return 0;
        }
        if (c->out->present)
                return 0; /* the handler's reply takes the place of an ack */
        if (rule == VQL_REPLY_ALWAYS_ACK || vql_call_wants_ack(c)) {
                vql_call_reply_u64(c, outcome != DONE);
                return 0;
        }
        if (outcome == MALFORMED)
                return -EPROTO;
        if (outcome == FAILED && r->failure == VQL_FAILURE_ENDS)
                return -EPROTO;
        return 0;
}

/* Put the request's name before the sentence. */
static void name_request(const struct vql_call *c, const struct vql_request *r)
{
        struct vql_error what = *c->e;

        if (r)
                snprintf(c->e->text, sizeof(c->e->text), "%s: %.*s", r->name,
                         (int)sizeof(c->e->text) - 32, what.text);
        else
                snprintf(c->e->text, sizeof(c->e->text), "request %u is not known", c->in->request);
}

static void log_refusal(struct vql_session *s, const char *text)
{
        s->refusals++;
        if (s->refusals > LOGGED_REFUSALS)
                return;
        vql_log(s->log_to, LOG_WARNING, "refused %s%s", text,
                s->refusals == LOGGED_REFUSALS ? " (further refusals are not logged)" : "");
}

static uint64_t now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int vql_session_handle(struct vql_session *s, struct vql_msg_in *in, struct vql_msg_out *out,
                       struct vql_error *e)
{
        const struct vql_request *r = vql_request_of(s, in);
        struct vql_error what = { .text = "" };
        struct vql_call c = { .s = s, .in = in, .out = out, .e = &what, .old = { .fd = -1 } };
        enum outcome outcome = UNSUPPORTED;
        int err;

        if (s->messages++ == 0)
                s->first_message = now_us();
        out->present = false;
        out->fd = -1;
        if (r)
                outcome = carry_out(&c, r);
        err = answer(&c, r, outcome);
        vql_call_release(&c);
        if (outcome == DONE)
                return 0;
        name_request(&c, r);
        if (err < 0)
                return vql_fail(e, EPROTO, "%s", what.text);
        log_refusal(s, what.text);
        return 0;
}
