/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_DEQUEUE_H
#define VQLIFT_SW_FALLBACK_DEQUEUE_H

/* From the guest to packet buffers: the body of all dequeue instances. */

#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "sw-fallback/offload.h"
#include "sw-fallback/publish.h"
#include "sw-fallback/walk.h"

enum {
        VQL_HDR_MAX = 12,
        /* The largest IP packet with Ethernet header and two VLAN tags, rounded up. */
        VQL_PACKET_MAX = 65536 + 64,
};

/* What a burst knows about its chains between the steps. */
struct vql_dequeue_burst {
        struct vql_claim claim[VQL_BURST];
        const uint8_t *va[VQL_BURST]; /* the first descriptor, if it is all of the chain */
        struct vql_done done[VQL_BURST];
        uint16_t mbufs; /* first buffers of packets, taken from the pool beforehand */
        uint16_t made;  /* packets: so many of those are filled */
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
                rte_memcpy(rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len), piece.va,
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
static __rte_noinline VQL_SHARED bool vql_read_chain(struct vql_queue *q, struct vql_traits t,
                                                     const struct vql_claim *c,
                                                     struct rte_mempool *pool, struct rte_mbuf *m,
                                                     bool *ret_retry)
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

/* Where the whole chain lies if it is one readable piece that fits one buffer, else NULL. */
static inline const uint8_t *vql_simple_chain(struct vql_queue *q, const struct vql_claim *c,
                                              uint32_t room)
{
        const uint16_t odd = VRING_DESC_F_NEXT | VRING_DESC_F_INDIRECT | VRING_DESC_F_WRITE;
        uint64_t off = c->d.addr - q->hit.gpa;

        if ((c->d.flags & odd) || c->d.len <= q->hdr_len || c->d.len - q->hdr_len > room ||
            off >= q->hit.size || q->hit.size - off < c->d.len)
                return NULL;
        return q->hit.va + off;
}

/* The header is read once, into *ret_h; true if it asks for nothing. */
static inline bool vql_plain_header(const uint8_t *va, struct virtio_net_hdr *ret_h)
{
        memcpy(ret_h, va, sizeof(*ret_h));
        return (ret_h->flags | ret_h->gso_type) == 0;
}

static inline bool vql_read_simple(struct vql_queue *q, struct vql_traits t,
                                   const struct vql_claim *c, const uint8_t *va, struct rte_mbuf *m)
{
        uint32_t len = c->d.len - q->hdr_len;
        struct virtio_net_hdr h;

        rte_memcpy(rte_pktmbuf_mtod(m, uint8_t *), va + q->hdr_len, len);
        m->data_len = (uint16_t)len;
        m->pkt_len = len;
        if (t.offloads && unlikely(!vql_plain_header(va, &h)) &&
            vql_offload_from_guest(m, &h) < 0) {
                vql_count(&q->drop_offload, 1);
                return false;
        }
        return true;
}

/* Give n chains back unread: the ring is started but disabled. */
static inline uint16_t vql_discard(struct vql_queue *q, struct vql_traits t,
                                   struct vql_dequeue_burst *b, uint16_t n)
{
        for (uint16_t i = 0; i < n; i++)
                b->done[i] = (struct vql_done){ 0, b->claim[i].id, b->claim[i].slots };
        vql_count(&q->drop_disabled, n);
        vql_publish(q, t, b->done, n);
        return 0;
}

/* Take the first buffers of up to n packets; fewer if the pool has fewer. */
static inline uint16_t vql_take_mbufs(struct rte_mempool *pool, struct rte_mbuf **pkts, uint16_t n)
{
        while (n > 0 && unlikely(rte_pktmbuf_alloc_bulk(pool, pkts, n) < 0))
                n /= 2;
        return n;
}

/*
 * Out of buffers in the middle of a packet.  Those that wait for later packets may be what it
 * lacks; false: there are none, and the chain must wait.
 */
static inline bool vql_return_mbufs(struct vql_dequeue_burst *b, struct rte_mbuf **pkts)
{
        const uint16_t keep = (uint16_t)(b->made + 1);

        if (b->mbufs == keep)
                return false;
        rte_pktmbuf_free_bulk(&pkts[keep], b->mbufs - keep);
        b->mbufs = keep;
        return true;
}

/* Copy n claimed chains to pkts; returns the number of chains dealt with, b->made of packets. */
static __rte_always_inline uint16_t vql_dequeue_copy(struct vql_queue *q, struct vql_traits t,
                                                     struct vql_dequeue_burst *b,
                                                     struct rte_mempool *pool,
                                                     struct rte_mbuf **pkts, uint16_t n)
{
        uint64_t bytes = 0;
        uint16_t i = 0;

        b->made = 0;
        while (i < n && b->made < b->mbufs) {
                const struct vql_claim *c = &b->claim[i];
                struct rte_mbuf *m = pkts[b->made];
                bool retry = false, good;

                if (likely(b->va[i] != NULL))
                        good = vql_read_simple(q, t, c, b->va[i], m);
                else
                        good = vql_read_chain(q, t, c, pool, m, &retry);
                if (likely(good)) {
                        bytes += m->pkt_len;
                        b->made++;
                } else {
                        vql_mbuf_empty(m);
                        if (q->fault != VQL_FAULT_NONE)
                                break;
                        if (retry && vql_return_mbufs(b, pkts))
                                continue;
                        if (retry)
                                break;
                }
                b->done[i++] = (struct vql_done){ 0, c->id, c->slots };
        }
        vql_count(&q->bytes, bytes);
        return i;
}

static __rte_always_inline uint16_t vql_dequeue_body(struct vql_queue *q, struct vql_traits t,
                                                     struct rte_mempool *pool,
                                                     struct rte_mbuf **pkts, uint16_t n)
{
        struct vql_claim_pos pos = vql_claim_begin(q);
        struct vql_dequeue_burst b;
        uint16_t chains, i;
        uint32_t room;

        /* Claim. */
        if (unlikely(q->fault != VQL_FAULT_NONE))
                return 0;
        n = vql_claim(q, t, &pos, b.claim, n < VQL_BURST ? n : VQL_BURST);
        if (n == 0)
                return 0;
        if (unlikely(!pool))
                return vql_discard(q, t, &b, n);
        b.mbufs = vql_take_mbufs(pool, pkts, n);
        if (unlikely(b.mbufs == 0)) {
                vql_count(&q->no_mbuf, 1);
                return 0;
        }

        /* Translate. */
        room = rte_pktmbuf_tailroom(pkts[0]);
        for (i = 0; i < n; i++) {
                b.va[i] = vql_simple_chain(q, &b.claim[i], room);
                if (b.va[i])
                        rte_prefetch0(b.va[i]);
        }

        /* Copy. */
        chains = vql_dequeue_copy(q, t, &b, pool, pkts, n);
        if (unlikely(b.made < b.mbufs))
                rte_pktmbuf_free_bulk(&pkts[b.made], b.mbufs - b.made);

        /* Publish. */
        vql_count(&q->no_mbuf, chains < n && q->fault == VQL_FAULT_NONE);
        vql_count(&q->packets, b.made);
        vql_publish(q, t, b.done, chains);
        return b.made;
}

#endif
