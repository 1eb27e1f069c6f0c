/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * All enqueue instances against a plain model: random packets in chained mbufs, random buffers.
 * See datapath_rig.h; --help tells how to repeat a failure and how to run the long form.
 */

#include "datapath_rig.h"

#include <string.h>

#include <linux/virtio_net.h>

#include <rte_mbuf.h>

#include "sw-fallback/worker.h"
#include "unit/eal.h"

enum {
        STEPS = 24,
        PACKETS = 40, /* more than a burst takes */
        LARGEST = 65536,
        MOST_CHAINS = 256, /* of one packet */
};

/* What is to be sent, and a flat copy. */
struct packet {
        struct rte_mbuf *m;
        uint32_t len;
        bool checksum_good;
        uint8_t bytes[LARGEST];
};

static struct rte_mempool *pool(void)
{
        static struct rte_mempool *p; /* DPDK's memory is the process's, too */

        if (!p)
                p = test_pool("rx", 8191, 2048);
        return p;
}

/* ---- packets ---- */

static void append(struct dp_rig *r, struct rte_mbuf **last, struct packet *p, uint32_t at,
                   uint32_t n)
{
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool());

        DP_CHECK(r, m, "out of packet buffers");
        memcpy(rte_pktmbuf_append(m, (uint16_t)n), p->bytes + at, n);
        if (*last) {
                (*last)->next = m;
                p->m->nb_segs++;
        } else {
                p->m = m;
        }
        *last = m;
}

static void make_packet(struct dp_rig *r, struct packet *p)
{
        const bool whole = dp_once_in(r, 2);
        struct rte_mbuf *last = NULL;

        p->len = dp_random_size(r);
        p->checksum_good = dp_once_in(r, 3);
        dp_fill(p->bytes, p->len, dp_random(r, UINT32_MAX));
        for (uint32_t at = 0, n; at < p->len; at += n) {
                uint32_t most = RTE_MIN(p->len - at, 2048u);

                /* Pieces of odd sizes, small ones too, but no thousands of them. */
                n = whole ? most : dp_between(r, RTE_MIN(most, 1 + p->len / 64), most);
                append(r, &last, p, at, n);
                if (!whole && dp_once_in(r, 20))
                        append(r, &last, p, at, 0);
        }
        p->m->pkt_len = p->len;
        if (p->checksum_good)
                p->m->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
}

/* ---- the model ---- */

/* What a burst is to do with one packet. */
enum fate { SENT, TOO_BIG, NO_BUFFER };

struct outcome {
        uint16_t taken; /* packets */
        uint32_t chains;
        uint64_t packets, bytes, too_big;
};

/* How many of the buffers from number `first` on the packet takes. */
static enum fate packet_fate(struct dp_rig *r, uint32_t first, uint32_t need, uint32_t *ret_chains)
{
        const uint32_t most = r->s.instance->traits.mergeable
                                      ? RTE_MIN((uint32_t)MOST_CHAINS, (uint32_t)r->s.size)
                                      : 1;
        uint32_t room = 0, n = 0;

        while (room < need) {
                if (n == most)
                        return TOO_BIG;
                if (first + n == r->published)
                        return NO_BUFFER;
                room += dp_chain(r, first + n++)->bytes;
        }
        *ret_chains = n;
        return SENT;
}

/* Buffers that a packet did not fit may bear its traces. */
static void note_traces(struct dp_rig *r, uint32_t first, uint32_t need)
{
        for (; need > 0 && first < r->published; first++) {
                struct dp_chain *c = dp_chain(r, first);
                uint32_t here = RTE_MIN(need, c->bytes);

                dp_may_have_written(r, c, here);
                need -= here;
        }
}

static void note_sent(struct dp_rig *r, uint32_t first, uint32_t need)
{
        for (; need > 0; first++) {
                struct dp_chain *c = dp_chain(r, first);
                uint32_t here = RTE_MIN(need, c->bytes);

                dp_wrote(r, c, here);
                need -= here;
        }
}

static void check_header(struct dp_rig *r, const uint8_t *is, const struct packet *p, uint32_t n)
{
        const bool valid = r->s.instance->traits.offloads && p->checksum_good;
        struct virtio_net_hdr_mrg_rxbuf h = {
                .hdr.flags = valid ? VIRTIO_NET_HDR_F_DATA_VALID : 0,
                .num_buffers = (uint16_t)n,
        };

        DP_CHECK(r, memcmp(is, &h, r->q.hdr_len) == 0, "header of a packet in %u buffers: %s %u %u",
                 n, is[0] != h.hdr.flags ? "flags" : "others", is[0], is[10]);
}

/* The bytes of a packet in the buffers from number `first` on, and nothing beside them. */
static void check_packet(struct dp_rig *r, const struct packet *p, uint32_t first, uint32_t n)
{
        static uint8_t bytes[LARGEST + 12];
        uint32_t at = 0;

        for (uint32_t i = first; i < first + n; i++) {
                const struct dp_chain *c = dp_chain(r, i);

                at += (uint32_t)fe_segs_read(r->mem, c->seg, c->n, 0, bytes + at, c->used);
                dp_check_guard(r, c);
        }
        DP_CHECK(r, at == p->len + r->q.hdr_len, "%u bytes, expected %u", at,
                 p->len + r->q.hdr_len);
        check_header(r, bytes, p, n);
        for (uint32_t i = 0; i < p->len; i++)
                DP_CHECK(r, bytes[r->q.hdr_len + i] == p->bytes[i], "byte %u of %u is wrong", i,
                         p->len);
}

static struct outcome walk_burst(struct dp_rig *r, const struct packet *p, uint16_t n, bool check)
{
        struct outcome o = { 0 };

        for (; o.taken < n && o.taken < VQL_BURST; o.taken++) {
                uint32_t first = r->used + o.chains, need = p[o.taken].len + r->q.hdr_len, chains;
                enum fate fate = packet_fate(r, first, need, &chains);

                if (fate != SENT) {
                        if (!check)
                                note_traces(r, first, need);
                        if (fate == NO_BUFFER)
                                break;
                        o.too_big++;
                        continue;
                }
                if (check)
                        check_packet(r, &p[o.taken], first, chains);
                else
                        note_sent(r, first, need);
                o.chains += chains;
                o.packets++;
                o.bytes += p[o.taken].len;
        }
        return o;
}

static void check_counters(struct dp_rig *r, const struct outcome *o)
{
        struct vql_queue_counters is, *want = &r->expect;

        vql_queue_read_counters(&r->q, &is);
        want->packets += o->packets;
        want->bytes += o->bytes;
        want->drop_too_big += o->too_big;
        want->signals = is.signals; /* the rig has checked these */
        want->signals_saved = is.signals_saved;
        DP_CHECK(r, memcmp(&is, want, sizeof(is)) == 0,
                 "counters: packets %ju/%ju bytes %ju/%ju too big %ju/%ju, or others",
                 (uintmax_t)is.packets, (uintmax_t)want->packets, (uintmax_t)is.bytes,
                 (uintmax_t)want->bytes, (uintmax_t)is.drop_too_big, (uintmax_t)want->drop_too_big);
}

/* ---- the play ---- */

static void burst(struct dp_rig *r)
{
        static struct packet packets[PACKETS];
        struct rte_mbuf *m[PACKETS];
        uint16_t n = (uint16_t)(dp_once_in(r, 4) ? dp_random(r, PACKETS + 1) : dp_between(r, 1, 6));
        struct outcome o;
        uint16_t taken;

        for (uint16_t i = 0; i < n; i++) {
                make_packet(r, &packets[i]);
                m[i] = packets[i].m;
        }
        dp_burst_begin(r);
        o = walk_burst(r, packets, n, false);
        taken = r->q.enqueue(&r->q, m, n);
        DP_CHECK(r, taken == o.taken, "%u of %u packets dealt with, expected %u", taken, n,
                 o.taken);
        walk_burst(r, packets, n, true);
        dp_burst_end(r, o.chains);
        check_counters(r, &o);
        for (uint16_t i = 0; i < n; i++)
                rte_pktmbuf_free(m[i]);
}

/* More and smaller buffers than one packet may take: see MOST_CHAINS. */
static void flood(struct dp_rig *r)
{
        for (int i = 0; i < MOST_CHAINS + 40; i++)
                if (!dp_chain_add(r, &(struct dp_load){ r->q.hdr_len, dp_random(r, 24), 0, NULL }))
                        return;
}

static void post(struct dp_rig *r)
{
        const uint32_t least = r->s.instance->traits.mergeable ? r->q.hdr_len : 1;

        for (uint32_t n = dp_once_in(r, 4) ? 60 : dp_random(r, 8); n > 0; n--) {
                uint32_t bytes = dp_once_in(r, 4) ? dp_random_size(r) : dp_between(r, 200, 2100);
                uint32_t header;

                bytes = RTE_MAX(bytes + 12 * dp_random(r, 2), least);
                header = RTE_MIN(bytes, r->q.hdr_len);
                if (!dp_chain_add(r, &(struct dp_load){ header, bytes - header, 0, NULL }))
                        return;
        }
}

static void play(struct dp_rig *r)
{
        for (int i = 0; i < STEPS; i++) {
                if (r->s.instance->traits.mergeable && dp_once_in(r, 10))
                        flood(r);
                else
                        post(r);
                if (dp_random(r, 4))
                        dp_publish(r);
                if (dp_once_in(r, 3))
                        dp_toggle_kicks(r);
                if (dp_once_in(r, 3))
                        dp_toggle_calls(r);
                burst(r);
                if (dp_random(r, 3))
                        dp_get(r, dp_random(r, 40));
        }
        dp_get(r, DP_CHAINS);
        for (uint32_t i = r->got; i < r->added; i++)
                dp_check_guard(r, dp_chain(r, i));
        DP_CHECK(r, fe_driver_outstanding(r->d) == r->added - r->got, "buffers are lost");
        DP_CHECK(r, rte_mempool_in_use_count(pool()) == 0, "packet buffers leak");
}

int main(int argc, char **argv)
{
        return dp_main(argc, argv, true, play);
}
