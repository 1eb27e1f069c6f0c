/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * All dequeue instances against a plain model: random packets in random chains, among them chains
 * that bear no packet.  See datapath_rig.h; --help tells how to repeat a failure.
 */

#include "datapath_rig.h"

#include <netinet/in.h>
#include <string.h>

#include <linux/virtio_net.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include "sw-fallback/worker.h"
#include "unit/eal.h"

enum {
        STEPS = 24,
        PACKETS = 40,
        LARGEST = 65536 + 64, /* a packet of this size is taken */
        L2 = sizeof(struct rte_ether_hdr),
        L3 = sizeof(struct rte_ipv4_hdr),
        L4 = sizeof(struct rte_tcp_hdr),
};

/* What a chain bears. */
enum kind {
        PLAIN,
        CHECKSUM, /* UDP whose checksum is asked for */
        SEGMENTS, /* TCP to be segmented */
        BAD,      /* an offload request that the packet does not bear out */
        SHORT,    /* nothing behind the header, or less */
        LONG,     /* more than any packet */
};

struct pools {
        struct rte_mempool *normal, *tiny, *few;
};

static const struct pools *pools(void)
{
        static struct pools p; /* DPDK's memory is the process's, too */

        if (!p.normal) {
                p.normal = test_pool("normal", 4095, 2048);
                p.tiny = test_pool("tiny", 16383, 291);
                p.few = test_pool("few", 34, 2048);
        }
        return &p;
}

/* ---- packets ---- */

static void put_ipv4(uint8_t *bytes, uint32_t len, uint8_t proto)
{
        struct rte_ether_hdr *eth = (void *)bytes;
        struct rte_ipv4_hdr *ip = (void *)(bytes + L2);

        eth->ether_type = htons(RTE_ETHER_TYPE_IPV4);
        ip->version_ihl = RTE_IPV4_VHL_DEF;
        ip->total_length = htons((uint16_t)(len - L2));
        ip->fragment_offset = 0;
        ip->next_proto_id = proto;
        if (proto == IPPROTO_TCP)
                ((struct rte_tcp_hdr *)(bytes + L2 + L3))->data_off = 5 << 4;
}

/* The packet's bytes: those of its seed, with protocol headers where the kind needs them. */
static void make_bytes(const struct dp_chain *c, uint8_t *ret_bytes)
{
        dp_fill(ret_bytes, c->packet, c->seed);
        if (c->kind == CHECKSUM)
                put_ipv4(ret_bytes, c->packet, IPPROTO_UDP);
        if (c->kind == SEGMENTS)
                put_ipv4(ret_bytes, c->packet, IPPROTO_TCP);
}

static struct virtio_net_hdr make_header(struct dp_rig *r, const struct dp_chain *c)
{
        struct virtio_net_hdr h = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = L2 + L3 };

        switch ((enum kind)c->kind) {
        case CHECKSUM:
                h.csum_offset = offsetof(struct rte_udp_hdr, dgram_cksum);
                return h;
        case SEGMENTS:
                h.csum_offset = offsetof(struct rte_tcp_hdr, cksum);
                h.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
                h.gso_size = c->gso_size;
                return h;
        case BAD:
                if (dp_once_in(r, 2))
                        return (struct virtio_net_hdr){ .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
                                                        .gso_size = 1000 };
                /* The last of the two bytes is the first behind the packet. */
                h.csum_offset = (uint16_t)dp_random(r, RTE_MIN(c->packet, 65536u));
                h.csum_start = (uint16_t)(c->packet - 1 - h.csum_offset);
                return h;
        default:
                break;
        }
        /* An instance without offloads looks at nothing: any bytes will do. */
        if (!r->s.instance->traits.offloads)
                dp_fill((uint8_t *)&h, sizeof(h), dp_random(r, UINT32_MAX));
        else
                memset(&h, 0, sizeof(h));
        return h;
}

static enum kind choose_kind(struct dp_rig *r)
{
        uint32_t n = dp_random(r, 32);

        if (dp_once_in(r, 400))
                return LONG;
        if (n < 3)
                return SHORT;
        if (r->s.instance->traits.offloads && n < 15)
                return n < 6 ? BAD : n < 11 ? CHECKSUM : SEGMENTS;
        return PLAIN;
}

/* What a chain of this kind bears, written to its pieces. */
static void fill(struct dp_rig *r, struct dp_chain *c)
{
        static uint8_t bytes[12 + LARGEST + 1];
        struct virtio_net_hdr h;

        c->seed = dp_random(r, UINT32_MAX);
        c->packet = c->kind == SHORT ? 0 : c->bytes - r->q.hdr_len;
        if (c->kind == SEGMENTS)
                c->gso_size = (uint16_t)dp_between(r, 1, c->packet - L2 - L3 - L4 - 1);
        h = make_header(r, c);
        dp_fill(bytes, 12, c->seed); /* num_buffers, which means nothing here */
        memcpy(bytes, &h, sizeof(h));
        make_bytes(c, bytes + r->q.hdr_len);
        fe_segs_write(r->mem, c->seg, c->n, bytes, c->bytes);
}

static bool post_one(struct dp_rig *r)
{
        const enum kind kind = choose_kind(r);
        uint32_t header = r->q.hdr_len, payload = dp_random_size(r);

        if (kind == SHORT) {
                header = dp_between(r, 1, header);
                payload = 0;
        } else if (kind == LONG) {
                payload = LARGEST + 1;
        } else if (kind == CHECKSUM || kind == SEGMENTS) {
                payload = RTE_MIN(payload + L2 + L3 + L4 + 2, 65535u + L2);
        } else if (dp_once_in(r, 400)) {
                payload = LARGEST;
        }
        return dp_chain_add(r, &(struct dp_load){ header, payload, kind, fill });
}

/* ---- the model ---- */

static void check_offload(struct dp_rig *r, const struct dp_chain *c, const struct rte_mbuf *m)
{
        uint64_t flags = 0;

        if (c->kind == CHECKSUM)
                flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
        if (c->kind == SEGMENTS)
                flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_TCP_SEG |
                        RTE_MBUF_F_TX_IP_CKSUM;
        DP_CHECK(r, m->ol_flags == flags, "kind %u: flags %#jx, expected %#jx", c->kind,
                 (uintmax_t)m->ol_flags, (uintmax_t)flags);
        DP_CHECK(r, !flags || (m->l2_len == L2 && m->l3_len == L3), "kind %u: headers of %u and %u",
                 c->kind, m->l2_len, m->l3_len);
        DP_CHECK(r, c->kind != SEGMENTS || (m->tso_segsz == c->gso_size && m->l4_len == L4),
                 "segments of %u, expected %u", m->tso_segsz, c->gso_size);
}

static void check_packet(struct dp_rig *r, const struct dp_chain *c, struct rte_mbuf *m)
{
        static uint8_t bytes[LARGEST + 1];
        uint32_t at = 0, segs = 0;

        make_bytes(c, bytes);
        DP_CHECK(r, m->pkt_len == c->packet, "%u bytes, expected %u", m->pkt_len, c->packet);
        for (const struct rte_mbuf *s = m; s; at += s->data_len, s = s->next, segs++) {
                DP_CHECK(r, s->data_len > 0, "buffer %u of the packet is empty", segs);
                DP_CHECK(r, at + s->data_len <= c->packet, "buffers hold more than the packet");
                DP_CHECK(r, memcmp(rte_pktmbuf_mtod(s, void *), bytes + at, s->data_len) == 0,
                         "bytes %u to %u of %u are wrong", at, at + s->data_len, c->packet);
        }
        DP_CHECK(r, at == c->packet && segs == m->nb_segs, "%u bytes in %u buffers of %u", at, segs,
                 m->nb_segs);
        check_offload(r, c, m);
}

/* How many buffers the burst has returned, by the position that it left. */
static uint32_t returned(struct dp_rig *r)
{
        int64_t at = r->at_used, laps = r->q.packed ? 2 * (int64_t)r->s.size : 65536;
        struct vql_cursor c = vql_queue_cursor(&r->q);
        uint32_t n = 0;

        for (; r->used + n < r->published; n++) {
                int64_t here = (r->s.start + at) % laps, is = c.used;

                if (r->q.packed)
                        is += (c.used_wrap ^ r->s.wrap_0) ? 0 : r->s.size;
                if (here == is)
                        break;
                at += dp_chain(r, r->used + n)->slots;
        }
        return n;
}

/* The packets of the first n buffers, against what came out; and what is to be counted. */
static void check_packets(struct dp_rig *r, uint32_t n, struct rte_mbuf **m, uint16_t made)
{
        struct vql_queue_counters *want = &r->expect;
        uint16_t seen = 0;

        for (uint32_t i = 0; i < n; i++) {
                const struct dp_chain *c = dp_chain(r, r->used + i);

                want->drop_offload += c->kind == BAD;
                want->drop_short += c->kind == SHORT;
                want->drop_too_long += c->kind == LONG;
                if (c->kind >= BAD)
                        continue;
                DP_CHECK(r, seen < made, "%u packets, expected more", made);
                check_packet(r, c, m[seen++]);
                want->packets++;
                want->bytes += c->packet;
        }
        DP_CHECK(r, seen == made, "%u packets, expected %u", made, seen);
}

static void check_counters(struct dp_rig *r, bool starved)
{
        struct vql_queue_counters is, *want = &r->expect;

        vql_queue_read_counters(&r->q, &is);
        DP_CHECK(r, (is.no_mbuf > want->no_mbuf) == starved, "out of buffers %ju times",
                 (uintmax_t)(is.no_mbuf - want->no_mbuf));
        want->no_mbuf = is.no_mbuf;
        want->signals = is.signals; /* the rig has checked these */
        want->signals_saved = is.signals_saved;
        DP_CHECK(r, memcmp(&is, want, sizeof(is)) == 0,
                 "counters: packets %ju/%ju bytes %ju/%ju short %ju/%ju, or others",
                 (uintmax_t)is.packets, (uintmax_t)want->packets, (uintmax_t)is.bytes,
                 (uintmax_t)want->bytes, (uintmax_t)is.drop_short, (uintmax_t)want->drop_short);
}

/* ---- the play ---- */

static void discard(struct dp_rig *r)
{
        uint16_t n = (uint16_t)dp_random(r, 6);
        uint32_t waiting = RTE_MIN(r->published - r->used, (uint32_t)n);

        dp_burst_begin(r);
        DP_CHECK(r, r->q.dequeue(&r->q, NULL, NULL, n) == 0, "packets without a pool");
        r->expect.drop_disabled += waiting;
        dp_burst_end(r, waiting);
        check_counters(r, false);
}

static void burst(struct dp_rig *r, struct rte_mempool *pool)
{
        uint16_t n = (uint16_t)(dp_once_in(r, 4) ? dp_random(r, PACKETS + 1) : dp_between(r, 1, 6));
        uint32_t due = RTE_MIN(r->published - r->used, RTE_MIN((uint32_t)n, (uint32_t)VQL_BURST));
        struct rte_mbuf *m[PACKETS];
        uint32_t chains;
        uint16_t made;

        dp_burst_begin(r);
        made = r->q.dequeue(&r->q, pool, m, n);
        chains = returned(r);
        /* A pool that is large enough for any packet always lets one through. */
        DP_CHECK(r, chains == due || (pool == pools()->few && chains > 0 && chains < due),
                 "%u buffers returned, expected %u", chains, due);
        check_packets(r, chains, m, made);
        dp_burst_end(r, chains);
        check_counters(r, chains < due);
        rte_pktmbuf_free_bulk(m, made);
        DP_CHECK(r, rte_mempool_in_use_count(pool) == 0, "packet buffers leak");
}

static struct rte_mempool *choose_pool(struct dp_rig *r)
{
        uint32_t n = dp_random(r, 12);

        return n == 0 ? pools()->few : n < 4 ? pools()->tiny : pools()->normal;
}

static void play(struct dp_rig *r)
{
        for (int i = 0; i < STEPS; i++) {
                for (uint32_t n = dp_once_in(r, 4) ? 60 : dp_random(r, 8); n > 0; n--)
                        if (!post_one(r))
                                break;
                if (dp_random(r, 4))
                        dp_publish(r);
                if (dp_once_in(r, 3))
                        dp_toggle_kicks(r);
                if (dp_once_in(r, 3))
                        dp_toggle_calls(r);
                if (dp_once_in(r, 12))
                        discard(r);
                else
                        burst(r, choose_pool(r));
                if (dp_random(r, 3))
                        dp_get(r, dp_random(r, 40));
        }
        dp_publish(r);
        while (r->used < r->added)
                burst(r, pools()->normal);
        dp_get(r, DP_CHAINS);
        DP_CHECK(r, r->got == r->added && fe_driver_outstanding(r->d) == 0, "buffers are lost");
}

int main(int argc, char **argv)
{
        return dp_main(argc, argv, false, play);
}
