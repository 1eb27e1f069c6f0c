/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_FAKE_HOST_H
#define TESTS_UNIT_FAKE_HOST_H

/* A host for sessions under test: notes what it was asked, and answers as it is told. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bits.h"
#include "vhost_user/session.h"
#include "virtqueue/features.h"

struct fake_host {
        struct vql_session *session;
        unsigned int applied; /* how often apply() was called */
        unsigned int changes; /* of the last time */
        uint16_t ring;
        uint32_t final_base; /* what a stopped ring's base becomes */
        bool leave_base;     /* or not: as if it had stopped before */
        int fails;           /* errno that all calls fail with, or 0 */
        uint8_t mac[6];
        uint16_t mtu;
        uint8_t state[VQL_STATE_MAX_BYTES]; /* to be saved, or as it was loaded */
        size_t state_bytes;
        unsigned int loads;
        /* Called in apply(), while what was replaced is still in use. */
        void (*look)(struct fake_host *h);
        void *look_arg;
};

static inline int fake_host_answer(const struct fake_host *h, struct vql_error *e)
{
        return h->fails ? vql_fail(e, h->fails, "the host does not want to") : 0;
}

static inline int fake_host_apply(void *host, unsigned int changes, uint16_t ring,
                                  struct vql_error *e)
{
        struct fake_host *h = host;

        h->applied++;
        h->changes = changes;
        h->ring = ring;
        if (h->look)
                h->look(h);
        if ((changes & VQL_CHANGE_RING_STOP) && !h->leave_base)
                h->session->vring[ring].base = h->final_base;
        return fake_host_answer(h, e);
}

static inline int fake_host_send_rarp(void *host, const uint8_t mac[6], struct vql_error *e)
{
        struct fake_host *h = host;

        memcpy(h->mac, mac, sizeof(h->mac));
        return fake_host_answer(h, e);
}

static inline int fake_host_set_mtu(void *host, uint16_t mtu, struct vql_error *e)
{
        struct fake_host *h = host;

        h->mtu = mtu;
        return fake_host_answer(h, e);
}

static inline int fake_host_save_state(void *host, uint8_t ret_bytes[VQL_STATE_MAX_BYTES],
                                       struct vql_error *e)
{
        struct fake_host *h = host;

        memcpy(ret_bytes, h->state, h->state_bytes);
        return h->fails ? fake_host_answer(h, e) : (int)h->state_bytes;
}

static inline int fake_host_load_state(void *host, const uint8_t *bytes, size_t n,
                                       struct vql_error *e)
{
        struct fake_host *h = host;

        h->loads++;
        h->state_bytes = n;
        memcpy(h->state, bytes, n);
        return fake_host_answer(h, e);
}

static const struct vql_session_host fake_host_ops = {
        .apply = fake_host_apply,
        .send_rarp = fake_host_send_rarp,
        .set_mtu = fake_host_set_mtu,
        .save_state = fake_host_save_state,
        .load_state = fake_host_load_state,
};

#define FAKE_PROTOCOL_FEATURES                                                                     \
        (1 << VQL_PF_MQ | 1 << VQL_PF_LOG_SHMFD | 1 << VQL_PF_RARP | 1 << VQL_PF_REPLY_ACK |       \
         1 << VQL_PF_MTU | 1 << VQL_PF_BACKEND_REQ | 1 << VQL_PF_BACKEND_SEND_FD |                 \
         1 << VQL_PF_INFLIGHT_SHMFD | 1 << VQL_PF_RESET_DEVICE | 1 << VQL_PF_CONFIGURE_MEM_SLOTS | \
         1 << VQL_PF_STATUS | 1 << VQL_PF_PAGEFAULT | 1 << VQL_PF_DEVICE_STATE)

#define FAKE_FEATURES                                                              \
        (UINT64_C(1) << VIRTIO_F_VERSION_1 | UINT64_C(1) << VIRTIO_F_RING_PACKED | \
         UINT64_C(1) << VIRTIO_NET_F_MRG_RXBUF | UINT64_C(1) << VQL_F_LOG_ALL |    \
         UINT64_C(1) << VQL_F_PROTOCOL_FEATURES)

/* What a port of four queue pairs offers. */
static const struct vql_offer fake_offer = {
        .features = FAKE_FEATURES,
        .protocol_features = FAKE_PROTOCOL_FEATURES,
        .max_rings = 8,
        .max_mem_slots = 509,
};

#endif
