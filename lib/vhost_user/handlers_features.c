/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <errno.h>

#include "base/bits.h"
#include "virtqueue/features.h"

static const char *const protocol_feature_names[] = {
        [VQL_PF_MQ] = "MQ",
        [VQL_PF_LOG_SHMFD] = "LOG_SHMFD",
        [VQL_PF_RARP] = "RARP",
        [VQL_PF_REPLY_ACK] = "REPLY_ACK",
        [VQL_PF_MTU] = "NET_MTU",
        [VQL_PF_BACKEND_REQ] = "BACKEND_REQ",
        [VQL_PF_CROSS_ENDIAN] = "CROSS_ENDIAN",
        [VQL_PF_CRYPTO_SESSION] = "CRYPTO_SESSION",
        [VQL_PF_PAGEFAULT] = "PAGEFAULT",
        [VQL_PF_CONFIG] = "CONFIG",
        [VQL_PF_BACKEND_SEND_FD] = "BACKEND_SEND_FD",
        [VQL_PF_HOST_NOTIFIER] = "HOST_NOTIFIER",
        [VQL_PF_INFLIGHT_SHMFD] = "INFLIGHT_SHMFD",
        [VQL_PF_RESET_DEVICE] = "RESET_DEVICE",
        [VQL_PF_INBAND_NOTIFICATIONS] = "INBAND_NOTIFICATIONS",
        [VQL_PF_CONFIGURE_MEM_SLOTS] = "CONFIGURE_MEM_SLOTS",
        [VQL_PF_STATUS] = "STATUS",
        [VQL_PF_XEN_MMAP] = "XEN_MMAP",
        [VQL_PF_SHARED_OBJECT] = "SHARED_OBJECT",
        [VQL_PF_DEVICE_STATE] = "DEVICE_STATE",
        [VQL_PF_GET_VRING_BASE_INFLIGHT] = "GET_VRING_BASE_INFLIGHT",
        [VQL_PF_GPA_ADDRESSES] = "GPA_ADDRESSES",
        [VQL_PF_SHMEM_MAP] = "SHMEM_MAP",
};

const char *vql_protocol_feature_name(unsigned int bit)
{
        const size_t n = sizeof(protocol_feature_names) / sizeof(protocol_feature_names[0]);

        return bit < n ? protocol_feature_names[bit] : NULL;
}

static unsigned int lowest(uint64_t set)
{
        return (unsigned int)__builtin_ctzll(set);
}

/* `vqlift compat check` says it in these words, too (tools/vqlift/compat.c). */
static int refuse_bit(struct vql_error *e, unsigned int bit, const char *name, const char *why)
{
        return vql_fail(e, EINVAL, "bit %u (%s) %s", bit, name ? name : "unknown", why);
}

int vql_handle_get_features(struct vql_call *c)
{
        vql_call_reply_u64(c, c->s->offer->features);
        return 0;
}

/* A base in one format is not a position in the other. */
static int check_format(const struct vql_session *s, uint64_t wanted, struct vql_error *e)
{
        if (!vql_has(s->features ^ wanted, VIRTIO_F_RING_PACKED))
                return 0;
        for (unsigned int i = 0; i < s->offer->max_rings; i++)
                if (s->features_set && s->vring[i].kick_set)
                        return vql_fail(e, EBUSY, "RING_PACKED changes while ring %u is started",
                                        i);
        return 0;
}

static int check_features(const struct vql_session *s, uint64_t wanted, struct vql_error *e)
{
        uint64_t surplus = wanted & ~s->offer->features;

        if (surplus)
                return refuse_bit(e, lowest(surplus), vql_feature_name(lowest(surplus)),
                                  "is not offered");
        return check_format(s, wanted, e);
}

/* Without PROTOCOL_FEATURES no SET_VRING_ENABLE comes: all rings count as enabled. */
static void enable_all(struct vql_session *s, bool enabled)
{
        for (unsigned int i = 0; i < s->offer->max_rings; i++)
                s->vring[i].enabled = enabled;
}

int vql_handle_set_features(struct vql_call *c)
{
        struct vql_session *s = c->s;
        uint64_t old = s->features, wanted = c->body.u64;
        int err = check_features(s, wanted, c->e);

        s->features_refused = err < 0;
        if (err < 0)
                return err;
        if (s->features_set && wanted == old)
                return 0;
        if (!vql_has(wanted, VQL_F_PROTOCOL_FEATURES))
                enable_all(s, true);
        else if (s->features_set && !vql_has(old, VQL_F_PROTOCOL_FEATURES))
                enable_all(s, false);
        if (vql_has(old & ~wanted, VQL_F_LOG_ALL)) {
                c->old.log = s->log;
                s->log = NULL;
                c->changes |= VQL_CHANGE_LOG;
        }
        s->features = wanted;
        s->features_set = true;
        c->changes |= VQL_CHANGE_FEATURES;
        return 0;
}

int vql_handle_get_protocol_features(struct vql_call *c)
{
        vql_call_reply_u64(c, c->s->offer->protocol_features);
        return 0;
}

/* Features that make no sense without others (vhost-user specification, "Protocol features"). */
static const struct {
        unsigned int feature;
        uint64_t needs;
} dependencies[] = {
        { VQL_PF_HOST_NOTIFIER, 1 << VQL_PF_BACKEND_REQ | 1 << VQL_PF_BACKEND_SEND_FD },
        { VQL_PF_INBAND_NOTIFICATIONS, 1 << VQL_PF_REPLY_ACK | 1 << VQL_PF_BACKEND_REQ },
        { VQL_PF_GET_VRING_BASE_INFLIGHT, 1 << VQL_PF_INFLIGHT_SHMFD },
};

static int check_dependencies(uint64_t wanted, struct vql_error *e)
{
        for (size_t i = 0; i < sizeof(dependencies) / sizeof(dependencies[0]); i++) {
                unsigned int bit = dependencies[i].feature;
                uint64_t missing = dependencies[i].needs & ~wanted;

                if (vql_has(wanted, bit) && missing)
                        return vql_fail(e, EINVAL, "bit %u (%s) without bit %u (%s)", bit,
                                        vql_protocol_feature_name(bit), lowest(missing),
                                        vql_protocol_feature_name(lowest(missing)));
        }
        return 0;
}

int vql_handle_set_protocol_features(struct vql_call *c)
{
        uint64_t wanted = c->body.u64;
        uint64_t surplus = wanted & ~c->s->offer->protocol_features;
        int err;

        if (surplus)
                return refuse_bit(c->e, lowest(surplus), vql_protocol_feature_name(lowest(surplus)),
                                  "is not offered");
        err = check_dependencies(wanted, c->e);
        if (err < 0)
                return err;
        c->s->protocol_features = wanted;
        return 0;
}

/* For network devices it counts pairs. */
int vql_handle_get_queue_num(struct vql_call *c)
{
        vql_call_reply_u64(c, c->s->offer->max_rings / 2);
        return 0;
}

int vql_handle_get_max_mem_slots(struct vql_call *c)
{
        vql_call_reply_u64(c, c->s->offer->max_mem_slots);
        return 0;
}
