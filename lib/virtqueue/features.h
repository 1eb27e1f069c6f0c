/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VIRTQUEUE_FEATURES_H
#define VQLIFT_VIRTQUEUE_FEATURES_H

/*
 * Feature bit numbers.  Those of virtio and virtio-net come from the kernel's headers; here are the
 * ones that older headers lack and the two that vhost-user adds on the same mask.
 */

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>

#ifndef VIRTIO_NET_F_GUEST_USO4
#define VIRTIO_NET_F_GUEST_USO4 54
#define VIRTIO_NET_F_GUEST_USO6 55
#define VIRTIO_NET_F_HOST_USO   56
#endif
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

enum {
        VQL_F_LOG_ALL = 26,           /* vhost: log dirty pages */
        VQL_F_PROTOCOL_FEATURES = 30, /* vhost-user: protocol features may be negotiated */
};

/* The name of a feature bit as virtio's specification has it without prefix, or NULL. */
const char *vql_feature_name(unsigned int bit);
/* The bit with that name (case does not matter), or -ENOENT. */
int vql_feature_bit(const char *name);

#endif
