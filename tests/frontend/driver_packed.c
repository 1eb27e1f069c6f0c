/* SPDX-License-Identifier: BSD-3-Clause */

/* The packed format, virtio 1.2, section 2.8. */

#include "frontend/driver_priv.h"

#include <errno.h>
#include <string.h>

enum { AVAIL = 1 << VRING_PACKED_DESC_F_AVAIL, USED = 1 << VRING_PACKED_DESC_F_USED };

/* A position in a ring that is walked round and round, and the wrap counter of the walk (2.8.1). */
struct spot {
        uint16_t slot;
        bool wrap;
};

static struct spot forward(const struct fe_driver *d, struct spot s, unsigned int n)
{
        unsigned int to = s.slot + n;

        return (struct spot){ .slot = (uint16_t)(to % d->p.size),
                              .wrap = s.wrap ^ (to / d->p.size % 2) };
}

/* How far it is from a to b, in laps of twice the size, after which wrap counters repeat. */
static unsigned int distance(const struct fe_driver *d, struct spot a, struct spot b)
{
        unsigned int size = d->p.size;
        unsigned int from = a.slot + (a.wrap ? 0 : size), to = b.slot + (b.wrap ? 0 : size);

        return (to + 2 * size - from) % (2 * size);
}

static uint16_t load_flags(const struct fe_driver *d, uint16_t slot)
{
        return __atomic_load_n(&d->at.packed[slot].flags, __ATOMIC_ACQUIRE);
}

static bool is_used(uint16_t flags, bool wrap)
{
        return !(flags & AVAIL) == !(flags & USED) && !(flags & USED) == !wrap;
}

static void area_bytes(uint16_t size, uint64_t ret_bytes[3])
{
        ret_bytes[0] = 16ull * size;
        ret_bytes[1] = 4;
        ret_bytes[2] = 4;
}

/* Leave the ring as a device would that used everything up to the start: slots before it in this
 * lap, the others in the lap before. */
static void restart(struct fe_driver *d)
{
        memset(d->at.packed, 0, 16ull * d->p.size);
        for (unsigned int i = 0; i < d->p.size; i++)
                if ((i < d->p.start) == d->avail_wrap)
                        d->at.packed[i].flags = AVAIL | USED;
        *d->at.driver_event = (struct vring_packed_desc_event){ 0 };
        *d->at.device_event = (struct vring_packed_desc_event){ 0 };
}

static void put_desc(struct fe_driver *d, struct spot s, const struct vring_packed_desc *v)
{
        uint16_t flags = (uint16_t)(v->flags | (s.wrap ? AVAIL : USED));
        struct vring_packed_desc *to = &d->at.packed[s.slot];

        to->addr = v->addr;
        to->len = v->len;
        to->id = v->id;
        if (d->held) {
                to->flags = flags;
                return;
        }
        /* The first one holds back all that follow until it is published. */
        d->held = true;
        d->held_slot = s.slot;
        d->held_flags = flags;
}

static void add_direct(struct fe_driver *d, const struct fe_chain *c, uint16_t id)
{
        struct spot s = { d->avail, d->avail_wrap };

        for (unsigned int i = 0; i < c->n; i++, s = forward(d, s, 1)) {
                bool last = i + 1 == c->n;
                struct vring_packed_desc v = {
                        .addr = c->segs[i].gpa,
                        .len = c->segs[i].len,
                        /* Only the last one's id counts (2.8.6): the others bear a wrong one. */
                        .id = last ? id : (uint16_t)~id,
                        .flags = (uint16_t)((last ? 0 : VRING_DESC_F_NEXT) |
                                            (c->segs[i].write ? VRING_DESC_F_WRITE : 0)),
                };

                put_desc(d, s, &v);
        }
}

static void add_indirect(struct fe_driver *d, const struct fe_chain *c, uint16_t id)
{
        struct vring_packed_desc v = {
                .addr = c->table,
                .len = 16 * c->n,
                .id = id,
                .flags = VRING_DESC_F_INDIRECT,
        };

        put_desc(d, (struct spot){ d->avail, d->avail_wrap }, &v);
}

static uint16_t packed_add(struct fe_driver *d, const struct fe_chain *c)
{
        unsigned int n = c->table ? 1 : c->n;
        uint16_t id = fe_pick_id(d);
        struct spot end;

        d->last_slot = d->avail;
        if (c->table)
                add_indirect(d, c, id);
        else
                add_direct(d, c, id);
        end = forward(d, (struct spot){ d->avail, d->avail_wrap }, n);
        d->avail = end.slot;
        d->avail_wrap = end.wrap;
        d->held_slots += n;
        return id;
}

static void packed_publish(struct fe_driver *d)
{
        if (!d->held)
                return;
        /* Everything else of the batch before the flags of its first descriptor (2.8.21). */
        __atomic_store_n(&d->at.packed[d->held_slot].flags, d->held_flags, __ATOMIC_RELEASE);
        d->held = false;
        d->since_kick += d->held_slots;
        d->held_slots = 0;
}

static bool packed_kick_due(struct fe_driver *d)
{
        const struct vring_packed_desc_event *e = d->at.device_event;
        uint16_t flags = __atomic_load_n(&e->flags, __ATOMIC_ACQUIRE);
        uint16_t off = __atomic_load_n(&e->off_wrap, __ATOMIC_RELAXED);
        struct spot old = { d->old_avail, d->old_wrap };
        struct spot event = { off & 0x7fff, off >> 15 };

        if (flags == VRING_PACKED_EVENT_FLAG_DISABLE)
                return false;
        if (flags != VRING_PACKED_EVENT_FLAG_DESC || !d->p.event_idx)
                return true;
        /* Due if the slot that the device named is among those published since the last look. */
        return distance(d, old, event) < d->since_kick;
}

static int packed_peek(struct fe_driver *d, struct fe_used *ret_used)
{
        const struct vring_packed_desc *v = &d->at.packed[d->used];
        uint16_t flags = load_flags(d, d->used);

        /* With nothing outstanding the slot is still marked from its last lap or free. */
        if (!is_used(flags, d->used_wrap))
                return 0;
        /* A device may store all three as one word, which is then not seen as the same place. */
        *ret_used = (struct fe_used){
                .id = __atomic_load_n(&v->id, __ATOMIC_RELAXED),
                .len = __atomic_load_n(&v->len, __ATOMIC_RELAXED),
                .written = flags & VRING_DESC_F_WRITE,
        };
        return 1;
}

static void packed_pop(struct fe_driver *d, uint16_t id)
{
        struct spot s = forward(d, (struct spot){ d->used, d->used_wrap }, d->slot[id].n_desc);

        fe_fifo_push(&d->free_ids, id);
        d->used = s.slot;
        d->used_wrap = s.wrap;
}

static bool packed_calls_on(struct fe_driver *d, uint16_t after)
{
        struct spot s = forward(d, (struct spot){ d->used, d->used_wrap }, after);
        uint16_t flags = VRING_PACKED_EVENT_FLAG_ENABLE;

        if (d->p.event_idx) {
                __atomic_store_n(&d->at.driver_event->off_wrap, (uint16_t)(s.slot | s.wrap << 15),
                                 __ATOMIC_RELAXED);
                flags = VRING_PACKED_EVENT_FLAG_DESC;
        }
        __atomic_store_n(&d->at.driver_event->flags, flags, __ATOMIC_RELEASE);
        /* Our wish before the last look at the ring (2.8.10). */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        return is_used(load_flags(d, s.slot), s.wrap);
}

static void packed_calls_off(struct fe_driver *d)
{
        __atomic_store_n(&d->at.driver_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE,
                         __ATOMIC_RELAXED);
}

/* Slots of all buffers up to `id` in order of addition. */
static unsigned int slots_up_to(const struct fe_driver *d, uint16_t id)
{
        unsigned int n = 0;

        for (unsigned int i = 0; i < d->order.count; i++) {
                uint16_t at = fe_fifo_at(&d->order, i);

                n += d->slot[at].n_desc;
                if (at == id)
                        break;
        }
        return n;
}

/* Where the next used descriptor will be written: behind all that are in the ring now. */
static struct fe_position packed_position(struct fe_driver *d)
{
        struct spot base = { d->used, d->used_wrap }, s = base;

        if (d->in_batch)
                s = forward(d, base, slots_up_to(d, d->batch_id));
        for (unsigned int seen = 0; seen < d->p.size; seen++) {
                uint16_t id = d->at.packed[s.slot].id;

                if (!is_used(load_flags(d, s.slot), s.wrap) || id >= d->p.size)
                        break;
                s = d->p.in_order ? forward(d, base, slots_up_to(d, id))
                                  : forward(d, s, d->slot[id].n_desc);
        }
        return (struct fe_position){ s.slot, s.slot, s.wrap, s.wrap };
}

static struct fe_desc packed_desc(struct fe_driver *d, unsigned int i)
{
        struct spot s = forward(d, (struct spot){ d->last_slot, false }, i);
        struct vring_packed_desc *v = &d->at.packed[s.slot];

        return (struct fe_desc){
                .addr = (uint64_t *)&v->addr,
                .len = &v->len,
                .flags = d->held && d->held_slot == s.slot ? &d->held_flags : &v->flags,
                .id = &v->id,
        };
}

static void packed_jump(struct fe_driver *d, uint16_t n)
{
        struct spot s = { d->avail, d->avail_wrap };

        for (unsigned int i = 0; i < n; i++, s = forward(d, s, 1))
                __atomic_store_n(&d->at.packed[s.slot].flags, s.wrap ? AVAIL : USED,
                                 __ATOMIC_RELEASE);
}

const struct fe_driver_ops fe_packed_ops = {
        .area_bytes = area_bytes,
        .restart = restart,
        .add = packed_add,
        .publish = packed_publish,
        .kick_due = packed_kick_due,
        .peek = packed_peek,
        .pop = packed_pop,
        .calls_on = packed_calls_on,
        .calls_off = packed_calls_off,
        .device_position = packed_position,
        .ring_desc = packed_desc,
        .jump = packed_jump,
};
