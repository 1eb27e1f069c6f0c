/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/sim/sim_ring.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "virtqueue/cursor.h"
#include "virtqueue/ring.h"

enum { SPLIT_ROUND = 65536 };

static const char *const area_names[VQL_AREA_COUNT] = { "descriptor", "driver", "device" };

static uint64_t area_iova(const struct vql_dev_ring *w, enum vql_ring_area a)
{
        return a == VQL_AREA_DESC ? w->desc : a == VQL_AREA_DRIVER ? w->driver : w->device;
}

/* The device writes to its own area, and returns buffers of a packed ring in place. */
static void *area_at(const struct sim_memory *m, const struct vql_dev_ring *w, enum vql_ring_area a)
{
        const bool write = a == VQL_AREA_DEVICE || (w->packed && a == VQL_AREA_DESC);

        return vql_sim_memory_area(m, area_iova(w, a), vql_area_bytes(a, w->size, w->packed),
                                   write);
}

static int find_areas(struct sim_ring *r, struct vql_error *e)
{
        void *at[VQL_AREA_COUNT];

        for (enum vql_ring_area a = 0; a < VQL_AREA_COUNT; a++) {
                at[a] = area_at(r->mem, &r->where, a);
                if (!at[a])
                        return vql_fail(e, EINVAL, "the %s area at %#" PRIx64 " is not mapped",
                                        area_names[a], area_iova(&r->where, a));
                if ((uintptr_t)at[a] % vql_area_align(a, r->where.packed))
                        return vql_fail(e, EINVAL, "the %s area at %#" PRIx64 " is not aligned",
                                        area_names[a], area_iova(&r->where, a));
        }
        r->desc = at[VQL_AREA_DESC];
        r->avail_ring = at[VQL_AREA_DRIVER];
        r->used_ring = at[VQL_AREA_DEVICE];
        return 0;
}

static int check_start(const struct sim_ring *r, const struct vql_position *at, struct vql_error *e)
{
        const struct vql_position shown = vql_sim_ring_position_shown(r);

        if (at->avail != at->used || at->avail_wrap != at->used_wrap)
                return vql_fail(e, EINVAL, "start at avail %u and used %u, expected one position",
                                at->avail, at->used);
        if (!r->where.packed && shown.used != at->used)
                return vql_fail(e, EINVAL, "start at %u of a ring whose used index is %u", at->used,
                                shown.used);
        if (r->where.packed && at->used >= r->where.size)
                return vql_fail(e, EINVAL, "start at slot %u of a ring of %u", at->used,
                                r->where.size);
        return 0;
}

int vql_sim_ring_open(struct sim_ring *r, const struct sim_ring_params *p, struct vql_error *e)
{
        const uint16_t size = p->where->size;
        int err = vql_ring_size_check(size, p->where->packed, e);

        if (err < 0)
                return err;
        *r = (struct sim_ring){
                .mem = p->mem,
                .where = *p->where,
                .event_idx = p->event_idx,
                .fills = p->fills,
                .round = p->where->packed ? 2u * size : SPLIT_ROUND,
        };
        err = find_areas(r, e);
        if (!err)
                err = check_start(r, p->at, e);
        if (err < 0)
                return err;
        r->used = r->avail = p->at->used + (r->where.packed && !p->at->used_wrap ? size : 0u);
        r->chain = calloc(size, sizeof(*r->chain));
        return r->chain ? 0 : vql_fail(e, ENOMEM, "out of memory for a ring of %u", size);
}

void vql_sim_ring_close(struct sim_ring *r)
{
        for (unsigned int i = 0; r->chain && i < r->where.size; i++)
                free(r->chain[i].seg);
        free(r->chain);
        *r = (struct sim_ring){ 0 };
}

bool vql_sim_ring_is_mapped(const struct sim_ring *r)
{
        return area_at(r->mem, &r->where, VQL_AREA_DESC) == (void *)r->desc &&
               area_at(r->mem, &r->where, VQL_AREA_DRIVER) == (void *)r->avail_ring &&
               area_at(r->mem, &r->where, VQL_AREA_DEVICE) == (void *)r->used_ring;
}

/* ---- buffers ---- */

int vql_sim_chain_add(struct sim_chain *c, const struct sim_ring *r, const struct sim_desc *d)
{
        if (!!(d->flags & VRING_DESC_F_WRITE) != r->fills || c->n >= VQL_QUEUE_MAX_SIZE)
                return -EBADMSG;
        if (c->n == c->room) {
                const uint32_t room = c->room ? 2 * c->room : 4;
                struct sim_seg *more = realloc(c->seg, room * sizeof(*more));

                if (!more)
                        return -ENOMEM;
                c->seg = more;
                c->room = room;
        }
        c->seg[c->n++] = (struct sim_seg){ d->addr, d->len };
        c->bytes += d->len;
        return 0;
}

/* Entry `i` of a table, in the form that split and packed ones have in common. */
static int read_entry(const struct sim_ring *r, uint64_t table, uint32_t i,
                      struct sim_desc *ret_desc)
{
        union {
                struct vring_desc split;
                struct vring_packed_desc packed;
        } d;

        if (vql_sim_memory_read(r->mem, table + i * sizeof(d), &d, sizeof(d)) < 0)
                return -EBADMSG;
        if (r->where.packed)
                *ret_desc = (struct sim_desc){ d.packed.addr, d.packed.len, d.packed.flags, 0 };
        else
                *ret_desc =
                        (struct sim_desc){ d.split.addr, d.split.len, d.split.flags, d.split.next };
        return 0;
}

/* virtio 1.2, 2.7.5.3 and 2.8.7: packed tables are read in order, split ones by `next`. */
int vql_sim_chain_add_table(struct sim_chain *c, const struct sim_ring *r, const struct sim_desc *d)
{
        const uint32_t n = d->len / sizeof(struct vring_desc);
        uint32_t at = 0;

        if (!n || d->len % sizeof(struct vring_desc) || (d->flags & VRING_DESC_F_NEXT))
                return -EBADMSG;
        for (uint32_t seen = 0; seen < n; seen++) {
                struct sim_desc entry;
                int err = read_entry(r, d->addr, at, &entry);

                if (!err && (entry.flags & VRING_DESC_F_INDIRECT))
                        err = -EBADMSG;
                if (!err)
                        err = vql_sim_chain_add(c, r, &entry);
                if (err < 0)
                        return err;
                if (!r->where.packed && !(entry.flags & VRING_DESC_F_NEXT))
                        return 0;
                at = r->where.packed ? at + 1 : entry.next;
                if (!r->where.packed && at >= n)
                        return -EBADMSG;
        }
        return r->where.packed ? 0 : -EBADMSG;
}

struct sim_chain *vql_sim_ring_taken(struct sim_ring *r, uint16_t i)
{
        return &r->chain[(r->head + i) % r->where.size];
}

int vql_sim_ring_take(struct sim_ring *r)
{
        struct sim_chain *c;
        int rc;

        /* More buffers than the ring has slots are more than a driver can have offered. */
        if (r->count == r->where.size)
                return vql_sim_ring_has(r) ? -EBADMSG : 0;
        c = vql_sim_ring_taken(r, r->count);
        c->n = 0;
        c->bytes = 0;
        c->written = 0;
        rc = r->where.packed ? vql_sim_packed_take(r, c) : vql_sim_split_take(r, c);
        if (rc > 0) {
                r->avail = sim_ring_forward(r, r->avail, c->slots);
                r->count++;
        }
        return rc;
}

static void give_back(struct sim_ring *r, uint16_t n, bool batch)
{
        uint32_t slots = 0;

        if (!n)
                return;
        for (uint16_t i = 0; i < n; i++)
                slots += vql_sim_ring_taken(r, i)->slots;
        if (r->where.packed)
                vql_sim_packed_return(r, n, batch);
        else
                vql_sim_split_return(r, n, batch);
        r->used = sim_ring_forward(r, r->used, slots);
        r->unsignalled += slots;
        r->head = (uint16_t)((r->head + n) % r->where.size);
        r->count = (uint16_t)(r->count - n);
}

void vql_sim_ring_return(struct sim_ring *r, uint16_t n)
{
        give_back(r, n, false);
}

void vql_sim_ring_return_batch(struct sim_ring *r, uint16_t n)
{
        give_back(r, n, true);
}

bool vql_sim_ring_has(const struct sim_ring *r)
{
        return r->where.packed ? vql_sim_packed_has(r) : vql_sim_split_has(r);
}

bool vql_sim_ring_holds_all(const struct sim_ring *r)
{
        return sim_ring_ahead(r, r->avail, r->used) == r->where.size;
}

/* ---- notifications ---- */

void vql_sim_ring_ask_kicks(struct sim_ring *r, bool wanted)
{
        if (r->where.packed)
                vql_sim_packed_ask_kicks(r, wanted);
        else
                vql_sim_split_ask_kicks(r, wanted);
        /* Pairs with the driver's fence between showing a buffer and reading our wish. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

bool vql_sim_ring_signal_due(struct sim_ring *r)
{
        bool due;

        if (!r->unsignalled)
                return false;
        /* Pairs with the driver's fence between its wish and its last look at the ring. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        due = r->where.packed ? vql_sim_packed_signal_due(r) : vql_sim_split_signal_due(r);
        r->unsignalled = 0;
        r->signalled = true;
        return due;
}

/* ---- positions ---- */

struct vql_position vql_sim_ring_position(const struct sim_ring *r)
{
        const uint16_t size = r->where.size;
        const uint8_t wrap = r->where.packed && r->used < size;
        const uint16_t at = (uint16_t)(r->where.packed ? r->used % size : r->used);

        return (struct vql_position){ at, at, wrap, wrap };
}

struct vql_position vql_sim_ring_position_shown(const struct sim_ring *r)
{
        uint16_t at;

        if (r->where.packed || !vql_sim_ring_is_mapped(r))
                return vql_sim_ring_position(r);
        at = __atomic_load_n(&r->used_ring->idx, __ATOMIC_ACQUIRE);
        return (struct vql_position){ .avail = at, .used = at };
}
