/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "base/fd.h"
#include "virtqueue/features.h"

int vql_handle_set_owner(struct vql_call *c)
{
        c->s->owned = true;
        return 0;
}

/*
 * Deprecated.  The specification leaves "ignore it" and "disable all rings"; nothing is forgotten.
 * Without PROTOCOL_FEATURES nobody could enable them again.
 */
int vql_handle_reset_owner(struct vql_call *c)
{
        struct vql_session *s = c->s;

        if (!vql_has(s->features, VQL_F_PROTOCOL_FEATURES))
                return 0;
        for (unsigned int i = 0; i < s->offer->max_rings; i++)
                s->vring[i].enabled = false;
        c->changes |= VQL_CHANGE_FEATURES; /* the one that concerns every ring */
        return 0;
}

/*
 * Forget the rings and what was negotiated with the guest; the owner, the memory and the protocol
 * features stay.  Descriptors are closed by finish_reset(), once nobody waits for them any more.
 */
static void begin_reset(struct vql_call *c)
{
        struct vql_session *s = c->s;
        const bool begun = s->features_set; /* since the last reset */

        for (unsigned int i = 0; i < s->offer->max_rings; i++) {
                struct vql_vring *v = &s->vring[i];

                *v = (struct vql_vring){
                        .base = vql_call_position(v),
                        .base_set = begun ? v->base_set : v->reset_num > 0,
                        .reset_num = begun && !v->loaded ? v->num : v->reset_num,
                        .kick_fd = v->kick_fd,
                        .call_fd = v->call_fd,
                        .err_fd = v->err_fd,
                };
        }
        if (begun)
                s->reset_features = s->features;
        s->features = 0;
        s->features_set = false;
        s->features_refused = false;
        s->status = 0;
        c->changes |= VQL_CHANGE_RESET;
}

/* QEMU 7.2 resets the device before it asks where the rings stopped, also when the guest is only
 * paused: the answer must outlive the reset. */
static void finish_reset(struct vql_call *c)
{
        for (unsigned int i = 0; i < c->s->offer->max_rings; i++) {
                struct vql_vring *v = &c->s->vring[i];

                v->reset_base = v->base;
                if (!v->base_set)
                        v->reset_num = 0;
                v->base = 0;
                v->base_set = false;
                vql_fd_close(&v->kick_fd);
                vql_fd_close(&v->call_fd);
                vql_fd_close(&v->err_fd);
        }
}

int vql_handle_reset_device(struct vql_call *c)
{
        begin_reset(c);
        return 0;
}

void vql_finish_reset_device(struct vql_call *c, int err)
{
        (void)err;
        finish_reset(c);
}

int vql_handle_get_status(struct vql_call *c)
{
        vql_call_reply_u64(c, c->s->status);
        return 0;
}

int vql_handle_set_status(struct vql_call *c)
{
        uint64_t status = c->body.u64;

        if (status > UINT8_MAX)
                return vql_fail(c->e, EINVAL, "0x%llx, expected a device status of 8 bits",
                                (unsigned long long)status);
        if (status == 0) {
                begin_reset(c);
                return 0;
        }
        /* virtio 1.2, 3.1.1: reading FEATURES_OK back as 0 is how a device says no. */
        if (!c->s->features_set || c->s->features_refused)
                status &= ~(uint64_t)VIRTIO_CONFIG_S_FEATURES_OK;
        c->s->status = (uint8_t)status;
        return 0;
}

void vql_finish_set_status(struct vql_call *c, int err)
{
        (void)err;
        if (c->changes & VQL_CHANGE_RESET)
                finish_reset(c);
}

int vql_handle_set_mtu(struct vql_call *c)
{
        uint64_t mtu = c->body.u64;
        int err;

        if (mtu < VQL_MTU_MIN || mtu > VQL_MTU_MAX)
                return vql_fail(c->e, ERANGE, "%llu, expected %d to %d", (unsigned long long)mtu,
                                VQL_MTU_MIN, VQL_MTU_MAX);
        err = c->s->ops->set_mtu(c->s->host, (uint16_t)mtu, c->e);
        if (err < 0)
                return err;
        c->s->mtu = (uint16_t)mtu;
        return 0;
}

int vql_handle_send_rarp(struct vql_call *c)
{
        return c->s->ops->send_rarp(c->s->host, c->body.mac, c->e);
}

int vql_handle_set_backend_fd(struct vql_call *c)
{
        struct stat st;

        if (fstat(c->in->fds[0], &st) < 0 || !S_ISSOCK(st.st_mode))
                return vql_fail(c->e, ENOTSOCK, "the descriptor is not a socket");
        c->old.fd = c->s->backend_fd;
        c->s->backend_fd = vql_call_take_fd(c, 0);
        return 0;
}
