/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/driver_priv.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- numbers ---- */

static int fifo_init(struct fe_fifo *f, unsigned int cap)
{
        f->item = calloc(cap, sizeof(*f->item));
        f->cap = cap;
        return f->item ? 0 : -ENOMEM;
}

void fe_fifo_push(struct fe_fifo *f, uint16_t item)
{
        f->item[(f->head + f->count++) % f->cap] = item;
}

uint16_t fe_fifo_pop(struct fe_fifo *f)
{
        uint16_t item = f->item[f->head];

        f->head = (f->head + 1) % f->cap;
        f->count--;
        return item;
}

uint16_t fe_fifo_at(const struct fe_fifo *f, unsigned int i)
{
        return f->item[(f->head + i) % f->cap];
}

static uint32_t next_random(struct fe_driver *d)
{
        d->random ^= d->random << 13;
        d->random ^= d->random >> 17;
        d->random ^= d->random << 5;
        return d->random;
}

uint16_t fe_pick_id(struct fe_driver *d)
{
        struct fe_fifo *f = &d->free_ids;
        uint16_t *head = &f->item[f->head], *other = head;
        uint16_t item;

        if (d->p.pick == FE_PICK_LIFO)
                return f->item[(f->head + --f->count) % f->cap];
        if (d->p.pick == FE_PICK_RANDOM)
                other = &f->item[(f->head + next_random(d) % f->count) % f->cap];
        item = *other;
        *other = *head;
        *head = item;
        return fe_fifo_pop(f);
}

/* ---- life cycle ---- */

static int check_params(const struct fe_driver_params *p, struct fe_text *e)
{
        if (p->size == 0 || p->size > FE_MAX_RING)
                return fe_fail(e, EINVAL, "ring size %u, expected 1 to %d", p->size, FE_MAX_RING);
        if (!p->packed && (p->size & (p->size - 1)))
                return fe_fail(e, EINVAL, "split ring of %u, expected a power of two", p->size);
        if (p->packed && p->start >= p->size)
                return fe_fail(e, EINVAL, "start slot %u in a ring of %u", p->start, p->size);
        return 0;
}

static int alloc_areas(struct fe_driver *d)
{
        struct fe_memory *m = d->p.mem;
        uint64_t bytes[3];
        int err;

        d->ops->area_bytes(d->p.size, bytes);
        err = fe_memory_alloc(m, d->p.region, bytes[0], 16, &d->areas.desc);
        if (err == 0)
                err = fe_memory_alloc(m, d->p.region, bytes[1], 4, &d->areas.driver);
        if (err == 0)
                err = fe_memory_alloc(m, d->p.region, bytes[2], 4, &d->areas.device);
        if (err < 0)
                return err;
        d->at.desc = fe_memory_at(m, d->areas.desc, bytes[0]);
        d->at.avail = fe_memory_at(m, d->areas.driver, bytes[1]);
        d->at.used = fe_memory_at(m, d->areas.device, bytes[2]);
        return 0;
}

static int alloc_books(struct fe_driver *d)
{
        d->slot = calloc(d->p.size, sizeof(*d->slot));
        d->next = calloc(d->p.size, sizeof(*d->next));
        if (!d->slot || !d->next || fifo_init(&d->free_ids, d->p.size) < 0 ||
            fifo_init(&d->added, d->p.size) < 0 || fifo_init(&d->order, d->p.size) < 0)
                return -ENOMEM;
        return 0;
}

void fe_driver_restart(struct fe_driver *d)
{
        for (unsigned int i = 0; i < d->p.size; i++)
                d->slot[i].state = FE_SLOT_FREE;
        d->added.count = 0;
        d->order.count = 0;
        d->free_ids.head = 0;
        d->free_ids.count = 0;
        /* LIFO takes from the end: the first number goes there, so that all begin with 0. */
        for (unsigned int i = 0; i < d->p.size; i++)
                fe_fifo_push(&d->free_ids,
                             (uint16_t)(d->p.pick == FE_PICK_LIFO ? d->p.size - 1 - i : i));
        d->free_desc = d->p.size;
        d->outstanding = 0;
        d->since_kick = 0;
        d->held = false;
        d->held_slots = 0;
        d->in_batch = false;
        d->avail = d->used = d->published = d->old_avail = d->p.start;
        d->avail_wrap = d->used_wrap = d->old_wrap = !d->p.start_wrap_0;
        d->ops->restart(d);
}

int fe_driver_new(const struct fe_driver_params *params, struct fe_driver **ret_driver,
                  struct fe_text *ret_error)
{
        struct fe_driver *d;
        int err = check_params(params, ret_error);

        if (err < 0)
                return err;
        d = calloc(1, sizeof(*d));
        if (!d)
                return -ENOMEM;
        d->p = *params;
        d->ops = params->packed ? &fe_packed_ops : &fe_split_ops;
        d->random = params->seed * 2654435761u | 1;
        /* In-order split: descriptors are used in table order (2.7.9). */
        if (params->in_order && !params->packed)
                d->p.pick = FE_PICK_FIFO;
        err = alloc_books(d);
        if (err == 0)
                err = alloc_areas(d);
        if (err < 0) {
                fe_driver_free(d);
                return fe_fail(ret_error, -err, "no memory for a ring of %u", params->size);
        }
        fe_driver_restart(d);
        *ret_driver = d;
        return 0;
}

void fe_driver_free(struct fe_driver *d)
{
        if (!d)
                return;
        for (unsigned int i = 0; d->slot && i < d->p.size; i++)
                free(d->slot[i].segs);
        free(d->slot);
        free(d->next);
        free(d->free_ids.item);
        free(d->added.item);
        free(d->order.item);
        free(d);
}

const struct fe_driver_params *fe_driver_params(const struct fe_driver *d)
{
        return &d->p;
}

const char *fe_driver_error(const struct fe_driver *d)
{
        return d->error.s;
}

struct fe_areas fe_driver_areas(const struct fe_driver *d)
{
        return d->areas;
}

struct fe_area_pointers fe_driver_pointers(const struct fe_driver *d)
{
        return d->at;
}

/* ---- to the device ---- */

uint16_t fe_driver_free_slots(const struct fe_driver *d)
{
        return (uint16_t)d->free_desc;
}

uint16_t fe_driver_outstanding(const struct fe_driver *d)
{
        return (uint16_t)d->outstanding;
}

static int check_chain(struct fe_driver *d, const struct fe_chain *c, uint64_t *ret_writable)
{
        uint64_t total = 0, writable = 0;

        if (c->n == 0 || c->n > d->p.size)
                return fe_fail(&d->error, EINVAL, "a buffer of %u segments in a ring of %u", c->n,
                               d->p.size);
        for (unsigned int i = 0; i < c->n; i++) {
                if (i > 0 && c->segs[i - 1].write && !c->segs[i].write)
                        return fe_fail(&d->error, EINVAL, "segment %u readable behind writable", i);
                total += c->segs[i].len;
                writable += c->segs[i].write ? c->segs[i].len : 0;
        }
        if (total > UINT32_MAX)
                return fe_fail(&d->error, EINVAL, "a buffer of %ju bytes", (uintmax_t)total);
        *ret_writable = writable;
        return 0;
}

static int keep_segs(struct fe_slot *s, const struct fe_chain *c)
{
        if (s->cap_segs < c->n) {
                struct fe_seg *segs = realloc(s->segs, c->n * sizeof(*segs));

                if (!segs)
                        return -ENOMEM;
                s->segs = segs;
                s->cap_segs = c->n;
        }
        memcpy(s->segs, c->segs, c->n * sizeof(*s->segs));
        s->n_segs = c->n;
        return 0;
}

/* The table goes out before the ring descriptor that points to it. */
static int write_table(struct fe_driver *d, const struct fe_chain *c)
{
        for (unsigned int i = 0; i < c->n; i++) {
                const struct fe_seg *g = &c->segs[i];
                uint16_t write = g->write ? VRING_DESC_F_WRITE : 0;
                struct vring_packed_desc p = { .addr = g->gpa, .len = g->len, .flags = write };
                struct vring_desc s = { .addr = g->gpa, .len = g->len, .flags = write };
                int err;

                /* Packed tables have no NEXT flag and no order but their own (2.8.7). */
                if (!d->p.packed && i + 1 < c->n) {
                        s.flags |= VRING_DESC_F_NEXT;
                        s.next = (uint16_t)(i + 1);
                }
                err = fe_memory_write(d->p.mem, c->table + 16ull * i,
                                      d->p.packed ? (void *)&p : (void *)&s, 16);
                if (err < 0)
                        return fe_fail(&d->error, -err, "indirect table outside memory");
        }
        return 0;
}

int fe_driver_add(struct fe_driver *d, const struct fe_chain *chain, uint16_t *ret_id)
{
        unsigned int need = chain->table ? 1 : chain->n;
        uint64_t writable = 0;
        struct fe_slot *s;
        uint16_t id;
        int err = check_chain(d, chain, &writable);

        if (err < 0)
                return err;
        if (need > d->free_desc)
                return -ENOSPC;
        if (chain->table) {
                err = write_table(d, chain);
                if (err < 0)
                        return err;
        }
        id = d->ops->add(d, chain);
        s = &d->slot[id];
        err = keep_segs(s, chain);
        if (err < 0)
                return err;
        s->state = FE_SLOT_ADDED;
        s->n_desc = (uint16_t)need;
        s->table = chain->table;
        s->cookie = chain->cookie;
        s->writable = writable;
        if (d->p.guard)
                fe_guard_arm(d, s);
        d->free_desc -= need;
        d->outstanding++;
        fe_fifo_push(&d->added, id);
        if (d->p.in_order)
                fe_fifo_push(&d->order, id);
        d->last_id = id;
        d->last_n = chain->n;
        d->last_table = chain->table;
        if (ret_id)
                *ret_id = id;
        return 0;
}

void fe_driver_publish(struct fe_driver *d)
{
        while (d->added.count > 0)
                d->slot[fe_fifo_pop(&d->added)].state = FE_SLOT_SHOWN;
        d->ops->publish(d);
}

bool fe_driver_kick_due(struct fe_driver *d)
{
        bool due;

        if (d->since_kick == 0)
                return false;
        /* Our index before the device's wish: pairs with the device's store of the wish before its
         * last look at the index (2.7.13.4, 2.8.21). */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        due = d->ops->kick_due(d);
        d->since_kick = 0;
        d->old_avail = d->avail;
        d->old_wrap = d->avail_wrap;
        return due;
}

int fe_driver_kick(struct fe_driver *d, int kick_fd)
{
        static const uint64_t one = 1;

        fe_driver_publish(d);
        if (!fe_driver_kick_due(d))
                return 0;
        if (kick_fd >= 0 && write(kick_fd, &one, sizeof(one)) < 0)
                return -errno;
        return 1;
}

/* ---- from the device ---- */

static int check_used(struct fe_driver *d, const struct fe_used *u)
{
        const struct fe_slot *s;

        if (u->id >= d->p.size)
                return fe_fail(&d->error, EBADMSG, "used id %u in a ring of %u", u->id, d->p.size);
        s = &d->slot[u->id];
        if (s->state != FE_SLOT_SHOWN)
                return fe_fail(&d->error, EBADMSG, "used id %u was %s", u->id,
                               s->state == FE_SLOT_FREE ? "returned before, or never offered"
                                                        : "not published yet");
        if (u->written && u->len > s->writable)
                return fe_fail(&d->error, EBADMSG, "used id %u: length %u, writable %ju", u->id,
                               u->len, (uintmax_t)s->writable);
        if (!u->written && u->len > 0 && s->writable > 0)
                return fe_fail(&d->error, EBADMSG, "used id %u: length %u without WRITE flag",
                               u->id, u->len);
        return 0;
}

/* Where in the order of addition is it?  An in-order device may use one element for all buffers up
 * to it (2.7.9, 2.8.8), so that every place is a right one. */
static int open_batch(struct fe_driver *d, const struct fe_used *u)
{
        for (unsigned int i = 0; i < d->order.count; i++) {
                if (fe_fifo_at(&d->order, i) != u->id)
                        continue;
                d->in_batch = true;
                d->batch_id = (uint16_t)u->id;
                d->batch_len = u->written ? u->len : 0;
                return 0;
        }
        return fe_fail(&d->error, EBADMSG, "used id %u is not in the order of addition", u->id);
}

static int release(struct fe_driver *d, uint16_t id, uint32_t len, bool skipped,
                   struct fe_done *ret_done)
{
        struct fe_slot *s = &d->slot[id];

        if (d->p.guard) {
                int err = fe_guard_check(d, id, len);

                if (err < 0)
                        return err;
        }
        d->ops->pop(d, id);
        s->state = FE_SLOT_FREE;
        d->free_desc += s->n_desc;
        d->outstanding--;
        *ret_done =
                (struct fe_done){ .cookie = s->cookie, .id = id, .len = len, .skipped = skipped };
        return 1;
}

static int get_of_batch(struct fe_driver *d, struct fe_done *ret_done)
{
        uint16_t id = fe_fifo_pop(&d->order);
        bool last = id == d->batch_id;

        if (last)
                d->in_batch = false;
        return release(d, id, last ? d->batch_len : (uint32_t)d->slot[id].writable, !last,
                       ret_done);
}

int fe_driver_get(struct fe_driver *d, struct fe_done *ret_done)
{
        struct fe_used u;
        int err;

        if (d->in_batch)
                return get_of_batch(d, ret_done);
        err = d->ops->peek(d, &u);
        if (err <= 0)
                return err;
        err = check_used(d, &u);
        if (err < 0)
                return err;
        if (!d->p.in_order)
                return release(d, (uint16_t)u.id, u.written ? u.len : 0, false, ret_done);
        err = open_batch(d, &u);
        return err < 0 ? err : get_of_batch(d, ret_done);
}

bool fe_driver_pending(const struct fe_driver *d)
{
        struct fe_used u;

        /* peek notes an error text at most, which get will write again */
        return d->in_batch || d->ops->peek((struct fe_driver *)d, &u) != 0;
}

bool fe_driver_calls_on(struct fe_driver *d, uint16_t after)
{
        return d->ops->calls_on(d, after) || d->in_batch;
}

void fe_driver_calls_off(struct fe_driver *d)
{
        d->ops->calls_off(d);
}

static int64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int fe_driver_wait(struct fe_driver *d, int call_fd, int timeout_ms)
{
        int64_t end = now_ms() + timeout_ms;
        struct pollfd p = { .fd = call_fd, .events = POLLIN };
        bool pending = fe_driver_calls_on(d, 0);
        uint64_t count;

        /* An interrupt of earlier may still be in the eventfd: it is not the one. */
        while (!pending) {
                int64_t left = end - now_ms();

                if (left <= 0 || poll(&p, 1, (int)left) == 0)
                        break;
                if (read(call_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
                        break;
                pending = fe_driver_pending(d);
        }
        fe_driver_calls_off(d);
        if (pending)
                return 0;
        return fe_driver_pending(d) ? -ETIME : -ETIMEDOUT;
}

/* ---- positions ---- */

uint32_t fe_position_encode(const struct fe_position *p, bool packed)
{
        if (!packed)
                return p->avail;
        return (uint32_t)(p->avail & 0x7fff) | (uint32_t)p->avail_wrap << 15 |
               (uint32_t)(p->used & 0x7fff) << 16 | (uint32_t)p->used_wrap << 31;
}

struct fe_position fe_position_decode(uint32_t num, bool packed)
{
        if (!packed)
                return (struct fe_position){ .avail = (uint16_t)num, .used = (uint16_t)num };
        return (struct fe_position){
                .avail = num & 0x7fff,
                .avail_wrap = num >> 15 & 1,
                .used = num >> 16 & 0x7fff,
                .used_wrap = num >> 31,
        };
}

struct fe_position fe_driver_position(const struct fe_driver *d)
{
        return d->ops->device_position((struct fe_driver *)d);
}

/* ---- for spoilers ---- */

int fe_driver_desc(struct fe_driver *d, unsigned int i, struct fe_desc *ret_desc)
{
        uint8_t *at;

        if (i >= d->last_n)
                return -ERANGE;
        if (!d->last_table) {
                *ret_desc = d->ops->ring_desc(d, i);
                return 0;
        }
        at = fe_memory_at(d->p.mem, d->last_table + 16ull * i, 16);
        if (!at)
                return -EFAULT;
        *ret_desc = (struct fe_desc){
                .addr = (uint64_t *)at,
                .len = (uint32_t *)(at + 8),
                .flags = (uint16_t *)(at + (d->p.packed ? 14 : 12)),
                .next = d->p.packed ? NULL : (uint16_t *)(at + 14),
                .id = d->p.packed ? (uint16_t *)(at + 12) : NULL,
        };
        return 0;
}

struct fe_desc fe_driver_head(struct fe_driver *d)
{
        return d->ops->ring_desc(d, 0);
}

unsigned int fe_driver_last_len(const struct fe_driver *d)
{
        return d->last_n;
}

void fe_driver_jump(struct fe_driver *d, uint16_t n)
{
        d->ops->jump(d, n);
}
