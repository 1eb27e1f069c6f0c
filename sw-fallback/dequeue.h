/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_DEQUEUE_H
#define VQLIFT_SW_FALLBACK_DEQUEUE_H

/* From the guest to packet buffers: the body of all dequeue instances. */

#include <rte_mbuf.h>

#include "sw-fallback/copy.h"
#include "sw-fallback/offload.h"
#include "sw-fallback/simple.h"
#include "sw-fallback/walk.h"

enum {
        VQL_HDR_MAX = 12,
        /* The largest IP packet with Ethernet header and two VLAN tags, rounded up. */
        VQL_PACKET_MAX = 65536 + 64,
};

/* Copy a walker's next bytes; false: the chain has fewer. */
static inline bool vql_read_bytes(struct vql_queue *q, struct vql_traits t, struct vql_walk *w,
                                  uint8_t *to, uint32_t len)
{
        struct vql_piece piece;

        while (len > 0) {
                if (!vql_walk_next(q, t, w, len, &piece))
                        return false;
                memcpy(to, piece.va, piece.len);
                to += piece.len;
                len -= piece.len;
        }
        return true;
}

/* Append an empty buffer to the packet `m` whose last one is `last`; NULL: there is none. */
static inline struct rte_mbuf *vql_mbuf_extend(struct rte_mempool *pool, struct rte_mbuf *m,
                                               struct rte_mbuf *last)
{
        last->next = rte_pktmbuf_alloc(pool);
        if (last->next)
                m->nb_segs++;
        return last->next;
}

/*
 * Copy the rest of a chain behind `m`, in as many further buffers as it takes.
 * 0, -EMSGSIZE too long, -ENOBUFS out of buffers.  The end of the chain, or q->fault, ends it.
 */
static inline int vql_read_payload(struct vql_queue *q, struct vql_traits t, struct vql_walk *w,
                                   struct rte_mempool *pool, struct rte_mbuf *m)
{
        const uint32_t whole = rte_pktmbuf_tailroom(m);
        struct rte_mbuf *last = m;
        struct vql_piece piece;

        for (;;) {
                uint32_t room = rte_pktmbuf_tailroom(last);

                if (!vql_walk_next(q, t, w, room ? room : whole, &piece))
                        return 0;
                if (m->pkt_len + piece.len > VQL_PACKET_MAX)
                        return -EMSGSIZE;
                if (room == 0) {
                        last = vql_mbuf_extend(pool, m, last);
                        if (!last)
                                return -ENOBUFS;
                }
                vql_copy(rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len), piece.va,
                         piece.len);
                last->data_len = (uint16_t)(last->data_len + piece.len);
                m->pkt_len += piece.len;
        }
}

/* A buffer that got too little or too much is handed out again: empty it. */
static inline void vql_mbuf_empty(struct rte_mbuf *m)
{
        rte_pktmbuf_free(m->next);
        m->next = NULL;
        m->nb_segs = 1;
        m->data_len = 0;
        m->pkt_len = 0;
        m->ol_flags = 0;
        m->tx_offload = 0;
}

/*
 * Fill `m` from a chain of any shape.  True: a packet.  False: the chain bears none, for the reason
 * that was counted, or q->fault is set and the chain must not be returned, or (*ret_retry) buffers
 * ran out and the chain must wait.
 */
static bool vql_read_chain(struct vql_queue *q, struct vql_traits t, const struct vql_claim *c,
                           struct rte_mempool *pool, struct rte_mbuf *m, bool *ret_retry)
{
        struct virtio_net_hdr_mrg_rxbuf hdr;
        struct vql_walk w;
        int rc;

        vql_walk_begin(&w, q, t, c);
        if (!vql_read_bytes(q, t, &w, (uint8_t *)&hdr, q->hdr_len)) {
                vql_count(&q->drop_short, q->fault == VQL_FAULT_NONE);
                return false;
        }
        rc = vql_read_payload(q, t, &w, pool, m);
        if (q->fault != VQL_FAULT_NONE)
                return false;
        if (rc == -ENOBUFS) {
                *ret_retry = true;
                return false;
        }
        if (rc < 0 || m->pkt_len == 0) {
                vql_count(&q->drop_too_long, rc < 0);
                vql_count(&q->drop_short, rc == 0);
                return false;
        }
        if (t.offloads && unlikely(hdr.hdr.flags || hdr.hdr.gso_type) &&
            vql_offload_from_guest(m, &hdr.hdr) < 0) {
                vql_count(&q->drop_offload, 1);
                return false;
        }
        return true;
}

/* Give up to n chains back unread: the ring is started but disabled. */
static uint16_t vql_discard(struct vql_queue *q, struct vql_traits t, uint16_t n)
{
        struct vql_claim_pos pos = vql_claim_begin(q);
        struct vql_claim claim[VQL_BURST];
        struct vql_done done[VQL_BURST];

        n = vql_claim(q, t, &pos, claim, n);
        for (uint16_t i = 0; i < n; i++)
                done[i] = (struct vql_done){ 0, claim[i].id, claim[i].slots };
        vql_count(&q->drop_disabled, n);
        if (n > 0)
                vql_commit(q, t, done, n);
        return n;
}

enum vql_dequeue_result {
        VQL_DEQUEUE_PACKET,
        VQL_DEQUEUE_DROPPED, /* a chain was given back without a packet */
        VQL_DEQUEUE_STOP,    /* nothing there, out of buffers, or a fault */
};

/* One chain by the general way. */
static __rte_noinline VQL_SHARED enum vql_dequeue_result vql_dequeue_general(
        struct vql_queue *q, struct vql_traits t, struct rte_mempool *pool,
        struct rte_mbuf **ret_packet)
{
        struct vql_claim_pos pos = vql_claim_begin(q);
        struct vql_claim c;
        struct vql_done done;
        struct rte_mbuf *m;
        bool retry = false, good;

        if (vql_claim(q, t, &pos, &c, 1) == 0)
                return VQL_DEQUEUE_STOP;
        m = rte_pktmbuf_alloc(pool);
        good = m && vql_read_chain(q, t, &c, pool, m, &retry);
        if (!good)
                rte_pktmbuf_free(m);
        if (!m || retry || q->fault != VQL_FAULT_NONE) {
                vql_count(&q->no_mbuf, !m || retry);
                return VQL_DEQUEUE_STOP;
        }
        done = (struct vql_done){ 0, c.id, c.slots };
        vql_commit(q, t, &done, 1);
        *ret_packet = m;
        return good ? VQL_DEQUEUE_PACKET : VQL_DEQUEUE_DROPPED;
}

/* The fields that are stored together below lie together. */
static_assert(offsetof(struct rte_mbuf, refcnt) == offsetof(struct rte_mbuf, data_off) + 2 &&
                      offsetof(struct rte_mbuf, nb_segs) ==
                              offsetof(struct rte_mbuf, data_off) + 4 &&
                      offsetof(struct rte_mbuf, port) == offsetof(struct rte_mbuf, data_off) + 6,
              "rearm word of rte_mbuf");
static_assert(offsetof(struct rte_mbuf, pkt_len) == offsetof(struct rte_mbuf, packet_type) + 4 &&
                      offsetof(struct rte_mbuf, data_len) ==
                              offsetof(struct rte_mbuf, packet_type) + 8 &&
                      offsetof(struct rte_mbuf, vlan_tci) ==
                              offsetof(struct rte_mbuf, packet_type) + 10,
              "lengths of rte_mbuf");

/*
 * Make a packet of one raw buffer, as receive functions of drivers do: what free buffers keep (no
 * next, one segment, one reference) and what has no meaning without flags (tx_offload, on a line of
 * its own) is left alone.
 */
static __rte_always_inline void vql_mbuf_start(struct rte_mbuf *m, uint32_t len)
{
        if (!vql_idea(VQL_IDEA_RAW_MBUF)) {
                rte_pktmbuf_reset(m);
                m->data_len = (uint16_t)len;
                m->pkt_len = len;
                return;
        }
        const uint64_t rearm = RTE_PKTMBUF_HEADROOM | UINT64_C(1) << 16 | UINT64_C(1) << 32 |
                               (uint64_t)RTE_MBUF_PORT_INVALID << 48;
        const uint64_t lengths[2] = { (uint64_t)len << 32, len };

        memcpy((uint8_t *)m + offsetof(struct rte_mbuf, data_off), &rearm, sizeof(rearm));
        m->ol_flags = 0;
        memcpy((uint8_t *)m + offsetof(struct rte_mbuf, packet_type), lengths, sizeof(lengths));
}

/* Fill an mbuf from chain i of a run.  False: its offload request is bad. */
static __rte_always_inline bool vql_simple_read(struct vql_queue *q, struct vql_traits t,
                                                const struct vql_simple *s, uint32_t i,
                                                struct rte_mbuf *m)
{
        const uint32_t len = (uint32_t)s->word[i];
        struct virtio_net_hdr h;

        /* A private copy: the guest may change it between the look and the use. */
        if (t.offloads)
                memcpy(&h, s->head[i], sizeof(h));
        vql_mbuf_start(m, len);
        vql_copy(rte_pktmbuf_mtod(m, uint8_t *), s->data[i], len);
        if (!t.offloads || likely((h.flags | h.gso_type) == 0))
                return true;
        if (vql_offload_from_guest(m, &h) == 0)
                return true;
        vql_count(&q->drop_offload, 1);
        return false;
}

/* A burst: where its packets go, and what it has made so far. */
struct vql_taking {
        struct rte_mempool *pool;
        struct rte_mbuf **pkts;
        uint32_t chains;  /* returned, with or without a packet */
        uint32_t packets; /* in pkts */
        uint32_t simple;  /* packets from runs */
        uint64_t bytes;   /* of those */
};

/* Of n chains that are wanted, as many as one run takes. */
static __rte_always_inline uint32_t vql_run(uint32_t n)
{
        return !vql_idea(VQL_IDEA_BATCH) ? 1 : n < VQL_RUN ? n : VQL_RUN;
}

/* Copy and return a run: as many chains as there are buffers for; false: not all of it. */
static __rte_always_inline bool vql_simple_take(struct vql_queue *q, struct vql_traits t,
                                                struct vql_simple_pos *p,
                                                const struct vql_simple *s, struct vql_taking *b)
{
        struct vql_simple_out out = vql_simple_open(q, t, p);
        struct rte_mbuf **pkts = &b->pkts[b->packets];
        uint32_t n = s->n, made = 0;

        while (unlikely(n > 0 && rte_mempool_get_bulk(b->pool, (void **)pkts, n) < 0))
                n /= 2;
        for (uint32_t i = 0; i < n; i++) {
                if (likely(vql_simple_read(q, t, s, i, pkts[made]))) {
                        b->bytes += (uint32_t)s->word[i];
                        made++;
                } else {
                        vql_mbuf_empty(pkts[made]);
                }
                vql_simple_return(q, t, &out, s->word[i]);
        }
        vql_simple_close(q, t, p, &out, n);
        if (unlikely(made < n))
                rte_pktmbuf_free_bulk(&pkts[made], n - made);
        b->chains += n;
        b->packets += made;
        b->simple += made;
        return n == s->n;
}

/* One chain by the general way.  False: the burst ends here. */
static __rte_always_inline bool vql_general_take(struct vql_queue *q, struct vql_traits t,
                                                 struct vql_taking *b)
{
        struct rte_mbuf **m = &b->pkts[b->packets];
        const enum vql_dequeue_result r = vql_dequeue_general(q, t, b->pool, m);

        if (r == VQL_DEQUEUE_STOP)
                return false;
        b->chains++;
        if (r == VQL_DEQUEUE_PACKET) {
                b->packets++;
                vql_count(&q->packets, 1);
                vql_count(&q->bytes, (*m)->pkt_len);
        }
        return true;
}

/*
 * Runs of simple chains, and one chain by the general way where a run ends early.  A chain counts
 * whether or not it bears a packet, so that a guest cannot keep us here.
 */
static __rte_always_inline void vql_dequeue_body(struct vql_queue *q, struct vql_traits t,
                                                 struct vql_taking *b, uint32_t n)
{
        const uint32_t room =
                (uint32_t)(rte_pktmbuf_data_room_size(b->pool) - RTE_PKTMBUF_HEADROOM);
        uint64_t first;
        struct vql_simple_pos p = vql_simple_begin(q, t, &first);
        struct vql_simple s = { .empty = false };
        uint32_t most;

        while (b->chains < n && (most = vql_simple_most(&p, vql_run(n - b->chains))) > 0) {
                if (likely(q->hdr_len == VQL_SIMPLE_HDR)) {
                        vql_simple_tx(t, &p, room, most, &s);
                        if (unlikely(!vql_simple_take(q, t, &p, &s, b))) {
                                vql_count(&q->no_mbuf, 1);
                                break;
                        }
                        if (likely(s.n == most))
                                continue;
                }
                if (s.empty)
                        break;
                vql_simple_publish(q, t, &p);
                if (!vql_general_take(q, t, b))
                        break;
                p = vql_simple_begin(q, t, &first);
        }
        vql_simple_publish(q, t, &p);
}

static __rte_always_inline uint16_t vql_dequeue_packets(struct vql_queue *q, struct vql_traits t,
                                                        struct rte_mempool *pool,
                                                        struct rte_mbuf **pkts, uint16_t n)
{
        struct vql_taking b = { .pool = pool, .pkts = pkts };

        vql_dequeue_body(q, t, &b, n);
        if (b.simple > 0) {
                vql_count(&q->packets, b.simple);
                vql_count(&q->bytes, b.bytes);
        }
        if (b.chains > 0)
                vql_signal_used(q);
        return (uint16_t)b.packets;
}

/* The whole of a dequeue instance. */
static __rte_always_inline uint16_t vql_dequeue(struct vql_queue *q, struct vql_traits t,
                                                struct rte_mempool *pool, struct rte_mbuf **pkts,
                                                uint16_t n)
{
        if (unlikely(q->fault != VQL_FAULT_NONE))
                return 0;
        if (n > VQL_BURST)
                n = VQL_BURST;
        if (likely(pool != NULL))
                return vql_dequeue_packets(q, t, pool, pkts, n);
        if (vql_discard(q, t, n) > 0)
                vql_signal_used(q);
        return 0;
}

#endif
