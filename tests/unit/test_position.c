/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "guest_memory.h"
#include "port/position.h"
#include "virtqueue/features.h"
#include "virtqueue/ring.h"

/*
 * A packed ring after its back-end was killed: who is right about its position?  The ring is at
 * slot 5 of 8 in an even lap when the back-end goes; the driver fills it, into the next lap.
 */

enum { SIZE = 8, STOPPED_AT = 5, INDEX = 1 };

struct scene {
        struct vql_session session;
        struct vql_offer offer;
        struct vql_journal *journal;
        struct vql_packed_ring ring;
        struct vql_cursor at;
};

static uint16_t avail_flags(uint8_t wrap)
{
        return wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED;
}

static uint16_t used_flags(uint8_t wrap)
{
        return wrap ? VQL_PACKED_AVAIL | VQL_PACKED_USED : 0;
}

static struct vql_cursor cursor(uint16_t slot, uint8_t wrap)
{
        return (struct vql_cursor){ slot, slot, wrap, wrap };
}

static uint32_t base(uint16_t slot, uint8_t wrap)
{
        const struct vql_cursor at = cursor(slot, wrap);

        return vql_cursor_encode(&at, true);
}

static struct scene *scene_new(void)
{
        const struct vql_region_desc d = DESC(0, 4 * PAGE);
        struct scene *s = calloc(1, sizeof(*s));
        const struct vql_cursor stopped = cursor(STOPPED_AT, 0);
        struct vring_packed_desc *desc;

        s->offer.max_rings = 2;
        vql_session_init(&s->session, &s->offer, NULL, NULL, NULL, -1);
        s->session.features = vql_bit(VIRTIO_F_RING_PACKED);
        s->session.mem = table_of(&d, 1);
        s->session.vring[INDEX] = (struct vql_vring){
                .num = SIZE, .desc_uva = TIB + PAGE, .kick_fd = -1, .call_fd = -1, .err_fd = -1
        };
        assert_int_equal(vql_journal_open(NULL, "p", &s->journal, NULL), 0);
        vql_journal_begin(s->journal, INDEX, TIB + PAGE, SIZE, &stopped);
        desc = vql_mem_uva(s->session.mem, TIB + PAGE, SIZE * sizeof(*desc), NULL);
        for (unsigned int i = 0; i < SIZE; i++) {
                desc[i].flags = avail_flags(i < STOPPED_AT);
                desc[i].id = (uint16_t)(100 + i);
                desc[i].len = 1;
        }
        return s;
}

static void scene_free(struct scene *s)
{
        vql_journal_close(s->journal);
        vql_session_fini(&s->session);
        free(s);
}

static bool lost(struct scene *s, uint32_t said)
{
        s->session.vring[INDEX].base = said;
        return vql_position_find(&s->session, s->journal, INDEX, &s->ring, &s->at);
}

static struct vring_packed_desc *slot(const struct scene *s, unsigned int i)
{
        return vql_mem_uva(s->session.mem, TIB + PAGE + i * sizeof(struct vring_packed_desc),
                           sizeof(struct vring_packed_desc), NULL);
}

/* The front-end returned n buffers of the odd lap by itself. */
static void front_end_returns(struct scene *s, uint16_t n)
{
        for (uint16_t i = 0; i < n; i++)
                slot(s, i)->flags = used_flags(1);
}

static void lost_position_is_the_recorded_one(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        assert_true(lost(s, 0));
        assert_int_equal(s->at.used, STOPPED_AT);
        assert_int_equal(s->at.used_wrap, 0);
        assert_true(lost(s, VQL_PACKED_INITIAL));
        assert_false(lost(s, base(STOPPED_AT, 0)));
        vql_journal_end(s->journal, INDEX);
        assert_false(lost(s, 0));
        scene_free(s);
}

static void left_out_buffers_are_returned(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        front_end_returns(s, 2);
        assert_true(lost(s, base(2, 1)));
        assert_int_equal(s->at.used, STOPPED_AT);
        assert_int_equal(vql_position_settle(&s->ring, &s->at), SIZE - STOPPED_AT);
        assert_int_equal(s->at.used, 2);
        assert_int_equal(s->at.used_wrap, 1);
        for (unsigned int i = 0; i < SIZE; i++) {
                const struct vring_packed_desc *d = slot(s, i);

                assert_int_equal(d->id, 100 + i);
                assert_int_equal(d->len, i < STOPPED_AT);
                assert_int_equal(d->flags, i < 2            ? used_flags(1)
                                           : i < STOPPED_AT ? avail_flags(1)
                                                            : used_flags(0));
        }
        /* And now nothing is left out any more. */
        assert_false(lost(s, base(2, 1)));
        scene_free(s);
}

/* Its id is in its last descriptor, and goes to its first. */
static void left_out_chain(void **state)
{
        struct scene *s = scene_new();
        uint8_t bits[1] = { 0 };
        struct vql_dirty_log log = { .bits = bits, .size = sizeof(bits) };

        (void)state;
        front_end_returns(s, 1);
        slot(s, 5)->flags |= VRING_DESC_F_NEXT;
        slot(s, 6)->flags |= VRING_DESC_F_NEXT;
        assert_true(lost(s, base(1, 1)));
        s->ring.log = &log;
        assert_int_equal(vql_position_settle(&s->ring, &s->at), 1);
        assert_int_equal(slot(s, 5)->id, 107);
        assert_int_equal(slot(s, 5)->flags, used_flags(0));
        assert_int_equal(slot(s, 6)->flags, avail_flags(0) | VRING_DESC_F_NEXT);
        assert_int_equal(bits[0], 1 << 1); /* the page of the ring */
        scene_free(s);
}

/* We were killed when all of a batch of four but its first slot was written.  The last chain of it
 * has a second descriptor, which only its id tells from a buffer that is out. */
static void cut_in_a_batch(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        slot(s, 6)->flags = slot(s, 7)->flags = used_flags(0);
        slot(s, 0)->flags = used_flags(1);
        slot(s, 1)->id = slot(s, 0)->id;
        assert_true(lost(s, 0));
        assert_int_equal(vql_position_settle(&s->ring, &s->at), 1);
        assert_int_equal(slot(s, STOPPED_AT)->flags, used_flags(0));
        assert_int_equal(slot(s, STOPPED_AT)->len, 0);
        assert_int_equal(slot(s, 6)->len, 1);
        assert_int_equal(slot(s, 1)->flags, avail_flags(1));
        assert_int_equal(s->at.used, 2);
        assert_int_equal(s->at.used_wrap, 1);
        /* What is settled needs no more. */
        assert_int_equal(vql_position_settle(&s->ring, &s->at), 0);
        assert_int_equal(s->at.used, 2);
        scene_free(s);
}

/* A chain without end: nothing is written. */
static void endless_chain(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        front_end_returns(s, 1);
        for (unsigned int i = STOPPED_AT; i < SIZE; i++)
                slot(s, i)->flags |= VRING_DESC_F_NEXT;
        slot(s, 0)->flags |= VRING_DESC_F_NEXT;
        assert_true(lost(s, base(1, 1)));
        assert_int_equal(vql_position_settle(&s->ring, &s->at), 0);
        assert_int_equal(slot(s, STOPPED_AT)->flags, avail_flags(0) | VRING_DESC_F_NEXT);
        scene_free(s);
}

/* The guest began anew while we were away: the record is of another ring at the same place. */
static void new_ring_at_the_same_place(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        for (unsigned int i = 0; i < SIZE; i++)
                slot(s, i)->flags = avail_flags(1);
        assert_false(lost(s, VQL_PACKED_INITIAL));
        front_end_returns(s, 3);
        assert_false(lost(s, base(3, 1)));
        scene_free(s);
}

/* The front-end once went on to slot 2 of an odd lap, and says so again, but did nothing. */
static void stale_position(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        assert_true(lost(s, base(2, 1)));
        for (unsigned int i = 0; i < SIZE; i++)
                slot(s, i)->flags = used_flags(i >= STOPPED_AT);
        assert_true(lost(s, base(2, 1)));
        assert_int_equal(s->at.used, STOPPED_AT);
        slot(s, STOPPED_AT)->flags = avail_flags(0);
        assert_true(lost(s, base(2, 1)));
        /* It went on from where we were, and knows. */
        slot(s, STOPPED_AT)->flags = used_flags(0);
        assert_false(lost(s, base(STOPPED_AT + 1, 0)));
        scene_free(s);
}

/* What cannot be: the front-end is behind us, or more than a lap ahead, or out of the ring. */
static void impossible_positions(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        assert_true(lost(s, base(STOPPED_AT - 1, 0)));
        assert_true(lost(s, base(STOPPED_AT + 1, 1)));
        assert_false(lost(s, base(SIZE, 0)));
        scene_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lost_position_is_the_recorded_one),
                cmocka_unit_test(left_out_buffers_are_returned),
                cmocka_unit_test(left_out_chain),
                cmocka_unit_test(cut_in_a_batch),
                cmocka_unit_test(endless_chain),
                cmocka_unit_test(new_ring_at_the_same_place),
                cmocka_unit_test(stale_position),
                cmocka_unit_test(impossible_positions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
