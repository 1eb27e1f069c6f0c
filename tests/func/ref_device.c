/* SPDX-License-Identifier: BSD-3-Clause */
#include "ref_device.h"

#include <string.h>

enum { AVAIL = 1 << VRING_PACKED_DESC_F_AVAIL, USED = 1 << VRING_PACKED_DESC_F_USED };

void ref_init(struct ref_device *v, const struct fe_driver *d)
{
        const struct fe_driver_params *p = fe_driver_params(d);

        *v = (struct ref_device){
                .mem = p->mem,
                .at = fe_driver_pointers(d),
                .size = p->size,
                .packed = p->packed,
                .event_idx = p->event_idx,
                .in_order = p->in_order,
                .avail = p->start,
                .used = p->start,
                .old_used = p->start,
                .avail_wrap = !p->start_wrap_0,
                .used_wrap = !p->start_wrap_0,
                .old_used_wrap = !p->start_wrap_0,
        };
}

/* The driver may be another thread. */
static uint16_t load16(const uint16_t *p)
{
        return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void store16(uint16_t *p, uint16_t v)
{
        __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* Behind the used ring (2.7.8). */
static uint16_t *avail_event(const struct ref_device *v)
{
        return (uint16_t *)&v->at.used->ring[v->size];
}

static int fail(struct ref_device *v, enum ref_fault fault)
{
        v->fault = fault;
        return -1;
}

static bool in_memory(const struct fe_memory *m, uint64_t gpa, uint64_t len)
{
        for (uint64_t i = 0; i < len; i++)
                if (gpa + i < gpa || !fe_memory_at(m, gpa + i, 1))
                        return false;
        return true;
}

static int push(struct ref_device *v, struct ref_chain *c, const struct fe_seg *s)
{
        if (c->n == v->size)
                return fail(v, REF_DESC_LOOP);
        if (!in_memory(v->mem, s->gpa, s->len))
                return fail(v, REF_ADDRESS);
        if (c->n > 0 && c->segs[c->n - 1].write && !s->write)
                return fail(v, REF_DIRECTION);
        c->segs[c->n++] = *s;
        return 0;
}

/* ---- split ---- */

static int split_table(struct ref_device *v, struct ref_chain *c, const struct vring_desc *ptr)
{
        unsigned int n = ptr->len / 16, at = 0;

        if (ptr->len == 0 || ptr->len % 16 || ptr->flags & VRING_DESC_F_NEXT)
                return fail(v, REF_INDIRECT);
        for (unsigned int seen = 0;; seen++) {
                struct vring_desc d;
                struct fe_seg s;

                if (at >= n)
                        return fail(v, REF_DESC_INDEX);
                if (seen == n)
                        return fail(v, REF_DESC_LOOP);
                if (fe_memory_read(v->mem, ptr->addr + 16ull * at, &d, sizeof(d)) < 0)
                        return fail(v, REF_ADDRESS);
                if (d.flags & VRING_DESC_F_INDIRECT)
                        return fail(v, REF_INDIRECT);
                s = (struct fe_seg){ d.addr, d.len, d.flags & VRING_DESC_F_WRITE, 0 };
                if (push(v, c, &s) < 0)
                        return -1;
                if (!(d.flags & VRING_DESC_F_NEXT))
                        return 0;
                at = d.next;
        }
}

static int split_take(struct ref_device *v, struct ref_chain *c)
{
        uint16_t ready =
                (uint16_t)(__atomic_load_n(&v->at.avail->idx, __ATOMIC_ACQUIRE) - v->avail);
        unsigned int at;

        if (ready > v->size)
                return fail(v, REF_AVAIL_INDEX);
        if (ready == 0)
                return 0;
        at = v->at.avail->ring[v->avail % v->size];
        c->id = (uint16_t)at;
        c->n_desc = 1;
        for (;;) {
                struct vring_desc d;
                struct fe_seg s;

                if (at >= v->size)
                        return fail(v, REF_DESC_INDEX);
                d = v->at.desc[at];
                if (d.flags & VRING_DESC_F_INDIRECT) {
                        if (split_table(v, c, &d) < 0)
                                return -1;
                        break;
                }
                s = (struct fe_seg){ d.addr, d.len, d.flags & VRING_DESC_F_WRITE, 0 };
                if (push(v, c, &s) < 0)
                        return -1;
                if (!(d.flags & VRING_DESC_F_NEXT))
                        break;
                at = d.next;
        }
        v->avail++;
        return 1;
}

/* ---- packed ---- */

static void step(const struct ref_device *v, uint16_t *slot, bool *wrap, unsigned int n)
{
        while (n-- > 0) {
                if (++*slot == v->size) {
                        *slot = 0;
                        *wrap = !*wrap;
                }
        }
}

static bool is_avail(uint16_t flags, bool wrap)
{
        return !!(flags & AVAIL) == wrap && !!(flags & USED) != wrap;
}

static int packed_table(struct ref_device *v, struct ref_chain *c,
                        const struct vring_packed_desc *ptr)
{
        if (ptr->len == 0 || ptr->len % 16 || ptr->flags & VRING_DESC_F_NEXT)
                return fail(v, REF_INDIRECT);
        for (unsigned int i = 0; i < ptr->len / 16; i++) {
                struct vring_packed_desc d;
                struct fe_seg s;

                if (fe_memory_read(v->mem, ptr->addr + 16ull * i, &d, sizeof(d)) < 0)
                        return fail(v, REF_ADDRESS);
                if (d.flags & VRING_DESC_F_INDIRECT)
                        return fail(v, REF_INDIRECT);
                s = (struct fe_seg){ d.addr, d.len, d.flags & VRING_DESC_F_WRITE, 0 };
                if (push(v, c, &s) < 0)
                        return -1;
        }
        return 0;
}

static int packed_take(struct ref_device *v, struct ref_chain *c)
{
        uint16_t flags = __atomic_load_n(&v->at.packed[v->avail].flags, __ATOMIC_ACQUIRE);

        if (!is_avail(flags, v->avail_wrap))
                return 0;
        c->n_desc = 0;
        do {
                const struct vring_packed_desc *d = &v->at.packed[v->avail];
                struct fe_seg s = { d->addr, d->len, d->flags & VRING_DESC_F_WRITE, 0 };

                flags = d->flags;
                c->id = d->id;
                if (c->n_desc == v->size)
                        return fail(v, REF_DESC_LOOP);
                if (flags & VRING_DESC_F_INDIRECT && c->n_desc > 0)
                        return fail(v, REF_INDIRECT);
                if ((flags & VRING_DESC_F_INDIRECT ? packed_table(v, c, d) : push(v, c, &s)) < 0)
                        return -1;
                c->n_desc++;
                step(v, &v->avail, &v->avail_wrap, 1);
        } while (flags & VRING_DESC_F_NEXT);
        return 1;
}

/* ---- both ---- */

int ref_take(struct ref_device *v, struct ref_chain *ret_chain)
{
        ret_chain->n = 0;
        return v->packed ? packed_take(v, ret_chain) : split_take(v, ret_chain);
}

void ref_return(struct ref_device *v, uint16_t id, uint16_t n_desc, uint32_t len,
                unsigned int skipped)
{
        struct vring_packed_desc *d;
        uint16_t flags;

        if (!v->packed) {
                v->at.used->ring[v->used % v->size] = (struct vring_used_elem){ id, len };
                v->used = (uint16_t)(v->used + 1 + skipped);
                v->used_since += 1 + skipped;
                __atomic_store_n(&v->at.used->idx, v->used, __ATOMIC_RELEASE);
                return;
        }
        d = &v->at.packed[v->used];
        flags = (uint16_t)((v->used_wrap ? AVAIL | USED : 0) | (len > 0 ? VRING_DESC_F_WRITE : 0));
        __atomic_store_n(&d->id, id, __ATOMIC_RELAXED);
        __atomic_store_n(&d->len, len, __ATOMIC_RELAXED);
        __atomic_store_n(&d->flags, flags, __ATOMIC_RELEASE);
        step(v, &v->used, &v->used_wrap, n_desc + skipped);
        v->used_since += n_desc + skipped;
}

bool ref_call_due(struct ref_device *v)
{
        unsigned int since = v->used_since;
        uint16_t slot = v->old_used, event, flags;
        bool wrap = v->old_used_wrap;

        v->used_since = 0;
        v->old_used = v->used;
        v->old_used_wrap = v->used_wrap;
        if (since == 0)
                return false;
        /* What was returned before the driver's wish: pairs with the driver's last look. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (!v->packed) {
                if (!v->event_idx)
                        return !(load16(&v->at.avail->flags) & VRING_AVAIL_F_NO_INTERRUPT);
                event = load16(&v->at.avail->ring[v->size]);
                return (uint16_t)(v->used - event - 1) < since;
        }
        flags = __atomic_load_n(&v->at.driver_event->flags, __ATOMIC_ACQUIRE);
        if (flags == VRING_PACKED_EVENT_FLAG_DISABLE)
                return false;
        if (flags == VRING_PACKED_EVENT_FLAG_ENABLE)
                return true;
        event = load16(&v->at.driver_event->off_wrap);
        for (unsigned int i = 0; i < since; i++, step(v, &slot, &wrap, 1))
                if (slot == (event & 0x7fff) && wrap == event >> 15)
                        return true;
        return false;
}

void ref_kicks_on(struct ref_device *v, uint16_t after)
{
        uint16_t slot = v->avail;
        bool wrap = v->avail_wrap;

        if (!v->packed) {
                store16(&v->at.used->flags, 0);
                if (v->event_idx)
                        store16(avail_event(v), (uint16_t)(v->avail + after));
        } else if (!v->event_idx) {
                store16(&v->at.device_event->flags, VRING_PACKED_EVENT_FLAG_ENABLE);
        } else {
                step(v, &slot, &wrap, after);
                store16(&v->at.device_event->off_wrap, (uint16_t)(slot | wrap << 15));
                __atomic_store_n(&v->at.device_event->flags, VRING_PACKED_EVENT_FLAG_DESC,
                                 __ATOMIC_RELEASE);
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void ref_kicks_off(struct ref_device *v)
{
        if (v->packed)
                store16(&v->at.device_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE);
        else if (v->event_idx)
                store16(avail_event(v), (uint16_t)(v->avail - 1));
        else
                store16(&v->at.used->flags, VRING_USED_F_NO_NOTIFY);
}
