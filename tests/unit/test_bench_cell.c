/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "vqlift-bench/cell.h"

static struct cell_choice all_of(const char *mode)
{
        return (struct cell_choice){ .wanted[KEY_MODE] = mode };
}

static bool same_cell(const struct cell *a, const struct cell *b)
{
        for (enum cell_key key = 0; key < CELL_KEYS; key++)
                if (strcmp(cell_value(a, key).s, cell_value(b, key).s) != 0)
                        return false;
        return true;
}

/* Enqueue: 4 rings, mergeable or not, 3 bursts; dequeue: 4 rings, 3 layouts, 3 bursts.  7 sizes on
 * two sizes of ring, and the largest on one of them. */
static void test_counts(void **state)
{
        struct cell_choice alternate = all_of("alternate"), both = all_of(NULL);

        (void)state;
        assert_int_equal(cell_count(&alternate), (4 * 2 * 3 + 4 * 3 * 3) * (7 * 2 + 1));
        assert_int_equal(cell_count(&both), 2 * cell_count(&alternate));
}

static void test_each_once(void **state)
{
        struct cell_choice w = all_of("pair");
        struct cell cell[1000];
        size_t n = 0;

        (void)state;
        while (cell_get(&w, n, &cell[n]))
                n++;
        assert_int_equal(n, cell_count(&w));
        for (size_t i = 0; i < n; i++)
                for (size_t k = i + 1; k < n; k += 3)
                        assert_false(same_cell(&cell[i], &cell[k]));
}

static void test_room_for_bursts(void **state)
{
        struct cell_choice w = all_of("alternate");
        struct cell c;

        (void)state;
        for (size_t i = 0; cell_get(&w, i, &c); i++) {
                const unsigned int merged =
                        c.to_guest && c.mergeable ? (c.size + 12 + 2047) / 2048 : 1;

                assert_true(c.burst * merged <= c.ring / (c.layout == LAYOUT_CHAIN ? 2 : 1));
                assert_true(c.size <= CELL_MAX_BYTES && c.burst <= CELL_MAX_BURST);
        }
}

static void test_choice(void **state)
{
        struct cell_choice w = {
                .wanted = { [KEY_MODE] = "alternate",
                            [KEY_DIRECTION] = "dequeue",
                            [KEY_RING] = "packed,split-in-order",
                            [KEY_LAYOUT] = "chain",
                            [KEY_SIZE] = "64,1518",
                            [KEY_BURST] = "32",
                            [KEY_RING_SIZE] = "256" },
        };
        struct cell c;

        (void)state;
        assert_int_equal(cell_count(&w), 4);
        for (size_t i = 0; cell_get(&w, i, &c); i++) {
                assert_false(c.to_guest);
                assert_true(c.packed != c.in_order);
                assert_int_equal(c.layout, LAYOUT_CHAIN);
                assert_true(c.size == 64 || c.size == 1518);
                assert_int_equal(c.burst, 32);
                assert_int_equal(c.ring, 256);
        }
        assert_false(cell_get(&w, 4, &c));
}

/* Of the quick ones, each direction and ring is there, and few enough. */
static void test_quick(void **state)
{
        struct cell_choice w = all_of("alternate");
        struct cell c;
        unsigned int seen[2][2][2] = { 0 };

        (void)state;
        w.quick = true;
        for (size_t i = 0; cell_get(&w, i, &c); i++)
                seen[c.to_guest][c.packed][c.in_order]++;
        for (int i = 0; i < 8; i++)
                assert_true(seen[i & 1][i >> 1 & 1][i >> 2] >= 3);
        assert_in_range(cell_count(&w), 24, 100);
}

static void test_words(void **state)
{
        (void)state;
        assert_true(cell_key_takes(KEY_SIZE, "64"));
        assert_true(cell_key_takes(KEY_SIZE, "64,65000"));
        assert_true(cell_key_takes(KEY_RING, "split-in-order"));
        assert_false(cell_key_takes(KEY_SIZE, "65"));
        assert_false(cell_key_takes(KEY_SIZE, "6"));
        assert_false(cell_key_takes(KEY_SIZE, "64,"));
        assert_false(cell_key_takes(KEY_SIZE, ""));
        assert_false(cell_key_takes(KEY_RING, "split-in"));
        assert_false(cell_key_takes(KEY_RING, "split|packed"));
        assert_false(cell_key_takes(KEY_MODE, "alternate pair"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_counts),          cmocka_unit_test(test_each_once),
                cmocka_unit_test(test_room_for_bursts), cmocka_unit_test(test_choice),
                cmocka_unit_test(test_quick),           cmocka_unit_test(test_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
