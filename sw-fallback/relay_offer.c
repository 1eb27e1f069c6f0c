/* SPDX-License-Identifier: BSD-3-Clause */

/* From the guest to the device. */

#include "sw-fallback/publish.h"
#include "sw-fallback/relay_impl.h"
#include "sw-fallback/walk.h"

/* What a chain comes to in the shadow. */
struct gather {
        uint32_t n, room; /* entries, also those beyond what is free; and free ones */
        uint16_t last, next;
        uint64_t bytes;
};

enum offer {
        OFFER_TAKEN,
        OFFER_RETURNED, /* the chain bore nothing */
        OFFER_NONE,     /* it waits, or there is a fault */
};

static inline void gather_entry(const struct vql_relay *r, struct gather *g,
                                const struct vql_desc *d)
{
        if (likely(g->n < g->room)) {
                struct vring_desc *e = &r->entry[g->next];

                e->addr = d->addr;
                e->len = d->len;
                e->flags = d->flags & (VRING_DESC_F_WRITE | VRING_DESC_F_INDIRECT);
                g->last = g->next;
                g->next = e->next;
        }
        g->n++;
}

/*
 * One buffer.  The device need not cope with empty ones, and many do not.  Buffers that go over
 * the border of two regions stay whole: the device's addresses are the guest's.
 */
static inline bool gather_buffer(struct vql_relay *r, struct vql_queue *q, struct gather *g,
                                 const struct vql_desc *d)
{
        const uint64_t off = d->addr - q->hit.gpa;

        if (unlikely(d->len == 0))
                return true;
        if (unlikely(!!(d->flags & VRING_DESC_F_WRITE) != q->rx)) {
                vql_queue_fail(q, VQL_FAULT_DESC_DIRECTION);
                return false;
        }
        if (unlikely(off >= q->hit.size || d->len > q->hit.size - off) &&
            !vql_walk_covered(q, d->addr, d->len)) {
                vql_queue_fail(q, VQL_FAULT_DESC_ADDRESS);
                return false;
        }
        g->bytes += d->len;
        gather_entry(r, g, d);
        return true;
}

static bool in_one_region(struct vql_queue *q, uint64_t gpa, uint64_t len)
{
        uint64_t here = len;

        return vql_mem_at(q->mem, &q->hit, gpa, &here) && here == len;
}

/*
 * An indirect table.  All of it is read and checked, and it goes to the device as it is if that is
 * able to read it, else as its buffers.  The guest may change it after that; it is the guest's
 * memory that the device can reach, and no other.
 */
static bool gather_table(struct vql_relay *r, struct vql_traits t, struct gather *g,
                         const struct vql_desc *table)
{
        struct vql_queue *q = r->q;
        struct vql_walk w = { .d = *table };
        const struct vql_desc whole = { .addr = table->addr,
                                        .len = table->len,
                                        .flags = VRING_DESC_F_INDIRECT };
        struct gather before = *g;
        bool as_it_is = r->indirect && in_one_region(q, table->addr, table->len);

        if (!vql_walk_enter(q, t, &w))
                return false;
        do {
                as_it_is &= w.d.len > 0;
                if (!gather_buffer(r, q, g, &w.d))
                        return false;
        } while (vql_walk_follow(q, t, &w));
        if (as_it_is) {
                before.bytes = g->bytes;
                *g = before;
                gather_entry(r, g, &whole);
        }
        return q->fault == VQL_FAULT_NONE;
}

static bool gather_desc(struct vql_relay *r, struct vql_traits t, struct gather *g,
                        const struct vql_desc *d)
{
        if (d->flags & VRING_DESC_F_INDIRECT)
                return gather_table(r, t, g, d);
        return gather_buffer(r, r->q, g, d);
}

static __rte_noinline VQL_SHARED bool gather_chain(struct vql_relay *r, struct vql_traits t,
                                                   struct gather *g, const struct vql_claim *c)
{
        struct vql_walk w;

        vql_walk_begin(&w, r->q, t, c);
        do {
                if (!gather_desc(r, t, g, &w.d))
                        return false;
        } while (vql_walk_follow(r->q, t, &w));
        return r->q->fault == VQL_FAULT_NONE;
}

/* Memory may have changed since the chain was taken: its buffers are looked at again. */
static bool gather_pending(struct vql_relay *r, struct vql_traits t, struct gather *g,
                           const struct vql_pending_chain *c)
{
        for (uint32_t i = 0; i < c->n; i++) {
                const struct vring_desc *b = &r->pending->buffer[c->first + i];
                const struct vql_desc d = { b->addr, b->len, b->flags, 0 };

                if (!gather_desc(r, t, g, &d))
                        return false;
        }
        return true;
}

static inline struct gather gather_begin(const struct vql_relay *r)
{
        return (struct gather){ .room = r->free, .next = r->free_head };
}

/* Is there room?  A chain goes as a whole or not at all. */
static inline bool gather_fits(struct vql_relay *r, const struct gather *g)
{
        if (likely(g->n <= g->room))
                return true;
        if (g->n > r->shadow.size)
                vql_relay_fail(r, VQL_RELAY_TOO_LONG);
        r->need = g->n;
        return false;
}

/* The entries that were gathered become a chain, and the device gets it. */
static __rte_always_inline void put(struct vql_relay *r, bool packed, const struct gather *g,
                                    const struct vql_relay_chain *chain)
{
        const uint16_t head = r->free_head;

        r->chain[head] = *chain;
        if (unlikely(r->order != NULL))
                r->order[chain->turn & r->order_mask] = head;
        r->free_head = g->next;
        r->free -= g->n;
        vql_count(&r->taken, 1);
        if (packed)
                vql_shadow_put_packed(&r->shadow, r->entry, head, g->n);
        else
                vql_shadow_put_split(&r->shadow, r->entry, head, g->n);
}

static inline struct vql_relay_chain chain_of(const struct vql_relay *r, const struct gather *g)
{
        return (struct vql_relay_chain){
                .turn = r->taken,
                .bytes = g->bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)g->bytes,
                .n = (uint16_t)g->n,
                .last = g->last,
        };
}

/*
 * A chain that no packet fits in, or that bears none.  Devices may take offence at it, so it is
 * answered here, in its turn: when all before it were returned.
 */
static __rte_noinline VQL_SHARED enum offer return_empty(struct vql_relay *r, struct vql_traits t,
                                                         const struct vql_claim *c)
{
        const struct vql_done done = { 0, c->id, c->slots };

        if (!vql_relay_idle(r))
                return OFFER_NONE;
        vql_commit(r->q, t, &done, 1);
        vql_count(&r->q->drop_short, !t.rx);
        return OFFER_RETURNED;
}

static __rte_always_inline enum offer offer_claim(struct vql_relay *r, struct vql_traits t,
                                                  const struct vql_claim *c)
{
        struct vql_queue *q = r->q;
        struct gather g = gather_begin(r);
        struct vql_relay_chain chain;
        bool good;

        if (likely(!(c->d.flags & (VRING_DESC_F_NEXT | VRING_DESC_F_INDIRECT))))
                good = gather_buffer(r, q, &g, &c->d);
        else
                good = gather_chain(r, t, &g, c);
        if (unlikely(!good))
                return OFFER_NONE;
        if (unlikely(g.bytes <= (t.rx ? 0 : q->hdr_len)))
                return return_empty(r, t, c);
        if (unlikely(!gather_fits(r, &g)))
                return OFFER_NONE;
        chain = chain_of(r, &g);
        chain.id = c->id;
        chain.slots = c->slots;
        put(r, t.packed, &g, &chain);
        if (t.packed)
                vql_packed_step(q, &q->last_avail, &q->avail_wrap, c->slots);
        else
                q->last_avail++;
        return OFFER_TAKEN;
}

/* ---- chains that the last owner left ---- */

static bool offer_pending(struct vql_relay *r, struct vql_traits t)
{
        const struct vql_pending_chain *c = &r->pending->chain[r->pending->at];
        struct gather g = gather_begin(r);
        struct vql_relay_chain chain;

        if (!gather_pending(r, t, &g, c) || !gather_fits(r, &g))
                return false;
        chain = chain_of(r, &g);
        chain.id = c->id;
        chain.slots = c->slots;
        chain.again = true;
        put(r, t.packed, &g, &chain);
        vql_count(&r->repeated, 1);
        __atomic_store_n(&r->pending->at, r->pending->at + 1, __ATOMIC_RELAXED);
        return true;
}

/* ---- chains from the ring ---- */

/* How many chains may be claimed at once, of n. */
static uint16_t may_claim(const struct vql_queue *q, enum vql_relay_take how, uint16_t n)
{
        if (likely(how == VQL_RELAY_TAKE))
                return n;
        if (how == VQL_RELAY_STOP || vql_relay_at_start(q))
                return 0;
        if (q->packed) /* a chain may have any number of slots, and go over the start */
                return 1;
        return (uint16_t)RTE_MIN(UINT16_MAX + 1u - q->last_avail, n);
}

/* Claim and offer up to n chains; false: nothing more can be taken now. */
static __rte_always_inline bool offer_claims(struct vql_relay *r, struct vql_traits t, uint16_t n,
                                             uint32_t *count)
{
        struct vql_queue *q = r->q;
        struct vql_claim_pos pos = {
                .avail = q->last_avail,
                .wrap = q->avail_wrap,
                .slots = vql_relay_slots_out(q, t.packed),
        };
        struct vql_claim c[VQL_BURST];
        const uint16_t got = vql_claim(q, t, &pos, c, n);

        for (uint16_t i = 0; i < got; i++) {
                const enum offer o = offer_claim(r, t, &c[i]);

                if (unlikely(o == OFFER_NONE))
                        return false;
                ++*count;
        }
        return got == n;
}

static __rte_always_inline uint32_t offer_ring(struct vql_relay *r, struct vql_traits t,
                                               enum vql_relay_take how)
{
        uint32_t count = 0;
        uint16_t n;

        do {
                n = may_claim(r->q, how, VQL_BURST);
        } while (n > 0 && r->free > 0 && offer_claims(r, t, n, &count) && count < VQL_RELAY_PASS);
        return count;
}

static __rte_noinline uint32_t offer_all_pending(struct vql_relay *r, struct vql_traits t)
{
        uint32_t count = 0;

        while (vql_pending_count(r->pending) > 0 && offer_pending(r, t))
                count++;
        return count;
}

static __rte_always_inline void show(struct vql_relay *r, bool packed)
{
        const uint32_t n = vql_shadow_show(&r->shadow, packed);

        if (vql_shadow_wants_kick(&r->shadow, n)) {
                vql_count(&r->kicks, 1);
                r->kick(r->arg);
        } else {
                vql_count(&r->kicks_saved, 1);
        }
}

static __rte_always_inline uint32_t offer(struct vql_relay *r, bool packed, enum vql_relay_take how)
{
        const struct vql_traits t = vql_relay_traits(r->q, packed);
        uint32_t count = 0;

        if (unlikely(r->free < r->need))
                return 0;
        r->need = 0;
        if (unlikely(vql_pending_count(r->pending) > 0) && how != VQL_RELAY_STOP)
                count = offer_all_pending(r, t);
        if (likely(vql_pending_count(r->pending) == 0))
                count += offer_ring(r, t, how);
        if (r->shadow.hidden > 0)
                show(r, packed);
        return count;
}

uint32_t vql_relay_offer(struct vql_relay *r, enum vql_relay_take how)
{
        return r->q->packed ? offer(r, true, how) : offer(r, false, how);
}
