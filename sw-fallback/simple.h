/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_SIMPLE_H
#define VQLIFT_SW_FALLBACK_SIMPLE_H

/*
 * Chains of the usual shapes, many at a time: one descriptor, or a header in a descriptor of its
 * own (directly or in an indirect table), all in the region of guest memory that was hit last.
 * Whatever is of another shape ends the run, and the general way (walk.h) takes it.  What is read
 * here is read once and checked as strictly as there; nothing is written before
 * vql_simple_commit().
 */

#include <rte_mbuf.h>

#include "sw-fallback/publish.h"

/* A run of chains, one array a field, so that each step touches only what it needs. */
struct vql_simple {
        uint8_t *head[VQL_BURST]; /* header */
        uint8_t *data[VQL_BURST]; /* packet (from the guest only) */
        uint32_t len[VQL_BURST];  /* of the packet; to the guest: of header and packet */
        uint16_t id[VQL_BURST];
        uint16_t slots[VQL_BURST]; /* packed, from the guest: slots of the chain */
        uint16_t n;
        bool empty; /* the run ended because nothing more is available */
};

enum { VQL_DESC_SHAPE = VRING_DESC_F_NEXT | VRING_DESC_F_WRITE | VRING_DESC_F_INDIRECT };

/* Where [gpa, gpa + len) lies in the span that was hit last, or NULL. */
static __rte_always_inline uint8_t *vql_hit(const struct vql_mem_span *hit, uint64_t gpa,
                                            uint32_t len)
{
        const uint64_t off = gpa - hit->gpa;

        return likely(off < hit->size && len <= hit->size - off) ? hit->va + off : NULL;
}

/* Flags of a packed descriptor that is available in a lap with this wrap counter. */
static __rte_always_inline uint16_t vql_packed_avail_flags(uint8_t wrap)
{
        return wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED;
}

/* One packed descriptor further; the wanted flags turn with the lap. */
static __rte_always_inline void vql_packed_next(const struct vql_queue *q, uint16_t *slot,
                                                uint16_t *want)
{
        if (unlikely(++*slot == q->size)) {
                *slot = 0;
                *want ^= VQL_PACKED_AVAIL | VQL_PACKED_USED;
        }
}

/* ---- to the guest ---- */

/* Room for packet m in a writable descriptor: its place, or NULL. */
static __rte_always_inline uint8_t *vql_simple_room(const struct vql_mem_span *hit,
                                                    const struct vql_desc *d, uint32_t need,
                                                    const struct rte_mbuf *m)
{
        if (unlikely(d->len < need || m->nb_segs != 1))
                return NULL;
        return vql_hit(hit, d->addr, need);
}

static __rte_always_inline void vql_simple_rx_packed(const struct vql_queue *q,
                                                     struct rte_mbuf *const *pkts, uint16_t n,
                                                     struct vql_simple *s)
{
        const uint16_t turn = VQL_PACKED_AVAIL | VQL_PACKED_USED;
        const struct vql_mem_span hit = q->hit;
        uint16_t want = vql_packed_avail_flags(q->avail_wrap), slot = q->last_avail, i;

        s->empty = false;
        for (i = 0; i < n; i++) {
                const struct vql_desc d = vql_packed_desc_read(&q->packed_ring[slot]);
                const uint32_t need = q->hdr_len + pkts[i]->pkt_len;
                uint8_t *va;

                if (unlikely((d.flags & (turn | VQL_DESC_SHAPE)) != (want | VRING_DESC_F_WRITE))) {
                        s->empty = (d.flags & turn) != want;
                        break;
                }
                va = vql_simple_room(&hit, &d, need, pkts[i]);
                if (unlikely(!va))
                        break;
                __builtin_prefetch(va, 1);
                s->head[i] = va;
                s->len[i] = need;
                s->id[i] = d.next;
                vql_packed_next(q, &slot, &want);
        }
        s->n = i;
}

static __rte_always_inline void vql_simple_rx_split(const struct vql_queue *q,
                                                    struct rte_mbuf *const *pkts, uint16_t n,
                                                    struct vql_simple *s)
{
        const uint16_t mask = (uint16_t)(q->size - 1);
        const uint16_t ready =
                (uint16_t)(__atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) - q->last_avail);
        const struct vql_mem_span hit = q->hit;
        uint16_t i;

        s->empty = ready < n;
        s->n = 0;
        if (unlikely(ready > q->size)) {
                s->empty = false; /* a fault; the general way names it */
                return;
        }
        n = s->empty ? ready : n;
        for (i = 0; i < n; i++) {
                const uint32_t need = q->hdr_len + pkts[i]->pkt_len;
                const uint16_t head = __atomic_load_n(&q->avail->ring[(q->last_avail + i) & mask],
                                                      __ATOMIC_RELAXED);
                struct vql_desc d;
                uint8_t *va = NULL;

                if (likely(head < q->size)) {
                        d = vql_desc_read(&q->desc[head]);
                        if (likely((d.flags & VQL_DESC_SHAPE) == VRING_DESC_F_WRITE))
                                va = vql_simple_room(&hit, &d, need, pkts[i]);
                }
                if (unlikely(!va)) {
                        s->empty = false;
                        break;
                }
                __builtin_prefetch(va, 1);
                s->head[i] = va;
                s->len[i] = need;
                s->id[i] = head;
        }
        s->n = i;
}

/* ---- from the guest ---- */

/* What a chain must fit, in locals for the length of a run. */
struct vql_simple_fit {
        struct vql_mem_span hit;
        uint32_t room; /* of a packet buffer */
        uint8_t hdr_len;
};

/* A chain of one piece, or of a header and one further piece `d2`; false: of another shape. */
static __rte_always_inline bool vql_simple_pieces(const struct vql_simple_fit *fit,
                                                  const struct vql_desc *d,
                                                  const struct vql_desc *d2, struct vql_simple *s,
                                                  uint16_t i)
{
        s->head[i] = vql_hit(&fit->hit, d->addr, d->len);
        if (unlikely(!s->head[i]))
                return false;
        if (d2) {
                s->data[i] = vql_hit(&fit->hit, d2->addr, d2->len);
                s->len[i] = d2->len;
                if (unlikely(d->len != fit->hdr_len || !s->data[i]))
                        return false;
        } else {
                s->data[i] = s->head[i] + fit->hdr_len;
                s->len[i] = d->len - fit->hdr_len;
        }
        /* A length below the header's has become one of nearly 4 GiB. */
        return likely(s->len[i] - 1 < fit->room);
}

/* An indirect table of two entries, header and packet. */
static __rte_always_inline bool vql_simple_table(struct vql_traits t,
                                                 const struct vql_simple_fit *fit,
                                                 const struct vql_desc *d, struct vql_simple *s,
                                                 uint16_t i)
{
        const uint16_t odd = t.packed ? VRING_DESC_F_WRITE | VRING_DESC_F_INDIRECT : VQL_DESC_SHAPE;
        const uint8_t *table = vql_hit(&fit->hit, d->addr, 2 * sizeof(struct vring_desc));
        struct vql_desc d1, d2;

        if (unlikely(d->len != 2 * sizeof(struct vring_desc) || !table ||
                     (uintptr_t)table % sizeof(uint64_t) != 0))
                return false;
        if (t.packed) {
                d1 = vql_packed_desc_read((const struct vring_packed_desc *)(const void *)table);
                d2 = vql_packed_desc_read((const struct vring_packed_desc *)(const void *)table +
                                          1);
                if (unlikely(d1.flags & odd))
                        return false;
        } else {
                d1 = vql_desc_read((const struct vring_desc *)(const void *)table);
                d2 = vql_desc_read((const struct vring_desc *)(const void *)table + 1);
                if (unlikely((d1.flags & odd) != VRING_DESC_F_NEXT || d1.next != 1))
                        return false;
        }
        return !(d2.flags & odd) && vql_simple_pieces(fit, &d1, &d2, s, i);
}

/* A packed chain whose first descriptor is `d`, and whose second one, if it has one, is at `slot`.
 */
static __rte_always_inline bool vql_simple_packed_chain(const struct vql_queue *q,
                                                        struct vql_traits t,
                                                        const struct vql_simple_fit *fit,
                                                        const struct vql_desc *d,
                                                        struct vql_simple *s, uint16_t i)
{
        const uint16_t shape = d->flags & VQL_DESC_SHAPE;

        if (likely(shape == 0))
                return vql_simple_pieces(fit, d, NULL, s, i);
        return shape == VRING_DESC_F_INDIRECT && q->size > 1 && vql_simple_table(t, fit, d, s, i);
}

static __rte_always_inline void vql_simple_tx_packed(const struct vql_queue *q, struct vql_traits t,
                                                     uint32_t room, uint16_t n,
                                                     struct vql_simple *s)
{
        const struct vql_simple_fit fit = { q->hit, room, q->hdr_len };
        const uint16_t turn = VQL_PACKED_AVAIL | VQL_PACKED_USED;
        uint16_t want = vql_packed_avail_flags(q->avail_wrap), slot = q->last_avail, left = q->size;
        uint16_t i;

        s->empty = false;
        for (i = 0; i < n && left > 0; i++) {
                const struct vql_desc d = vql_packed_desc_read(&q->packed_ring[slot]);
                bool good;

                if (unlikely((d.flags & turn) != want)) {
                        s->empty = true;
                        break;
                }
                s->id[i] = d.next;
                s->slots[i] = 1;
                vql_packed_next(q, &slot, &want);
                if ((d.flags & VQL_DESC_SHAPE) == VRING_DESC_F_NEXT && left > 1) {
                        const struct vql_desc d2 = vql_packed_desc_read(&q->packed_ring[slot]);

                        s->id[i] = d2.next;
                        s->slots[i] = 2;
                        vql_packed_next(q, &slot, &want);
                        good = !(d2.flags & VQL_DESC_SHAPE) &&
                               vql_simple_pieces(&fit, &d, &d2, s, i);
                } else {
                        good = vql_simple_packed_chain(q, t, &fit, &d, s, i);
                }
                if (unlikely(!good))
                        break;
                left = (uint16_t)(left - s->slots[i]);
                rte_prefetch0(s->head[i]);
                rte_prefetch0(s->data[i]);
        }
        s->n = i;
}

static __rte_always_inline bool vql_simple_split_chain(const struct vql_queue *q,
                                                       struct vql_traits t,
                                                       const struct vql_simple_fit *fit,
                                                       struct vql_simple *s, uint16_t i)
{
        const struct vql_desc d = vql_desc_read(&q->desc[s->id[i]]);
        const uint16_t shape = d.flags & VQL_DESC_SHAPE;
        struct vql_desc d2;

        if (likely(shape == 0))
                return vql_simple_pieces(fit, &d, NULL, s, i);
        if (shape == VRING_DESC_F_INDIRECT)
                return q->size > 1 && vql_simple_table(t, fit, &d, s, i);
        if (shape != VRING_DESC_F_NEXT || d.next >= q->size)
                return false;
        d2 = vql_desc_read(&q->desc[d.next]);
        return !(d2.flags & VQL_DESC_SHAPE) && vql_simple_pieces(fit, &d, &d2, s, i);
}

static __rte_always_inline void vql_simple_tx_split(const struct vql_queue *q, struct vql_traits t,
                                                    uint32_t room, uint16_t n, struct vql_simple *s)
{
        const struct vql_simple_fit fit = { q->hit, room, q->hdr_len };
        const uint16_t mask = (uint16_t)(q->size - 1);
        const uint16_t ready =
                (uint16_t)(__atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) - q->last_avail);
        uint16_t i;

        s->empty = ready < n;
        s->n = 0;
        if (unlikely(ready > q->size)) {
                s->empty = false; /* a fault; the general way names it */
                return;
        }
        n = s->empty ? ready : n;
        for (i = 0; i < n; i++) {
                s->id[i] = __atomic_load_n(&q->avail->ring[(q->last_avail + i) & mask],
                                           __ATOMIC_RELAXED);
                if (unlikely(s->id[i] >= q->size || !vql_simple_split_chain(q, t, &fit, s, i))) {
                        s->empty = false;
                        break;
                }
                rte_prefetch0(s->head[i]);
                rte_prefetch0(s->data[i]);
        }
        s->n = i;
}

/* ---- commit ---- */

/*
 * Return packed chain i of a run at (slot, wrap), which then move on.  The flags go with it but for
 * the first chain of the run, which vql_packed_advance() makes visible.
 */
static __rte_always_inline void vql_simple_packed_used(struct vql_queue *q, struct vql_traits t,
                                                       const struct vql_simple *s, uint16_t i,
                                                       uint16_t *slot, uint8_t *wrap)
{
        struct vring_packed_desc *d = &q->packed_ring[*slot];
        const uint32_t len = t.rx ? s->len[i] : 0;

        if (i == 0) {
                d->len = len;
                d->id = s->id[i];
        } else {
                const uint64_t word = len | (uint64_t)s->id[i] << 32 |
                                      (uint64_t)vql_packed_used_flags(t, *wrap) << 48;

                memcpy(&d->len, &word, sizeof(word));
                if (t.logging)
                        vql_log_packed_slot(q, *slot);
        }
        vql_packed_step(q, slot, wrap, t.rx ? 1 : s->slots[i]);
}

/* Return the first n chains of a run, n > 0. */
static __rte_always_inline void vql_simple_commit(struct vql_queue *q, struct vql_traits t,
                                                  const struct vql_simple *s, uint16_t n)
{
        if (t.packed) {
                uint16_t slot = q->last_used;
                uint8_t wrap = q->used_wrap;

                for (uint16_t i = 0; i < n; i++)
                        vql_simple_packed_used(q, t, s, i, &slot, &wrap);
                vql_packed_advance(q, t, slot, wrap);
        } else {
                for (uint16_t i = 0; i < n; i++)
                        vql_split_used(q, i, s->id[i], t.rx ? s->len[i] : 0);
                vql_split_advance(q, t, n);
        }
}

#endif
