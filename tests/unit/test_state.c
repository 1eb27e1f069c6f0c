/* SPDX-License-Identifier: BSD-3-Clause */
/* Every cell of the two life-cycle tables. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "port/port.h"

/* What the documents say, written down a second time: from, to. */
static const enum vql_port_state port_moves[][2] = {
        { VQL_PORT_WAITING, VQL_PORT_CONNECTED }, { VQL_PORT_WAITING, VQL_PORT_CLOSED },
        { VQL_PORT_CONNECTED, VQL_PORT_RUNNING }, { VQL_PORT_CONNECTED, VQL_PORT_BROKEN },
        { VQL_PORT_CONNECTED, VQL_PORT_WAITING }, { VQL_PORT_CONNECTED, VQL_PORT_CLOSED },
        { VQL_PORT_RUNNING, VQL_PORT_CONNECTED }, { VQL_PORT_RUNNING, VQL_PORT_BROKEN },
        { VQL_PORT_RUNNING, VQL_PORT_WAITING },   { VQL_PORT_RUNNING, VQL_PORT_CLOSED },
        { VQL_PORT_BROKEN, VQL_PORT_WAITING },    { VQL_PORT_BROKEN, VQL_PORT_CLOSED },
};

static const enum vql_ring_state ring_moves[][2] = {
        { VQL_RING_STOPPED, VQL_RING_RUNNING },
        { VQL_RING_RUNNING, VQL_RING_STOPPED },
        { VQL_RING_RUNNING, VQL_RING_BROKEN },
        { VQL_RING_BROKEN, VQL_RING_STOPPED },
};

static bool port_move_listed(enum vql_port_state from, enum vql_port_state to)
{
        for (size_t i = 0; i < sizeof(port_moves) / sizeof(port_moves[0]); i++)
                if (port_moves[i][0] == from && port_moves[i][1] == to)
                        return true;
        return false;
}

static bool ring_move_listed(enum vql_ring_state from, enum vql_ring_state to)
{
        for (size_t i = 0; i < sizeof(ring_moves) / sizeof(ring_moves[0]); i++)
                if (ring_moves[i][0] == from && ring_moves[i][1] == to)
                        return true;
        return false;
}

static void every_port_move(void **state)
{
        (void)state;
        for (enum vql_port_state from = 0; from < VQL_PORT_STATES; from++) {
                for (enum vql_port_state to = 0; to < VQL_PORT_STATES; to++) {
                        struct vql_port p = { .state = from };
                        bool allowed = port_move_listed(from, to);

                        assert_int_equal(vql_port_may_move(from, to), allowed);
                        vql_port_move(&p, to);
                        assert_int_equal(p.state, allowed ? to : from);
                }
                assert_non_null(vql_port_state_name(from));
        }
}

static void every_ring_move(void **state)
{
        (void)state;
        for (enum vql_ring_state from = 0; from < VQL_RING_STATES; from++) {
                for (enum vql_ring_state to = 0; to < VQL_RING_STATES; to++) {
                        struct vql_ring r = { .state = from };
                        bool allowed = ring_move_listed(from, to);

                        assert_int_equal(vql_ring_may_move(from, to), allowed);
                        assert_int_equal(vql_ring_move(&r, to), allowed);
                        assert_int_equal(r.state, allowed ? to : from);
                }
                assert_non_null(vql_ring_state_name(from));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_port_move),
                cmocka_unit_test(every_ring_move),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
