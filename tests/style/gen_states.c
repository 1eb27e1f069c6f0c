/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints doc/states.md from the tables that the code runs on. */

#include <stdio.h>

#include "port/port.h"

static void print_head(const char *title, const char *what)
{
        printf("\n## %s\n\n%s\n\n| from | may become |\n|---|---|\n", title, what);
}

static void print_port(void)
{
        print_head("Port", "One vhost-user socket with its rings, uplink and control thread.");
        for (enum vql_port_state from = 0; from < VQL_PORT_STATES; from++) {
                const char *comma = "";

                printf("| %s | ", vql_port_state_name(from));
                for (enum vql_port_state to = 0; to < VQL_PORT_STATES; to++) {
                        if (!vql_port_may_move(from, to))
                                continue;
                        printf("%s%s", comma, vql_port_state_name(to));
                        comma = ", ";
                }
                puts(*comma ? " |" : "nothing |");
        }
}

static void print_ring(void)
{
        print_head("Ring", "One virtqueue of a port.  A broken ring waits for the guest's reset.");
        for (enum vql_ring_state from = 0; from < VQL_RING_STATES; from++) {
                const char *comma = "";

                printf("| %s | ", vql_ring_state_name(from));
                for (enum vql_ring_state to = 0; to < VQL_RING_STATES; to++) {
                        if (!vql_ring_may_move(from, to))
                                continue;
                        printf("%s%s", comma, vql_ring_state_name(to));
                        comma = ", ";
                }
                puts(*comma ? " |" : "nothing |");
        }
}

int main(void)
{
        puts("# State tables\n\nMade from `lib/port/state.c` by `tests/style/gen_states.c`; a test "
             "of the style suite compares them.");
        print_port();
        print_ring();
        return 0;
}
