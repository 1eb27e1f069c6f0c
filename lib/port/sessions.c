/* SPDX-License-Identifier: BSD-3-Clause */

/* A port's sessions in its timeline. */

#include "port/context.h"

#include <errno.h>

#include <rte_cycles.h>

int64_t vql_port_first_packet_us(const struct vql_port *p)
{
        uint64_t first = 0;

        for (uint16_t i = 0; i < p->n_lanes; i++) {
                uint64_t t = atomic_load(&p->lanes[i]->first_packet_tsc);

                if (t && (!first || t < first))
                        first = t;
        }
        if (!p->session || first < p->connected_tsc)
                return -1;
        return (int64_t)((first - p->connected_tsc) / (rte_get_tsc_hz() / 1000000));
}

static unsigned int running(const struct vql_port *p)
{
        unsigned int n = 0;

        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                n += p->rings[i].state == VQL_RING_RUNNING;
        return n;
}

void vql_port_look(struct vql_port *p)
{
        const int64_t packet = vql_port_first_packet_us(p);
        const struct vql_timeline_look look = {
                .before = p->parked_at_us,
                .now = vql_timeline_clock(),
                .first_message = p->session->messages ? p->session->first_message : 0,
                .running = running(p),
                .logging = vql_session_logging(p->session),
        };

        vql_timeline_packet(&p->timeline, packet < 0 ? 0 : p->connected_at_us + (uint64_t)packet);
        vql_timeline_look(&p->timeline, &look);
}

/* What a caller wants to know. */
struct question {
        unsigned int i;
        bool found;
        struct vql_session_info *info;
};

static void answer(struct vql_port *p, void *arg)
{
        struct question *q = arg;

        if (p->session)
                vql_port_look(p);
        q->found = vql_timeline_get(&p->timeline, q->i, q->info);
}

int vql_port_get_session(struct vql *v, const char *name, unsigned int i,
                         struct vql_session_info *ret_info)
{
        struct vql_port *p = vql_context_port(v, name);
        struct question q = { .i = i, .info = ret_info };

        if (!p)
                return -ENOENT;
        vql_port_run(p, answer, &q);
        if (q.found)
                return 0;
        return vql_fail(&v->error, ERANGE, "port %s: session %u, expected one of the last %d", name,
                        i, VQL_TIMELINE_SESSIONS);
}
