/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_SIMPLE_H
#define VQLIFT_SW_FALLBACK_SIMPLE_H

/*
 * Chains of the usual shapes, several at a time: one descriptor, or a header in a descriptor of its
 * own (directly or in an indirect table), all in the region of guest memory that was hit last, with
 * the header of modern guests.  Whatever is of another shape ends the run, and the general way
 * (walk.h) takes it.  What is read here is read once and checked as strictly as there.
 *
 * A burst is a sequence of runs.  Each is taken (vql_simple_rx(), vql_simple_tx()), copied, and its
 * chains are returned one by one (vql_simple_return()); nothing is visible to the driver before
 * vql_simple_publish(), once a burst.
 */

#include <rte_mbuf.h>

#include "sw-fallback/ideas.h"
#include "sw-fallback/publish.h"

enum {
        VQL_DESC_SHAPE = VRING_DESC_F_NEXT | VRING_DESC_F_WRITE | VRING_DESC_F_INDIRECT,
        VQL_PACKED_TURN = VQL_PACKED_AVAIL | VQL_PACKED_USED,
        /* No packet of a run is longer, with its header: one mbuf has less than 64 KiB. */
        VQL_SIMPLE_MAX = 1 << 17,
        VQL_SIMPLE_HDR = 12,
        /* Chains of a run from the guest: enough to hide the latency of their buffers, few enough
         * that these stay in the first-level cache where they lie pages apart and share its ways.
         */
        VQL_RUN = 8,
};

/* A run of chains from the guest, one array a field, so that each step touches only what it needs.
 */
struct vql_simple {
        uint8_t *data[VQL_RUN]; /* the packet */
        uint8_t *head[VQL_RUN]; /* its header */
        uint64_t word[VQL_RUN]; /* vql_simple_word() */
        uint32_t n;
        bool empty; /* the run ended because nothing more is available */
};

/* Length of what data points to, id to return, and the packed slots that a chain takes. */
static __rte_always_inline uint64_t vql_simple_word(uint32_t len, uint16_t id, uint32_t slots)
{
        return len | (uint64_t)id << 32 | (uint64_t)slots << 48;
}

/*
 * Where a burst is.  In locals, with all that runs ask of the queue: acquiring loads and stores to
 * the ring keep the compiler from remembering the queue's fields.
 */
struct vql_simple_pos {
        struct vql_mem_span hit;
        uint64_t inner; /* offsets in the span that VQL_SIMPLE_MAX bytes may begin at */
        union {
                const struct vring_packed_desc *packed_ring;
                const struct vring_desc *desc;
        };
        const struct vring_avail *avail; /* split */
        uint64_t *first; /* packed: the word that makes the burst visible, kept back */
        uint32_t size;   /* of the ring */
        uint32_t slot;   /* where the next chain is taken, and returned */
        uint32_t ready;  /* split: chains not taken yet; packed: slots not taken in this burst */
        uint32_t chains; /* taken in this burst, and not yet visible */
        uint8_t wrap;
};

/* How many chains a split ring has ready; 0 also if that is nonsense, which is noted. */
static __rte_always_inline uint32_t vql_split_ready(struct vql_queue *q)
{
        const uint16_t ready =
                (uint16_t)(__atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) - q->last_avail);

        if (likely(ready <= q->size))
                return ready;
        vql_queue_fail(q, VQL_FAULT_AVAIL_INDEX);
        return 0;
}

static __rte_always_inline struct vql_simple_pos vql_simple_begin(struct vql_queue *q,
                                                                  struct vql_traits t,
                                                                  uint64_t *first)
{
        const uint64_t size = q->hit.size;

        return (struct vql_simple_pos){
                .hit = q->hit,
                .inner = size > VQL_SIMPLE_MAX ? size - VQL_SIMPLE_MAX : 0,
                .packed_ring = q->packed_ring,
                .avail = q->avail,
                .first = first,
                .size = q->size,
                .slot = t.packed ? q->last_used : q->last_used & (q->size - 1u),
                .ready = t.packed ? q->size : vql_split_ready(q),
                .wrap = q->used_wrap,
        };
}

/* How many chains a run may have, of n that are wanted: it ends with the lap, too. */
static __rte_always_inline uint32_t vql_simple_most(const struct vql_simple_pos *p, uint32_t n)
{
        const uint32_t lap = p->size - p->slot;

        n = n < lap ? n : lap;
        return n < p->ready ? n : p->ready;
}

/* Does [gpa, gpa + len) lie in the span that was hit last?  len <= VQL_SIMPLE_MAX. */
static __rte_always_inline bool vql_hit(const struct vql_simple_pos *p, uint64_t gpa, uint32_t len,
                                        uint8_t **ret_va)
{
        const uint64_t off = gpa - p->hit.gpa;

        *ret_va = (uint8_t *)((uintptr_t)p->hit.va + off);
        return likely(off < p->inner) || (off < p->hit.size && len <= p->hit.size - off);
}

/* Bring a buffer's first and last line near; the hardware sees to those between. */
static __rte_always_inline void vql_prefetch_span(const uint8_t *va, uint32_t len)
{
        if (vql_idea(VQL_IDEA_PREFETCH)) {
                rte_prefetch0(va);
                rte_prefetch0(va + len - 1);
        }
}

/* Flags of a packed descriptor that is available in a lap with this wrap counter. */
static __rte_always_inline uint16_t vql_packed_avail_flags(uint8_t wrap)
{
        return wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED;
}

/* ---- to the guest ---- */

/* A chain for a packet: a place for header and packet together. */
struct vql_simple_room {
        struct vql_desc d;
        uint8_t *va;
        uint16_t id;
};

/* Read chain i of a run.  False: it is of another shape, or (*ret_empty) not there. */
static __rte_always_inline bool vql_simple_look(const struct vql_simple_pos *p, struct vql_traits t,
                                                uint32_t i, struct vql_simple_room *r,
                                                bool *ret_empty)
{
        uint16_t wrong;

        if (t.packed) {
                const uint16_t want = vql_packed_avail_flags(p->wrap) | VRING_DESC_F_WRITE;

                r->d = vql_packed_desc_read(&p->packed_ring[p->slot + i]);
                r->id = r->d.next;
                wrong = (r->d.flags ^ want) & (VQL_PACKED_TURN | VQL_DESC_SHAPE);
                *ret_empty = wrong & VQL_PACKED_TURN;
                return likely(!wrong);
        }
        r->id = __atomic_load_n(&p->avail->ring[p->slot + i], __ATOMIC_RELAXED);
        if (unlikely(r->id >= p->size))
                return false;
        r->d = vql_desc_read(&p->desc[r->id]);
        return likely((r->d.flags & VQL_DESC_SHAPE) == VRING_DESC_F_WRITE);
}

/* Does packet m fit there?  Then *ret_need bytes go to r->va. */
static __rte_always_inline bool vql_simple_fits(const struct vql_simple_pos *p,
                                                struct vql_simple_room *r, const struct rte_mbuf *m,
                                                uint32_t *ret_need)
{
        const uint32_t need = VQL_SIMPLE_HDR + m->pkt_len;

        *ret_need = need;
        return likely(m->nb_segs == 1 && need <= r->d.len) && vql_hit(p, r->d.addr, need, &r->va);
}

/* ---- from the guest ---- */

/* A chain from the guest, while it is looked at. */
struct vql_simple_chain {
        struct vql_desc d; /* its first descriptor */
        uint16_t id;
        uint32_t slots;
};

/* Note a packet of `len` bytes; false: it is empty or too long for a packet buffer. */
static __rte_always_inline bool vql_simple_note(uint32_t room, const struct vql_simple_chain *c,
                                                uint32_t len, struct vql_simple *s, uint32_t i)
{
        s->word[i] = vql_simple_word(len, c->id, c->slots);
        vql_prefetch_span(s->data[i], len);
        return likely(len - 1 < room);
}

/* A chain of one piece. */
static __rte_always_inline bool vql_simple_one(const struct vql_simple_pos *p, uint32_t room,
                                               const struct vql_simple_chain *c,
                                               struct vql_simple *s, uint32_t i)
{
        uint8_t *va;

        if (unlikely(c->d.len >= VQL_SIMPLE_MAX || !vql_hit(p, c->d.addr, c->d.len, &va)))
                return false;
        s->head[i] = va;
        s->data[i] = va + VQL_SIMPLE_HDR;
        /* A length below the header's becomes one of nearly 4 GiB. */
        return vql_simple_note(room, c, c->d.len - VQL_SIMPLE_HDR, s, i);
}

/* A chain of a header, c->d, and one further piece. */
static __rte_always_inline bool vql_simple_two(const struct vql_simple_pos *p, uint32_t room,
                                               const struct vql_simple_chain *c,
                                               const struct vql_desc *d2, struct vql_simple *s,
                                               uint32_t i)
{
        if (unlikely(c->d.len != VQL_SIMPLE_HDR || d2->len >= VQL_SIMPLE_MAX ||
                     !vql_hit(p, c->d.addr, c->d.len, &s->head[i]) ||
                     !vql_hit(p, d2->addr, d2->len, &s->data[i])))
                return false;
        return vql_simple_note(room, c, d2->len, s, i);
}

/* An indirect table of two entries, header and packet. */
static __rte_always_inline bool vql_simple_table(const struct vql_simple_pos *p,
                                                 struct vql_traits t, uint32_t room,
                                                 const struct vql_simple_chain *c,
                                                 struct vql_simple *s, uint32_t i)
{
        const uint16_t odd = t.packed ? VRING_DESC_F_WRITE | VRING_DESC_F_INDIRECT : VQL_DESC_SHAPE;
        struct vql_simple_chain inner = *c;
        struct vql_desc d2;
        uint8_t *table;

        if (unlikely(c->d.len != 2 * sizeof(struct vring_desc) || p->size == 1 ||
                     !vql_hit(p, c->d.addr, c->d.len, &table) ||
                     (uintptr_t)table % sizeof(uint64_t) != 0))
                return false;
        if (t.packed) {
                const struct vring_packed_desc *entry = (const void *)table;

                inner.d = vql_packed_desc_read(&entry[0]);
                d2 = vql_packed_desc_read(&entry[1]);
                if (unlikely(inner.d.flags & odd))
                        return false;
        } else {
                const struct vring_desc *entry = (const void *)table;

                inner.d = vql_desc_read(&entry[0]);
                d2 = vql_desc_read(&entry[1]);
                if (unlikely((inner.d.flags & odd) != VRING_DESC_F_NEXT || inner.d.next != 1))
                        return false;
        }
        return !(d2.flags & odd) && vql_simple_two(p, room, &inner, &d2, s, i);
}

/* Returns how many chains of at most n, in at most p->ready slots; ret_empty as above. */
static __rte_always_inline uint32_t vql_simple_tx_packed(struct vql_traits t,
                                                         const struct vql_simple_pos *p,
                                                         uint32_t room, uint32_t n,
                                                         struct vql_simple *s)
{
        const uint32_t lap = p->size - p->slot, left = lap < p->ready ? lap : p->ready;
        const struct vring_packed_desc *at = &p->packed_ring[p->slot], *const end = at + left;
        const uint16_t want = vql_packed_avail_flags(p->wrap);
        uint32_t i;

        for (i = 0; i < n && at < end; i++) {
                struct vql_simple_chain c = { .d = vql_packed_desc_read(at), .slots = 1 };
                const uint16_t shape = c.d.flags & VQL_DESC_SHAPE;
                bool good;

                if (unlikely((c.d.flags & VQL_PACKED_TURN) != want)) {
                        s->empty = true;
                        break;
                }
                c.id = c.d.next;
                if (likely(shape == 0)) {
                        good = vql_simple_one(p, room, &c, s, i);
                } else if (shape == VRING_DESC_F_NEXT && at + 1 < end) {
                        const struct vql_desc d2 = vql_packed_desc_read(at + 1);

                        c.id = d2.next;
                        c.slots = 2;
                        good = !(d2.flags & VQL_DESC_SHAPE) &&
                               vql_simple_two(p, room, &c, &d2, s, i);
                } else {
                        good = shape == VRING_DESC_F_INDIRECT &&
                               vql_simple_table(p, t, room, &c, s, i);
                }
                if (unlikely(!good))
                        break;
                at += c.slots;
        }
        return i;
}

static __rte_always_inline bool vql_simple_split_chain(const struct vql_simple_pos *p,
                                                       struct vql_traits t, uint32_t room,
                                                       uint16_t head, struct vql_simple *s,
                                                       uint32_t i)
{
        const struct vql_simple_chain c = { .d = vql_desc_read(&p->desc[head]), .id = head };
        const uint16_t shape = c.d.flags & VQL_DESC_SHAPE;
        struct vql_desc d2;

        if (likely(shape == 0))
                return vql_simple_one(p, room, &c, s, i);
        if (shape == VRING_DESC_F_INDIRECT)
                return vql_simple_table(p, t, room, &c, s, i);
        if (shape != VRING_DESC_F_NEXT || c.d.next >= p->size)
                return false;
        d2 = vql_desc_read(&p->desc[c.d.next]);
        return !(d2.flags & VQL_DESC_SHAPE) && vql_simple_two(p, room, &c, &d2, s, i);
}

static __rte_always_inline uint32_t vql_simple_tx_split(struct vql_traits t,
                                                        const struct vql_simple_pos *p,
                                                        uint32_t room, uint32_t n,
                                                        struct vql_simple *s)
{
        const uint16_t *at = &p->avail->ring[p->slot];
        uint32_t i;

        for (i = 0; i < n; i++) {
                const uint16_t head = __atomic_load_n(&at[i], __ATOMIC_RELAXED);

                if (unlikely(head >= p->size || !vql_simple_split_chain(p, t, room, head, s, i)))
                        break;
        }
        return i;
}

/* Take a run of up to n chains, n from vql_simple_most(), whose packets fit buffers of `room`
 * bytes. */
static __rte_always_inline void vql_simple_tx(struct vql_traits t, const struct vql_simple_pos *p,
                                              uint32_t room, uint32_t n, struct vql_simple *s)
{
        s->empty = false;
        s->n = t.packed ? vql_simple_tx_packed(t, p, room, n, s)
                        : vql_simple_tx_split(t, p, room, n, s);
}

/* ---- return ---- */

/* Where the chains of a run are returned; the whole run lies in one lap. */
struct vql_simple_out {
        uint8_t *place; /* of the next chain */
        uint8_t *to;    /* the same, or where that chain's word is kept back */
        uint64_t flags; /* packed: of returned descriptors */
};

/* The first place of a ring that chains are returned to. */
static __rte_always_inline uint8_t *vql_simple_base(const struct vql_queue *q, struct vql_traits t)
{
        return t.packed ? (uint8_t *)&q->packed_ring->len : (uint8_t *)q->used->ring;
}

static __rte_always_inline struct vql_simple_out vql_simple_open(const struct vql_queue *q,
                                                                 struct vql_traits t,
                                                                 const struct vql_simple_pos *p)
{
        uint8_t *place = vql_simple_base(q, t) + (uint64_t)p->slot * (t.packed ? 16 : 8);
        /* The driver does not look behind a packed descriptor that is not returned: the first. */
        const bool keep = t.packed && p->chains == 0;

        return (struct vql_simple_out){
                .place = place,
                .to = keep ? (uint8_t *)p->first : place,
                .flags = (uint64_t)vql_packed_used_flags(t, p->wrap) << 48,
        };
}

/* Return a chain of a run, by its word. */
static __rte_always_inline void vql_simple_return(struct vql_queue *q, struct vql_traits t,
                                                  struct vql_simple_out *o, uint64_t word)
{
        const uint64_t id = word & (UINT64_C(0xffff) << 32), len = t.rx ? (uint32_t)word : 0;
        const uint64_t returned = t.packed ? id | len | o->flags : id >> 32 | len << 32;

        memcpy(o->to, &returned, sizeof(returned));
        if (t.logging && t.packed && o->to == o->place)
                vql_log_packed_slot(q, (uint16_t)((o->place - vql_simple_base(q, t)) / 16));
        o->place += !t.packed ? 8 : t.rx ? 16 : 16 * (word >> 48);
        o->to = o->place;
}

/* All n chains of a run are returned. */
static __rte_always_inline void vql_simple_close(const struct vql_queue *q, struct vql_traits t,
                                                 struct vql_simple_pos *p,
                                                 const struct vql_simple_out *o, uint32_t n)
{
        const ptrdiff_t bytes = o->place - vql_simple_base(q, t);
        const uint32_t slot = (uint32_t)bytes / (t.packed ? 16 : 8);

        p->ready -= slot - p->slot;
        p->chains += n;
        p->slot = slot;
        if (unlikely(slot == p->size)) {
                p->slot = 0;
                p->wrap ^= 1;
        }
}

/* Make what was returned visible. */
static __rte_always_inline void vql_simple_publish(struct vql_queue *q, struct vql_traits t,
                                                   struct vql_simple_pos *p)
{
        if (p->chains == 0)
                return;
        if (t.packed)
                vql_packed_advance(q, t, *p->first, (uint16_t)p->slot, p->wrap);
        else
                vql_split_advance(q, t, (uint16_t)p->chains);
        p->chains = 0;
}

#endif
