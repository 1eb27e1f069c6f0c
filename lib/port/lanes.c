/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include "port/paths.h"
#include "virtqueue/notify.h"

static bool ring_delivers(const struct vql_port *p, uint16_t index)
{
        return vql_paths_of(p, index) == VQL_PATH_SOFTWARE && p->session->vring[index].enabled;
}

/* Lanes in use: no more than there are pairs to deliver to, so that no packet comes to a dead end.
 */
static uint16_t lanes_wanted(const struct vql_port *p)
{
        uint16_t pairs = 0;

        for (uint16_t i = 0; i < p->offer.max_rings; i += 2)
                pairs = (uint16_t)(pairs + ring_delivers(p, i));
        if (pairs == 0)
                return 1;
        return pairs < p->n_lanes ? pairs : p->n_lanes;
}

static void lanes_clear(struct vql_port *p, uint16_t n)
{
        for (uint16_t i = 0; i < n; i++) {
                struct vql_lane *lane = p->lanes[i];

                lane->uplink = p->uplink;
                lane->uplink_queue = i;
                lane->rx_stride = n;
                lane->pool = p->pool;
                lane->fault_fd = p->fault_fd;
                lane->n_tx = 0;
                lane->n_rx = 0;
                lane->n_relay = 0;
        }
}

/* Spread the running rings over n lanes; pairs stay together. */
static void lanes_build(struct vql_port *p, uint16_t n)
{
        uint16_t delivering = 0;

        lanes_clear(p, n);
        for (uint16_t i = 0; i < p->offer.max_rings; i++) {
                const uint16_t pair = i / 2;
                const struct vql_vring *v = &p->session->vring[i];
                struct vql_lane_ring lr = { .q = &p->rings[i].q, .kick_fd = v->kick_fd };
                struct vql_lane *lane;

                if (vql_paths_of(p, i) == VQL_PATH_RELAY) {
                        lane = p->lanes[pair % n];
                        lane->relay[lane->n_relay++] = vql_paths_relay(p, i);
                }
                if (vql_paths_of(p, i) != VQL_PATH_SOFTWARE)
                        continue;
                if (i % 2 == 0) {
                        if (!v->enabled)
                                continue;
                        lane = p->lanes[delivering++ % n];
                        lane->rx[lane->n_rx++] = lr;
                } else {
                        lr.discard = !v->enabled;
                        lane = p->lanes[pair % n];
                        lane->tx[lane->n_tx++] = lr;
                }
        }
}

void vql_port_park(struct vql_port *p)
{
        p->parked_at_us = vql_timeline_clock();
        while (p->n_attached > 0) {
                p->n_attached--;
                vql_worker_detach(p->lane_worker[p->n_attached], p->lanes[p->n_attached]);
        }
}

static bool any_ring_runs(const struct vql_port *p)
{
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                if (p->rings[i].state == VQL_RING_RUNNING)
                        return true;
        return false;
}

/* Whoever waits for an interrupt that the change swallowed gets one (driver_ops, switch step 9). */
static void pay_owed_signals(struct vql_port *p)
{
        for (uint16_t i = 0; i < p->offer.max_rings; i++) {
                struct vql_ring *r = &p->rings[i];

                if (r->state == VQL_RING_RUNNING && r->kick_owed)
                        vql_signal_always(&r->q);
                r->kick_owed = false;
        }
}

static int attach_lanes(struct vql_port *p, struct vql_error *e)
{
        uint16_t n;
        int rc = 0;

        if (!p->session || !any_ring_runs(p)) {
                if (p->session && p->state == VQL_PORT_RUNNING)
                        vql_port_move(p, VQL_PORT_CONNECTED);
                return 0;
        }
        /* What came while nobody listened is stale. */
        if (p->state != VQL_PORT_RUNNING)
                for (uint16_t i = 0; p->uplink && i < vql_uplink_queues(p->uplink); i++)
                        vql_uplink_drain(p->uplink, i);
        vql_port_move(p, VQL_PORT_RUNNING);
        vql_paths_review(p);
        pay_owed_signals(p);
        n = lanes_wanted(p);
        lanes_build(p, n);
        while (rc == 0 && p->n_attached < n) {
                rc = vql_worker_attach(p->lane_worker[p->n_attached], p->lanes[p->n_attached], e);
                if (rc == 0)
                        p->n_attached++;
        }
        return rc;
}

int vql_port_resume(struct vql_port *p, struct vql_error *e)
{
        int rc = attach_lanes(p, e);

        if (p->session)
                vql_port_look(p);
        return rc;
}
