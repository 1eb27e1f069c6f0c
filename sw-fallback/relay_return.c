/* SPDX-License-Identifier: BSD-3-Clause */

/* From the device back to the guest. */

#include "base/bits.h"
#include "sw-fallback/publish.h"
#include "sw-fallback/relay_impl.h"
#include "sw-fallback/walk.h"
#include "virtqueue/features.h"

/* The buffers of a chain that the device has returned, one after the other. */
struct scan {
        uint16_t at;   /* entry */
        uint16_t left; /* of them */
        bool in_table;
        struct vql_walk w;
};

static struct scan scan_begin(const struct vql_relay *r, uint16_t head)
{
        return (struct scan){ .at = head, .left = r->chain[head].n };
}

/* Tables are the guest's, and may have changed meanwhile: a fault then, as at any time. */
static bool scan_next(const struct vql_relay *r, struct vql_traits t, struct scan *s,
                      struct vql_desc *ret_buffer)
{
        if (s->in_table)
                s->in_table = vql_walk_follow(r->q, t, &s->w);
        while (!s->in_table && s->left > 0) {
                const struct vring_desc *e = &r->entry[s->at];

                s->w = (struct vql_walk){ .d = { e->addr, e->len, e->flags, 0 } };
                s->at = e->next;
                s->left--;
                if (!(e->flags & VRING_DESC_F_INDIRECT)) {
                        *ret_buffer = s->w.d;
                        return true;
                }
                s->in_table = vql_walk_enter(r->q, t, &s->w);
        }
        *ret_buffer = s->w.d;
        return s->in_table;
}

/* The device wrote `len` bytes to a chain, from its begin on. */
static __rte_noinline void log_written(const struct vql_relay *r, struct vql_traits t,
                                       uint16_t head, uint32_t len)
{
        struct scan s = scan_begin(r, head);
        struct vql_desc b;

        while (len > 0 && scan_next(r, t, &s, &b)) {
                const uint32_t here = RTE_MIN(len, b.len);

                vql_dirty_log_mark(r->q->log, b.addr, here);
                len -= here;
        }
}

/* Read the first bytes of a chain.  False: it has fewer, or they are nowhere. */
static bool read_begin(const struct vql_relay *r, struct vql_traits t, uint16_t head, uint8_t *to,
                       uint32_t len)
{
        struct scan s = scan_begin(r, head);
        struct vql_desc b = { .len = 0 };

        while (len > 0) {
                uint64_t here = RTE_MIN(len, b.len);
                const uint8_t *va;

                if (here == 0) {
                        if (!scan_next(r, t, &s, &b))
                                return false;
                        continue;
                }
                va = vql_mem_at(r->q->mem, &r->q->hit, b.addr, &here);
                if (!va)
                        return false;
                memcpy(to, va, here);
                to += here;
                len -= (uint32_t)here;
                b.addr += here;
                b.len -= (uint32_t)here;
        }
        return true;
}

/* How many buffers follow for the packet that this one begins: only its header tells. */
static __rte_noinline uint32_t buffers_to_come(const struct vql_relay *r, struct vql_traits t,
                                               uint16_t head)
{
        struct virtio_net_hdr_mrg_rxbuf hdr;

        if (!vql_has(r->q->features, VIRTIO_NET_F_MRG_RXBUF) ||
            !read_begin(r, t, head, (uint8_t *)&hdr, sizeof(hdr)) || hdr.num_buffers == 0)
                return 0;
        return hdr.num_buffers - 1u;
}

/* Chains on their way back, not yet visible to the guest. */
struct batch {
        struct vql_done done[VQL_BURST];
        uint16_t n;
        uint32_t count; /* with those that are visible */
        uint64_t packets, bytes;
};

/*
 * Count a chain to the guest.  A packet that goes on in the next buffer has filled this one
 * (virtio 1.2, 5.1.6.4.1), so that the guest's memory is seldom asked.
 */
static inline void count_filled(struct vql_relay *r, struct vql_traits t, struct batch *b,
                                uint16_t head, uint32_t len)
{
        const uint32_t hdr_len = r->q->hdr_len;

        if (unlikely(r->more > 0)) {
                r->more--;
                b->bytes += len;
                return;
        }
        b->packets++;
        b->bytes += len > hdr_len ? len - hdr_len : 0;
        if (unlikely(len == r->chain[head].bytes))
                r->more = buffers_to_come(r, t, head);
}

static inline void free_chain(struct vql_relay *r, struct vql_relay_chain *c, uint16_t head)
{
        r->entry[c->last].next = r->free_head;
        r->free_head = head;
        r->free += c->n;
        c->n = 0;
}

static __rte_noinline void note_disorder(struct vql_relay *r)
{
        if (!atomic_exchange_explicit(&r->out_of_order, true, memory_order_relaxed))
                r->news = true;
}

static inline void flush(struct vql_relay *r, struct vql_traits t, struct batch *b)
{
        if (b->n > 0)
                vql_commit_some(r->q, t, b->done, b->n);
        b->count += b->n;
        b->n = 0;
}

/* A chain comes back with `len` bytes written. */
static __rte_always_inline void finish(struct vql_relay *r, struct vql_traits t, struct batch *b,
                                       uint16_t head, uint32_t len)
{
        struct vql_relay_chain *c = &r->chain[head];

        if (t.rx) {
                if (t.logging)
                        log_written(r, t, head, len);
                count_filled(r, t, b, head, len);
        } else {
                b->packets++;
                b->bytes += c->bytes - r->q->hdr_len;
        }
        if (unlikely(c->turn != r->returned))
                note_disorder(r);
        b->done[b->n++] = (struct vql_done){ len, c->id, c->slots };
        vql_shadow_step(&r->shadow, t.packed, c->n);
        free_chain(r, c, head);
        vql_count(&r->returned, 1);
        if (unlikely(b->n == VQL_BURST))
                flush(r, t, b);
}

/*
 * A device that returns in order may name the last chain of several, and has filled those before it
 * completely (virtio 1.2, 2.7.9 and 2.8.9).
 */
static __rte_noinline void finish_before(struct vql_relay *r, struct vql_traits t, struct batch *b,
                                         uint16_t head)
{
        for (;;) {
                const uint16_t first = r->order[r->returned & r->order_mask];

                if (first == head)
                        return;
                finish(r, t, b, first, t.rx ? r->chain[first].bytes : 0);
        }
}

/* Believe what a used element says?  Of chains that the device only reads, the length is noise. */
static inline bool check_used(struct vql_relay *r, struct vql_traits t, struct vql_shadow_used *u)
{
        enum vql_relay_fault f;

        if (unlikely(u->id >= r->shadow.size))
                f = VQL_RELAY_USED_ID;
        else if (unlikely(r->chain[u->id].n == 0))
                f = VQL_RELAY_USED_TWICE;
        else if (unlikely(t.rx && u->len > r->chain[u->id].bytes))
                f = VQL_RELAY_USED_LEN;
        else {
                u->len = t.rx ? u->len : 0;
                return true;
        }
        vql_relay_fail(r, f);
        return false;
}

/* The next used element, if there is one and it may be believed. */
static __rte_always_inline bool next_used(struct vql_relay *r, struct vql_traits t,
                                          struct vql_shadow_used *ret_used)
{
        if (!t.packed)
                *ret_used = vql_shadow_read_split(&r->shadow);
        else if (!vql_shadow_read_packed(&r->shadow, ret_used))
                return false;
        return check_used(r, t, ret_used);
}

/* Split: how many elements the device says there are, if that can be. */
static uint16_t count_returned(struct vql_relay *r)
{
        const uint16_t n = vql_shadow_returned(&r->shadow);

        if (likely(n <= r->taken - r->returned))
                return n;
        vql_relay_fail(r, VQL_RELAY_USED_INDEX);
        return 0;
}

static __rte_always_inline uint32_t return_chains(struct vql_relay *r, bool packed, uint32_t most)
{
        const struct vql_traits t = vql_relay_traits(r->q, packed);
        const uint16_t n = packed ? 0 : count_returned(r);
        const uint16_t end = (uint16_t)(r->shadow.next_used + n);
        struct batch b = { .n = 0 };
        struct vql_shadow_used u;

        /* One element may stand for several chains, and then there are fewer than was said. */
        while (b.count + b.n < most && (packed || (uint16_t)(end - r->shadow.next_used - 1) < n) &&
               next_used(r, t, &u)) {
                if (unlikely(r->order != NULL))
                        finish_before(r, t, &b, (uint16_t)u.id);
                finish(r, t, &b, (uint16_t)u.id, u.len);
        }
        flush(r, t, &b);
        if (b.count > 0) {
                vql_count(&r->q->packets, b.packets);
                vql_count(&r->q->bytes, b.bytes);
        }
        return b.count;
}

uint32_t vql_relay_return(struct vql_relay *r, uint32_t most)
{
        return r->q->packed ? return_chains(r, true, most) : return_chains(r, false, most);
}
