/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/sim/sim_ring.h"

#include <errno.h>

#include "virtqueue/ring.h"

enum { WRAP_SHIFT = 15, SLOT_MASK = 0x7fff };

static uint16_t slot_of(const struct sim_ring *r, uint32_t position)
{
        return (uint16_t)(position % r->where.size);
}

static uint8_t wrap_of(const struct sim_ring *r, uint32_t position)
{
        return position < r->where.size;
}

static uint16_t load_flags(const struct sim_ring *r, uint32_t position)
{
        return __atomic_load_n(&r->packed[slot_of(r, position)].flags, __ATOMIC_ACQUIRE);
}

bool vql_sim_packed_has(const struct sim_ring *r)
{
        return vql_packed_is_avail(load_flags(r, r->avail), wrap_of(r, r->avail));
}

/* The driver shows the first descriptor last: with it, the whole chain is there. */
static int read_chain(struct sim_ring *r, struct sim_chain *c, uint32_t most)
{
        for (c->slots = 1; c->slots <= most; c->slots++) {
                const uint32_t at = sim_ring_forward(r, r->avail, c->slots - 1u);
                const struct vring_packed_desc *v = &r->packed[slot_of(r, at)];
                const struct sim_desc d = {
                        .addr = __atomic_load_n(&v->addr, __ATOMIC_RELAXED),
                        .len = __atomic_load_n(&v->len, __ATOMIC_RELAXED),
                        .flags = load_flags(r, at),
                };
                int err;

                c->id = __atomic_load_n(&v->id, __ATOMIC_RELAXED);
                if (d.flags & VRING_DESC_F_INDIRECT)
                        return c->n ? -EBADMSG : vql_sim_chain_add_table(c, r, &d);
                err = vql_sim_chain_add(c, r, &d);
                if (err < 0)
                        return err;
                if (!(d.flags & VRING_DESC_F_NEXT))
                        return 0;
        }
        return -EBADMSG;
}

int vql_sim_packed_take(struct sim_ring *r, struct sim_chain *c)
{
        const uint32_t held = sim_ring_ahead(r, r->avail, r->used);
        int err;

        if (!vql_sim_packed_has(r))
                return 0;
        err = read_chain(r, c, r->where.size - held);
        return err < 0 ? err : 1;
}

static void write_element(struct sim_ring *r, uint32_t at, const struct sim_chain *c)
{
        struct vring_packed_desc *v = &r->packed[slot_of(r, at)];

        __atomic_store_n(&v->id, c->id, __ATOMIC_RELAXED);
        __atomic_store_n(&v->len, c->written, __ATOMIC_RELAXED);
}

/* Pairs with the driver's acquire: element and payload before the flags. */
static void show_element(struct sim_ring *r, uint32_t at, const struct sim_chain *c)
{
        uint16_t flags = wrap_of(r, at) ? VQL_PACKED_AVAIL | VQL_PACKED_USED : 0;

        if (c->written)
                flags |= VRING_DESC_F_WRITE;
        __atomic_store_n(&r->packed[slot_of(r, at)].flags, flags, __ATOMIC_RELEASE);
}

/* The driver looks at the first slot: it becomes visible last, and with it all others. */
void vql_sim_packed_return(struct sim_ring *r, uint16_t n, bool batch)
{
        const struct sim_chain *last = vql_sim_ring_taken(r, (uint16_t)(n - 1));
        uint32_t at = r->used;

        if (batch) {
                write_element(r, at, last);
                show_element(r, at, last);
                return;
        }
        for (uint16_t i = 0; i < n; i++) {
                const struct sim_chain *c = vql_sim_ring_taken(r, i);

                write_element(r, at, c);
                if (i > 0)
                        show_element(r, at, c);
                at = sim_ring_forward(r, at, c->slots);
        }
        show_element(r, r->used, vql_sim_ring_taken(r, 0));
}

void vql_sim_packed_ask_kicks(struct sim_ring *r, bool wanted)
{
        uint16_t flags = wanted ? VRING_PACKED_EVENT_FLAG_ENABLE : VRING_PACKED_EVENT_FLAG_DISABLE;

        if (wanted && r->event_idx) {
                __atomic_store_n(
                        &r->device_event->off_wrap,
                        (uint16_t)(slot_of(r, r->avail) | wrap_of(r, r->avail) << WRAP_SHIFT),
                        __ATOMIC_RELAXED);
                flags = VRING_PACKED_EVENT_FLAG_DESC;
        }
        /* The driver must not pair the new flags with the old offset. */
        __atomic_store_n(&r->device_event->flags, flags, __ATOMIC_RELEASE);
}

bool vql_sim_packed_signal_due(const struct sim_ring *r)
{
        const uint16_t flags = __atomic_load_n(&r->driver_event->flags, __ATOMIC_ACQUIRE);
        uint16_t off_wrap;
        uint32_t event, old;

        if (flags == VRING_PACKED_EVENT_FLAG_DISABLE)
                return false;
        if (flags != VRING_PACKED_EVENT_FLAG_DESC || !r->event_idx)
                return true;
        if (!r->signalled || r->unsignalled >= r->round)
                return true;
        off_wrap = __atomic_load_n(&r->driver_event->off_wrap, __ATOMIC_RELAXED);
        event = (off_wrap & SLOT_MASK) + (off_wrap >> WRAP_SHIFT ? 0u : r->where.size);
        old = sim_ring_forward(r, r->used, r->round - (uint32_t)r->unsignalled);
        return sim_ring_ahead(r, event % r->round, old) < r->unsignalled;
}
