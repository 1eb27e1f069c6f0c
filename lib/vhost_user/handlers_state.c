/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "vhost_user/transfer.h"

enum {
        PHASE_STOPPED = 0,
        DEADLINE_US = 30 * 1000 * 1000, /* the other host may be slow */
};

static int state_arrived(void *arg, const uint8_t *bytes, size_t n, struct vql_error *e)
{
        struct vql_session *s = arg;

        return s->ops->load_state(s->host, bytes, n, e);
}

static int begin_transfer(struct vql_call *c, enum vql_direction direction,
                          struct vql_transfer **ret_transfer)
{
        struct vql_session *s = c->s;
        uint8_t bytes[VQL_STATE_MAX_BYTES];
        struct vql_transfer_params p = {
                .loop = s->loop,
                .direction = direction,
                .bytes = bytes,
                .n = sizeof(bytes),
                .deadline_us = DEADLINE_US,
                .log = s->log_to,
                .arrived = state_arrived,
                .arg = s,
        };
        int n = direction == VQL_SAVE ? s->ops->save_state(s->host, bytes, c->e) : 0;

        if (n < 0)
                return n;
        if (direction == VQL_SAVE)
                p.n = (size_t)n;
        p.fd = vql_call_take_fd(c, 0);
        return vql_transfer_new(&p, ret_transfer, c->e);
}

/*
 * A transfer that is not finished yet gives way to a new one: the front-end may have given up a
 * migration, and kept its end of the pipe.
 */
int vql_handle_set_device_state_fd(struct vql_call *c)
{
        const struct vql_wire_device_state *w = &c->body.device_state;
        struct vql_transfer *t;
        int err;

        if (w->direction != VQL_SAVE && w->direction != VQL_LOAD)
                return vql_fail(c->e, EINVAL, "direction %u, expected %d (save) or %d (load)",
                                w->direction, VQL_SAVE, VQL_LOAD);
        if (w->phase != PHASE_STOPPED)
                return vql_fail(c->e, EINVAL, "phase %u, expected %d (stopped)", w->phase,
                                PHASE_STOPPED);
        err = begin_transfer(c, (enum vql_direction)w->direction, &t);
        if (err < 0)
                return err;
        vql_transfer_free(c->s->transfer);
        c->s->transfer = t;
        c->s->direction = (enum vql_direction)w->direction;
        vql_call_reply_u64(c, VQL_WIRE_STATE_NO_FD);
        return 0;
}

/* The state that was saved is worth nothing if the device went on meanwhile. */
static int check_unchanged(const struct vql_call *c)
{
        const struct vql_session *s = c->s;
        uint8_t now[VQL_STATE_MAX_BYTES];
        size_t n;
        const uint8_t *saved = vql_transfer_bytes(s->transfer, &n);
        const int rc = s->ops->save_state(s->host, now, c->e);

        if (rc < 0)
                return rc;
        if ((size_t)rc != n || memcmp(now, saved, n) != 0)
                return vql_fail(c->e, ESTALE, "the device has changed since its state was saved");
        return 0;
}

int vql_handle_check_device_state(struct vql_call *c)
{
        struct vql_session *s = c->s;
        int err;

        if (!s->transfer)
                return vql_fail(c->e, EINVAL, "expected after SET_DEVICE_STATE_FD");
        err = vql_transfer_check(s->transfer, c->e);
        if (err == 0 && s->direction == VQL_SAVE)
                err = check_unchanged(c);
        if (err == 0)
                vql_call_reply_u64(c, 0);
        return err;
}
