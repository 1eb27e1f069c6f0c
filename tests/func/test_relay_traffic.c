/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Random traffic by way of a relay, which is stopped in the middle of it, settled and opened again,
 * thousands of times: every chain comes back exactly once, with the bytes that were written to it,
 * and the dirty log has the pages that were written and no others.
 *
 * An argument is the number of stops of each scenario.
 */

#include <stdio.h>
#include <stdlib.h>

#include <rte_common.h>

#include "relay_rig.h"

static unsigned int stops = 60;

/* One of the things that can happen next. */
static void step(struct rr_rig *r)
{
        const unsigned int some = 1 + rr_random(r, r->s.size < 64 ? r->s.size : 64);

        switch (rr_random(r, 8)) {
        case 0:
        case 1:
                rr_add(r, some);
                break;
        case 2:
                rr_get(r);
                break;
        case 3:
                rr_take(r, some);
                break;
        case 4:
                rr_complete(r, some);
                break;
        case 5:
                if (rr_random(r, 4) == 0)
                        rr_log(r, r->q.log == NULL);
                break;
        default:
                assert_true(rr_poll(r) >= 0);
        }
}

static void play(const struct rr_setup *s)
{
        static struct rr_rig r;

        rr_init(&r, s);
        for (unsigned int i = 0; i < stops; i++) {
                for (unsigned int n = rr_random(&r, 80); n > 0; n--)
                        step(&r);
                rr_stop(&r);
                /* The next device may be one that reads tables where the last one did not. */
                r.s.indirect ^= rr_random(&r, 4) == 0;
                rr_open(&r);
                if (rr_random(&r, 4) == 0)
                        rr_run(&r);
        }
        rr_run(&r);
        assert_int_equal(r.got, r.offered);
        assert_int_equal(fe_driver_outstanding(r.d), 0);
        assert_int_equal(vql_relay_outstanding(r.relay), 0);
        rr_fini(&r);
}

static void play_sizes(struct rr_setup *s)
{
        static const struct {
                uint16_t size, shadow;
        } sizes[] = {
                { 1, 1 }, { 2, 2 }, { 4, 4 }, { 8, 0 }, { 256, 256 }, { 256, 16 }, { 16, 64 }
        };

        for (size_t i = 0; i < RTE_DIM(sizes); i++) {
                if (sizes[i].size == 1 && !s->packed)
                        continue;
                s->size = sizes[i].size;
                s->shadow = sizes[i].shadow;
                s->start = s->packed ? (uint16_t)(s->size - 1) : UINT16_MAX;
                s->start_wrap_0 = s->packed && s->seed % 2;
                s->seed++;
                play(s);
        }
}

static void play_all(bool packed, bool rx, bool disorder)
{
        struct rr_setup s = { .packed = packed, .rx = rx, .disorder = disorder, .seed = 1 };

        for (int i = 0; i < 8; i++) {
                s.event_idx = i & 1;
                s.indirect = i & 2;
                s.in_order = i & 4 && !disorder;
                play_sizes(&s);
        }
}

static void split_to_guest(void **state)
{
        (void)state;
        play_all(false, true, false);
}

static void split_from_guest(void **state)
{
        (void)state;
        play_all(false, false, false);
}

static void packed_to_guest(void **state)
{
        (void)state;
        play_all(true, true, false);
}

static void packed_from_guest(void **state)
{
        (void)state;
        play_all(true, false, false);
}

static void split_in_any_order(void **state)
{
        (void)state;
        play_all(false, true, true);
        play_all(false, false, true);
}

static void packed_in_any_order(void **state)
{
        (void)state;
        play_all(true, true, true);
        play_all(true, false, true);
}

static void largest_rings(void **state)
{
        (void)state;
        for (int i = 0; i < 4; i++) {
                struct rr_setup s = { .packed = i & 1,
                                      .disorder = i & 2,
                                      .rx = i == 1,
                                      .event_idx = true,
                                      .indirect = true,
                                      .size = 32768,
                                      .start = 32767,
                                      .seed = 7 };
                struct rr_rig *r = calloc(1, sizeof(*r));

                rr_init(r, &s);
                for (unsigned int k = 0; k < 4; k++) {
                        rr_add(r, UINT16_MAX);
                        while (rr_poll(r) > 0)
                                ;
                        rr_take(r, 20000);
                        rr_complete(r, 10000 + rr_random(r, 5000));
                        while (rr_random(r, 200) && rr_poll(r) > 0)
                                ;
                        rr_stop(r);
                        rr_open(r);
                }
                rr_run(r);
                assert_int_equal(r->got, r->offered);
                rr_fini(r);
                free(r);
        }
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(split_to_guest),     cmocka_unit_test(split_from_guest),
                cmocka_unit_test(packed_to_guest),    cmocka_unit_test(packed_from_guest),
                cmocka_unit_test(split_in_any_order), cmocka_unit_test(packed_in_any_order),
                cmocka_unit_test(largest_rings),
        };

        if (argc > 1)
                stops = (unsigned int)strtoul(argv[1], NULL, 10);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
