/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_LOOP_H
#define TESTS_UNIT_LOOP_H

/* An sd-event loop that a test turns by hand.  For cmocka tests. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <time.h>

#include <systemd/sd-event.h>

enum { LOOP_PATIENCE_S = 30 };

static inline uint64_t loop_now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static inline sd_event *loop_new(void)
{
        sd_event *loop = NULL;

        assert_true(sd_event_new(&loop) >= 0);
        return loop;
}

/* Everything that can happen without waiting. */
static inline void loop_settle(sd_event *loop)
{
        int n = 1;

        while (n > 0)
                n = sd_event_run(loop, 0);
        assert_int_equal(n, 0);
}

/* Turn until *flag is not 0; the test fails if that does not happen. */
static inline void loop_until(sd_event *loop, const volatile int *flag)
{
        const uint64_t end = loop_now_us() + LOOP_PATIENCE_S * UINT64_C(1000000);

        while (!*flag) {
                assert_true(sd_event_run(loop, 100000) >= 0);
                if (!*flag && loop_now_us() > end)
                        fail_msg("nothing happened for %d s", LOOP_PATIENCE_S);
        }
}

#endif
