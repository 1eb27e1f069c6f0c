/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/headers.h"

#include <netinet/in.h>

#include <rte_ip.h>
#include <rte_jhash.h>
#include <rte_mbuf.h>
#include <rte_net.h>
#include <rte_tcp.h>
#include <rte_udp.h>

enum {
        PTYPE_LAYERS = RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK,
        /* The widths of rte_mbuf's l2_len and l3_len. */
        L2_MAX = (1 << RTE_MBUF_L2_LEN_BITS) - 1,
        L3_MAX = (1 << RTE_MBUF_L3_LEN_BITS) - 1,
};

uint16_t vql_headers_checksum_offset(uint8_t proto)
{
        return proto == IPPROTO_TCP ? offsetof(struct rte_tcp_hdr, cksum)
                                    : offsetof(struct rte_udp_hdr, dgram_cksum);
}

bool vql_headers_read(const struct rte_mbuf *m, struct vql_headers *ret_headers)
{
        struct rte_net_hdr_lens lens;
        uint32_t ptype = rte_net_get_ptype(m, &lens, PTYPE_LAYERS);
        uint32_t l4 = ptype & RTE_PTYPE_L4_MASK;

        if (!RTE_ETH_IS_IPV4_HDR(ptype) && !RTE_ETH_IS_IPV6_HDR(ptype))
                return false;
        if (l4 != RTE_PTYPE_L4_TCP && l4 != RTE_PTYPE_L4_UDP)
                return false;
        if (lens.l2_len > L2_MAX || lens.l3_len > L3_MAX)
                return false;
        if (l4 == RTE_PTYPE_L4_TCP && lens.l4_len < sizeof(struct rte_tcp_hdr))
                return false;
        if ((uint32_t)lens.l2_len + lens.l3_len + lens.l4_len > m->pkt_len)
                return false;
        *ret_headers = (struct vql_headers){
                .l2 = lens.l2_len,
                .l3 = lens.l3_len,
                .l4 = lens.l4_len,
                .v6 = RTE_ETH_IS_IPV6_HDR(ptype),
                .proto = l4 == RTE_PTYPE_L4_TCP ? IPPROTO_TCP : IPPROTO_UDP,
        };
        return true;
}

/* Copy len bytes at off, wherever in the chain they lie; false: the packet has fewer. */
static bool copy_bytes(const struct rte_mbuf *m, uint32_t off, uint32_t len, void *to)
{
        const void *at = rte_pktmbuf_read(m, off, len, to);

        if (at && at != to)
                memcpy(to, at, len);
        return at != NULL;
}

uint32_t vql_headers_flow_hash(const struct rte_mbuf *m)
{
        struct rte_net_hdr_lens lens;
        uint32_t ptype = rte_net_get_ptype(m, &lens, PTYPE_LAYERS);
        uint32_t l4 = ptype & RTE_PTYPE_L4_MASK;
        bool v6 = RTE_ETH_IS_IPV6_HDR(ptype);
        uint32_t addresses = v6 ? 32 : 8, flow[9] = { 0 };

        if (!v6 && !RTE_ETH_IS_IPV4_HDR(ptype))
                return 0;
        if (!copy_bytes(m, lens.l2_len + (v6 ? 8u : 12u), addresses, flow))
                return 0;
        if (l4 == RTE_PTYPE_L4_TCP || l4 == RTE_PTYPE_L4_UDP || l4 == RTE_PTYPE_L4_SCTP)
                copy_bytes(m, (uint32_t)lens.l2_len + lens.l3_len, 4, &flow[addresses / 4]);
        return rte_jhash(flow, addresses + 4, 0);
}
