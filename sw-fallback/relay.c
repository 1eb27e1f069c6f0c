/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/relay.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bits.h"
#include "sw-fallback/publish.h"
#include "sw-fallback/relay_impl.h"
#include "virtqueue/cursor.h"
#include "virtqueue/features.h"

const char *vql_relay_fault_name(enum vql_relay_fault f)
{
        static const char *const names[VQL_RELAY_FAULTS] = {
                [VQL_RELAY_FINE] = "none",
                [VQL_RELAY_USED_INDEX] = "more chains returned than the device has",
                [VQL_RELAY_USED_ID] = "unknown chain returned",
                [VQL_RELAY_USED_TWICE] = "chain returned that the device does not have",
                [VQL_RELAY_USED_LEN] = "more bytes written than the chain has",
                [VQL_RELAY_TOO_LONG] = "chain longer than the shadow ring",
        };

        return f < VQL_RELAY_FAULTS ? names[f] : "unknown";
}

/* ---- memory ---- */

static size_t round_up(size_t n, size_t to)
{
        return (n + to - 1) / to * to;
}

static bool device_writes(enum vql_ring_area a, bool packed)
{
        return a == VQL_AREA_DEVICE || (packed && a == VQL_AREA_DESC);
}

static size_t place_areas(uint16_t size, bool packed, bool writable, struct vql_relay_layout *l,
                          size_t from)
{
        for (int i = 0; i < VQL_AREA_COUNT; i++) {
                const enum vql_ring_area a = (enum vql_ring_area)i;

                if (device_writes(a, packed) != writable)
                        continue;
                from = round_up(from, vql_area_align(a, packed));
                l->at[a] = from;
                from += vql_area_bytes(a, size, packed);
        }
        return from;
}

void vql_relay_layout(uint16_t size, bool packed, size_t page, struct vql_relay_layout *ret_layout)
{
        struct vql_relay_layout l;

        l.writable = round_up(place_areas(size, packed, false, &l, 0), page);
        l.bytes = round_up(place_areas(size, packed, true, &l, l.writable), page);
        *ret_layout = l;
}

/* ---- life ---- */

static uint32_t power_above(uint32_t n)
{
        uint32_t p = 1;

        while (p < n)
                p *= 2;
        return p;
}

/* All entries are free, in a list. */
static void free_all(struct vql_relay *r)
{
        for (uint32_t i = 0; i < r->shadow.size; i++)
                r->entry[i].next = (uint16_t)(i + 1);
        r->free_head = 0;
        r->free = r->shadow.size;
}

static int make_books(struct vql_relay *r, const struct vql_relay_params *p)
{
        const uint32_t chains = vql_pending_count(p->pending), size = r->shadow.size;
        const uint32_t buffers = p->pending ? p->pending->buffers : 0;

        r->entry = calloc(size, sizeof(*r->entry));
        r->chain = calloc(size, sizeof(*r->chain));
        r->spare = vql_pending_new(chains + size, buffers + size);
        if (!r->entry || !r->chain || !r->spare)
                return -ENOMEM;
        free_all(r);
        if (!vql_has(p->features, VIRTIO_F_IN_ORDER))
                return 0;
        r->order_mask = power_above(size) - 1;
        r->order = calloc(r->order_mask + 1u, sizeof(*r->order));
        return r->order ? 0 : -ENOMEM;
}

static int check_params(const struct vql_relay_params *p, struct vql_error *e)
{
        const uint32_t out = vql_relay_slots_out(p->q, p->q->packed);
        const uint32_t pending = vql_pending_slots(p->pending);
        struct vql_error why;

        if (vql_ring_size_check(p->size, p->q->packed, &why) < 0)
                return vql_fail(e, EINVAL, "relay of ring %u: %s", p->q->index, why.text);
        if (out != pending)
                return vql_fail(e, EINVAL,
                                "relay of ring %u: %u chains or slots are out, expected the %u "
                                "that are pending",
                                p->q->index, out, pending);
        return 0;
}

int vql_relay_open(const struct vql_relay_params *params, struct vql_relay **ret_relay,
                   struct vql_error *e)
{
        struct vql_relay *r;
        int rc = check_params(params, e);

        if (rc < 0)
                return rc;
        r = calloc(1, sizeof(*r));
        if (!r)
                goto fail;
        r->q = params->q;
        r->shadow.size = params->size;
        r->shadow.packed = params->q->packed;
        r->shadow.event_idx = vql_has(params->features, VIRTIO_RING_F_EVENT_IDX);
        r->indirect = vql_has(params->features, VIRTIO_RING_F_INDIRECT_DESC);
        r->kick = params->kick;
        r->arg = params->arg;
        if (make_books(r, params) < 0)
                goto fail;
        vql_shadow_init(&r->shadow, params->area);
        r->pending = params->pending;
        vql_notify_disable(r->q);
        *ret_relay = r;
        return 0;

fail:
        vql_relay_close(r);
        return vql_fail(e, ENOMEM, "relay of ring %u: out of memory", params->q->index);
}

void vql_relay_close(struct vql_relay *r)
{
        if (!r)
                return;
        vql_pending_free(r->pending);
        vql_pending_free(r->spare);
        free(r->entry);
        free(r->chain);
        free(r->order);
        free(r);
}

/* ---- passes ---- */

static int fault_errno(const struct vql_relay *r)
{
        const enum vql_relay_fault f = atomic_load_explicit(&r->fault, memory_order_relaxed);

        if (r->q->fault != VQL_FAULT_NONE)
                return -EBADMSG;
        if (f == VQL_RELAY_FINE)
                return 0;
        return f == VQL_RELAY_TOO_LONG ? -E2BIG : -EIO;
}

static enum vql_relay_phase phase_now(const struct vql_relay *r, enum vql_relay_take how)
{
        if (how == VQL_RELAY_TAKE)
                return VQL_RELAY_TAKING;
        if (how == VQL_RELAY_STOP_AT_WRAP &&
            (!vql_relay_at_start(r->q) || vql_pending_count(r->pending) > 0))
                return VQL_RELAY_TAKING;
        return vql_relay_idle(r) ? VQL_RELAY_DRAINED : VQL_RELAY_STOPPED;
}

static void note_phase(struct vql_relay *r, enum vql_relay_take how)
{
        const enum vql_relay_phase now = phase_now(r, how);

        if (now == vql_relay_phase(r))
                return;
        atomic_store_explicit(&r->phase, (uint8_t)now, memory_order_release);
        r->news = true;
}

/* Interrupt the guest, if anything was returned since the last time. */
static void signal_guest(struct vql_queue *q)
{
        if (q->unsignalled > 0)
                vql_signal_used(q);
}

int vql_relay_poll(struct vql_relay *r)
{
        uint32_t moved;
        enum vql_relay_take how;
        int rc = fault_errno(r);

        if (unlikely(rc < 0))
                return rc;
        how = atomic_load_explicit(&r->how, memory_order_relaxed);
        moved = vql_relay_return(r, VQL_RELAY_PASS);
        moved += vql_relay_offer(r, how);
        signal_guest(r->q);
        if (unlikely(how != VQL_RELAY_TAKE || vql_relay_phase(r) != VQL_RELAY_TAKING))
                note_phase(r, how);
        rc = fault_errno(r);
        return unlikely(rc < 0) ? rc : moved > 0;
}

bool vql_relay_arm(struct vql_relay *r)
{
        bool work;

        if (fault_errno(r) < 0)
                return false;
        work = vql_shadow_calls_on(&r->shadow);
        /* Also while there is no room: what is awaited then is the device, but whoever is armed
         * stays so when room has come. */
        return vql_notify_enable(r->q) || work;
}

void vql_relay_disarm(struct vql_relay *r)
{
        if (fault_errno(r) < 0)
                return;
        vql_shadow_calls_off(&r->shadow);
        vql_notify_disable(r->q);
}

/* ---- by any thread ---- */

void vql_relay_stop_taking(struct vql_relay *r, enum vql_relay_take how)
{
        atomic_store_explicit(&r->how, (uint8_t)how, memory_order_relaxed);
}

enum vql_relay_phase vql_relay_phase(const struct vql_relay *r)
{
        return (enum vql_relay_phase)atomic_load_explicit(&r->phase, memory_order_acquire);
}

uint32_t vql_relay_outstanding(const struct vql_relay *r)
{
        /* In this order the difference is not negative. */
        const uint64_t returned = __atomic_load_n(&r->returned, __ATOMIC_ACQUIRE);
        const uint64_t taken = __atomic_load_n(&r->taken, __ATOMIC_RELAXED);
        const uint32_t at = r->pending ? __atomic_load_n(&r->pending->at, __ATOMIC_RELAXED) : 0;

        return (uint32_t)(taken - returned) + (r->pending ? r->pending->n - at : 0);
}

void vql_relay_read_stats(const struct vql_relay *r, struct vql_relay_stats *ret_stats)
{
        *ret_stats = (struct vql_relay_stats){
                .taken = __atomic_load_n(&r->taken, __ATOMIC_RELAXED),
                .returned = __atomic_load_n(&r->returned, __ATOMIC_RELAXED),
                .repeated = __atomic_load_n(&r->repeated, __ATOMIC_RELAXED),
                .kicks = __atomic_load_n(&r->kicks, __ATOMIC_RELAXED),
                .kicks_saved = __atomic_load_n(&r->kicks_saved, __ATOMIC_RELAXED),
                .fault = atomic_load_explicit(&r->fault, memory_order_relaxed),
                .out_of_order = atomic_load_explicit(&r->out_of_order, memory_order_relaxed),
        };
}

/* ---- the end ---- */

bool vql_relay_has_news(struct vql_relay *r)
{
        if (likely(!r->news))
                return false;
        r->news = false;
        return true;
}

static int compare_turns(const void *a, const void *b)
{
        const struct vql_pending_chain *x = a, *y = b;

        return x->turn < y->turn ? -1 : x->turn > y->turn;
}

/* What the device has not returned, in the order of taking. */
static void collect_chains(const struct vql_relay *r, struct vql_pending *p)
{
        for (uint32_t head = 0; head < r->shadow.size; head++) {
                const struct vql_relay_chain *c = &r->chain[head];
                uint16_t at = (uint16_t)head;

                if (c->n == 0)
                        continue;
                p->chain[p->n++] = (struct vql_pending_chain){
                        .turn = c->turn,
                        .first = p->buffers,
                        .n = c->n,
                        .id = c->id,
                        .slots = c->slots,
                        .again = c->again,
                };
                for (uint32_t i = 0; i < c->n; i++, at = r->entry[at].next)
                        p->buffer[p->buffers++] = r->entry[at];
        }
        qsort(p->chain, p->n, sizeof(*p->chain), compare_turns);
}

/* What was pending all the time.  No chain of the ring was taken meanwhile, so it comes last. */
static void collect_pending(const struct vql_pending *from, struct vql_pending *p)
{
        for (uint32_t i = from->at; i < from->n; i++) {
                const struct vql_pending_chain *c = &from->chain[i];
                struct vql_pending_chain *to = &p->chain[p->n++];

                *to = *c;
                to->first = p->buffers;
                to->again = true;
                memcpy(&p->buffer[p->buffers], &from->buffer[c->first], c->n * sizeof(*p->buffer));
                p->buffers += c->n;
        }
}

static void step_back(struct vql_queue *q, uint16_t slots)
{
        int32_t to = q->last_avail - slots;

        if (q->packed && to < 0) {
                to += q->size;
                q->avail_wrap ^= 1;
        }
        q->last_avail = (uint16_t)to;
}

/*
 * The chains that were taken last are in the ring as they were: nothing that was returned stands
 * where they stand, as all before them takes less room now.  So they need only be available again.
 */
static void take_back(const struct vql_relay *r, struct vql_pending *p)
{
        uint64_t turn = r->taken;

        while (p->n > 0 && p->chain[p->n - 1].turn == turn - 1 && !p->chain[p->n - 1].again) {
                step_back(r->q, p->chain[p->n - 1].slots);
                p->n--;
                turn--;
        }
}

struct vql_pending *vql_relay_settle(struct vql_relay *r)
{
        struct vql_pending *p = r->spare;

        while (atomic_load_explicit(&r->fault, memory_order_relaxed) == VQL_RELAY_FINE &&
               vql_relay_return(r, UINT32_MAX) > 0)
                ;
        signal_guest(r->q);
        collect_chains(r, p);
        if (r->pending)
                collect_pending(r->pending, p);
        take_back(r, p);
        r->spare = NULL;
        if (p->n > 0)
                return p;
        vql_pending_free(p);
        return NULL;
}
