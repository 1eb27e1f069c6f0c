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
        VQL_SPREAD_MAX = 48,  /* chains of a packet that are filled the quick way */
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
        struct vql_writer w;
        enum vql_write_result r;

        w.claim = NULL;
        w.chains = 0;
        r = vql_write_header(q, t, b, &w, hdr);
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

/* The header as two words: virtio's byte order is this machine's, as in all of the rings. */
struct vql_header_words {
        uint64_t low;
        uint32_t high; /* the upper half of it is num_buffers */
};

static __rte_always_inline struct vql_header_words vql_simple_header(const struct vql_queue *q,
                                                                     struct vql_traits t,
                                                                     const struct rte_mbuf *m)
{
        struct vql_header_words w = { 0, 1 << 16 };

        if (t.offloads && unlikely(m->ol_flags)) {
                struct virtio_net_hdr_mrg_rxbuf hdr;

                vql_make_header(q, t, m, &hdr);
                memcpy(&w.low, &hdr, sizeof(w.low));
                memcpy(&w.high, (const uint8_t *)&hdr + sizeof(w.low), sizeof(w.high));
        }
        return w;
}

/*
 * DPDK guests put the header at the end of a cache line whose other bytes nobody touches.  Such a
 * line is not made dirty if it holds the right header already, as it nearly always does.
 */
static __rte_always_inline void vql_store_header(uint8_t *va, const struct vql_header_words *w)
{
        if (vql_idea(VQL_IDEA_HEADER) && ((uintptr_t)va + VQL_SIMPLE_HDR) % VQL_CACHE_LINE == 0 &&
            memcmp(va, &w->low, sizeof(w->low)) == 0 &&
            memcmp(va + sizeof(w->low), &w->high, sizeof(w->high)) == 0)
                return;
        memcpy(va, &w->low, sizeof(w->low));
        memcpy(va + sizeof(w->low), &w->high, sizeof(w->high));
}

/* What a burst has moved by runs, and whether the last one ended for want of chains. */
struct vql_giving {
        uint32_t packets;
        uint64_t bytes;
        bool empty;
};

/* A packet that is spread: over the segments of its mbuf, over chains, or both. */
struct vql_spread {
        uint32_t begin, end; /* chains it may take, counted from the burst's place in the ring */
        uint32_t n;          /* that it took */
        bool empty;          /* there were not enough */
        uint64_t word[VQL_SPREAD_MAX];
};

/* What is left of a packet. */
struct vql_reader {
        const struct rte_mbuf *seg;
        uint32_t at;   /* in seg */
        uint32_t left; /* of the packet */
};

/* False: the segments are shorter than the packet. */
static inline bool vql_read_segments(struct vql_reader *r, uint8_t *to, uint32_t len)
{
        r->left -= len;
        while (len > 0) {
                const uint32_t n = RTE_MIN(len, r->seg->data_len - r->at);

                vql_copy(to, rte_pktmbuf_mtod_offset(r->seg, const uint8_t *, r->at), n);
                to += n;
                len -= n;
                r->at += n;
                if (r->at == r->seg->data_len) {
                        r->seg = r->seg->next;
                        r->at = 0;
                        if (unlikely(!r->seg))
                                return len == 0;
                }
        }
        return true;
}

/*
 * Fill simple chains with one packet that one chain or one segment is too small for.  False: not
 * this way; what was written by then is not returned.
 */
static __rte_noinline VQL_SHARED bool vql_spread_packet(struct vql_queue *q, struct vql_traits t,
                                                        const struct vql_simple_pos *p,
                                                        const struct rte_mbuf *m,
                                                        struct vql_spread *sp)
{
        struct vql_reader r = { m, 0, m->pkt_len };
        struct vql_header_words header = vql_simple_header(q, t, m);
        uint8_t *head = NULL;

        if (m->pkt_len > VQL_SIMPLE_MAX - VQL_SIMPLE_HDR)
                return false;
        for (sp->n = 0; sp->n == 0 || r.left > 0; sp->n++) {
                const uint32_t skip = sp->n == 0 ? VQL_SIMPLE_HDR : 0;
                struct vql_simple_room room;
                uint32_t len;

                if (sp->n == (t.mergeable ? VQL_SPREAD_MAX : 1) || sp->begin + sp->n == sp->end ||
                    !vql_simple_look(p, t, sp->begin + sp->n, &room, &sp->empty) ||
                    room.d.len <= skip)
                        return false;
                len = RTE_MIN(r.left, room.d.len - skip);
                if (!vql_hit(p, room.d.addr, skip + len, &room.va) ||
                    !vql_read_segments(&r, room.va + skip, len))
                        return false;
                head = head ? head : room.va;
                sp->word[sp->n] = vql_simple_word(skip + len, room.id, 0);
                if (t.logging)
                        vql_dirty_log_mark(q->log, room.d.addr, skip + len);
        }
        header.high = (uint16_t)header.high | sp->n << 16;
        vql_store_header(head, &header);
        return true;
}

/*
 * Fill simple chains with up to n packets.  Returns how many.  Stores wait for nobody: what pays
 * from the guest, to look at several chains before the first is copied, costs more here than it
 * hides.
 */
static __rte_always_inline uint32_t vql_simple_give(struct vql_queue *q, struct vql_traits t,
                                                    struct vql_simple_pos *p,
                                                    struct rte_mbuf *const *pkts, uint32_t n,
                                                    struct vql_giving *b)
{
        struct vql_simple_out out = vql_simple_open(q, t, p);
        const uint32_t end = vql_simple_most(p, UINT32_MAX);
        uint32_t i, chain = 0, need;
        struct vql_simple_room r;

        b->empty = false;
        for (i = 0; i < n && chain < end; i++) {
                const struct rte_mbuf *m = pkts[i];
                struct vql_header_words header;

                if (unlikely(!vql_simple_look(p, t, chain, &r, &b->empty)))
                        break;
                if (likely(vql_simple_fits(p, &r, m, &need))) {
                        header = vql_simple_header(q, t, m);
                        vql_store_header(r.va, &header);
                        vql_copy(r.va + VQL_SIMPLE_HDR, rte_pktmbuf_mtod(m, const uint8_t *),
                                 m->pkt_len);
                        if (t.logging)
                                vql_dirty_log_mark(q->log, r.d.addr, need);
                        vql_simple_return(q, t, &out, vql_simple_word(need, r.id, 0));
                        chain++;
                } else {
                        struct vql_spread sp = { .begin = chain, .end = end };

                        if (!vql_spread_packet(q, t, p, m, &sp)) {
                                b->empty = sp.empty;
                                break;
                        }
                        for (uint32_t k = 0; k < sp.n; k++)
                                vql_simple_return(q, t, &out, sp.word[k]);
                        chain += sp.n;
                }
                b->bytes += m->pkt_len;
        }
        vql_simple_close(q, t, p, &out, chain);
        b->packets += i;
        return i;
}

/* Runs of simple chains, and one packet by the general way where a run ends early. */
static __rte_always_inline uint16_t vql_enqueue_body(struct vql_queue *q, struct vql_traits t,
                                                     struct rte_mbuf **pkts, uint16_t n)
{
        uint64_t first;
        struct vql_simple_pos p = vql_simple_begin(q, t, &first);
        struct vql_giving b = { 0 };
        uint32_t done = 0, most;
        bool moved = false;

        while (done < n && (most = vql_simple_most(&p, n - done)) > 0) {
                if (likely(q->hdr_len == VQL_SIMPLE_HDR)) {
                        const uint32_t run = vql_simple_give(q, t, &p, &pkts[done], most, &b);

                        done += run;
                        if (likely(run == most))
                                continue;
                }
                if (b.empty)
                        break;
                vql_simple_publish(q, t, &p);
                if (!vql_enqueue_general(q, t, pkts[done], &moved))
                        break;
                p = vql_simple_begin(q, t, &first);
                done++;
        }
        vql_simple_publish(q, t, &p);
        if (b.packets > 0) {
                vql_count(&q->packets, b.packets);
                vql_count(&q->bytes, b.bytes);
        }
        if (b.packets > 0 || moved)
                vql_signal_used(q);
        return (uint16_t)done;
}

/* The whole of an enqueue instance. */
static __rte_always_inline uint16_t vql_enqueue(struct vql_queue *q, struct vql_traits t,
                                                struct rte_mbuf **pkts, uint16_t n)
{
        if (unlikely(q->fault != VQL_FAULT_NONE))
                return 0;
        return vql_enqueue_body(q, t, pkts, n < VQL_BURST ? n : VQL_BURST);
}

#endif
