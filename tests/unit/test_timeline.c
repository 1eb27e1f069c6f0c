/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of looks at a session: phases, in microseconds that are given here. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "port/timeline.h"

enum phase { CONNECT, NEGOTIATE, FIRST_PACKET, LOG, STOP, HAND_OVER };
enum { BEGIN = 1000, MESSAGE = 1010 };

static void look(struct vql_timeline *t, uint64_t before, uint64_t now, unsigned int running,
                 bool logging)
{
        const struct vql_timeline_look l = { before, now, MESSAGE, running, logging };

        vql_timeline_look(t, &l);
}

/* The newest session's phase: how often, when since the connection, how long. */
static void assert_phase(const struct vql_timeline *t, enum phase phase, unsigned int count,
                         int64_t at, int64_t took)
{
        struct vql_session_info info;

        assert_true(vql_timeline_get(t, 0, &info));
        assert_int_equal(info.phase[phase].count, count);
        assert_int_equal(info.phase[phase].at_us, at);
        assert_int_equal(info.phase[phase].took_us, took);
}

static void a_whole_session(void **state)
{
        struct vql_timeline t = { 0 };
        struct vql_session_info info;

        (void)state;
        assert_false(vql_timeline_get(&t, 0, &info));
        vql_timeline_begin(&t, BEGIN, 77);
        assert_phase(&t, CONNECT, 1, 0, -1);
        look(&t, 1012, 1014, 0, false);
        assert_phase(&t, CONNECT, 1, 0, 10);
        assert_phase(&t, NEGOTIATE, 1, 10, -1);
        look(&t, 1020, 1023, 1, false);
        look(&t, 1024, 1025, 2, false);
        assert_phase(&t, NEGOTIATE, 1, 10, 13);
        assert_phase(&t, FIRST_PACKET, 1, 23, -1);
        vql_timeline_packet(&t, 0);
        assert_phase(&t, FIRST_PACKET, 1, 23, -1);
        vql_timeline_packet(&t, 1033);
        vql_timeline_packet(&t, 1034);
        assert_phase(&t, FIRST_PACKET, 1, 23, 10);
        look(&t, 1040, 1041, 2, true);
        assert_phase(&t, LOG, 1, 40, -1);
        look(&t, 1050, 1051, 1, true);
        look(&t, 1052, 1055, 0, true);
        assert_phase(&t, STOP, 1, 50, 5);
        assert_phase(&t, HAND_OVER, 1, 55, -1);
        vql_timeline_end(&t, 1100, "gone");
        assert_phase(&t, LOG, 1, 40, 60);
        assert_phase(&t, HAND_OVER, 1, 55, 45);
        assert_true(vql_timeline_get(&t, 0, &info));
        assert_int_equal(info.connection, 1);
        assert_int_equal(info.began_us, 77);
        assert_int_equal(info.lasted_us, 100);
        assert_string_equal(info.reason, "gone");
        assert_string_equal(info.phase[HAND_OVER].name, "hand-over");
}

/* A guest that is reset: the rings stop and run again. */
static void the_last_of_many_is_told(void **state)
{
        struct vql_timeline t = { 0 };

        (void)state;
        vql_timeline_begin(&t, BEGIN, 0);
        look(&t, 1010, 1020, 2, false);
        look(&t, 1030, 1031, 0, false);
        look(&t, 1040, 1041, 2, false);
        assert_phase(&t, NEGOTIATE, 1, 10, 10);
        assert_phase(&t, FIRST_PACKET, 1, 20, -1);
        assert_phase(&t, HAND_OVER, 1, 31, 10);
        look(&t, 1050, 1052, 0, false);
        assert_phase(&t, STOP, 2, 50, 2);
        assert_phase(&t, HAND_OVER, 2, 52, -1);
        look(&t, 1060, 1061, 0, true);
        look(&t, 1070, 1071, 0, false);
        look(&t, 1080, 1081, 0, true);
        assert_phase(&t, LOG, 2, 80, -1);
}

/* One ring that stops while others run, and comes back, is no stop of the device. */
static void a_ring_alone_is_no_stop(void **state)
{
        struct vql_timeline t = { 0 };

        (void)state;
        vql_timeline_begin(&t, BEGIN, 0);
        look(&t, 1010, 1020, 2, false);
        look(&t, 1030, 1031, 1, false);
        assert_phase(&t, STOP, 1, 30, -1);
        look(&t, 1040, 1041, 2, false);
        assert_phase(&t, STOP, 0, -1, -1);
        assert_phase(&t, HAND_OVER, 0, -1, -1);
}

/* What did not come to its end has none; clocks that disagree do not make negative times. */
static void an_early_end(void **state)
{
        struct vql_timeline t = { 0 };

        (void)state;
        vql_timeline_begin(&t, BEGIN, 0);
        vql_timeline_end(&t, 1005, "garbage");
        assert_phase(&t, CONNECT, 1, 0, -1);
        assert_phase(&t, NEGOTIATE, 0, -1, -1);
        vql_timeline_begin(&t, BEGIN, 0);
        look(&t, 1020, 1030, 2, false);
        vql_timeline_packet(&t, 1029);
        assert_phase(&t, FIRST_PACKET, 1, 30, 0);
}

static void the_last_sessions_are_kept(void **state)
{
        struct vql_timeline t = { 0 };
        struct vql_session_info info;

        (void)state;
        for (unsigned int i = 1; i <= 3 * VQL_TIMELINE_SESSIONS + 1; i++) {
                unsigned int kept = i < VQL_TIMELINE_SESSIONS ? i : VQL_TIMELINE_SESSIONS;

                vql_timeline_begin(&t, BEGIN, 0);
                for (unsigned int k = 0; k < kept; k++) {
                        assert_true(vql_timeline_get(&t, k, &info));
                        assert_int_equal(info.connection, i - k);
                        assert_int_equal(info.lasted_us, k ? 9 : -1);
                        assert_int_equal(info.phase[LOG].count, 0);
                }
                assert_false(vql_timeline_get(&t, kept, &info));
                vql_timeline_end(&t, 1009, "");
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_whole_session),
                cmocka_unit_test(the_last_of_many_is_told),
                cmocka_unit_test(a_ring_alone_is_no_stop),
                cmocka_unit_test(an_early_end),
                cmocka_unit_test(the_last_sessions_are_kept),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
