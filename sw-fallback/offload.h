/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_OFFLOAD_H
#define VQLIFT_SW_FALLBACK_OFFLOAD_H

/*
 * Between the virtio-net header (virtio 1.2, 5.1.6) and a packet buffer's offload fields.  The
 * header comes from the guest: nothing in it is believed before it is compared with the packet.
 */

#include <stdbool.h>
#include <stdint.h>

#include <linux/virtio_net.h>

struct rte_mbuf;
struct rte_mempool;

/*
 * From the guest.  `h` is a private copy.  Fill the mbuf's ol_flags, l2/l3/l4_len and tso_segsz so
 * that vql_offload_finish() and a device can act on them.
 * 0, or -EINVAL if the request does not fit the packet: csum_start + csum_offset + 2 beyond it, an
 * unknown gso_type, gso_size 0, headers that are not TCP or UDP over IP where the type says so,
 * segmentation without NEEDS_CSUM.  ECN beside TCP types is accepted.  A checksum that no device
 * can be asked for (neither TCP nor UDP, or inside a tunnel) is finished in the packet right away.
 */
int vql_offload_from_guest(struct rte_mbuf *m, const struct virtio_net_hdr *h);

/*
 * To the guest: what the packet's ol_flags mean in a header, given what the driver acknowledged
 * (`features`).  Good checksum: DATA_VALID if GUEST_CSUM.  A large receive-offload packet: the
 * matching gso_type if the driver has it.  All zero otherwise.
 */
void vql_offload_to_guest(const struct rte_mbuf *m, uint64_t features,
                          struct virtio_net_hdr *ret_h);

/*
 * Finish the checksum of a packet that the host's own stack sent and left to a device to finish:
 * its field holds the sum of the pseudo header.  Packets with any other field are left alone.  A
 * packet whose good checksum happens to equal that sum gets the same checksum again.
 */
void vql_offload_complete(struct rte_mbuf *m);

/* What a transmit path can do by itself. */
struct vql_offload_caps {
        uint64_t tx_offloads;                  /* RTE_ETH_TX_OFFLOAD_* to rely on */
        bool multi_seg;                        /* chained mbufs */
        struct rte_mempool *direct, *indirect; /* for segments */
};

/*
 * Do in software what the caps lack: segmentation (rte_gso, and here what that lacks), checksums,
 * linearising.  Consumes `m`; writes up to `n` packets to out and returns their number, or -errno
 * (-ENOMEM, -ENOSPC more than n segments, -EMSGSIZE too large for one buffer where the device takes
 * no more, -EINVAL) with `m` freed.
 */
int vql_offload_finish(const struct vql_offload_caps *caps, struct rte_mbuf *m,
                       struct rte_mbuf **out, uint16_t n);

#endif
