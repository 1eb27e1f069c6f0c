/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/sim/sim_ring.h"

#include <errno.h>

static uint16_t load16(const uint16_t *p)
{
        return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* The two event fields lie behind the rings that they do not belong to (virtio 1.2, 2.7.10). */
static uint16_t *avail_event(const struct sim_ring *r)
{
        return (uint16_t *)(void *)&r->used_ring->ring[r->where.size];
}

static uint16_t used_event(const struct sim_ring *r)
{
        return load16(&r->avail_ring->ring[r->where.size]);
}

bool vql_sim_split_has(const struct sim_ring *r)
{
        return __atomic_load_n(&r->avail_ring->idx, __ATOMIC_ACQUIRE) != r->avail;
}

static struct sim_desc read_desc(const struct sim_ring *r, uint16_t i)
{
        const struct vring_desc *d = &r->desc[i];

        return (struct sim_desc){
                .addr = __atomic_load_n(&d->addr, __ATOMIC_RELAXED),
                .len = __atomic_load_n(&d->len, __ATOMIC_RELAXED),
                .flags = load16(&d->flags),
                .next = load16(&d->next),
        };
}

/* A chain longer than its table runs in a circle. */
static int read_chain(const struct sim_ring *r, uint16_t head, struct sim_chain *c)
{
        uint16_t at = head;

        for (unsigned int seen = 0; seen < r->where.size; seen++) {
                struct sim_desc d;
                int err;

                if (at >= r->where.size)
                        return -EBADMSG;
                d = read_desc(r, at);
                if (d.flags & VRING_DESC_F_INDIRECT)
                        return vql_sim_chain_add_table(c, r, &d);
                err = vql_sim_chain_add(c, r, &d);
                if (err < 0)
                        return err;
                if (!(d.flags & VRING_DESC_F_NEXT))
                        return 0;
                at = d.next;
        }
        return -EBADMSG;
}

int vql_sim_split_take(struct sim_ring *r, struct sim_chain *c)
{
        const uint16_t idx = __atomic_load_n(&r->avail_ring->idx, __ATOMIC_ACQUIRE);
        int err;

        if (idx == r->avail)
                return 0;
        if ((uint16_t)(idx - r->used) > r->where.size)
                return -EBADMSG;
        c->id = load16(&r->avail_ring->ring[r->avail % r->where.size]);
        c->slots = 1;
        err = read_chain(r, c->id, c);
        return err < 0 ? err : 1;
}

static void write_element(struct sim_ring *r, uint32_t at, const struct sim_chain *c)
{
        struct vring_used_elem *u = &r->used_ring->ring[at % r->where.size];

        __atomic_store_n(&u->id, c->id, __ATOMIC_RELAXED);
        __atomic_store_n(&u->len, c->written, __ATOMIC_RELAXED);
}

void vql_sim_split_return(struct sim_ring *r, uint16_t n, bool batch)
{
        if (batch) {
                write_element(r, r->used, vql_sim_ring_taken(r, (uint16_t)(n - 1)));
        } else {
                for (uint16_t i = 0; i < n; i++)
                        write_element(r, r->used + i, vql_sim_ring_taken(r, i));
        }
        /* Pairs with the driver's acquire: elements and payload before the index. */
        __atomic_store_n(&r->used_ring->idx, (uint16_t)(r->used + n), __ATOMIC_RELEASE);
}

void vql_sim_split_ask_kicks(struct sim_ring *r, bool wanted)
{
        if (!r->event_idx)
                __atomic_store_n(&r->used_ring->flags, wanted ? 0 : VRING_USED_F_NO_NOTIFY,
                                 __ATOMIC_RELAXED);
        else if (wanted)
                __atomic_store_n(avail_event(r), (uint16_t)r->avail, __ATOMIC_RELAXED);
}

bool vql_sim_split_signal_due(const struct sim_ring *r)
{
        uint16_t old;

        if (!r->event_idx)
                return !(load16(&r->avail_ring->flags) & VRING_AVAIL_F_NO_INTERRUPT);
        if (!r->signalled || r->unsignalled > UINT16_MAX)
                return true;
        old = (uint16_t)(r->used - r->unsignalled);
        return (uint16_t)(used_event(r) - old) < r->unsignalled;
}
