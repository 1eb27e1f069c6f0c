/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/segment.h"

#include <errno.h>
#include <netinet/in.h>

#include <rte_ethdev.h>
#include <rte_gso.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include "sw-fallback/checksum.h"
#include "sw-fallback/headers.h"
#include "sw-fallback/offload.h"

/* The packet that is cut, and how far the cutting is. */
struct cut {
        const struct vql_offload_caps *caps;
        uint16_t l2, l3, l4, headers, mss;
        bool v6, tcp;
        uint8_t tcp_flags;
        uint16_t ip_id;        /* of the original, host order */
        uint32_t sequence;     /* of the original, host order */
        uint64_t ol_flags;     /* of each segment */
        struct rte_mbuf *from; /* next payload: this buffer */
        uint32_t from_off;     /* and this offset in it */
};

static uint16_t count_segments(const struct cut *c, const struct rte_mbuf *m)
{
        return (uint16_t)((m->pkt_len - c->headers + c->mss - 1) / c->mss);
}

/* Read what the segments' headers are derived from. */
static int begin(struct cut *c, const struct vql_offload_caps *caps, struct rte_mbuf *m, uint16_t n)
{
        struct rte_ipv4_hdr ip_copy;
        struct rte_tcp_hdr tcp_copy;
        const struct rte_ipv4_hdr *ip;
        const struct rte_tcp_hdr *tcp;

        *c = (struct cut){
                .caps = caps,
                .l2 = m->l2_len,
                .l3 = m->l3_len,
                .l4 = m->l4_len,
                .mss = m->tso_segsz,
                .v6 = (m->ol_flags & RTE_MBUF_F_TX_IPV6) != 0,
                .tcp = (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0,
                .from = m,
        };
        c->headers = (uint16_t)(c->l2 + c->l3 + c->l4);
        c->from_off = c->headers;
        c->ol_flags = c->v6 ? RTE_MBUF_F_TX_IPV6 : RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
        c->ol_flags |= c->tcp ? RTE_MBUF_F_TX_TCP_CKSUM : RTE_MBUF_F_TX_UDP_CKSUM;
        if (c->mss == 0 || m->pkt_len <= c->headers ||
            c->l3 + c->l4 + RTE_MIN(m->pkt_len - c->headers, (uint32_t)c->mss) > UINT16_MAX)
                return -EINVAL;
        if ((m->pkt_len - c->headers + c->mss - 1) / c->mss > n)
                return -ENOSPC;
        ip = rte_pktmbuf_read(m, c->l2, sizeof(*ip), &ip_copy);
        tcp = rte_pktmbuf_read(m, (uint32_t)c->l2 + c->l3, c->tcp ? sizeof(*tcp) : 0, &tcp_copy);
        if (!ip || !tcp)
                return -EINVAL;
        c->ip_id = rte_be_to_cpu_16(ip->packet_id);
        if (c->tcp) {
                c->tcp_flags = tcp->tcp_flags;
                c->sequence = rte_be_to_cpu_32(tcp->sent_seq);
        }
        return 0;
}

/* Refer to the next `len` bytes of payload behind `head`. */
static int attach_payload(struct cut *c, struct rte_mbuf *head, uint32_t len)
{
        struct rte_mbuf *last = head;

        while (len > 0) {
                uint32_t n = RTE_MIN(
                        c->from->data_len > c->from_off ? c->from->data_len - c->from_off : 0, len);
                struct rte_mbuf *piece;

                if (n == 0) {
                        c->from_off -= c->from->data_len;
                        c->from = c->from->next;
                        continue;
                }
                piece = rte_pktmbuf_alloc(c->caps->indirect);
                if (!piece)
                        return -ENOMEM;
                rte_pktmbuf_attach(piece, c->from);
                piece->data_off = (uint16_t)(c->from->data_off + c->from_off);
                piece->data_len = (uint16_t)n;
                last->next = piece;
                last = piece;
                head->nb_segs++;
                head->pkt_len += n;
                c->from_off += n;
                len -= n;
        }
        return 0;
}

/* A segment with a copy of the original's headers and the next payload; NULL: out of buffers. */
static struct rte_mbuf *make_segment(struct cut *c, const struct rte_mbuf *m, uint32_t payload)
{
        struct rte_mbuf *s = rte_pktmbuf_alloc(c->caps->direct);
        uint8_t *to = s ? (uint8_t *)rte_pktmbuf_append(s, c->headers) : NULL;
        const uint8_t *headers = to ? rte_pktmbuf_read(m, 0, c->headers, to) : NULL;

        /* rte_pktmbuf_read() copies only if the bytes are not in one buffer already. */
        if (headers && headers != to)
                memcpy(to, headers, c->headers);
        if (headers && attach_payload(c, s, payload) == 0)
                return s;
        rte_pktmbuf_free(s);
        return NULL;
}

static int cut_here(struct cut *c, const struct rte_mbuf *m, struct rte_mbuf **out)
{
        uint32_t left = m->pkt_len - c->headers;
        uint16_t made = 0;

        while (left > 0) {
                uint32_t payload = RTE_MIN(left, (uint32_t)c->mss);

                out[made] = make_segment(c, m, payload);
                if (!out[made]) {
                        rte_pktmbuf_free_bulk(out, made);
                        return -ENOMEM;
                }
                made++;
                left -= payload;
        }
        return made;
}

/*
 * rte_gso knows TCP over IPv4, with the headers in the first buffer.  It repeats CWR in every
 * segment, where RFC 3168 (6.1.2) wants it in the first alone, so such packets are cut here.
 */
static bool gso_serves(const struct cut *c, const struct rte_mbuf *m)
{
        return c->tcp && !c->v6 && !(c->tcp_flags & RTE_TCP_CWR_FLAG) &&
               m->data_len >= c->headers && c->mss + c->headers <= UINT16_MAX &&
               c->mss + c->headers >= RTE_GSO_SEG_SIZE_MIN;
}

static int cut_with_gso(const struct cut *c, struct rte_mbuf *m, struct rte_mbuf **out, uint16_t n)
{
        struct rte_gso_ctx ctx = {
                .direct_pool = c->caps->direct,
                .indirect_pool = c->caps->indirect,
                .gso_types = RTE_ETH_TX_OFFLOAD_TCP_TSO,
                .gso_size = (uint16_t)(c->mss + c->headers),
        };
        int made = rte_gso_segment(m, &ctx, out, n);

        return made == 0 ? -EINVAL : made;
}

static void patch_ip(const struct cut *c, struct rte_mbuf *s, uint16_t i)
{
        uint16_t bytes = (uint16_t)(s->pkt_len - c->l2);

        if (c->v6) {
                struct rte_ipv6_hdr *ip = rte_pktmbuf_mtod_offset(s, void *, c->l2);

                ip->payload_len = rte_cpu_to_be_16((uint16_t)(bytes - sizeof(*ip)));
        } else {
                struct rte_ipv4_hdr *ip = rte_pktmbuf_mtod_offset(s, void *, c->l2);

                ip->total_length = rte_cpu_to_be_16(bytes);
                ip->packet_id = rte_cpu_to_be_16((uint16_t)(c->ip_id + i));
                ip->hdr_checksum = 0;
        }
}

static void patch_tcp(const struct cut *c, struct rte_tcp_hdr *tcp, uint16_t i, bool last)
{
        uint8_t flags = c->tcp_flags;

        if (!last)
                flags &= (uint8_t) ~(RTE_TCP_PSH_FLAG | RTE_TCP_FIN_FLAG);
        if (i > 0)
                flags &= (uint8_t)~RTE_TCP_CWR_FLAG;
        tcp->tcp_flags = flags;
        tcp->sent_seq = rte_cpu_to_be_32(c->sequence + (uint32_t)i * c->mss);
}

/* Make segment i of the copy of the original's headers, and ask for its checksums. */
static void patch_segment(const struct cut *c, struct rte_mbuf *s, uint16_t i, bool last)
{
        uint8_t *l3 = rte_pktmbuf_mtod_offset(s, uint8_t *, c->l2), *l4 = l3 + c->l3;
        uint8_t proto = c->tcp ? IPPROTO_TCP : IPPROTO_UDP;
        uint16_t bytes = (uint16_t)(s->pkt_len - c->l2 - c->l3), sum;

        patch_ip(c, s, i);
        if (c->tcp)
                patch_tcp(c, (struct rte_tcp_hdr *)l4, i, last);
        else
                ((struct rte_udp_hdr *)l4)->dgram_len = rte_cpu_to_be_16(bytes);
        sum = vql_checksum_pseudo(l3, c->v6, proto, bytes);
        memcpy(l4 + vql_headers_checksum_offset(proto), &sum, sizeof(sum));
        s->ol_flags = c->ol_flags;
        s->tx_offload = rte_mbuf_tx_offload(c->l2, c->l3, c->l4, 0, 0, 0, 0);
}

int vql_segment(const struct vql_offload_caps *caps, struct rte_mbuf *m, struct rte_mbuf **out,
                uint16_t n)
{
        struct cut c;
        int made = begin(&c, caps, m, n);

        if (made == 0)
                made = gso_serves(&c, m) && count_segments(&c, m) > 1 ? cut_with_gso(&c, m, out, n)
                                                                      : cut_here(&c, m, out);
        for (int i = 0; i < made; i++)
                patch_segment(&c, out[i], (uint16_t)i, i == made - 1);
        rte_pktmbuf_free(m);
        return made;
}
