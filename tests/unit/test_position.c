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

static enum vql_position judge(struct scene *s, uint32_t said)
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
        assert_int_equal(judge(s, 0), VQL_POSITION_RECORDED);
        assert_int_equal(s->at.used, STOPPED_AT);
        assert_int_equal(s->at.used_wrap, 0);
        assert_int_equal(judge(s, VQL_PACKED_INITIAL), VQL_POSITION_RECORDED);
        assert_int_equal(judge(s, base(STOPPED_AT, 0)), VQL_POSITION_TOLD);
        vql_journal_end(s->journal, INDEX);
        assert_int_equal(judge(s, 0), VQL_POSITION_TOLD);
        scene_free(s);
}

static void left_out_buffers_are_returned(void **state)
{
        struct scene *s = scene_new();
        const struct vql_cursor to = cursor(2, 1);

        (void)state;
        front_end_returns(s, 2);
        assert_int_equal(judge(s, base(2, 1)), VQL_POSITION_SKIPPED);
        assert_int_equal(s->at.used, STOPPED_AT);
        assert_int_equal(vql_position_return(&s->ring, &s->at, &to), SIZE - STOPPED_AT);
        for (unsigned int i = 0; i < SIZE; i++) {
                const struct vring_packed_desc *d = slot(s, i);

                assert_int_equal(d->id, 100 + i);
                assert_int_equal(d->len, i < STOPPED_AT);
                assert_int_equal(d->flags, i < 2            ? used_flags(1)
                                           : i < STOPPED_AT ? avail_flags(1)
                                                            : used_flags(0));
        }
        /* And now nothing is left out any more. */
        assert_int_equal(judge(s, base(2, 1)), VQL_POSITION_TOLD);
        scene_free(s);
}

/* Its id is in its last descriptor, and goes to its first. */
static void left_out_chain(void **state)
{
        struct scene *s = scene_new();
        const struct vql_cursor to = cursor(1, 1);
        uint8_t bits[1] = { 0 };
        struct vql_dirty_log log = { .bits = bits, .size = sizeof(bits) };

        (void)state;
        front_end_returns(s, 1);
        slot(s, 5)->flags |= VRING_DESC_F_NEXT;
        slot(s, 6)->flags |= VRING_DESC_F_NEXT;
        assert_int_equal(judge(s, base(1, 1)), VQL_POSITION_SKIPPED);
        s->ring.log = &log;
        assert_int_equal(vql_position_return(&s->ring, &s->at, &to), 1);
        assert_int_equal(slot(s, 5)->id, 107);
        assert_int_equal(slot(s, 5)->flags, used_flags(0));
        assert_int_equal(slot(s, 6)->flags, avail_flags(0) | VRING_DESC_F_NEXT);
        assert_int_equal(bits[0], 1 << 1); /* the page of the ring */
        scene_free(s);
}

/* A chain without end: nothing is written. */
static void endless_chain(void **state)
{
        struct scene *s = scene_new();
        const struct vql_cursor to = cursor(1, 1);

        (void)state;
        for (unsigned int i = 0; i < SIZE; i++)
                slot(s, i)->flags |= VRING_DESC_F_NEXT;
        assert_int_equal(judge(s, base(1, 1)), VQL_POSITION_SKIPPED);
        assert_int_equal(vql_position_return(&s->ring, &s->at, &to), 0);
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
        assert_int_equal(judge(s, VQL_PACKED_INITIAL), VQL_POSITION_TOLD);
        front_end_returns(s, 3);
        assert_int_equal(judge(s, base(3, 1)), VQL_POSITION_TOLD);
        scene_free(s);
}

/* What cannot be: the front-end is behind us, or more than a lap ahead. */
static void impossible_distances(void **state)
{
        struct scene *s = scene_new();

        (void)state;
        assert_int_equal(judge(s, base(STOPPED_AT - 1, 0)), VQL_POSITION_TOLD);
        assert_int_equal(judge(s, base(STOPPED_AT + 1, 1)), VQL_POSITION_TOLD);
        assert_int_equal(judge(s, base(SIZE, 0)), VQL_POSITION_TOLD);
        scene_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lost_position_is_the_recorded_one),
                cmocka_unit_test(left_out_buffers_are_returned),
                cmocka_unit_test(left_out_chain),
                cmocka_unit_test(endless_chain),
                cmocka_unit_test(new_ring_at_the_same_place),
                cmocka_unit_test(impossible_distances),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
