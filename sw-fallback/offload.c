/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/offload.h"

#include <errno.h>
#include <netinet/in.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "base/bits.h"
#include "sw-fallback/checksum.h"
#include "sw-fallback/headers.h"
#include "sw-fallback/segment.h"
#include "virtqueue/features.h"

#define TX_SEGMENT  (RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_UDP_SEG)
#define TX_CHECKSUM (RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK)
#define TX_FAMILY   (RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6)

static void set_lengths(struct rte_mbuf *m, const struct vql_headers *h, uint16_t segment)
{
        m->tx_offload = rte_mbuf_tx_offload(h->l2, h->l3, h->l4, segment, 0, 0, 0);
        m->ol_flags |= h->v6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4;
}

/* Is the checksum that the guest asks for that of the TCP or UDP header? */
static bool is_layer4(const struct vql_headers *p, const struct virtio_net_hdr *h)
{
        return h->csum_start == p->l2 + p->l3 &&
               h->csum_offset == vql_headers_checksum_offset(p->proto);
}

/*
 * A device can be asked for TCP and UDP checksums alone.  All others (inside of a tunnel, or of
 * another protocol) are finished here and now, as the kernel does it for a tap.
 */
static void request_checksum(struct rte_mbuf *m, const struct virtio_net_hdr *h)
{
        struct vql_headers p;

        if (!vql_headers_read(m, &p) || !is_layer4(&p, h)) {
                vql_checksum_finish(m, h->csum_start, h->csum_offset);
                return;
        }
        set_lengths(m, &p, 0);
        m->ol_flags |= p.proto == IPPROTO_TCP ? RTE_MBUF_F_TX_TCP_CKSUM : RTE_MBUF_F_TX_UDP_CKSUM;
}

/* Does the packet bear out the segmentation that the guest asks for? */
static bool segments_as_said(const struct vql_headers *p, const struct virtio_net_hdr *h)
{
        if (!is_layer4(p, h) || h->gso_size == 0)
                return false;
        switch (h->gso_type) {
        case VIRTIO_NET_HDR_GSO_TCPV4:
        case VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN:
                return p->proto == IPPROTO_TCP && !p->v6;
        case VIRTIO_NET_HDR_GSO_TCPV6:
        case VIRTIO_NET_HDR_GSO_TCPV6 | VIRTIO_NET_HDR_GSO_ECN:
                return p->proto == IPPROTO_TCP && p->v6;
        case VIRTIO_NET_HDR_GSO_UDP_L4:
                return p->proto == IPPROTO_UDP;
        default:
                return false;
        }
}

int vql_offload_from_guest(struct rte_mbuf *m, const struct virtio_net_hdr *h)
{
        struct vql_headers p;

        if (!(h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM))
                return h->gso_type == VIRTIO_NET_HDR_GSO_NONE ? 0 : -EINVAL;
        if ((uint32_t)h->csum_start + h->csum_offset + sizeof(uint16_t) > m->pkt_len)
                return -EINVAL;
        if (h->gso_type == VIRTIO_NET_HDR_GSO_NONE) {
                request_checksum(m, h);
                return 0;
        }
        if (!vql_headers_read(m, &p) || !segments_as_said(&p, h))
                return -EINVAL;
        if (m->pkt_len <= (uint32_t)p.l2 + p.l3 + p.l4 + h->gso_size) {
                request_checksum(m, h);
                return 0;
        }
        set_lengths(m, &p, h->gso_size);
        m->ol_flags |= p.proto == IPPROTO_TCP ? RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_TCP_CKSUM
                                              : RTE_MBUF_F_TX_UDP_SEG | RTE_MBUF_F_TX_UDP_CKSUM;
        if (!p.v6)
                m->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
        return 0;
}

/* What the driver may be told about a packet that the device coalesced from many, or NONE. */
static uint8_t coalesced_type(const struct rte_mbuf *m, const struct vql_headers *p,
                              uint64_t features)
{
        if (m->tso_segsz == 0 || p->proto != IPPROTO_TCP)
                return VIRTIO_NET_HDR_GSO_NONE;
        if (p->v6)
                return vql_has(features, VIRTIO_NET_F_GUEST_TSO6) ? VIRTIO_NET_HDR_GSO_TCPV6
                                                                  : VIRTIO_NET_HDR_GSO_NONE;
        return vql_has(features, VIRTIO_NET_F_GUEST_TSO4) ? VIRTIO_NET_HDR_GSO_TCPV4
                                                          : VIRTIO_NET_HDR_GSO_NONE;
}

void vql_offload_to_guest(const struct rte_mbuf *m, uint64_t features, struct virtio_net_hdr *ret_h)
{
        uint64_t l4 = m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
        struct vql_headers p;

        *ret_h = (struct virtio_net_hdr){ .gso_type = VIRTIO_NET_HDR_GSO_NONE };
        if (!vql_has(features, VIRTIO_NET_F_GUEST_CSUM) || l4 != RTE_MBUF_F_RX_L4_CKSUM_GOOD)
                return;
        ret_h->flags = VIRTIO_NET_HDR_F_DATA_VALID;
        if (!(m->ol_flags & RTE_MBUF_F_RX_LRO) || !vql_headers_read(m, &p))
                return;
        /* The checksum was verified and is not partial, so DATA_VALID stands beside the type where
         * virtio 1.2 (5.1.6.4.1) thinks of NEEDS_CSUM only; drivers take both. */
        ret_h->gso_type = coalesced_type(m, &p, features);
        if (ret_h->gso_type != VIRTIO_NET_HDR_GSO_NONE) {
                ret_h->gso_size = m->tso_segsz;
                ret_h->hdr_len = (uint16_t)(p.l2 + p.l3 + p.l4);
        }
}

static uint64_t checksum_capability(uint64_t l4)
{
        return l4 == RTE_MBUF_F_TX_TCP_CKSUM ? RTE_ETH_TX_OFFLOAD_TCP_CKSUM
                                             : RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
}

/* Take from the packet's requests what the device does not do, and do it. */
static void finish_checksums(const struct vql_offload_caps *caps, struct rte_mbuf *m)
{
        uint64_t l4 = m->ol_flags & RTE_MBUF_F_TX_L4_MASK;

        if ((m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) &&
            !(caps->tx_offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM)) {
                /* Asked for by segments alone, whose headers lie in one buffer of their own. */
                vql_checksum_ipv4(rte_pktmbuf_mtod_offset(m, void *, m->l2_len), m->l3_len);
                m->ol_flags &= ~RTE_MBUF_F_TX_IP_CKSUM;
        }
        if (l4 && !(caps->tx_offloads & checksum_capability(l4))) {
                uint8_t proto = l4 == RTE_MBUF_F_TX_TCP_CKSUM ? IPPROTO_TCP : IPPROTO_UDP;

                vql_checksum_finish(m, (uint32_t)m->l2_len + m->l3_len,
                                    vql_headers_checksum_offset(proto));
                m->ol_flags &= ~RTE_MBUF_F_TX_L4_MASK;
        }
        if (!(m->ol_flags & TX_CHECKSUM))
                m->ol_flags &= ~TX_FAMILY;
}

/* Replace a chain by one buffer.  0, -ENOMEM, or -EMSGSIZE: larger than a buffer. */
static int linearise(const struct vql_offload_caps *caps, struct rte_mbuf **m)
{
        struct rte_mbuf *copy = rte_pktmbuf_copy(*m, caps->direct, 0, UINT32_MAX);

        if (!copy)
                return -ENOMEM;
        if (copy->nb_segs > 1) {
                rte_pktmbuf_free(copy);
                return -EMSGSIZE;
        }
        rte_pktmbuf_free(*m);
        *m = copy;
        return 0;
}

/* A device that wants one buffer a packet cannot be given a packet that needs segmentation.  What
 * DPDK calls UDP segmentation is fragmentation with some drivers, so that is always done here. */
static bool device_segments(const struct vql_offload_caps *caps, const struct rte_mbuf *m)
{
        return (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) && caps->multi_seg &&
               (caps->tx_offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO);
}

int vql_offload_finish(const struct vql_offload_caps *caps, struct rte_mbuf *m,
                       struct rte_mbuf **out, uint16_t n)
{
        int made = 1, rc = 0;

        out[0] = m;
        if (m->ol_flags & TX_SEGMENT) {
                if (device_segments(caps, m))
                        return 1;
                made = vql_segment(caps, m, out, n);
        }
        for (int i = 0; i < made && rc == 0; i++) {
                if (out[i]->nb_segs > 1 && !caps->multi_seg)
                        rc = linearise(caps, &out[i]);
                if (rc == 0)
                        finish_checksums(caps, out[i]);
        }
        if (rc < 0) {
                rte_pktmbuf_free_bulk(out, (unsigned int)made);
                return rc;
        }
        return made;
}

void vql_offload_complete(struct rte_mbuf *m)
{
        struct vql_headers p;
        uint8_t bytes[2], ip[40];
        const uint8_t *l3, *field;
        uint32_t l4_bytes;
        uint16_t sum;

        if (!vql_headers_read(m, &p))
                return;
        l3 = rte_pktmbuf_read(m, p.l2, p.v6 ? 40 : 20, ip);
        field = rte_pktmbuf_read(m, (uint32_t)p.l2 + p.l3 + vql_headers_checksum_offset(p.proto),
                                 sizeof(bytes), bytes);
        if (!l3 || !field)
                return;
        l4_bytes = m->pkt_len - p.l2 - p.l3;
        sum = vql_checksum_pseudo(l3, p.v6, p.proto, l4_bytes);
        if (sum != 0 && memcmp(field, &sum, sizeof(sum)) == 0)
                vql_checksum_finish(m, (uint32_t)p.l2 + p.l3, vql_headers_checksum_offset(p.proto));
}
