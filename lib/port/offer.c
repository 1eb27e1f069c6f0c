/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/offer.h"

#include <errno.h>

#include "base/bits.h"
#include "memory/memory.h"
#include "virtqueue/features.h"

#define BIT(n) (UINT64_C(1) << (n))

/* What the software path does, and what front-ends do for it when the back-end does not object. */
static const uint64_t software_features =
        BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_RING_PACKED) | BIT(VIRTIO_F_IN_ORDER) |
        BIT(VIRTIO_F_ANY_LAYOUT) | BIT(VIRTIO_F_RING_RESET) | BIT(VIRTIO_RING_F_EVENT_IDX) |
        BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_NET_F_MRG_RXBUF) | BIT(VIRTIO_NET_F_CSUM) |
        BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) | BIT(VIRTIO_NET_F_HOST_ECN) |
        BIT(VIRTIO_NET_F_HOST_USO) | BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_GUEST_TSO4) |
        BIT(VIRTIO_NET_F_GUEST_TSO6) | BIT(VIRTIO_NET_F_GUEST_ECN) | BIT(VIRTIO_NET_F_MTU) |
        BIT(VIRTIO_NET_F_STATUS) | BIT(VIRTIO_NET_F_SPEED_DUPLEX) |
        BIT(VIRTIO_NET_F_GUEST_ANNOUNCE) | BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_MQ);

static const uint64_t vhost_features = BIT(VQL_F_LOG_ALL) | BIT(VQL_F_PROTOCOL_FEATURES);

static const uint64_t protocol_features =
        BIT(VQL_PF_MQ) | BIT(VQL_PF_LOG_SHMFD) | BIT(VQL_PF_RARP) | BIT(VQL_PF_REPLY_ACK) |
        BIT(VQL_PF_MTU) | BIT(VQL_PF_BACKEND_REQ) | BIT(VQL_PF_BACKEND_SEND_FD) |
        BIT(VQL_PF_RESET_DEVICE) | BIT(VQL_PF_CONFIGURE_MEM_SLOTS) | BIT(VQL_PF_STATUS) |
        BIT(VQL_PF_INFLIGHT_SHMFD) | BIT(VQL_PF_DEVICE_STATE);

uint64_t vql_offer_close(uint64_t set)
{
        static const struct {
                uint8_t feature, needs;
        } rules[] = {
                { VIRTIO_NET_F_HOST_TSO4, VIRTIO_NET_F_CSUM },
                { VIRTIO_NET_F_HOST_TSO6, VIRTIO_NET_F_CSUM },
                { VIRTIO_NET_F_HOST_USO, VIRTIO_NET_F_CSUM },
                { VIRTIO_NET_F_GUEST_TSO4, VIRTIO_NET_F_GUEST_CSUM },
                { VIRTIO_NET_F_GUEST_TSO6, VIRTIO_NET_F_GUEST_CSUM },
                { VIRTIO_NET_F_MQ, VIRTIO_NET_F_CTRL_VQ },
                { VIRTIO_NET_F_GUEST_ANNOUNCE, VIRTIO_NET_F_CTRL_VQ },
        };
        const uint64_t host_tso = BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6);
        const uint64_t guest_tso = BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6);

        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (!vql_has(set, rules[i].needs))
                        set &= ~vql_bit(rules[i].feature);
        if (!(set & host_tso))
                set &= ~vql_bit(VIRTIO_NET_F_HOST_ECN);
        if (!(set & guest_tso))
                set &= ~vql_bit(VIRTIO_NET_F_GUEST_ECN);
        return set;
}

static int refuse(uint64_t bits, const char *key, const char *why, struct vql_error *e)
{
        const unsigned int bit = (unsigned int)__builtin_ctzll(bits);
        const char *name = vql_feature_name(bit);

        return vql_fail(e, EINVAL, "%s: bit %u (%s) %s", key, bit, name ? name : "unknown", why);
}

/* A profile is what an operator relies on: what cannot be had of it is an error. */
static int check_profile(uint64_t only, struct vql_error *e)
{
        const uint64_t strange = only & ~(software_features | vhost_features);
        const uint64_t wanted = only & software_features;
        const uint64_t lonely = wanted & ~vql_offer_close(wanted);

        if (strange)
                return refuse(strange, "features", "is not offered", e);
        if (lonely)
                return refuse(lonely, "features", "needs a feature that is not in the list", e);
        return 0;
}

int vql_offer_make(unsigned int queue_pairs, uint64_t only, uint64_t off,
                   struct vql_offer *ret_offer, struct vql_error *e)
{
        const uint64_t strange = off & ~software_features;
        uint64_t offered = only ? software_features & only : software_features;
        int rc = check_profile(only, e);

        if (rc == 0 && strange)
                rc = refuse(strange, "features-off", "is not offered anyway", e);
        if (rc < 0)
                return rc;
        if (queue_pairs == 1)
                offered &= ~vql_bit(VIRTIO_NET_F_MQ);
        *ret_offer = (struct vql_offer){
                .features = vql_offer_close(offered & ~off) | vhost_features,
                .protocol_features = protocol_features,
                .max_rings = (uint16_t)(2 * queue_pairs),
                .max_mem_slots = VQL_MEM_MAX_REGIONS,
        };
        return 0;
}
