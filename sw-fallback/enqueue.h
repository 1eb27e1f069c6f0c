/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_ENQUEUE_H
#define VQLIFT_SW_FALLBACK_ENQUEUE_H

/* From packet buffers to the guest: the body of all enqueue instances. */

#include <rte_mbuf.h>

#include "sw-fallback/copy.h"
#include "sw-fallback/offload.h"
#include "sw-fallback/simple.h"
#include "sw-fallback/walk.h"

enum {
        VQL_MERGE_MAX = 256,  /* most chains that one packet may be spread over */
        LIKELY_BUFFER = 1536, /* what guests post for merging, at the least */
};

/* Chains that were claimed ahead, and chains that were filled and wait for publication. */
struct vql_enqueue_burst {
        struct vql_claim claim[VQL_BURST];
        struct vql_claim_pos pos; /* behind the last claimed chain */
        uint16_t next, claimed;   /* claim[next .. claimed) are unused */
        uint16_t ahead;           /* how many to claim at once */
        uint16_t staged;
        struct vql_done done[VQL_MERGE_MAX];
};

/* One packet on its way: the chain that is being filled, and where num_buffers went. */
struct vql_writer {
        struct vql_walk walk;
        const struct vql_claim *claim;
        uint32_t in_chain; /* bytes written to the current chain */
        uint16_t chains;
        uint8_t *count_va[2]; /* the two bytes of num_buffers */
        uint64_t count_gpa[2];
};

enum vql_write_result {
        VQL_WRITE_OK,
        VQL_WRITE_NO_BUFFER, /* the guest has no more chains now */
        VQL_WRITE_TOO_BIG,   /* the packet can never fit the chains it may use */
        VQL_WRITE_FAULT,     /* q->fault */
};

/* The next unused chain, claimed if need be; NULL if there is none or on a fault. */
static inline const struct vql_claim *vql_next_chain(struct vql_queue *q, struct vql_traits t,
                                                     struct vql_enqueue_burst *b)
{
        if (b->next == b->claimed) {
                b->next = 0;
                b->claimed = vql_claim(q, t, &b->pos, b->claim, b->ahead);
                if (b->claimed == 0)
                        return NULL;
        }
        return &b->claim[b->next++];
}

/* Close the current chain and open the next one. */
static inline enum vql_write_result vql_writer_turn(struct vql_queue *q, struct vql_traits t,
                                                    struct vql_enqueue_burst *b,
                                                    struct vql_writer *w)
{
        if (w->claim) {
                if (!t.mergeable || w->chains == VQL_MERGE_MAX || w->chains == q->size)
                        return VQL_WRITE_TOO_BIG;
                b->done[b->staged++] =
                        (struct vql_done){ w->in_chain, w->claim->id, w->claim->slots };
        }
        w->claim = vql_next_chain(q, t, b);
        if (!w->claim)
                return q->fault != VQL_FAULT_NONE ? VQL_WRITE_FAULT : VQL_WRITE_NO_BUFFER;
        vql_walk_begin(&w->walk, q, t, w->claim);
        w->in_chain = 0;
        w->chains++;
        return VQL_WRITE_OK;
}

/* A writable piece of at most `want` bytes, from the next chain if this one is full. */
static inline enum vql_write_result vql_writer_piece(struct vql_queue *q, struct vql_traits t,
                                                     struct vql_enqueue_burst *b,
                                                     struct vql_writer *w, uint32_t want,
                                                     struct vql_piece *ret_piece)
{
        while (!w->claim || !vql_walk_next(q, t, &w->walk, want, ret_piece)) {
                enum vql_write_result r;

                if (q->fault != VQL_FAULT_NONE)
                        return VQL_WRITE_FAULT;
                r = vql_writer_turn(q, t, b, w);
                if (r != VQL_WRITE_OK)
                        return r;
        }
        w->in_chain += ret_piece->len;
        return VQL_WRITE_OK;
}

static inline enum vql_write_result vql_write_header(struct vql_queue *q, struct vql_traits t,
                                                     struct vql_enqueue_burst *b,
                                                     struct vql_writer *w,
                                                     const struct virtio_net_hdr_mrg_rxbuf *hdr)
{
        const uint32_t count_at = offsetof(struct virtio_net_hdr_mrg_rxbuf, num_buffers);
        const uint8_t *bytes = (const uint8_t *)hdr;
        uint32_t at = 0;

        while (at < q->hdr_len) {
                struct vql_piece p;
                enum vql_write_result r = vql_writer_piece(q, t, b, w, q->hdr_len - at, &p);

                if (r != VQL_WRITE_OK)
                        return r;
                memcpy(p.va, bytes + at, p.len);
                if (t.logging)
                        vql_dirty_log_mark(q->log, p.gpa, p.len);
                for (uint32_t i = 0; i < 2; i++) {
                        if (count_at + i >= at && count_at + i < at + p.len) {
                                w->count_va[i] = p.va + (count_at + i - at);
                                w->count_gpa[i] = p.gpa + (count_at + i - at);
                        }
                }
                at += p.len;
        }
        return VQL_WRITE_OK;
}

static inline enum vql_write_result vql_write_payload(struct vql_queue *q, struct vql_traits t,
                                                      struct vql_enqueue_burst *b,
                                                      struct vql_writer *w,
                                                      const struct rte_mbuf *m)
{
        for (; m; m = m->next) {
                const uint8_t *from = rte_pktmbuf_mtod(m, const uint8_t *);
                uint32_t left = m->data_len;

                while (left > 0) {
                        struct vql_piece p;
                        enum vql_write_result r = vql_writer_piece(q, t, b, w, left, &p);

                        if (r != VQL_WRITE_OK)
                                return r;
                        vql_copy(p.va, from, p.len);
                        if (t.logging)
                                vql_dirty_log_mark(q->log, p.gpa, p.len);
                        from += p.len;
                        left -= p.len;
                }
        }
        return VQL_WRITE_OK;
}

/* The header went out with num_buffers 1; now the true number is known. */
static inline void vql_write_count(struct vql_queue *q, struct vql_traits t, struct vql_writer *w)
{
        const uint8_t bytes[2] = { (uint8_t)w->chains, (uint8_t)(w->chains >> 8) };

        for (uint32_t i = 0; i < 2; i++) {
                *w->count_va[i] = bytes[i];
                if (t.logging)
                        vql_dirty_log_mark(q->log, w->count_gpa[i], 1);
        }
}

/* Fill chains of any shape with one packet.  Anything but OK leaves the burst as it was before. */
static inline enum vql_write_result vql_write_packet(struct vql_queue *q, struct vql_traits t,
                                                     struct vql_enqueue_burst *b,
                                                     const struct virtio_net_hdr_mrg_rxbuf *hdr,
                                                     const struct rte_mbuf *m)
{
        struct vql_writer w = { 0 };
        enum vql_write_result r = vql_write_header(q, t, b, &w, hdr);

        if (r == VQL_WRITE_OK)
                r = vql_write_payload(q, t, b, &w, m);
        if (r != VQL_WRITE_OK)
                return r;
        if (!w.claim) /* there is always a header, and it took a chain */
                return VQL_WRITE_NO_BUFFER;
        if (t.mergeable && w.chains > 1)
                vql_write_count(q, t, &w);
        b->done[b->staged++] = (struct vql_done){ w.in_chain, w.claim->id, w.claim->slots };
        return VQL_WRITE_OK;
}

static __rte_always_inline void vql_make_header(const struct vql_queue *q, struct vql_traits t,
                                                const struct rte_mbuf *m,
                                                struct virtio_net_hdr_mrg_rxbuf *hdr)
{
        *hdr = (struct virtio_net_hdr_mrg_rxbuf){
                /* virtio 1.2, 5.1.6.4.1: 1 also where MRG_RXBUF was not negotiated. */
                .num_buffers = 1,
        };
        if (t.offloads && unlikely(m->ol_flags))
                vql_offload_to_guest(m, q->features, &hdr->hdr);
}

/* One packet by the general way.  False: stop the burst here, the packet was not dealt with. */
static __rte_noinline VQL_SHARED bool vql_enqueue_general(struct vql_queue *q, struct vql_traits t,
                                                          const struct rte_mbuf *m, bool *ret_moved)
{
        struct virtio_net_hdr_mrg_rxbuf hdr;
        struct vql_enqueue_burst b;

        b.pos = vql_claim_begin(q);
        b.next = b.claimed = b.staged = 0;
        b.ahead = (uint16_t)RTE_MIN(m->pkt_len / LIKELY_BUFFER + 1, (uint32_t)VQL_BURST);
        vql_make_header(q, t, m, &hdr);
        switch (vql_write_packet(q, t, &b, &hdr, m)) {
        case VQL_WRITE_OK:
                vql_commit(q, t, b.done, b.staged);
                vql_count(&q->packets, 1);
                vql_count(&q->bytes, m->pkt_len);
                *ret_moved = true;
                return true;
        case VQL_WRITE_TOO_BIG:
                vql_count(&q->drop_too_big, 1);
                return true;
        default:
                return false;
        }
}

static __rte_always_inline void vql_store_header(uint8_t *va, const void *hdr, uint8_t len)
{
        memcpy(va, hdr, 8);
        if (likely(len == 12))
                memcpy(va + 8, (const uint8_t *)hdr + 8, 4);
        else
                memcpy(va + 8, (const uint8_t *)hdr + 8, 2);
}

static __rte_always_inline bool vql_same_header(const uint8_t *va, const void *hdr, uint8_t len)
{
        return memcmp(va, hdr, 8) == 0 && memcmp(va + 8, (const uint8_t *)hdr + 8, 2) == 0 &&
               (len == 10 || memcmp(va + 10, (const uint8_t *)hdr + 10, 2) == 0);
}

/*
 * DPDK guests put the header at the end of a cache line whose other bytes nobody touches.  Such a
 * line is not made dirty if it holds the right header already, as it nearly always does.
 */
static __rte_always_inline void vql_simple_header(uint8_t *va, const void *hdr, uint8_t len)
{
        const bool own_line = ((uintptr_t)va + len) % VQL_CACHE_LINE == 0;

        if (!own_line || !vql_same_header(va, hdr, len))
                vql_store_header(va, hdr, len);
}

/* Fill a run of simple chains with as many packets. */
static __rte_always_inline void vql_simple_put(struct vql_queue *q, struct vql_traits t,
                                               const struct vql_simple *s, struct rte_mbuf **pkts)
{
        uint64_t bytes = 0;

        for (uint16_t i = 0; i < s->n; i++) {
                struct virtio_net_hdr_mrg_rxbuf hdr;
                uint8_t *va = s->head[i];

                vql_make_header(q, t, pkts[i], &hdr);
                vql_simple_header(va, &hdr, q->hdr_len);
                vql_copy(va + q->hdr_len, rte_pktmbuf_mtod(pkts[i], const uint8_t *),
                         s->len[i] - q->hdr_len);
                if (t.logging)
                        vql_dirty_log_mark(q->log, q->hit.gpa + (uint64_t)(va - q->hit.va),
                                           s->len[i]);
                bytes += s->len[i] - q->hdr_len;
        }
        vql_simple_commit(q, t, s, s->n);
        vql_count(&q->packets, s->n);
        vql_count(&q->bytes, bytes);
}

static __rte_always_inline void vql_simple_rx(const struct vql_queue *q, struct vql_traits t,
                                              struct rte_mbuf *const *pkts, uint16_t n,
                                              struct vql_simple *s)
{
        if (t.packed)
                vql_simple_rx_packed(q, pkts, n < q->size ? n : q->size, s);
        else
                vql_simple_rx_split(q, pkts, n, s);
}

/* The whole of an enqueue instance: runs of simple chains, and one packet by the general way where
 * a run ends early. */
static __rte_always_inline uint16_t vql_enqueue(struct vql_queue *q, struct vql_traits t,
                                                struct rte_mbuf **pkts, uint16_t n)
{
        struct vql_simple s;
        bool moved = false;
        uint16_t done = 0;

        if (unlikely(q->fault != VQL_FAULT_NONE))
                return 0;
        if (n > VQL_BURST)
                n = VQL_BURST;
        while (done < n) {
                vql_simple_rx(q, t, &pkts[done], (uint16_t)(n - done), &s);
                if (likely(s.n > 0)) {
                        vql_simple_put(q, t, &s, &pkts[done]);
                        done = (uint16_t)(done + s.n);
                        moved = true;
                }
                if (s.empty || done == n || !vql_enqueue_general(q, t, pkts[done], &moved))
                        break;
                done++;
        }
        if (moved)
                vql_signal_used(q);
        return done;
}

#endif
