/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A guest that does wrong things to a ring which a relay serves, and one whose second CPU changes a
 * word of a ring or a table at any moment: the ring breaks with the right name or goes on, and
 * whatever the device finds on the shadow lies in guest memory and goes in the right direction.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <rte_common.h>

#include "access_trap.h"
#include "bare_queue.h"
#include "base/bits.h"
#include "frontend/faults.h"
#include "ref_device.h"
#include "sw-fallback/relay.h"
#include "virtqueue/features.h"

enum { RING = 16, BYTES = 200, PAGE = 4096, BURSTS = 2000 };

#define NOWHERE (UINT64_C(1) << 60)

struct bench {
        const char *name;
        bool packed, rx, indirect;
        struct fe_memory *mem;
        struct vql_mem_table *table;
        struct fe_driver *d;
        struct fe_seg seg[2];
        uint64_t tables[2];
        struct vql_queue q;
        struct vql_relay *relay;
        struct vql_relay_layout layout;
        uint8_t *arena;
        struct ref_device dev;
        unsigned int taken, faults;
};

#define CHECK(b, condition, ...)                                                                   \
        do {                                                                                       \
                if (!(condition)) {                                                                \
                        fprintf(stderr, "%s %s%s, %s: ", (b)->packed ? "packed" : "split",         \
                                (b)->rx ? "rx" : "tx", (b)->indirect ? " tables" : "", (b)->name); \
                        fail_msg(__VA_ARGS__);                                                     \
                }                                                                                  \
        } while (0)

static void bench_init(struct bench *b)
{
        const struct fe_region_spec spec = { .size = 1 << 20 };
        struct fe_driver_params p = { .size = RING, .packed = b->packed };
        struct fe_text e;

        assert_int_equal(fe_memory_new(&spec, 1, &b->mem), 0);
        p.mem = b->mem;
        assert_int_equal(fe_driver_new(&p, &b->d, &e), 0);
        b->table = bare_table_new(b->mem);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(fe_seg_alloc(b->mem, 0, BYTES, b->rx, &b->seg[i]), 0);
                assert_int_equal(fe_memory_alloc(b->mem, 0, 64, 64, &b->tables[i]), 0);
        }
        vql_relay_layout(RING, b->packed, PAGE, &b->layout);
        b->arena = aligned_alloc(PAGE, b->layout.bytes);
        assert_non_null(b->arena);
}

static void bench_fini(struct bench *b)
{
        free(b->arena);
        vql_mem_table_put(b->table);
        fe_driver_free(b->d);
        fe_memory_free(b->mem);
}

static void kick(void *arg)
{
        (void)arg;
}

static void open_relay(struct bench *b)
{
        const struct bare_params bare = { .d = b->d,
                                          .table = b->table,
                                          .features = vql_bit(VIRTIO_F_VERSION_1),
                                          .rx = b->rx,
                                          .call_fd = -1 };
        struct vql_relay_params p = {
                .q = &b->q,
                .size = RING,
                .features = b->indirect ? vql_bit(VIRTIO_RING_F_INDIRECT_DESC) : 0,
                .kick = kick,
        };
        struct vql_error e;

        bare_queue_init(&b->q, &bare);
        for (int i = 0; i < VQL_AREA_COUNT; i++)
                p.area[i] = b->arena + b->layout.at[i];
        assert_int_equal(vql_relay_open(&p, &b->relay, &e), 0);
        b->dev = (struct ref_device){
                .mem = b->mem,
                .at.desc = p.area[VQL_AREA_DESC],
                .at.avail = p.area[VQL_AREA_DRIVER],
                .at.used = p.area[VQL_AREA_DEVICE],
                .size = RING,
                .packed = b->packed,
                .avail_wrap = true,
                .used_wrap = true,
                .old_used_wrap = true,
        };
}

static void close_relay(struct bench *b)
{
        vql_pending_free(vql_relay_settle(b->relay));
        vql_relay_close(b->relay);
}

/* The device reads no table here that could change: all that it finds was checked. */
static void serve(struct bench *b)
{
        static struct ref_chain c;

        while (ref_take(&b->dev, &c) > 0) {
                uint32_t bytes = 0;

                for (unsigned int i = 0; i < c.n; i++) {
                        CHECK(b, c.segs[i].write == b->rx, "wrong direction");
                        CHECK(b, c.segs[i].len > 0, "an empty buffer");
                        bytes += c.segs[i].len;
                }
                ref_return(&b->dev, c.id, c.n_desc, b->rx ? bytes : 0, 0);
                b->taken++;
        }
        CHECK(b, b->dev.fault == REF_OK, "the device met fault %d", b->dev.fault);
}

static void go_round(struct bench *b)
{
        for (int i = 0; i < 3; i++) {
                vql_relay_poll(b->relay);
                serve(b);
        }
}

/* ---- wrong things ---- */

static unsigned int add_good(struct bench *b)
{
        const struct fe_chain c = { .segs = b->seg, .n = 1 };
        struct fe_done done;
        unsigned int got = 0;

        assert_int_equal(fe_driver_add(b->d, &c, NULL), 0);
        fe_driver_publish(b->d);
        go_round(b);
        while (fe_driver_get(b->d, &done) > 0)
                got++;
        return got;
}

static void play_fault(struct bench *b, const struct fe_ring_fault *f)
{
        static struct fe_fault_room room;
        int rc = 0;

        bench_init(b);
        b->name = f->name;
        b->taken = 0;
        assert_int_equal(fe_fault_room_init(&room, b->mem, 0, b->rx, 12), 0);
        open_relay(b);
        assert_int_equal(add_good(b), 1);
        assert_int_equal(fe_fault_inject(f, b->d, &room), 0);
        for (int i = 0; i < 3; i++) {
                rc = vql_relay_poll(b->relay);
                serve(b);
        }
        if (f->effect == FE_BREAKS_RING) {
                CHECK(b, rc == -EBADMSG && b->q.fault != VQL_FAULT_NONE, "%d", rc);
                CHECK(b, b->taken == 1, "the device got it");
        } else if (f->effect != FE_ANY) {
                struct fe_done done;

                CHECK(b, rc == 0, "%d: %s", rc, vql_fault_name(b->q.fault));
                CHECK(b, fe_driver_get(b->d, &done) == 1, "it was not returned");
                assert_int_equal(add_good(b), 1);
        }
        close_relay(b);
        bench_fini(b);
}

static void wrong_things(void **state)
{
        struct bench *b = calloc(1, sizeof(*b));

        (void)state;
        for (int i = 0; i < 8; i++) {
                *b = (struct bench){ .packed = i & 1, .rx = i & 2, .indirect = i & 4 };
                for (size_t k = 0; k < fe_ring_fault_count; k++) {
                        const struct fe_ring_fault *f = &fe_ring_faults[k];

                        if ((b->rx ? f->rx : f->tx) &&
                            f->formats & (b->packed ? FE_FOR_PACKED : FE_FOR_SPLIT))
                                play_fault(b, f);
                }
        }
        free(b);
}

/* ---- a word that changes ---- */

enum place { HEAD, SECOND, ENTRY, LAST_ENTRY, AVAIL_IDX, AVAIL_ENTRY };
enum field { ADDR, LEN, FLAGS, LINK };

struct flip {
        const char *name;
        unsigned int formats;
        unsigned int pieces;
        enum place place;
        enum field field;
        uint64_t value; /* of flags: the ones that turn */
        enum vql_fault fault;
};

static const struct flip flips[] = {
        { "address", FE_FOR_BOTH, 1, HEAD, ADDR, NOWHERE, VQL_FAULT_DESC_ADDRESS },
        { "length", FE_FOR_BOTH, 1, HEAD, LEN, UINT32_MAX, VQL_FAULT_DESC_ADDRESS },
        { "length 0", FE_FOR_BOTH, 1, HEAD, LEN, 0, VQL_FAULT_NONE },
        { "direction", FE_FOR_BOTH, 1, HEAD, FLAGS, VRING_DESC_F_WRITE, VQL_FAULT_DESC_DIRECTION },
        { "a table", FE_FOR_BOTH, 1, HEAD, FLAGS, VRING_DESC_F_INDIRECT, VQL_FAULT_INDIRECT },
        { "next", FE_FOR_SPLIT, 2, HEAD, LINK, RING, VQL_FAULT_DESC_INDEX },
        { "end", FE_FOR_BOTH, 2, HEAD, FLAGS, VRING_DESC_F_NEXT, VQL_FAULT_NONE },
        { "2nd address", FE_FOR_BOTH, 2, SECOND, ADDR, NOWHERE, VQL_FAULT_DESC_ADDRESS },
        { "2nd length", FE_FOR_BOTH, 2, SECOND, LEN, UINT32_MAX, VQL_FAULT_DESC_ADDRESS },
        { "2nd direction", FE_FOR_BOTH, 2, SECOND, FLAGS, VRING_DESC_F_WRITE,
          VQL_FAULT_DESC_DIRECTION },
        { "2nd a table", FE_FOR_BOTH, 2, SECOND, FLAGS, VRING_DESC_F_INDIRECT, VQL_FAULT_INDIRECT },
        { "table length", FE_FOR_BOTH, 0, HEAD, LEN, 0xfffffff0, VQL_FAULT_INDIRECT },
        { "table address", FE_FOR_BOTH, 0, HEAD, ADDR, NOWHERE, VQL_FAULT_DESC_ADDRESS },
        { "entry address", FE_FOR_BOTH, 0, ENTRY, ADDR, NOWHERE, VQL_FAULT_DESC_ADDRESS },
        { "entry length", FE_FOR_BOTH, 0, ENTRY, LEN, UINT32_MAX, VQL_FAULT_DESC_ADDRESS },
        { "entry next", FE_FOR_SPLIT, 0, ENTRY, LINK, 2, VQL_FAULT_DESC_INDEX },
        { "entry a table", FE_FOR_BOTH, 0, ENTRY, FLAGS, VRING_DESC_F_INDIRECT,
          VQL_FAULT_INDIRECT },
        { "last entry", FE_FOR_BOTH, 0, LAST_ENTRY, FLAGS, VRING_DESC_F_WRITE,
          VQL_FAULT_DESC_DIRECTION },
        { "avail index", FE_FOR_SPLIT, 1, AVAIL_IDX, LINK, RING + 1, VQL_FAULT_AVAIL_INDEX },
        { "avail entry", FE_FOR_SPLIT, 1, AVAIL_ENTRY, LINK, RING, VQL_FAULT_DESC_INDEX },
};

/* Two chains, of which the word is in the second. */
static void offer(struct bench *b, const struct flip *f)
{
        const unsigned int n = f->pieces ? f->pieces : 2;

        fe_driver_restart(b->d);
        for (int i = 0; i < 2; i++) {
                struct fe_seg s[2] = { b->seg[i], b->seg[i] };
                struct fe_chain c;

                s[0].len = n == 1 ? BYTES : 40;
                s[1].gpa += 40;
                s[1].len -= 40;
                c = (struct fe_chain){ .segs = s, .n = n, .table = f->pieces ? 0 : b->tables[i] };
                assert_int_equal(fe_driver_add(b->d, &c, NULL), 0);
        }
        fe_driver_publish(b->d);
}

struct word {
        void *at;
        size_t bytes;
        uint64_t value[2];
};

static struct word word_of(const struct fe_desc *d, const struct flip *f)
{
        struct word w = { .value[1] = f->value };

        switch (f->field) {
        case ADDR:
                w.at = d->addr;
                w.bytes = 8;
                break;
        case LEN:
                w.at = d->len;
                w.bytes = 4;
                break;
        case FLAGS:
                w.at = d->flags;
                w.bytes = 2;
                w.value[1] ^= *d->flags;
                break;
        default:
                w.at = d->next;
                w.bytes = 2;
        }
        return w;
}

static struct word find_word(struct bench *b, const struct flip *f)
{
        const struct fe_area_pointers p = fe_driver_pointers(b->d);
        struct word w = { .bytes = 2, .value[1] = f->value };
        struct fe_desc d = fe_driver_head(b->d);

        if (f->place == AVAIL_IDX) {
                w.at = &p.avail->idx;
        } else if (f->place == AVAIL_ENTRY) {
                w.at = &p.avail->ring[1];
        } else {
                if (f->place != HEAD)
                        assert_int_equal(fe_driver_desc(b->d, f->place == ENTRY ? 0 : 1, &d), 0);
                w = word_of(&d, f);
        }
        memcpy(&w.value[0], w.at, w.bytes);
        return w;
}

static void check_fault(struct bench *b, const struct flip *f)
{
        const enum vql_fault fault = (enum vql_fault)b->q.fault;

        CHECK(b, fault == VQL_FAULT_NONE || fault == f->fault, "fault %s", vql_fault_name(fault));
        b->faults += fault != VQL_FAULT_NONE;
}

/* ---- at every moment in turn ---- */

/* The word turns wrong at access number `at`, or right, or is wrong for this one alone. */
enum pattern { TURNS, TURNS_BACK, BLINKS, PATTERNS };

struct moment {
        struct word w;
        enum pattern pattern;
        unsigned int at;
};

static void put_word(const struct word *w, bool wrong)
{
        memcpy(w->at, &w->value[wrong], w->bytes);
}

static void on_access(void *arg, unsigned int n)
{
        const struct moment *m = arg;
        const bool wrong = m->pattern == BLINKS ? n == m->at : n >= m->at;

        put_word(&m->w, wrong != (m->pattern == TURNS_BACK));
}

/* The page of the product's own mapping that the word is in. */
static void *page_of(struct bench *b, const struct word *w)
{
        const uint8_t *zero = fe_memory_at(b->mem, 0, 1);
        struct vql_mem_span span;

        assert_int_equal(vql_mem_find(b->table, 0, &span), 0);
        return span.va + (uint64_t)((uint8_t *)w->at - zero) / PAGE * PAGE;
}

static void every_moment(struct bench *b, const struct flip *f)
{
        for (int k = 0; k < PATTERNS; k++) {
                unsigned int seen = 1;

                for (unsigned int i = 0; i <= seen; i++) {
                        struct moment m = { .pattern = (enum pattern)k, .at = i };

                        offer(b, f);
                        open_relay(b);
                        m.w = find_word(b, f);
                        access_trap_arm(page_of(b, &m.w), on_access, &m);
                        go_round(b);
                        seen = access_trap_disarm();
                        check_fault(b, f);
                        put_word(&m.w, false);
                        close_relay(b);
                }
                CHECK(b, seen > 0, "nobody looked");
        }
}

/* ---- and all the time ---- */

static void all_the_time(struct bench *b, const struct flip *f)
{
        struct fe_flipper *flipper;
        struct word w;
        void *alias;

        offer(b, f);
        w = find_word(b, f);
        alias = fe_memory_alias(
                b->mem, (uint64_t)((uint8_t *)w.at - (uint8_t *)fe_memory_at(b->mem, 0, 1)));
        assert_non_null(alias);
        assert_int_equal(
                fe_flipper_start(alias, (unsigned int)w.bytes, w.value[0], w.value[1], &flipper),
                0);
        for (int i = 0; i < BURSTS; i++) {
                offer(b, f);
                open_relay(b);
                go_round(b);
                check_fault(b, f);
                close_relay(b);
        }
        fe_flipper_stop(flipper);
        fe_memory_unalias(alias);
}

static void each_flip(void (*play)(struct bench *b, const struct flip *f))
{
        struct bench *b = calloc(1, sizeof(*b));

        for (size_t k = 0; k < RTE_DIM(flips); k++) {
                for (int i = 0; i < 4; i++) {
                        *b = (struct bench){ .name = flips[k].name, .packed = i & 1, .rx = i & 2 };
                        if (!(flips[k].formats & (b->packed ? FE_FOR_PACKED : FE_FOR_SPLIT)))
                                continue;
                        bench_init(b);
                        play(b, &flips[k]);
                        CHECK(b, b->taken > 0, "no chain at all");
                        bench_fini(b);
                }
        }
        free(b);
}

static void words_that_change_once(void **state)
{
        (void)state;
        if (!access_trap_works()) {
                puts("needs single steps, which this build or CPU does not have");
                skip();
        }
        each_flip(every_moment);
}

static void words_that_change_all_the_time(void **state)
{
        (void)state;
        each_flip(all_the_time);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(wrong_things),
                cmocka_unit_test(words_that_change_once),
                cmocka_unit_test(words_that_change_all_the_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
