/* SPDX-License-Identifier: BSD-3-Clause */

/* The split format, virtio 1.2, section 2.7. */

#include "frontend/driver_priv.h"

#include <errno.h>
#include <string.h>

/* The event fields lie behind the rings (2.7.6, 2.7.8). */
static uint16_t *used_event(const struct fe_driver *d)
{
        return &d->at.avail->ring[d->p.size];
}

static uint16_t *avail_event(const struct fe_driver *d)
{
        return (uint16_t *)&d->at.used->ring[d->p.size];
}

static uint16_t used_idx(const struct fe_driver *d)
{
        return __atomic_load_n(&d->at.used->idx, __ATOMIC_ACQUIRE);
}

static void area_bytes(uint16_t size, uint64_t ret_bytes[3])
{
        ret_bytes[0] = 16ull * size;
        ret_bytes[1] = 6 + 2ull * size;
        ret_bytes[2] = 6 + 8ull * size;
}

static void restart(struct fe_driver *d)
{
        uint64_t bytes[3];

        area_bytes(d->p.size, bytes);
        memset(d->at.desc, 0, bytes[0]);
        memset(d->at.avail, 0, bytes[1]);
        memset(d->at.used, 0, bytes[2]);
        d->at.avail->idx = d->p.start;
        d->at.used->idx = d->p.start;
        *used_event(d) = d->p.start;
        *avail_event(d) = d->p.start;
}

static uint16_t add_direct(struct fe_driver *d, const struct fe_chain *c)
{
        uint16_t head = fe_pick_id(d), at = head;

        for (unsigned int i = 0; i < c->n; i++) {
                bool last = i + 1 == c->n;
                uint16_t next = last ? 0 : fe_pick_id(d);

                d->at.desc[at] = (struct vring_desc){
                        .addr = c->segs[i].gpa,
                        .len = c->segs[i].len,
                        .flags = (uint16_t)((last ? 0 : VRING_DESC_F_NEXT) |
                                            (c->segs[i].write ? VRING_DESC_F_WRITE : 0)),
                        .next = next,
                };
                d->next[at] = next;
                at = next;
        }
        return head;
}

static uint16_t add_indirect(struct fe_driver *d, const struct fe_chain *c)
{
        uint16_t head = fe_pick_id(d);

        d->at.desc[head] = (struct vring_desc){
                .addr = c->table,
                .len = 16 * c->n,
                .flags = VRING_DESC_F_INDIRECT,
        };
        return head;
}

static uint16_t split_add(struct fe_driver *d, const struct fe_chain *c)
{
        uint16_t head = c->table ? add_indirect(d, c) : add_direct(d, c);

        d->at.avail->ring[d->avail % d->p.size] = head;
        d->avail++;
        return head;
}

static void split_publish(struct fe_driver *d)
{
        d->since_kick += (uint16_t)(d->avail - d->published);
        d->published = d->avail;
        /* Descriptors and ring entries before the index (2.7.13.3). */
        __atomic_store_n(&d->at.avail->idx, d->avail, __ATOMIC_RELEASE);
}

static bool split_kick_due(struct fe_driver *d)
{
        uint16_t event;

        if (!d->p.event_idx)
                return !(__atomic_load_n(&d->at.used->flags, __ATOMIC_RELAXED) &
                         VRING_USED_F_NO_NOTIFY);
        /* Due if the entry that the device named is among those published since the last look. */
        event = __atomic_load_n(avail_event(d), __ATOMIC_RELAXED);
        return (uint16_t)(event - d->old_avail) < d->since_kick;
}

static int split_peek(struct fe_driver *d, struct fe_used *ret_used)
{
        uint16_t ready = (uint16_t)(used_idx(d) - d->used);
        const struct vring_used_elem *e;

        if (ready == 0)
                return 0;
        if (ready > d->outstanding - d->added.count)
                return fe_fail(&d->error, EBADMSG,
                               "used index %u is %u ahead of %u, only %u buffers are published",
                               used_idx(d), ready, d->used, d->outstanding - d->added.count);
        e = &d->at.used->ring[d->used % d->p.size];
        *ret_used = (struct fe_used){ .id = e->id, .len = e->len, .written = true };
        return 1;
}

static void split_pop(struct fe_driver *d, uint16_t id)
{
        const struct fe_slot *s = &d->slot[id];
        uint16_t at = id;

        for (unsigned int i = 0; i < s->n_desc; i++) {
                uint16_t next = d->next[at];

                fe_fifo_push(&d->free_ids, at);
                at = next;
        }
        d->used++;
}

static bool split_calls_on(struct fe_driver *d, uint16_t after)
{
        if (d->p.event_idx)
                __atomic_store_n(used_event(d), (uint16_t)(d->used + after), __ATOMIC_RELAXED);
        else
                __atomic_store_n(&d->at.avail->flags, 0, __ATOMIC_RELAXED);
        /* Our wish before the last look at the device's index (2.7.7). */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        return (uint16_t)(used_idx(d) - d->used) > after;
}

static void split_calls_off(struct fe_driver *d)
{
        /* With EVENT_IDX the flag must stay 0; an index just passed is as far away as can be. */
        if (d->p.event_idx)
                __atomic_store_n(used_event(d), (uint16_t)(d->used - 1), __ATOMIC_RELAXED);
        else
                __atomic_store_n(&d->at.avail->flags, VRING_AVAIL_F_NO_INTERRUPT, __ATOMIC_RELAXED);
}

static struct fe_position split_position(struct fe_driver *d)
{
        uint16_t used = used_idx(d);

        return (struct fe_position){ .avail = used, .used = used };
}

static struct fe_desc split_desc(struct fe_driver *d, unsigned int i)
{
        uint16_t at = d->last_id;
        struct vring_desc *v;

        while (i-- > 0)
                at = d->next[at];
        v = &d->at.desc[at];
        return (struct fe_desc){
                .addr = (uint64_t *)&v->addr, .len = &v->len, .flags = &v->flags, .next = &v->next
        };
}

static void split_jump(struct fe_driver *d, uint16_t n)
{
        __atomic_store_n(&d->at.avail->idx, (uint16_t)(d->published + n), __ATOMIC_RELEASE);
}

const struct fe_driver_ops fe_split_ops = {
        .area_bytes = area_bytes,
        .restart = restart,
        .add = split_add,
        .publish = split_publish,
        .kick_due = split_kick_due,
        .peek = split_peek,
        .pop = split_pop,
        .calls_on = split_calls_on,
        .calls_off = split_calls_off,
        .device_position = split_position,
        .ring_desc = split_desc,
        .jump = split_jump,
};
