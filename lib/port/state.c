/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include "base/bits.h"

/* Allowed moves: for each state, the set of states that may follow. */
#define TO(state) (1u << (state))

static const struct {
        const char *name;
        unsigned int next;
} port_states[VQL_PORT_STATES] = {
        [VQL_PORT_WAITING] = { "waiting", TO(VQL_PORT_CONNECTED) | TO(VQL_PORT_CLOSED) },
        [VQL_PORT_CONNECTED] = { "connected", TO(VQL_PORT_RUNNING) | TO(VQL_PORT_BROKEN) |
                                                      TO(VQL_PORT_WAITING) | TO(VQL_PORT_CLOSED) },
        [VQL_PORT_RUNNING] = { "running", TO(VQL_PORT_CONNECTED) | TO(VQL_PORT_BROKEN) |
                                                  TO(VQL_PORT_WAITING) | TO(VQL_PORT_CLOSED) },
        [VQL_PORT_BROKEN] = { "broken", TO(VQL_PORT_WAITING) | TO(VQL_PORT_CLOSED) },
        [VQL_PORT_CLOSED] = { "closed", 0 },
};

static const struct {
        const char *name;
        unsigned int next;
} ring_states[VQL_RING_STATES] = {
        [VQL_RING_STOPPED] = { "stopped", TO(VQL_RING_RUNNING) },
        [VQL_RING_RUNNING] = { "running", TO(VQL_RING_STOPPED) | TO(VQL_RING_BROKEN) },
        [VQL_RING_BROKEN] = { "broken", TO(VQL_RING_STOPPED) },
};

const char *vql_port_state_name(enum vql_port_state s)
{
        return port_states[s].name;
}

bool vql_port_may_move(enum vql_port_state from, enum vql_port_state to)
{
        return vql_has(port_states[from].next, to);
}

void vql_port_move(struct vql_port *p, enum vql_port_state to)
{
        if (p->state == to)
                return;
        if (!vql_port_may_move(p->state, to)) {
                vql_log(&p->log, LOG_ERR, "internal: no move from %s to %s",
                        vql_port_state_name(p->state), vql_port_state_name(to));
                return;
        }
        vql_log(&p->log, LOG_DEBUG, "%s -> %s", vql_port_state_name(p->state),
                vql_port_state_name(to));
        p->state = to;
}

const char *vql_ring_state_name(enum vql_ring_state s)
{
        return ring_states[s].name;
}

bool vql_ring_may_move(enum vql_ring_state from, enum vql_ring_state to)
{
        return vql_has(ring_states[from].next, to);
}

bool vql_ring_move(struct vql_ring *r, enum vql_ring_state to)
{
        if (!vql_ring_may_move(r->state, to))
                return false;
        r->state = to;
        return true;
}
