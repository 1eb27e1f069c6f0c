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

/* Fill an mbuf from chain i of a run.  False: its offload request is bad. */
static __rte_always_inline bool vql_simple_read(struct vql_queue *q, struct vql_traits t,
                                                const struct vql_simple *s, uint16_t i,
                                                struct rte_mbuf *m)
{
        struct virtio_net_hdr h;

        /* A private copy: the guest may change it between the look and the use. */
        if (t.offloads)
                memcpy(&h, s->head[i], sizeof(h));
        vql_copy(rte_pktmbuf_mtod(m, uint8_t *), s->data[i], s->len[i]);
        m->data_len = (uint16_t)s->len[i];
        m->pkt_len = s->len[i];
        if (!t.offloads || likely((h.flags | h.gso_type) == 0))
                return true;
        if (vql_offload_from_guest(m, &h) == 0)
                return true;
        vql_count(&q->drop_offload, 1);
        return false;
}

/* Take a run of simple chains: as many as there are buffers for.  Returns the number of packets. */
static __rte_always_inline uint16_t vql_simple_take(struct vql_queue *q, struct vql_traits t,
                                                    struct vql_simple *s, struct rte_mempool *pool,
                                                    struct rte_mbuf **pkts)
{
        uint16_t made = 0;
        uint64_t bytes = 0;

        while (unlikely(rte_pktmbuf_alloc_bulk(pool, pkts, s->n) < 0)) {
                s->n /= 2;
                if (s->n == 0)
                        return 0;
        }
        for (uint16_t i = 0; i < s->n; i++) {
                if (likely(vql_simple_read(q, t, s, i, pkts[made]))) {
                        bytes += s->len[i];
                        made++;
                } else {
                        vql_mbuf_empty(pkts[made]);
                }
        }
        if (unlikely(made < s->n))
                rte_pktmbuf_free_bulk(&pkts[made], (unsigned int)(s->n - made));
        vql_simple_commit(q, t, s, s->n);
        vql_count(&q->packets, made);
        vql_count(&q->bytes, bytes);
        return made;
}

static __rte_always_inline void vql_simple_tx(const struct vql_queue *q, struct vql_traits t,
                                              uint32_t room, uint16_t n, struct vql_simple *s)
{
        if (t.packed)
                vql_simple_tx_packed(q, t, room, n, s);
        else
                vql_simple_tx_split(q, t, room, n, s);
}

/*
 * Runs of simple chains, and one chain by the general way where a run ends early.  A chain counts
 * whether or not it bears a packet, so that a guest cannot keep us here.
 */
static __rte_always_inline uint16_t vql_dequeue_body(struct vql_queue *q, struct vql_traits t,
                                                     struct rte_mempool *pool,
                                                     struct rte_mbuf **pkts, uint16_t n)
{
        const uint32_t room = (uint32_t)(rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM);
        uint16_t chains = 0, made = 0;
        struct vql_simple s;

        while (chains < n) {
                enum vql_dequeue_result r;

                vql_simple_tx(q, t, room, (uint16_t)(n - chains), &s);
                if (likely(s.n > 0)) {
                        const uint16_t wanted = s.n;

                        made = (uint16_t)(made + vql_simple_take(q, t, &s, pool, &pkts[made]));
                        chains = (uint16_t)(chains + s.n);
                        if (unlikely(s.n < wanted)) {
                                vql_count(&q->no_mbuf, 1);
                                break;
                        }
                }
                if (s.empty || chains == n)
                        break;
                r = vql_dequeue_general(q, t, pool, &pkts[made]);
                if (r == VQL_DEQUEUE_STOP)
                        break;
                chains++;
                made = (uint16_t)(made + (r == VQL_DEQUEUE_PACKET));
                if (r == VQL_DEQUEUE_PACKET) {
                        vql_count(&q->packets, 1);
                        vql_count(&q->bytes, pkts[made - 1]->pkt_len);
                }
        }
        if (chains > 0)
                vql_signal_used(q);
        return made;
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
                return vql_dequeue_body(q, t, pool, pkts, n);
        if (vql_discard(q, t, n) > 0)
                vql_signal_used(q);
        return 0;
}

#endif
