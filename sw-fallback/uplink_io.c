/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "sw-fallback/loopback.h"
#include "sw-fallback/uplink_impl.h"

#define TX_REQUESTS                                                               \
        (RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_UDP_SEG | RTE_MBUF_F_TX_IP_CKSUM | \
         RTE_MBUF_F_TX_L4_MASK)

enum {
        BURST = 32,
        /* Segments of one packet: 64 KiB in pieces of 128 bytes.  A guest that asks for smaller
         * ones would make all others wait. */
        SEGMENTS = 512,
        DRAIN_MAX = 4096, /* some devices never run dry */
};

static uint16_t transmit(struct vql_uplink *u, uint16_t queue, struct rte_mbuf **pkts, uint16_t n)
{
        return u->loopback ? vql_loopback_send(u->loopback, queue, pkts, n)
                           : rte_eth_tx_burst(u->port_id, queue, pkts, n);
}

static uint16_t receive(struct vql_uplink *u, uint16_t queue, struct rte_mbuf **pkts, uint16_t n)
{
        return u->loopback ? vql_loopback_receive(u->loopback, queue, pkts, n)
                           : rte_eth_rx_burst(u->port_id, queue, pkts, n);
}

/* Packets on their way out; several may come of one that was handed in. */
struct batch {
        struct vql_uplink *u;
        uint16_t queue;
        uint16_t n;
        uint32_t lost; /* bit i: packet i as handed in did not get through in full */
        struct rte_mbuf *pkts[BURST];
        uint8_t from[BURST]; /* which packet it came of */
};

static void lose(struct batch *b, uint16_t i)
{
        b->lost |= UINT32_C(1) << b->from[i];
        rte_pktmbuf_free(b->pkts[i]);
}

/* Let the driver see the requests first: some want the header prepared, all may refuse. */
static void prepare_batch(struct batch *b)
{
        uint16_t good = 0;

        while (good < b->n) {
                good = (uint16_t)(good + rte_eth_tx_prepare(b->u->port_id, b->queue, &b->pkts[good],
                                                            (uint16_t)(b->n - good)));
                if (good == b->n)
                        break;
                lose(b, good);
                b->n--;
                memmove(&b->pkts[good], &b->pkts[good + 1], (b->n - good) * sizeof(b->pkts[0]));
                memmove(&b->from[good], &b->from[good + 1], b->n - good);
        }
}

static void flush_batch(struct batch *b)
{
        uint16_t sent;

        if (!b->u->loopback)
                prepare_batch(b);
        sent = transmit(b->u, b->queue, b->pkts, b->n);
        for (; sent < b->n; sent++)
                lose(b, sent);
        b->n = 0;
}

static void add_to_batch(struct batch *b, struct rte_mbuf *m, uint8_t from)
{
        b->pkts[b->n] = m;
        b->from[b->n] = from;
        b->n++;
        if (m->pkt_len > b->u->max_frame && !(m->ol_flags & RTE_MBUF_F_TX_TCP_SEG)) {
                b->n--;
                lose(b, b->n);
        } else if (b->n == BURST) {
                flush_batch(b);
        }
}

static uint16_t send_finished(struct vql_uplink *u, uint16_t queue, struct rte_mbuf **pkts,
                              uint16_t n)
{
        struct batch b = { .u = u, .queue = queue };
        struct rte_mbuf *out[SEGMENTS];

        for (uint16_t i = 0; i < n; i++) {
                int made = vql_offload_finish(&u->caps, pkts[i], out, SEGMENTS);

                if (made < 0)
                        b.lost |= UINT32_C(1) << i;
                for (int k = 0; k < made; k++)
                        add_to_batch(&b, out[k], (uint8_t)i);
        }
        flush_batch(&b);
        return (uint16_t)__builtin_popcount(b.lost);
}

uint16_t vql_uplink_send(struct vql_uplink *u, uint16_t queue, struct rte_mbuf **pkts, uint16_t n)
{
        uint64_t flags = 0;
        uint32_t longest = 0;
        bool chains = false;
        uint16_t sent;

        for (uint16_t i = 0; i < n; i++) {
                flags |= pkts[i]->ol_flags;
                longest = RTE_MAX(longest, pkts[i]->pkt_len);
                chains |= pkts[i]->nb_segs > 1;
        }
        if (unlikely((flags & TX_REQUESTS) || longest > u->max_frame ||
                     (chains && !u->caps.multi_seg)))
                return send_finished(u, queue, pkts, n);
        sent = transmit(u, queue, pkts, n);
        if (unlikely(sent < n))
                rte_pktmbuf_free_bulk(&pkts[sent], (unsigned int)(n - sent));
        return (uint16_t)(n - sent);
}

uint16_t vql_uplink_receive(struct vql_uplink *u, uint16_t queue, struct rte_mbuf **pkts,
                            uint16_t n)
{
        uint16_t got = receive(u, queue, pkts, n);

        if (unlikely(u->quirk->host_packets))
                for (uint16_t i = 0; i < got; i++)
                        vql_offload_complete(pkts[i]);
        return got;
}

void vql_uplink_drain(struct vql_uplink *u, uint16_t queue)
{
        struct rte_mbuf *pkts[BURST];
        uint16_t got = BURST;

        for (unsigned int total = 0; got == BURST && total < DRAIN_MAX; total += got) {
                got = receive(u, queue, pkts, BURST);
                rte_pktmbuf_free_bulk(pkts, got);
        }
}
