/* SPDX-License-Identifier: BSD-3-Clause */
#include "relay_rig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bare_queue.h"
#include "base/bits.h"
#include "virtqueue/features.h"

/* Buffers and their pieces lie anywhere in pages, and on the borders of pages. */
enum { CANARY = 16, SEG_STRIDE = 136, BUFFER = RR_SEGS * SEG_STRIDE, TABLE = RR_SEGS * 16 };

uint32_t rr_random(struct rr_rig *r, uint32_t below)
{
        r->random ^= r->random << 13;
        r->random ^= r->random >> 7;
        r->random ^= r->random << 17;
        return (uint32_t)((r->random >> 11) % below);
}

/* What the byte at an address is where the guest sends, and where the device writes. */
static uint8_t pattern(uint64_t gpa)
{
        return (uint8_t)((gpa * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* ---- life ---- */

static void make_buffers(struct rr_rig *r)
{
        r->n_buffers = r->s.size + 8u;
        r->buffer = calloc(r->n_buffers, sizeof(*r->buffer));
        r->spare = calloc(r->n_buffers, sizeof(*r->spare));
        assert_non_null(r->buffer);
        assert_non_null(r->spare);
        for (unsigned int i = 0; i < r->n_buffers; i++) {
                struct rr_buffer *b = &r->buffer[i];

                assert_int_equal(fe_memory_alloc(r->mem, 0, BUFFER, 8, &b->base), 0);
                r->spare[r->n_spare++] = i;
        }
        for (unsigned int i = 0; i < r->n_buffers; i++)
                assert_int_equal(fe_memory_alloc(r->mem, 0, TABLE, 16, &r->buffer[i].table), 0);
}

static void make_log(struct rr_rig *r)
{
        r->log.size = fe_memory_end(r->mem) / RR_PAGE / 8;
        r->log.bits = calloc(1, r->log.size);
        r->expect = calloc(1, r->log.size);
        r->may = calloc(1, r->log.size);
        assert_true(r->log.bits && r->expect && r->may);
}

void rr_init(struct rr_rig *r, const struct rr_setup *s)
{
        struct fe_text text;
        struct fe_driver_params p = {
                .size = s->size,
                .packed = s->packed,
                .event_idx = s->event_idx,
                .in_order = s->in_order,
                .guard = true,
                .pick = FE_PICK_RANDOM,
                .seed = s->seed,
                .start = s->start,
                .start_wrap_0 = s->start_wrap_0,
        };
        struct bare_params b = { .features = s->features | vql_bit(VIRTIO_F_VERSION_1),
                                 .rx = s->rx };

        memset(r, 0, sizeof(*r));
        r->s = *s;
        r->device_kick_fd = -1;
        r->random = s->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
        assert_int_equal(fe_memory_new_layout(FE_ONE_REGION, &r->mem), 0);
        make_buffers(r);
        make_log(r);
        p.mem = r->mem;
        assert_int_equal(fe_driver_new(&p, &r->d, &text), 0);
        r->call_fd = eventfd(0, EFD_NONBLOCK);
        r->table = bare_table_new(r->mem);
        b.d = r->d;
        b.table = r->table;
        b.call_fd = r->call_fd;
        bare_queue_init(&r->q, &b);
        rr_open(r);
}

void rr_fini(struct rr_rig *r)
{
        if (r->relay)
                rr_stop(r);
        vql_pending_free(r->pending);
        vql_mem_table_put(r->table);
        fe_driver_free(r->d);
        fe_memory_free(r->mem);
        close(r->call_fd);
        free(r->held.item);
        free(r->done.item);
        free(r->arena);
        free(r->buffer);
        free(r->spare);
        free(r->log.bits);
        free(r->expect);
        free(r->may);
}

static void count_kick(void *arg)
{
        struct rr_rig *r = arg;
        const uint64_t one = 1;

        r->kicks++;
        if (r->device_kick_fd >= 0)
                assert_int_equal(write(r->device_kick_fd, &one, sizeof(one)), sizeof(one));
}

static void open_device(struct rr_rig *r, uint16_t size)
{
        void *at[VQL_AREA_COUNT];

        for (int i = 0; i < VQL_AREA_COUNT; i++)
                at[i] = r->arena + r->layout.at[i];
        r->dev = (struct ref_device){
                .mem = r->mem,
                .at.desc = at[VQL_AREA_DESC],
                .at.avail = at[VQL_AREA_DRIVER],
                .at.used = at[VQL_AREA_DEVICE],
                .size = size,
                .packed = r->s.packed,
                .event_idx = r->s.event_idx,
                .avail_wrap = true,
                .used_wrap = true,
                .old_used_wrap = true,
        };
}

void rr_open(struct rr_rig *r)
{
        const uint16_t size = r->s.shadow ? r->s.shadow : r->s.size;
        struct vql_relay_params p = {
                .q = &r->q,
                .size = size,
                .features = (r->s.event_idx ? vql_bit(VIRTIO_RING_F_EVENT_IDX) : 0) |
                            (r->s.indirect ? vql_bit(VIRTIO_RING_F_INDIRECT_DESC) : 0) |
                            (r->s.in_order ? vql_bit(VIRTIO_F_IN_ORDER) : 0),
                .kick = count_kick,
                .arg = r,
                .pending = r->pending,
        };
        struct vql_error e;

        vql_relay_layout(size, r->s.packed, RR_PAGE, &r->layout);
        free(r->arena);
        r->arena = aligned_alloc(RR_PAGE, r->layout.bytes);
        assert_non_null(r->arena);
        memset(r->arena, 0xff, r->layout.bytes);
        for (int i = 0; i < VQL_AREA_COUNT; i++)
                p.area[i] = r->arena + r->layout.at[i];
        if (vql_relay_open(&p, &r->relay, &e) < 0)
                fail_msg("%s", e.text);
        r->pending = NULL;
        free(r->held.item);
        free(r->done.item);
        r->held = (struct rr_list){ calloc(size, sizeof(struct rr_held)), 0 };
        r->done = (struct rr_list){ calloc(size, sizeof(struct rr_held)), 0 };
        r->harvested = 0;
        open_device(r, size);
}

/* ---- the guest ---- */

static void fill(struct rr_rig *r, const struct fe_seg *s)
{
        uint8_t *p = fe_memory_at(r->mem, s->gpa, s->len);

        for (uint32_t i = 0; i < s->len; i++)
                p[i] = pattern(s->gpa + i);
}

static struct rr_buffer *make_buffer(struct rr_rig *r, const uint32_t *len, unsigned int n)
{
        struct rr_buffer *b = &r->buffer[r->spare[r->n_spare - 1]];

        b->n = n;
        b->seen = 0;
        for (unsigned int i = 0; i < n; i++) {
                assert_true(len[i] <= RR_SEG_BYTES);
                b->seg[i] = (struct fe_seg){ .gpa = b->base + i * SEG_STRIDE + CANARY,
                                             .len = len[i],
                                             .write = r->s.rx,
                                             .canary = CANARY };
                if (!r->s.rx && len[i] > 0)
                        fill(r, &b->seg[i]);
        }
        return b;
}

bool rr_add_shape(struct rr_rig *r, const uint32_t *len, unsigned int n, bool table)
{
        struct rr_buffer *b;
        struct fe_chain c;

        if (r->n_spare == 0)
                return false;
        b = make_buffer(r, len, n);
        c = (struct fe_chain){ .segs = b->seg, .n = n, .table = table ? b->table : 0, .cookie = b };
        if (fe_driver_add(r->d, &c, NULL) < 0)
                return false;
        b->out = true;
        r->n_spare--;
        r->offered++;
        return true;
}

unsigned int rr_add(struct rr_rig *r, unsigned int n)
{
        unsigned int added = 0, pieces;
        uint32_t len[RR_SEGS];

        for (; added < n; added++) {
                pieces = 1 + rr_random(r, 2) * rr_random(r, RR_SEGS);
                if (pieces > r->s.size)
                        pieces = r->s.size;
                for (unsigned int i = 0; i < pieces; i++)
                        len[i] = r->s.whole || rr_random(r, 8) ? 1 + rr_random(r, RR_SEG_BYTES) : 0;
                /* Now and then one that is too short to be anything. */
                if (len[0] < RR_HDR + 1 && (r->s.whole || rr_random(r, 8)))
                        len[0] = RR_HDR + 1;
                if (!rr_add_shape(r, len, pieces, rr_random(r, 3) == 0))
                        break;
        }
        fe_driver_publish(r->d);
        return added;
}

static uint32_t bytes_of(const struct fe_seg *s, unsigned int n)
{
        uint32_t sum = 0;

        for (unsigned int i = 0; i < n; i++)
                sum += s[i].len;
        return sum;
}

static void check_written(struct rr_rig *r, const struct rr_buffer *b, uint32_t len)
{
        for (unsigned int i = 0; i < b->n && len > 0; i++) {
                const uint32_t here = len < b->seg[i].len ? len : b->seg[i].len;
                const uint8_t *p = fe_memory_at(r->mem, b->seg[i].gpa, here);

                for (uint32_t k = 0; k < here; k++)
                        if (p[k] != pattern(b->seg[i].gpa + k))
                                fail_msg("byte %u of segment %u is not what was written", k, i);
                len -= here;
        }
}

static void got(struct rr_rig *r, const struct fe_done *done)
{
        struct rr_buffer *b = done->cookie;
        const uint32_t bytes = bytes_of(b->seg, b->n);
        const bool empty = bytes <= (r->s.rx ? 0 : RR_HDR);

        assert_true(b->out);
        assert_true(empty ? b->seen == 0 : b->seen > 0);
        if (r->s.rx)
                check_written(r, b, done->len);
        else
                assert_int_equal(done->len, 0);
        r->repeats += b->seen > 1;
        b->out = false;
        r->spare[r->n_spare++] = (unsigned int)(b - r->buffer);
        r->got++;
}

unsigned int rr_get(struct rr_rig *r)
{
        struct fe_done done;
        unsigned int n = 0;
        int rc;

        while ((rc = fe_driver_get(r->d, &done)) > 0) {
                got(r, &done);
                n++;
        }
        if (rc < 0)
                fail_msg("%s", fe_driver_error(r->d));
        return n;
}

/* ---- the device ---- */

/* Which buffer is it?  All of it must be there, in order, without the empty pieces. */
static void recognise(struct rr_rig *r, const struct rr_held *h)
{
        const uint64_t first = r->buffer[0].base;
        struct rr_buffer *b = &r->buffer[(h->seg[0].gpa - first) / BUFFER];
        unsigned int at = 0;

        assert_true(b->out);
        for (unsigned int i = 0; i < b->n; i++) {
                if (b->seg[i].len == 0)
                        continue;
                assert_true(at < h->n);
                assert_int_equal(h->seg[at].gpa, b->seg[i].gpa);
                assert_int_equal(h->seg[at].len, b->seg[i].len);
                assert_int_equal(h->seg[at].write, r->s.rx);
                at++;
        }
        assert_int_equal(at, h->n);
        b->seen++;
}

static void read_packet(struct rr_rig *r, const struct rr_held *h)
{
        for (unsigned int i = 0; i < h->n; i++) {
                const uint8_t *p = fe_memory_at(r->mem, h->seg[i].gpa, h->seg[i].len);

                for (uint32_t k = 0; k < h->seg[i].len; k++)
                        if (p[k] != pattern(h->seg[i].gpa + k))
                                fail_msg("byte %u of segment %u is not what was sent", k, i);
        }
}

unsigned int rr_take(struct rr_rig *r, unsigned int n)
{
        static struct ref_chain c;
        unsigned int taken = 0;

        while (taken < n && ref_take(&r->dev, &c) > 0) {
                struct rr_held *h = &r->held.item[r->held.n++];

                assert_in_range(c.n, 1, RR_SEGS);
                *h = (struct rr_held){ .id = c.id, .n_desc = c.n_desc, .n = c.n };
                memcpy(h->seg, c.segs, c.n * sizeof(c.segs[0]));
                h->bytes = bytes_of(h->seg, h->n);
                recognise(r, h);
                if (!r->s.rx)
                        read_packet(r, h);
                taken++;
        }
        assert_int_equal(r->dev.fault, REF_OK);
        return taken;
}

static void write_packet(struct rr_rig *r, const struct rr_held *h)
{
        uint32_t left = h->len;

        for (unsigned int i = 0; i < h->n && left > 0; i++) {
                struct fe_seg s = h->seg[i];

                s.len = left < s.len ? left : s.len;
                fill(r, &s);
                left -= s.len;
        }
}

static struct rr_held remove_held(struct rr_rig *r, unsigned int i)
{
        struct rr_held h = r->held.item[i];

        r->held.n--;
        memmove(&r->held.item[i], &r->held.item[i + 1], (r->held.n - i) * sizeof(h));
        return h;
}

/* Return one chain, and with it those before it that have no element of their own. */
static void complete_one(struct rr_rig *r, unsigned int i)
{
        unsigned int skipped = 0, before = r->s.in_order ? i : 0;
        struct rr_held h;

        for (; before > 0; before--) {
                h = remove_held(r, 0);
                h.len = r->s.rx ? h.bytes : 0;
                write_packet(r, &h);
                skipped += r->s.packed ? h.n_desc : 1;
                r->done.item[r->done.n++] = h;
                i--;
        }
        h = remove_held(r, i);
        h.len = r->s.rx ? rr_random(r, h.bytes + 1) : 0;
        write_packet(r, &h);
        ref_return(&r->dev, h.id, h.n_desc, h.len, skipped);
        r->done.item[r->done.n++] = h;
}

unsigned int rr_complete(struct rr_rig *r, unsigned int n)
{
        const unsigned int before = r->done.n;

        while (r->done.n - before < n && r->held.n > 0) {
                unsigned int i = 0;

                if (r->s.disorder)
                        i = rr_random(r, r->held.n);
                else if (r->s.in_order)
                        i = rr_random(r, r->held.n < 5 ? r->held.n : 5);
                complete_one(r, i);
        }
        return r->done.n - before;
}

/* ---- the relay ---- */

static void mark(uint8_t *bits, uint64_t gpa, uint64_t len)
{
        for (uint64_t page = gpa / RR_PAGE; len > 0 && page <= (gpa + len - 1) / RR_PAGE; page++)
                bits[page / 8] |= (uint8_t)(1u << page % 8);
}

/* The ring's own writes: used elements or slots, and what asks for kicks. */
static void mark_ring(struct rr_rig *r, uint16_t from, unsigned int n)
{
        const struct fe_areas a = fe_driver_areas(r->d);

        if (r->s.packed) {
                mark(r->may, a.desc, 16ull * r->s.size);
                mark(r->may, a.device, 4);
                if (n > 0)
                        mark(r->expect, a.desc + 16ull * from, 16);
                return;
        }
        mark(r->may, a.device, 6 + 8ull * r->s.size);
        for (unsigned int i = 0; i < n; i++)
                mark(r->expect, a.device + 4 + 8ull * ((from + i) & (r->s.size - 1u)), 8);
        if (n > 0)
                mark(r->expect, a.device, 4);
}

static void account(struct rr_rig *r, const struct rr_held *h)
{
        uint32_t left = h->len;

        r->packets++;
        if (!r->s.rx)
                r->bytes += h->bytes - RR_HDR;
        else
                r->bytes += h->len > RR_HDR ? h->len - RR_HDR : 0;
        for (unsigned int i = 0; r->q.log && i < h->n && left > 0; i++) {
                const uint32_t here = left < h->seg[i].len ? left : h->seg[i].len;

                mark(r->expect, h->seg[i].gpa, here);
                left -= here;
        }
}

/* What the relay returned meanwhile leaves the list, and the log must know it. */
static void look(struct rr_rig *r, uint16_t used_before, uint64_t returned)
{
        const unsigned int n = (unsigned int)(returned - r->harvested);
        const unsigned int moved = r->s.packed ? r->q.last_used != used_before
                                               : (uint16_t)(r->q.last_used - used_before);

        assert_true(n <= r->done.n);
        for (unsigned int i = 0; i < n; i++)
                account(r, &r->done.item[i]);
        r->done.n -= n;
        memmove(r->done.item, &r->done.item[n], r->done.n * sizeof(struct rr_held));
        r->harvested = returned;
        mark_ring(r, used_before, r->q.log ? moved : 0);
        for (uint64_t i = 0; i < r->log.size; i++) {
                if (r->expect[i] & ~r->log.bits[i])
                        fail_msg("pages %#jx: written and not logged",
                                 (uintmax_t)(r->expect[i] & ~r->log.bits[i]));
                if (r->log.bits[i] & ~(r->expect[i] | r->may[i]))
                        fail_msg("pages %#jx: logged and not written",
                                 (uintmax_t)(r->log.bits[i] & ~(r->expect[i] | r->may[i])));
        }
        memset(r->log.bits, 0, r->log.size);
        memset(r->expect, 0, r->log.size);
        memset(r->may, 0, r->log.size);
        assert_int_equal(r->q.packets, r->packets);
        assert_int_equal(r->q.bytes, r->bytes);
}

int rr_poll(struct rr_rig *r)
{
        const uint16_t used = r->q.last_used;
        const int rc = vql_relay_poll(r->relay);

        look(r, used, rr_stats(r).returned);
        return rc;
}

static bool poll_well(struct rr_rig *r)
{
        const int rc = rr_poll(r);

        if (rc < 0)
                fail_msg("relay: %d, %s, %s", rc, vql_fault_name(r->q.fault),
                         vql_relay_fault_name(rr_stats(r).fault));
        return rc > 0;
}

void rr_run(struct rr_rig *r)
{
        bool moved;

        do {
                moved = poll_well(r);
                moved |= rr_take(r, UINT32_MAX) > 0;
                moved |= rr_complete(r, UINT32_MAX) > 0;
                moved |= poll_well(r);
                moved |= rr_get(r) > 0;
        } while (moved);
}

static void check_position(struct rr_rig *r, unsigned int left)
{
        const unsigned int n = vql_pending_count(r->pending);

        assert_true(n <= left);
        if (!r->s.disorder)
                assert_int_equal(n, 0);
        if (n > 0)
                return;
        assert_int_equal(r->q.last_avail, r->q.last_used);
        assert_int_equal(r->q.avail_wrap, r->q.used_wrap);
}

void rr_stop(struct rr_rig *r)
{
        const uint16_t used = r->q.last_used;
        const unsigned int out = vql_relay_outstanding(r->relay);
        const unsigned int done = r->done.n;

        r->pending = vql_relay_settle(r->relay);
        look(r, used, rr_stats(r).returned);
        if (rr_stats(r).fault == VQL_RELAY_FINE) {
                assert_int_equal(r->done.n, 0);
                check_position(r, out - done);
        }
        vql_relay_close(r->relay);
        r->relay = NULL;
        r->held.n = 0;
        r->done.n = 0;
}

void rr_log(struct rr_rig *r, bool on)
{
        r->q.log = on ? &r->log : NULL;
}

struct vql_relay_stats rr_stats(const struct rr_rig *r)
{
        struct vql_relay_stats st;

        vql_relay_read_stats(r->relay, &st);
        return st;
}
