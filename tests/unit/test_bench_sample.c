/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vqlift-bench/sample.h"

static void assert_near(double is, double wanted)
{
        if (fabs(is - wanted) > 1e-9 * fabs(wanted))
                fail_msg("%g, expected %g", is, wanted);
}

static void test_quantiles(void **state)
{
        double odd[] = { 9, 1, 5 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };
        const double sorted[] = { 0, 10, 20, 30, 40 };

        (void)state;
        assert_near(sample_median(odd, 3), 5);
        assert_near(sample_median(even, 4), 2.5);
        assert_near(sample_median(one, 1), 7);
        assert_near(sample_quantile(sorted, 5, 0.25), 10);
        assert_near(sample_quantile(sorted, 5, 0.9), 36);
        assert_near(sample_quantile(sorted, 5, 1), 40);
}

/* A burst with an interrupt in it is left out, one that refilled a cache is not. */
static void test_bursts(void **state)
{
        double calm[] = { 100, 110, 90, 700 }, struck[] = { 100, 110, 90, 100, 25000 };

        (void)state;
        assert_near(sample_burst_mean(calm, 4), 250);
        assert_near(sample_burst_mean(struck, 5), 100);
}

static void add(struct series *s, double value, double probe, double trip, double later)
{
        const struct batch b = { value, probe, { trip, later } };

        series_add(s, &b);
}

static void test_disturbed(void **state)
{
        struct series s[2];
        struct verdict v;
        struct statistic a, b;

        (void)state;
        for (int i = 0; i < 2; i++)
                assert_int_equal(series_init(&s[i], 10), 0);
        for (int i = 0; i < 8; i++) {
                add(&s[0], 50 + i, 1000 + i, 0, 0);
                add(&s[1], 80, 1000 - i, 0, 0);
        }
        /* The same batches on a machine that ran slower meanwhile. */
        add(&s[0], 500, 1300, 0, 0);
        add(&s[0], 600, 90000, 0, 0);
        add(&s[0], 700, 90000, 0, 0); /* past the room */
        assert_int_equal(verdict_reach(s, 2, &v), 0);
        assert_int_equal(series_statistic(&s[0], &v, &a), 0);
        assert_int_equal(series_statistic(&s[1], &v, &b), 0);
        assert_int_equal(a.used, 8);
        assert_int_equal(a.disturbed, 2);
        assert_int_equal(a.moved, 0);
        assert_near(a.median, 53.5);
        assert_near(a.spread, 3.5 / 53.5);
        assert_int_equal(b.used, 8);
        assert_near(b.median, 80);
        assert_near(b.spread, 0);
        for (int i = 0; i < 2; i++)
                series_fini(&s[i]);
}

/* Only batches of one placement are compared: of that which both have more of. */
static void test_placement(void **state)
{
        struct series s[2];
        struct verdict v;
        struct statistic a, b;

        (void)state;
        for (int i = 0; i < 2; i++)
                assert_int_equal(series_init(&s[i], 20), 0);
        for (int i = 0; i < 6; i++)
                add(&s[0], 40, 1000, 250 + i, 260);
        for (int i = 0; i < 5; i++)
                add(&s[0], 200, 1000, 1100, 1000 + i);
        add(&s[0], 90, 1000, 250, 1100);
        for (int i = 0; i < 2; i++)
                add(&s[1], 60, 1000, 240, 250);
        for (int i = 0; i < 7; i++)
                add(&s[1], 300, 1000, 1050, 1000);
        assert_int_equal(verdict_reach(s, 2, &v), 0);
        assert_true(v.far);
        assert_true(v.near_far > 270 && v.near_far < 1000);
        assert_int_equal(series_statistic(&s[0], &v, &a), 0);
        assert_int_equal(series_statistic(&s[1], &v, &b), 0);
        assert_int_equal(a.used, 5);
        assert_int_equal(a.moved, 7);
        assert_near(a.median, 200);
        assert_near(a.round_trip, 1100);
        assert_int_equal(b.used, 7);
        assert_near(b.median, 300);
        for (int i = 0; i < 2; i++)
                series_fini(&s[i]);
}

/* Round trips that differ no more than the same placement's do: all of them count. */
static void test_one_placement(void **state)
{
        struct series s;
        struct verdict v;
        struct statistic a;

        (void)state;
        assert_int_equal(series_init(&s, 9), 0);
        for (int i = 0; i < 9; i++)
                add(&s, 40, 1000, 900 + 20 * i, 1000);
        assert_int_equal(verdict_reach(&s, 1, &v), 0);
        assert_int_equal(series_statistic(&s, &v, &a), 0);
        assert_int_equal(a.used, 9);
        series_fini(&s);
}

static void test_nothing(void **state)
{
        struct series s;
        struct verdict v;

        (void)state;
        assert_int_equal(series_init(&s, 1), 0);
        assert_int_equal(verdict_reach(&s, 1, &v), -ENODATA);
        series_fini(&s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_quantiles),     cmocka_unit_test(test_bursts),
                cmocka_unit_test(test_disturbed),     cmocka_unit_test(test_placement),
                cmocka_unit_test(test_one_placement), cmocka_unit_test(test_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
