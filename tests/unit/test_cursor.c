/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "virtqueue/cursor.h"

static void same(const struct vql_cursor *a, const struct vql_cursor *b)
{
        assert_int_equal(a->avail, b->avail);
        assert_int_equal(a->used, b->used);
        assert_int_equal(a->avail_wrap, b->avail_wrap);
        assert_int_equal(a->used_wrap, b->used_wrap);
}

static void test_split_round_trip(void **state)
{
        (void)state;
        for (uint32_t num = 0; num <= UINT16_MAX; num++) {
                const struct vql_cursor want = { (uint16_t)num, (uint16_t)num, 0, 0 };
                struct vql_cursor c;

                assert_int_equal(vql_cursor_decode(num, false, 1, &c, NULL), 0);
                same(&c, &want);
                assert_int_equal(vql_cursor_encode(&c, false), num);
        }
}

/* What is in flight shows in used alone, which the message has no room for. */
static void test_split_encodes_avail(void **state)
{
        const struct vql_cursor c = { .avail = 65535, .used = 7 };

        (void)state;
        assert_int_equal(vql_cursor_encode(&c, false), 65535);
}

static void test_split_upper_bits(void **state)
{
        struct vql_cursor c = { 1, 2, 3, 4 }, before = c;
        struct vql_error e;

        (void)state;
        assert_int_equal(vql_cursor_decode(0x10000, false, 256, &c, &e), -EINVAL);
        assert_non_null(strstr(e.text, "0x00010000"));
        assert_int_equal(vql_cursor_decode(0x80000005, false, 256, &c, NULL), -EINVAL);
        same(&c, &before);
}

static void test_packed_bits(void **state)
{
        static const struct {
                struct vql_cursor c;
                uint32_t num;
        } rows[] = {
                { { 0, 0, 1, 1 }, 0x80008000 },     { { 5, 5, 1, 1 }, 0x80058005 },
                { { 5, 3, 1, 1 }, 0x80038005 },     { { 5, 250, 0, 1 }, 0x80fa0005 },
                { { 5, 250, 1, 0 }, 0x00fa8005 },   { { 0, 1, 0, 0 }, 0x00010000 },
                { { 255, 254, 0, 0 }, 0x00fe00ff },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct vql_cursor c;

                assert_int_equal(vql_cursor_encode(&rows[i].c, true), rows[i].num);
                assert_int_equal(vql_cursor_decode(rows[i].num, true, 256, &c, NULL), 0);
                same(&c, &rows[i].c);
        }
}

/* All positions of some rings come back as they were, but for the upper half that is all zero. */
static void test_packed_round_trip(void **state)
{
        static const uint16_t sizes[] = { 1, 2, 3, 7, 32768 };

        (void)state;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                for (uint32_t k = 0; k < 4u * sizes[i]; k++) {
                        const struct vql_cursor want = {
                                .avail = (uint16_t)(k / 4),
                                .used = (uint16_t)((k * 31 + 1) % sizes[i]),
                                .avail_wrap = k & 1,
                                .used_wrap = k >> 1 & 1,
                        };
                        struct vql_cursor c;

                        if (want.used == 0 && !want.used_wrap)
                                continue;
                        assert_int_equal(vql_cursor_decode(vql_cursor_encode(&want, true), true,
                                                           sizes[i], &c, NULL),
                                         0);
                        same(&c, &want);
                }
        }
}

/* A front-end that keeps 16 bits. */
static void test_packed_half(void **state)
{
        const struct vql_cursor want[] = { { 9, 9, 1, 1 }, { 9, 9, 0, 0 }, { 0, 0, 0, 0 } };
        const uint32_t num[] = { 0x8009, 0x9, 0 };

        (void)state;
        for (int i = 0; i < 3; i++) {
                struct vql_cursor c;

                assert_int_equal(vql_cursor_decode(num[i], true, 10, &c, NULL), 0);
                same(&c, &want[i]);
        }
}

static void test_packed_beyond_ring(void **state)
{
        struct vql_cursor c = { 1, 2, 3, 4 }, before = c;
        struct vql_error e;

        (void)state;
        assert_int_equal(vql_cursor_decode(0x8003, true, 3, &c, &e), -EINVAL);
        assert_non_null(strstr(e.text, "slot 3"));
        assert_int_equal(vql_cursor_decode(0x80038002, true, 3, &c, NULL), -EINVAL);
        assert_int_equal(vql_cursor_decode(0x80028003, true, 3, &c, NULL), -EINVAL);
        assert_int_equal(vql_cursor_decode(0xffffffff, true, 32767, &c, NULL), -EINVAL);
        same(&c, &before);
        assert_int_equal(vql_cursor_decode(0xffffffff, true, 32768, &c, NULL), 0);
        assert_int_equal(c.avail, 32767);
}

static void test_ring_sizes(void **state)
{
        (void)state;
        for (uint32_t num = 0; num < 70000; num++) {
                bool right = num >= 1 && num <= 32768;
                bool power = __builtin_popcount(num) == 1;

                assert_int_equal(vql_ring_size_check(num, true, NULL), right ? 0 : -EINVAL);
                assert_int_equal(vql_ring_size_check(num, false, NULL),
                                 right && power ? 0 : -EINVAL);
        }
        assert_int_equal(vql_ring_size_check(UINT32_MAX, true, NULL), -EINVAL);
        assert_int_equal(vql_ring_size_check(0x80000000, false, NULL), -EINVAL);
}

static void test_ring_size_sentences(void **state)
{
        struct vql_error e;

        (void)state;
        vql_ring_size_check(100, false, &e);
        assert_string_equal(e.text, "split ring size 100, expected a power of two");
        vql_ring_size_check(65536, true, &e);
        assert_string_equal(e.text, "ring size 65536, expected 1 to 32768");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_split_round_trip),
                cmocka_unit_test(test_split_encodes_avail),
                cmocka_unit_test(test_split_upper_bits),
                cmocka_unit_test(test_packed_bits),
                cmocka_unit_test(test_packed_round_trip),
                cmocka_unit_test(test_packed_half),
                cmocka_unit_test(test_packed_beyond_ring),
                cmocka_unit_test(test_ring_sizes),
                cmocka_unit_test(test_ring_size_sentences),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
