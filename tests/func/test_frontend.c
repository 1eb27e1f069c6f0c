/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Is the ruler straight?  The drivers of tests/frontend against a reference device written from the
 * specification, with random chains, orders and suppression.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver.h"

#include "ref_device.h"

enum { SETS = 64, SET_SEGS = 5, SEG_BYTES = 600, STEPS = 6000 };

/* Buffers that are used again and again. */
struct set {
        struct fe_seg seg[SET_SEGS];
        uint64_t table;
        bool busy;
        uint8_t serial;   /* of the bytes that the device reads */
        unsigned int n;   /* segments of the chain in use */
        uint32_t written; /* what the device did */
        bool skipped;
};

/* One buffer in the device's hands. */
struct holding {
        struct set *set;
        uint16_t id, n_desc;
        uint32_t writable;
};

struct rig {
        struct fe_memory *mem;
        struct fe_driver *d;
        struct ref_device v;
        struct ref_chain *chain;
        struct set set[SETS];
        struct holding held[SETS];
        unsigned int n_held;
        bool indirect;
        uint32_t random;
        uint8_t serial;
        /* Positions that never wrap: buffers for split, slots for packed. */
        int64_t added, published, checked, taken, returned, call_checked, got;
        int64_t kick_wish, call_wish; /* with EVENT_IDX */
        bool kicks_on, calls_on;
};

static uint32_t rnd(struct rig *r, uint32_t below)
{
        r->random ^= r->random << 13;
        r->random ^= r->random >> 17;
        r->random ^= r->random << 5;
        return r->random % below;
}

/* Does an event index that stands for `wish` fall into [from, to)?  It is a number that comes round
 * again: every 65536 buffers, or in packed rings every two laps. */
static bool passed(const struct rig *r, int64_t wish, int64_t from, int64_t to)
{
        int64_t lap = r->v.packed ? 2 * r->v.size : 65536;

        return ((wish - from) % lap + lap) % lap < to - from;
}

static void make_sets(struct rig *r)
{
        for (unsigned int i = 0; i < SETS; i++) {
                for (unsigned int k = 0; k < SET_SEGS; k++)
                        assert_int_equal(fe_seg_alloc(r->mem, (int)(i % 2 ? 0 : 2), SEG_BYTES,
                                                      false, &r->set[i].seg[k]),
                                         0);
                assert_int_equal(
                        fe_memory_alloc(r->mem, FE_ANY_REGION, 16 * SET_SEGS, 16, &r->set[i].table),
                        0);
        }
        /* Some lie across borders: over one, and over both ends of the one-page region. */
        r->set[1].seg[0].gpa = fe_memory_cross(r->mem, 0, 100);
        r->set[2].seg[1].gpa = fe_memory_cross(r->mem, 1, 1);
        r->set[3].table = fe_memory_cross(r->mem, 0, 4096 + 32);
}

static void rig_init(struct rig *r, const struct fe_driver_params *params, bool indirect)
{
        struct fe_driver_params p = *params;
        struct fe_text e;

        *r = (struct rig){ .indirect = indirect, .random = 2463534242u, .kicks_on = true };
        assert_int_equal(fe_memory_new_layout(FE_MOSAIC, &r->mem), 0);
        p.mem = r->mem;
        p.region = FE_ANY_REGION;
        p.guard = true;
        assert_int_equal(fe_driver_new(&p, &r->d, &e), 0);
        ref_init(&r->v, r->d);
        r->chain = malloc(sizeof(*r->chain));
        assert_non_null(r->chain);
        make_sets(r);
        ref_kicks_on(&r->v, 0);
        fe_driver_calls_on(r->d, 0);
        r->calls_on = true;
}

static void rig_fini(struct rig *r)
{
        fe_driver_free(r->d);
        fe_memory_free(r->mem);
        free(r->chain);
}

/* ---- the driver's moves ---- */

static void add_one(struct rig *r)
{
        struct set *s = &r->set[rnd(r, SETS)];
        unsigned int readable;
        struct fe_chain c;
        uint8_t bytes[SET_SEGS * SEG_BYTES];
        uint16_t room = fe_driver_free_slots(r->d);
        int err;

        if (s->busy)
                return;
        s->n = 1 + rnd(r, SET_SEGS);
        if (s->n > fe_driver_params(r->d)->size)
                s->n = fe_driver_params(r->d)->size;
        readable = rnd(r, s->n + 1);
        for (unsigned int i = 0; i < s->n; i++) {
                s->seg[i].len = rnd(r, 8) ? rnd(r, SEG_BYTES + 1) : 0;
                s->seg[i].write = i >= readable;
        }
        s->serial = ++r->serial;
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(s->serial + i * 7);
        fe_segs_write(r->mem, s->seg, readable, bytes, sizeof(bytes));
        c = (struct fe_chain){ s->seg, s->n, r->indirect && rnd(r, 3) ? s->table : 0, s };
        err = fe_driver_add(r->d, &c, NULL);
        if (err == -ENOSPC) {
                assert_true(room < (c.table ? 1 : s->n));
                return;
        }
        assert_int_equal(err, 0);
        s->busy = true;
        r->added += fe_driver_params(r->d)->packed && !c.table ? s->n : 1;
}

static void publish(struct rig *r)
{
        const struct fe_driver_params *p = fe_driver_params(r->d);
        bool due;

        fe_driver_publish(r->d);
        r->published = r->added;
        if (rnd(r, 4) == 0)
                return;
        due = r->published > r->checked;
        if (p->event_idx && (r->kicks_on || !p->packed))
                due = passed(r, r->kick_wish, r->checked, r->published);
        else
                due &= r->kicks_on;
        assert_int_equal(fe_driver_kick_due(r->d), due);
        r->checked = r->published;
}

static void check_back(struct rig *r, const struct fe_done *done)
{
        struct set *s = done->cookie;
        unsigned int first = 0;
        uint8_t bytes[SET_SEGS * SEG_BYTES];

        assert_true(s->busy);
        s->busy = false;
        assert_int_equal(done->skipped, s->skipped);
        if (done->skipped)
                return;
        assert_int_equal(done->len, s->written);
        while (first < s->n && !s->seg[first].write)
                first++;
        assert_int_equal(fe_segs_read(r->mem, s->seg + first, s->n - first, 0, bytes, done->len),
                         done->len);
        for (uint32_t i = 0; i < done->len; i++)
                assert_int_equal(bytes[i], (uint8_t)(s->serial ^ i));
}

static void get_some(struct rig *r)
{
        const struct fe_driver_params *p = fe_driver_params(r->d);
        struct fe_done done;

        for (uint32_t n = rnd(r, 8) + 1; n > 0; n--) {
                uint16_t before = fe_driver_free_slots(r->d);
                int got;

                assert_int_equal(fe_driver_pending(r->d), r->returned > r->got);
                got = fe_driver_get(r->d, &done);
                if (got < 0)
                        fail_msg("%s", fe_driver_error(r->d));
                assert_int_equal(got, r->returned > r->got);
                if (got == 0)
                        break;
                r->got += p->packed ? fe_driver_free_slots(r->d) - before : 1;
                check_back(r, &done);
        }
}

static void toggle_calls(struct rig *r)
{
        const struct fe_driver_params *p = fe_driver_params(r->d);
        uint16_t after = p->event_idx ? (uint16_t)rnd(r, p->size < 5 ? p->size : 5) : 0;
        bool pending;

        r->calls_on = rnd(r, 3);
        if (!r->calls_on) {
                fe_driver_calls_off(r->d);
                r->call_wish = r->got - 1;
                return;
        }
        pending = fe_driver_calls_on(r->d, after);
        r->call_wish = r->got + after;
        if (after == 0)
                assert_int_equal(pending, r->returned > r->got);
}

/* ---- the device's moves ---- */

static void toggle_kicks(struct rig *r)
{
        uint16_t after = (uint16_t)rnd(r, r->v.size < 5 ? r->v.size : 5);

        r->kicks_on = rnd(r, 3);
        if (r->kicks_on)
                ref_kicks_on(&r->v, after);
        else
                ref_kicks_off(&r->v);
        r->kick_wish = r->taken + (r->kicks_on ? after : -1);
}

static struct set *set_of(struct rig *r, const struct ref_chain *c)
{
        for (unsigned int i = 0; i < SETS; i++)
                if (r->set[i].busy && c->segs[0].gpa == r->set[i].seg[0].gpa)
                        return &r->set[i];
        fail_msg("the device sees a buffer at 0x%jx that nobody offered",
                 (uintmax_t)c->segs[0].gpa);
        return NULL;
}

/* What the device sees is what the driver offered, byte by byte. */
static void check_seen(struct rig *r, const struct set *s)
{
        const struct ref_chain *c = r->chain;
        uint8_t bytes[SEG_BYTES];
        size_t at = 0;

        assert_int_equal(c->n, s->n);
        for (unsigned int i = 0; i < c->n; i++) {
                assert_int_equal(c->segs[i].gpa, s->seg[i].gpa);
                assert_int_equal(c->segs[i].len, s->seg[i].len);
                assert_int_equal(c->segs[i].write, s->seg[i].write);
                if (c->segs[i].write)
                        continue;
                assert_int_equal(fe_memory_read(r->mem, c->segs[i].gpa, bytes, c->segs[i].len), 0);
                for (uint32_t k = 0; k < c->segs[i].len; k++, at++)
                        assert_int_equal(bytes[k], (uint8_t)(s->serial + at * 7));
        }
}

static void take_some(struct rig *r)
{
        for (uint32_t n = rnd(r, 6) + 1; n > 0 && r->n_held < SETS; n--) {
                struct holding *h = &r->held[r->n_held];
                int got = ref_take(&r->v, r->chain);

                assert_int_equal(got, r->published > r->taken);
                if (got == 0)
                        return;
                *h = (struct holding){ set_of(r, r->chain), r->chain->id, r->chain->n_desc, 0 };
                check_seen(r, h->set);
                for (unsigned int i = 0; i < r->chain->n; i++)
                        h->writable += r->chain->segs[i].write ? r->chain->segs[i].len : 0;
                r->taken += r->v.packed ? h->n_desc : 1;
                r->n_held++;
        }
}

static void write_answer(struct rig *r, struct holding *h)
{
        uint8_t bytes[SET_SEGS * SEG_BYTES];
        struct set *s = h->set;
        unsigned int first = 0;

        s->written = rnd(r, 3) ? rnd(r, h->writable + 1) : h->writable;
        for (uint32_t i = 0; i < s->written; i++)
                bytes[i] = (uint8_t)(s->serial ^ i);
        while (first < s->n && !s->seg[first].write)
                first++;
        fe_segs_write(r->mem, s->seg + first, s->n - first, bytes, s->written);
        s->skipped = false;
}

/* Return one of those held: any, or in order the first, or one with all before it skipped. */
static void return_one(struct rig *r)
{
        unsigned int k, skipped = 0;
        struct holding h;

        if (r->n_held == 0)
                return;
        k = rnd(r, r->n_held);
        if (r->v.in_order && rnd(r, 2))
                k = 0;
        for (unsigned int i = 0; r->v.in_order && i < k; i++) {
                r->held[i].set->skipped = true;
                skipped += r->v.packed ? r->held[i].n_desc : 1;
        }
        write_answer(r, &r->held[k]);
        h = r->held[k];
        ref_return(&r->v, h.id, h.n_desc, h.set->written, skipped);
        r->returned += skipped + (r->v.packed ? h.n_desc : 1);
        if (r->v.in_order) {
                r->n_held -= k + 1;
                memmove(r->held, r->held + k + 1, r->n_held * sizeof(h));
        } else {
                r->n_held--;
                memmove(r->held + k, r->held + k + 1, (r->n_held - k) * sizeof(h));
        }
}

static void check_call(struct rig *r)
{
        bool due = r->returned > r->call_checked;

        if (r->v.event_idx && (r->calls_on || !r->v.packed))
                due = passed(r, r->call_wish, r->call_checked, r->returned);
        else
                due &= r->calls_on;
        assert_int_equal(ref_call_due(&r->v), due);
        r->call_checked = r->returned;
}

/* ---- the play ---- */

static void one_step(struct rig *r)
{
        switch (rnd(r, 9)) {
        case 0:
        case 1:
        case 2:
                add_one(r);
                break;
        case 3:
                publish(r);
                break;
        case 4:
                take_some(r);
                break;
        case 5:
                for (uint32_t n = rnd(r, 5); n > 0; n--)
                        return_one(r);
                if (rnd(r, 3))
                        check_call(r);
                break;
        case 6:
                get_some(r);
                break;
        case 7:
                toggle_calls(r);
                break;
        default:
                toggle_kicks(r);
        }
}

static void drain(struct rig *r)
{
        struct fe_position p;
        uint64_t laps;

        fe_driver_publish(r->d);
        r->published = r->added;
        while (r->got < r->added) {
                take_some(r);
                return_one(r);
                get_some(r);
        }
        assert_int_equal(fe_driver_outstanding(r->d), 0);
        assert_int_equal(fe_driver_free_slots(r->d), r->v.size);
        p = fe_driver_position(r->d);
        laps = (fe_driver_params(r->d)->start + (uint64_t)r->got) / r->v.size;
        if (!r->v.packed) {
                assert_int_equal(p.used, (uint16_t)(fe_driver_params(r->d)->start + r->got));
                return;
        }
        assert_int_equal(p.used, (fe_driver_params(r->d)->start + (uint64_t)r->got) % r->v.size);
        assert_int_equal(p.used_wrap, fe_driver_params(r->d)->start_wrap_0 == (laps & 1));
}

static void play(const struct fe_driver_params *p, bool indirect)
{
        struct rig *r = malloc(sizeof(*r));

        assert_non_null(r);
        rig_init(r, p, indirect);
        for (unsigned int i = 0; i < STEPS; i++)
                one_step(r);
        drain(r);
        assert_true(r->got > 100);
        rig_fini(r);
        free(r);
}

static const struct {
        bool packed;
        uint16_t size, start;
        bool wrap_0;
} shapes[] = {
        { false, 1, 0, false },        { false, 2, 65535, false },   { false, 4, 65530, false },
        { false, 256, 0, false },      { false, 256, 65535, false }, { false, 32768, 65500, false },
        { true, 1, 0, false },         { true, 1, 0, true },         { true, 2, 1, false },
        { true, 7, 6, false },         { true, 7, 3, true },         { true, 256, 255, false },
        { true, 32768, 32767, false }, { true, 32767, 32760, true },
};

/* Bits of the variation: event index, in order, indirect, and the choice of descriptors. */
static void test_play(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
                for (unsigned int bits = 0; bits < 8; bits++) {
                        const struct fe_driver_params p = {
                                .packed = shapes[i].packed,
                                .size = shapes[i].size,
                                .start = shapes[i].start,
                                .start_wrap_0 = shapes[i].wrap_0,
                                .event_idx = bits & 1,
                                .in_order = bits & 2,
                                .pick = (enum fe_pick)((bits + i) % 3),
                                .seed = bits,
                        };

                        play(&p, bits & 4);
                }
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_play),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
