/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_ENQUEUE_H
#define VQLIFT_SW_FALLBACK_ENQUEUE_H

/* From packet buffers to the guest: the body of all enqueue instances. */

#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "sw-fallback/offload.h"
#include "sw-fallback/publish.h"
#include "sw-fallback/walk.h"

enum {
        VQL_MERGE_MAX = 256, /* most chains that one packet may be spread over */
        VQL_STAGED_MAX = VQL_MERGE_MAX + 2 * VQL_BURST,
};

/* Chains that were claimed ahead, and chains that were filled and wait for publication. */
struct vql_enqueue_burst {
        struct vql_claim claim[VQL_BURST];
        struct vql_claim_pos pos; /* behind the last claimed chain */
        uint16_t next, claimed;   /* claim[next .. claimed) are unused */
        uint16_t staged;
        struct vql_done done[VQL_STAGED_MAX];
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
                b->claimed = vql_claim(q, t, &b->pos, b->claim, VQL_BURST);
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
                        rte_memcpy(p.va, from, p.len);
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
        if (t.mergeable && w.chains > 1)
                vql_write_count(q, t, &w);
        b->done[b->staged++] = (struct vql_done){ w.in_chain, w.claim->id, w.claim->slots };
        return VQL_WRITE_OK;
}

/* Store the header; a line that already holds these bytes is not dirtied. */
static inline void vql_store_header(uint8_t *va, const struct virtio_net_hdr_mrg_rxbuf *hdr,
                                    uint8_t len)
{
        if (memcmp(va, hdr, len) != 0)
                memcpy(va, hdr, len);
}

/*
 * The usual case: the next chain is one writable piece that holds header and packet, and the packet
 * is one buffer.  False: not so, nothing was done.
 */
static __rte_always_inline bool vql_write_simple(struct vql_queue *q, struct vql_traits t,
                                                 struct vql_enqueue_burst *b,
                                                 const struct virtio_net_hdr_mrg_rxbuf *hdr,
                                                 const struct rte_mbuf *m)
{
        const uint32_t need = q->hdr_len + m->pkt_len;
        const uint16_t odd = VRING_DESC_F_NEXT | VRING_DESC_F_INDIRECT | VRING_DESC_F_WRITE;
        const struct vql_claim *c = &b->claim[b->next];
        uint64_t off;
        uint8_t *va;

        if (b->next == b->claimed || m->nb_segs != 1)
                return false;
        off = c->d.addr - q->hit.gpa;
        if ((c->d.flags & odd) != VRING_DESC_F_WRITE || c->d.len < need || off >= q->hit.size ||
            q->hit.size - off < need)
                return false;
        va = q->hit.va + off;
        vql_store_header(va, hdr, q->hdr_len);
        rte_memcpy(va + q->hdr_len, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len);
        if (t.logging)
                vql_dirty_log_mark(q->log, c->d.addr, need);
        b->done[b->staged++] = (struct vql_done){ need, c->id, c->slots };
        b->next++;
        return true;
}

static __rte_always_inline void vql_make_header(struct vql_queue *q, struct vql_traits t,
                                                const struct rte_mbuf *m,
                                                struct virtio_net_hdr_mrg_rxbuf *hdr)
{
        memset(hdr, 0, sizeof(*hdr));
        if (t.offloads && unlikely(m->ol_flags))
                vql_offload_to_guest(m, q->features, &hdr->hdr);
        /* virtio 1.2, 5.1.6.4.1: 1 also where MRG_RXBUF was not negotiated. */
        hdr->num_buffers = 1;
}

/* Publish what is staged; claims that were not used are kept. */
static inline void vql_enqueue_flush(struct vql_queue *q, struct vql_traits t,
                                     struct vql_enqueue_burst *b)
{
        for (uint16_t i = 0; i < b->staged; i++)
                b->pos.slots = (uint16_t)(b->pos.slots - b->done[i].slots);
        vql_publish(q, t, b->done, b->staged);
        b->staged = 0;
}

/* Undo what a packet that did not fit had taken: claim again from behind the staged chains. */
static inline void vql_enqueue_rewind(struct vql_queue *q, struct vql_traits t,
                                      struct vql_enqueue_burst *b, uint16_t staged)
{
        b->staged = staged;
        vql_enqueue_flush(q, t, b);
        b->pos = vql_claim_begin(q);
        b->next = 0;
        b->claimed = 0;
}

/* One packet by the general way.  False: stop the burst here, the packet was not dealt with. */
static __rte_noinline VQL_SHARED bool vql_enqueue_slow(struct vql_queue *q, struct vql_traits t,
                                                       struct vql_enqueue_burst *b,
                                                       const struct virtio_net_hdr_mrg_rxbuf *hdr,
                                                       const struct rte_mbuf *m)
{
        uint16_t staged;

        /* Room for the most chains of one packet, and for a burst of simple ones after it. */
        if (b->staged > VQL_BURST)
                vql_enqueue_flush(q, t, b);
        staged = b->staged;
        switch (vql_write_packet(q, t, b, hdr, m)) {
        case VQL_WRITE_OK:
                vql_count(&q->packets, 1);
                vql_count(&q->bytes, m->pkt_len);
                break;
        case VQL_WRITE_TOO_BIG:
                vql_enqueue_rewind(q, t, b, staged);
                vql_count(&q->drop_too_big, 1);
                break;
        case VQL_WRITE_NO_BUFFER:
        case VQL_WRITE_FAULT:
                vql_enqueue_rewind(q, t, b, staged);
                return false;
        }
        if (b->staged >= VQL_BURST)
                vql_enqueue_flush(q, t, b);
        return true;
}

static __rte_always_inline uint16_t vql_enqueue_body(struct vql_queue *q, struct vql_traits t,
                                                     struct rte_mbuf **pkts, uint16_t n)
{
        struct virtio_net_hdr_mrg_rxbuf hdr;
        struct vql_enqueue_burst b;
        uint16_t i, simple = 0;
        uint64_t bytes = 0;

        /* Claim. */
        if (unlikely(q->fault != VQL_FAULT_NONE))
                return 0;
        if (n > VQL_BURST)
                n = VQL_BURST;
        b.pos = vql_claim_begin(q);
        b.next = 0;
        b.staged = 0;
        b.claimed = vql_claim(q, t, &b.pos, b.claim, n);

        /* Translate. */
        for (i = 0; i < b.claimed; i++) {
                uint64_t off = b.claim[i].d.addr - q->hit.gpa;

                if (likely(off < q->hit.size))
                        rte_prefetch0(q->hit.va + off);
        }

        /* Copy. */
        for (i = 0; i < n; i++) {
                vql_make_header(q, t, pkts[i], &hdr);
                if (likely(vql_write_simple(q, t, &b, &hdr, pkts[i]))) {
                        simple++;
                        bytes += pkts[i]->pkt_len;
                } else if (!vql_enqueue_slow(q, t, &b, &hdr, pkts[i])) {
                        break;
                }
        }

        /* Publish. */
        vql_count(&q->packets, simple);
        vql_count(&q->bytes, bytes);
        vql_enqueue_flush(q, t, &b);
        return i;
}

#endif
