/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Does the ruler notice?  Every rule that the drivers of tests/frontend watch is broken once by a
 * reference device, and every fault that they can commit is seen by one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "frontend/driver.h"
#include "frontend/faults.h"

#include "ref_device.h"

enum { RING = 8 };

struct rig {
        struct fe_memory *mem;
        struct fe_driver *d;
        struct ref_device v;
        struct ref_chain chain;
};

static struct rig *rig_new(bool packed, uint16_t size)
{
        struct fe_driver_params p = {
                .packed = packed, .size = size, .region = FE_ANY_REGION, .guard = true
        };
        struct rig *r = calloc(1, sizeof(*r));
        struct fe_text e;

        assert_non_null(r);
        assert_int_equal(fe_memory_new_layout(FE_MOSAIC, &r->mem), 0);
        p.mem = r->mem;
        assert_int_equal(fe_driver_new(&p, &r->d, &e), 0);
        ref_init(&r->v, r->d);
        return r;
}

static void rig_free(struct rig *r)
{
        fe_driver_free(r->d);
        fe_memory_free(r->mem);
        free(r);
}

/* ---- devices that break a rule ---- */

struct breach {
        const char *name;
        const char *says; /* part of the sentence */
        void (*commit)(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write);
};

static void unknown_id(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        (void)id, (void)read, (void)write;
        ref_return(&r->v, 8, 2, 0, 0);
}

static void id_not_out(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        (void)read, (void)write;
        ref_return(&r->v, (uint16_t)((id + 3) % 8), 2, 0, 0);
}

static void too_long(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        (void)read;
        ref_return(&r->v, id, 2, write->len + 1, 0);
}

static void spoil_byte(struct rig *r, uint64_t gpa)
{
        uint8_t *b = fe_memory_at(r->mem, gpa, 1);

        *b ^= 0x80;
}

static void behind_used(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        (void)read;
        spoil_byte(r, write->gpa + 10);
        ref_return(&r->v, id, 2, 10, 0);
}

static void before_buffer(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        (void)read;
        spoil_byte(r, write->gpa - 1);
        ref_return(&r->v, id, 2, write->len, 0);
}

static void behind_buffer(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        (void)read;
        spoil_byte(r, write->gpa + write->len);
        ref_return(&r->v, id, 2, write->len, 0);
}

static void readable(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        (void)write;
        spoil_byte(r, read->gpa + 5);
        ref_return(&r->v, id, 2, 0, 0);
}

static void twice(struct rig *r, uint16_t id, struct fe_seg *read, struct fe_seg *write)
{
        struct fe_done done;

        (void)read, (void)write;
        ref_return(&r->v, id, 2, 0, 0);
        assert_int_equal(fe_driver_get(r->d, &done), 1);
        ref_return(&r->v, id, 2, 0, 0);
}

static const struct breach breaches[] = {
        { "unknown id", "used id 8 in a ring of 8", unknown_id },
        { "id not out", "never offered", id_not_out },
        { "too long", "length 101, writable 100", too_long },
        { "behind used length", "byte 10 of segment 1", behind_used },
        { "before buffer", "bytes before segment 1", before_buffer },
        { "behind buffer", "byte 0 behind segment 1", behind_buffer },
        { "readable bytes", "device-readable bytes changed", readable },
        { "returned twice", "returned before", twice },
};

static void offer_two(struct rig *r, struct fe_seg segs[2][2], uint16_t ids[2])
{
        for (unsigned int i = 0; i < 2; i++) {
                const struct fe_chain c = { .segs = segs[i], .n = 2 };

                assert_int_equal(fe_seg_alloc(r->mem, 0, 50, false, &segs[i][0]), 0);
                assert_int_equal(fe_seg_alloc(r->mem, 0, 100, true, &segs[i][1]), 0);
                assert_int_equal(fe_driver_add(r->d, &c, &ids[i]), 0);
        }
        fe_driver_publish(r->d);
}

static void one_breach(const struct breach *b, bool packed)
{
        struct rig *r = rig_new(packed, RING);
        struct fe_seg segs[2][2];
        struct fe_done done;
        uint16_t ids[2];

        offer_two(r, segs, ids);
        b->commit(r, ids[1], &segs[1][0], &segs[1][1]);
        assert_int_equal(fe_driver_get(r->d, &done), -EBADMSG);
        if (!strstr(fe_driver_error(r->d), b->says))
                fail_msg("%s: \"%s\", expected \"%s\"", b->name, fe_driver_error(r->d), b->says);
        rig_free(r);
}

static void test_breaches(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(breaches) / sizeof(breaches[0]); i++) {
                one_breach(&breaches[i], false);
                one_breach(&breaches[i], true);
        }
}

static void test_index_ahead(void **state)
{
        struct rig *r = rig_new(false, RING);
        struct fe_seg segs[2][2];
        struct fe_done done;
        uint16_t ids[2];

        (void)state;
        offer_two(r, segs, ids);
        ref_return(&r->v, ids[0], 2, 0, 2);
        assert_int_equal(fe_driver_get(r->d, &done), -EBADMSG);
        assert_non_null(strstr(fe_driver_error(r->d), "only 2 buffers"));
        rig_free(r);
}

/* ---- faults of our own making ---- */

/* Each spoiled buffer is what its table row says: broken in the eyes of the specification, or not.
 */
static void one_fault(const struct fe_ring_fault *f, bool packed, bool rx)
{
        struct rig *r = rig_new(packed, 64);
        struct fe_fault_room room;
        bool broken;
        int got;

        assert_int_equal(fe_fault_room_init(&room, r->mem, FE_ANY_REGION, rx, 12), 0);
        assert_int_equal(fe_fault_inject(f, r->d, &room), 0);
        got = ref_take(&r->v, &r->chain);
        assert_int_not_equal(got, 0);
        broken = got < 0 || r->chain.segs[0].write != rx;
        if (f->effect != FE_ANY && broken != (f->effect == FE_BREAKS_RING))
                fail_msg("\"%s\", packed %d, rx %d: %s", f->name, packed, rx,
                         broken ? "broken" : "whole");
        rig_free(r);
}

static void test_faults(void **state)
{
        (void)state;
        for (size_t i = 0; i < fe_ring_fault_count; i++) {
                const struct fe_ring_fault *f = &fe_ring_faults[i];

                for (unsigned int packed = 0; packed < 2; packed++)
                        for (unsigned int rx = 0; rx < 2; rx++)
                                if (f->formats & (packed ? FE_FOR_PACKED : FE_FOR_SPLIT) &&
                                    (rx ? f->rx : f->tx))
                                        one_fault(f, packed, rx);
        }
}

static void test_flipper(void **state)
{
        struct fe_flipper *f;
        uint32_t word = 0;
        bool seen[2] = { false, false };

        (void)state;
        assert_int_equal(fe_flipper_start(&word, 4, 7, 9, &f), 0);
        while (!seen[0] || !seen[1]) {
                uint32_t now = __atomic_load_n(&word, __ATOMIC_RELAXED);

                seen[0] |= now == 7;
                seen[1] |= now == 9;
        }
        fe_flipper_stop(f);
        assert_int_equal(word, 7);
}

/* ---- waiting ---- */

struct late {
        struct rig *r;
        uint16_t id;
        int call_fd; /* -1: forgets to interrupt */
};

static bool wants_call(const struct rig *r)
{
        return r->v.packed ? __atomic_load_n(&r->v.at.driver_event->flags, __ATOMIC_ACQUIRE) !=
                                     VRING_PACKED_EVENT_FLAG_DISABLE
                           : !(__atomic_load_n(&r->v.at.avail->flags, __ATOMIC_ACQUIRE) &
                               VRING_AVAIL_F_NO_INTERRUPT);
}

static void *return_late(void *arg)
{
        static const uint64_t one = 1;
        struct late *l = arg;

        while (!wants_call(l->r))
                usleep(1000);
        usleep(20000);
        ref_return(&l->r->v, l->id, 2, 0, 0);
        if (l->call_fd >= 0 && write(l->call_fd, &one, sizeof(one)) < 0)
                return l;
        return NULL;
}

static void wait_case(bool packed, bool interrupt)
{
        struct rig *r = rig_new(packed, RING);
        struct fe_seg segs[2][2];
        uint16_t ids[2];
        struct late late;
        pthread_t thread;
        int fd = eventfd(1, EFD_NONBLOCK); /* one stale interrupt */

        assert_true(fd >= 0);
        offer_two(r, segs, ids);
        assert_int_equal(fe_driver_wait(r->d, fd, 10), -ETIMEDOUT);
        late = (struct late){ r, ids[0], interrupt ? fd : -1 };
        assert_int_equal(pthread_create(&thread, NULL, return_late, &late), 0);
        assert_int_equal(fe_driver_wait(r->d, fd, interrupt ? 20000 : 1000),
                         interrupt ? 0 : -ETIME);
        pthread_join(thread, NULL);
        close(fd);
        rig_free(r);
}

static void test_wait(void **state)
{
        (void)state;
        wait_case(false, true);
        wait_case(false, false);
        wait_case(true, true);
        wait_case(true, false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_breaches), cmocka_unit_test(test_index_ahead),
                cmocka_unit_test(test_faults),   cmocka_unit_test(test_flipper),
                cmocka_unit_test(test_wait),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
