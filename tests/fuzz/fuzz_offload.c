/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A virtio-net header and a packet from a guest, on their way to a device that can do more or less
 * by itself.  The input is a few choices, the header, and the packet's bytes.
 */

#include <rte_ethdev.h>

#include "fuzz.h"
#include "packets.h"
#include "sw-fallback/headers.h"
#include "sw-fallback/offload.h"

enum { ROOM = 2048, MOST_SEGMENTS = 64, L4_CHECKSUMS = RTE_MBUF_F_TX_L4_MASK };

struct choices {
        uint8_t caps, out, piece, stretch;
};

static struct rte_mempool *direct, *indirect;

/* Few buffers, so that they run out at times. */
static void start(void)
{
        if (direct)
                return;
        fuzz_start_eal();
        direct = test_pool("direct", 127, ROOM);
        indirect = test_pool("indirect", 255, 0);
}

/* The packet in buffers of `piece` bytes, its last byte repeated `more` times; NULL: no packet. */
static struct rte_mbuf *make_packet(struct fuzz_input *in, uint16_t piece, uint32_t more)
{
        struct rte_mbuf *m = NULL;

        while (in->left + more > 0) {
                struct rte_mbuf *s = rte_pktmbuf_alloc(direct);
                uint8_t *to = s ? (uint8_t *)rte_pktmbuf_append(s, piece) : NULL;
                uint16_t n = (uint16_t)(in->left < piece ? in->left : piece);
                uint16_t rest = (uint16_t)RTE_MIN(more, (uint32_t)(piece - n));

                if (!to || (m && rte_pktmbuf_chain(m, s) < 0)) {
                        rte_pktmbuf_free(s);
                        break;
                }
                m = m ? m : s;
                FUZZ_REQUIRE(fuzz_take(in, to, n));
                memset(to + n, 0x5a, rest);
                more -= rest;
                FUZZ_REQUIRE(rte_pktmbuf_trim(m, (uint16_t)(piece - n - rest)) == 0);
        }
        return m;
}

static struct vql_offload_caps make_caps(uint8_t choice)
{
        static const uint64_t bits[] = {
                RTE_ETH_TX_OFFLOAD_IPV4_CKSUM,
                RTE_ETH_TX_OFFLOAD_TCP_CKSUM,
                RTE_ETH_TX_OFFLOAD_UDP_CKSUM,
                RTE_ETH_TX_OFFLOAD_TCP_TSO,
        };
        struct vql_offload_caps c = {
                .multi_seg = choice & 0x10,
                .direct = direct,
                .indirect = indirect,
        };

        for (int i = 0; i < 4; i++)
                c.tx_offloads |= choice >> i & 1 ? bits[i] : 0;
        return c;
}

/* Nothing is asked of the device that it does not do. */
static void check_requests(const struct vql_offload_caps *caps, const struct rte_mbuf *m)
{
        const uint64_t l4 = m->ol_flags & L4_CHECKSUMS;
        const uint64_t can = caps->tx_offloads;

        fuzz_check_packet(m);
        FUZZ_REQUIRE(caps->multi_seg || m->nb_segs == 1);
        FUZZ_REQUIRE(!(m->ol_flags & RTE_MBUF_F_TX_UDP_SEG));
        FUZZ_REQUIRE(!(m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) || (can & RTE_ETH_TX_OFFLOAD_TCP_TSO));
        if (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG)
                return; /* a device that segments fills in all checksums */
        FUZZ_REQUIRE(!(m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) ||
                     (can & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM));
        FUZZ_REQUIRE(l4 != RTE_MBUF_F_TX_TCP_CKSUM || (can & RTE_ETH_TX_OFFLOAD_TCP_CKSUM));
        FUZZ_REQUIRE(l4 != RTE_MBUF_F_TX_UDP_CKSUM || (can & RTE_ETH_TX_OFFLOAD_UDP_CKSUM));
        FUZZ_REQUIRE(!l4 || (uint32_t)m->l2_len + m->l3_len < m->pkt_len);
}

static void finish(const struct vql_offload_caps *caps, struct rte_mbuf *m, uint16_t most)
{
        const bool segments = m->ol_flags & (RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_UDP_SEG);
        const uint32_t headers = (uint32_t)m->l2_len + m->l3_len + m->l4_len;
        const uint32_t bytes = m->pkt_len;
        struct rte_mbuf *out[MOST_SEGMENTS];
        uint32_t sum = 0;
        int n = vql_offload_finish(caps, m, out, most);

        FUZZ_REQUIRE(n != 0 && n <= most);
        for (int i = 0; i < n; i++) {
                check_requests(caps, out[i]);
                sum += out[i]->pkt_len;
        }
        /* Each segment beyond the first has headers of its own, and no byte is lost. */
        if (n > 0) {
                FUZZ_REQUIRE(sum == bytes + (segments ? (uint32_t)(n - 1) * headers : 0));
                rte_pktmbuf_free_bulk(out, (unsigned int)n);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input in = { data, size };
        struct virtio_net_hdr h, back;
        struct vql_offload_caps caps;
        struct choices c;
        struct rte_mbuf *m;

        if (!fuzz_take(&in, &c, sizeof(c)) || !fuzz_take(&in, &h, sizeof(h)))
                return 0;
        start();
        caps = make_caps(c.caps);
        m = make_packet(&in, (uint16_t)(c.piece ? c.piece * 8 : ROOM), c.stretch * 64u);
        if (!m)
                return 0;
        vql_headers_flow_hash(m);
        m->ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD | RTE_MBUF_F_RX_LRO;
        m->tso_segsz = h.gso_size;
        vql_offload_to_guest(m, UINT64_MAX, &back);
        FUZZ_REQUIRE(back.hdr_len <= m->pkt_len);
        m->ol_flags = 0;
        m->tx_offload = 0;
        if (vql_offload_from_guest(m, &h) == 0) {
                fuzz_check_packet(m);
                finish(&caps, m, (uint16_t)(c.out % MOST_SEGMENTS + 1));
        } else {
                rte_pktmbuf_free(m);
        }
        FUZZ_REQUIRE(rte_mempool_in_use_count(direct) == 0);
        FUZZ_REQUIRE(rte_mempool_in_use_count(indirect) == 0);
        return 0;
}
