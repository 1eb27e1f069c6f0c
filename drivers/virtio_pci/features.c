/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/virtio_pci/features.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/bits.h"
#include "drivers/virtio_pci/virtio_pci_regs.h"
#include "virtqueue/features.h"

#define BIT(name) (UINT64_C(1) << (name))

/* Numbers that <linux/virtio_net.h> of older kernels lacks. */
enum { VQ_NOTF_COAL = 52, NOTF_COAL = 53, GUEST_HDRLEN = 59 };

static const uint64_t usable =
        BIT(VIRTIO_NET_F_CSUM) | BIT(VIRTIO_NET_F_GUEST_CSUM) |
        BIT(VIRTIO_NET_F_CTRL_GUEST_OFFLOADS) | BIT(VIRTIO_NET_F_MTU) | BIT(VIRTIO_NET_F_MAC) |
        BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) | BIT(VIRTIO_NET_F_GUEST_ECN) |
        BIT(VIRTIO_NET_F_GUEST_UFO) | BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) |
        BIT(VIRTIO_NET_F_HOST_ECN) | BIT(VIRTIO_NET_F_HOST_UFO) | BIT(VIRTIO_NET_F_MRG_RXBUF) |
        BIT(VIRTIO_NET_F_STATUS) | BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_CTRL_RX) |
        BIT(VIRTIO_NET_F_CTRL_VLAN) | BIT(VIRTIO_NET_F_CTRL_RX_EXTRA) |
        BIT(VIRTIO_NET_F_GUEST_ANNOUNCE) | BIT(VIRTIO_NET_F_MQ) | BIT(VIRTIO_NET_F_CTRL_MAC_ADDR) |
        BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VIRTIO_F_VERSION_1) |
        BIT(VIRTIO_F_RING_PACKED) | BIT(VIRTIO_F_IN_ORDER) | BIT(VIRTIO_F_ORDER_PLATFORM) |
        BIT(VQ_NOTF_COAL) | BIT(NOTF_COAL) | BIT(VIRTIO_NET_F_GUEST_USO4) |
        BIT(VIRTIO_NET_F_GUEST_USO6) | BIT(VIRTIO_NET_F_HOST_USO) | BIT(VIRTIO_NET_F_HASH_REPORT) |
        BIT(GUEST_HDRLEN) | BIT(VIRTIO_NET_F_RSS) | BIT(VIRTIO_NET_F_RSC_EXT) |
        BIT(VIRTIO_NET_F_SPEED_DUPLEX);

static const uint64_t transport = BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_ACCESS_PLATFORM) |
                                  BIT(VIRTIO_F_ORDER_PLATFORM) | BIT(VIRTIO_F_RING_RESET);

/* What lets the host steer the device: how many pairs, which frames. */
static const uint64_t control = BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_CTRL_RX) |
                                BIT(VIRTIO_NET_F_CTRL_RX_EXTRA) | BIT(VIRTIO_NET_F_CTRL_MAC_ADDR) |
                                BIT(VIRTIO_NET_F_MQ) | BIT(VIRTIO_NET_F_STATUS);

/* Each of these needs one of those; parents come before their children. */
static const struct need {
        uint64_t children, parents;
} needs[] = {
        { BIT(VIRTIO_NET_F_CTRL_RX) | BIT(VIRTIO_NET_F_CTRL_VLAN) |
                  BIT(VIRTIO_NET_F_GUEST_ANNOUNCE) | BIT(VIRTIO_NET_F_MQ) |
                  BIT(VIRTIO_NET_F_CTRL_MAC_ADDR) | BIT(VIRTIO_NET_F_CTRL_GUEST_OFFLOADS) |
                  BIT(VIRTIO_NET_F_RSS) | BIT(VQ_NOTF_COAL) | BIT(NOTF_COAL) |
                  BIT(VIRTIO_NET_F_HASH_REPORT),
          BIT(VIRTIO_NET_F_CTRL_VQ) },
        { BIT(VIRTIO_NET_F_CTRL_RX_EXTRA), BIT(VIRTIO_NET_F_CTRL_RX) },
        { BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) |
                  BIT(VIRTIO_NET_F_GUEST_UFO) | BIT(VIRTIO_NET_F_GUEST_USO4) |
                  BIT(VIRTIO_NET_F_GUEST_USO6),
          BIT(VIRTIO_NET_F_GUEST_CSUM) },
        { BIT(VIRTIO_NET_F_GUEST_ECN),
          BIT(VIRTIO_NET_F_GUEST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO6) },
        { BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) | BIT(VIRTIO_NET_F_HOST_UFO) |
                  BIT(VIRTIO_NET_F_HOST_USO),
          BIT(VIRTIO_NET_F_CSUM) },
        { BIT(VIRTIO_NET_F_HOST_ECN) | BIT(VIRTIO_NET_F_RSC_EXT),
          BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_HOST_TSO6) },
};

static uint64_t with_parents(uint64_t features)
{
        for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
                if (!(features & needs[i].parents))
                        features &= ~needs[i].children;
        }
        return features;
}

uint64_t vql_vpci_features_usable(uint64_t offered)
{
        return with_parents(offered & usable);
}

uint64_t vql_vpci_features_own(uint64_t offered)
{
        return (offered & transport) | (with_parents(offered) & control);
}
