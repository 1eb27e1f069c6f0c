/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtqueue/features.h"

#include <errno.h>
#include <stddef.h>
#include <strings.h>

/*
 * X(name, bit).  The bits are written out, since the kernel's headers of the oldest supported
 * system lack some.
 */
/* Of the network device: virtio 1.2, 5.1.3, with those that 1.3 added. */
#define NET_FEATURES(X)           \
        X(CSUM, 0)                \
        X(GUEST_CSUM, 1)          \
        X(CTRL_GUEST_OFFLOADS, 2) \
        X(MTU, 3)                 \
        X(MAC, 5)                 \
        X(GSO, 6)                 \
        X(GUEST_TSO4, 7)          \
        X(GUEST_TSO6, 8)          \
        X(GUEST_ECN, 9)           \
        X(GUEST_UFO, 10)          \
        X(HOST_TSO4, 11)          \
        X(HOST_TSO6, 12)          \
        X(HOST_ECN, 13)           \
        X(HOST_UFO, 14)           \
        X(MRG_RXBUF, 15)          \
        X(STATUS, 16)             \
        X(CTRL_VQ, 17)            \
        X(CTRL_RX, 18)            \
        X(CTRL_VLAN, 19)          \
        X(CTRL_RX_EXTRA, 20)      \
        X(GUEST_ANNOUNCE, 21)     \
        X(MQ, 22)                 \
        X(CTRL_MAC_ADDR, 23)      \
        X(DEVICE_STATS, 50)       \
        X(HASH_TUNNEL, 51)        \
        X(VQ_NOTF_COAL, 52)       \
        X(NOTF_COAL, 53)          \
        X(GUEST_USO4, 54)         \
        X(GUEST_USO6, 55)         \
        X(HOST_USO, 56)           \
        X(HASH_REPORT, 57)        \
        X(GUEST_HDRLEN, 59)       \
        X(RSS, 60)                \
        X(RSC_EXT, 61)            \
        X(STANDBY, 62)            \
        X(SPEED_DUPLEX, 63)
/* Of the transport and the ring: virtio 1.2, 6, with those that 1.3 added; the vhost protocol's. */
#define RING_FEATURES(X)          \
        X(NOTIFY_ON_EMPTY, 24)    \
        X(LOG_ALL, 26)            \
        X(ANY_LAYOUT, 27)         \
        X(RING_INDIRECT_DESC, 28) \
        X(RING_EVENT_IDX, 29)     \
        X(PROTOCOL_FEATURES, 30)  \
        X(VERSION_1, 32)          \
        X(ACCESS_PLATFORM, 33)    \
        X(RING_PACKED, 34)        \
        X(IN_ORDER, 35)           \
        X(ORDER_PLATFORM, 36)     \
        X(SR_IOV, 37)             \
        X(NOTIFICATION_DATA, 38)  \
        X(NOTIF_CONFIG_DATA, 39)  \
        X(RING_RESET, 40)         \
        X(ADMIN_VQ, 41)

enum { FEATURE_BITS = 64 };

#define NAME(name, bit) [bit] = #name,
static const char *const names[FEATURE_BITS] = { NET_FEATURES(NAME) RING_FEATURES(NAME) };

const char *vql_feature_name(unsigned int bit)
{
        return bit < FEATURE_BITS ? names[bit] : NULL;
}

int vql_feature_bit(const char *name)
{
        for (int bit = 0; bit < FEATURE_BITS; bit++)
                if (names[bit] && strcasecmp(names[bit], name) == 0)
                        return bit;
        return -ENOENT;
}
