/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/context.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "port/paths.h"
#include "virtqueue/features.h"

static int64_t us_since(uint64_t then_us)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)((uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000 - then_us);
}

static void fill_session(const struct vql_port *p, struct vql_port_info *i)
{
        const struct vql_session *s = p->session;

        i->connected_us = us_since(p->connected_at_us);
        i->features = s->features;
        i->protocol_features = s->protocol_features;
        i->mtu_negotiated = s->mtu;
        for (uint16_t r = 0; r < p->offer.max_rings; r++)
                i->rings += s->vring[r].num != 0;
        if (!s->mem)
                return;
        i->mem_regions = (unsigned int)vql_mem_table_count(s->mem);
        for (unsigned int r = 0; r < i->mem_regions; r++)
                i->mem_bytes += vql_region_desc(vql_mem_table_region(s->mem, r))->size;
}

static void fill_uplink(const struct vql_port *p, struct vql_port_info *i)
{
        struct vql_uplink_info u = { 0 };

        if (!p->uplink)
                return;
        vql_uplink_get_info(p->uplink, &u);
        snprintf(i->uplink, sizeof(i->uplink), "%s", p->config.uplink);
        snprintf(i->uplink_device, sizeof(i->uplink_device), "%s", u.device);
        snprintf(i->uplink_driver, sizeof(i->uplink_driver), "%s", u.driver);
        i->link_up = u.link_up;
        i->link_mbps = u.link_mbps;
        i->uplink_mtu = u.mtu;
        i->uplink_rx_queues = u.rx_queues;
        i->uplink_tx_queues = u.tx_queues;
        i->uplink_interrupts = u.interrupts;
        memcpy(i->uplink_mac, u.mac, sizeof(i->uplink_mac));
}

static void fill_info(struct vql_port *p, void *arg)
{
        struct vql_port_info *i = arg;

        memset(i, 0, sizeof(*i));
        snprintf(i->name, sizeof(i->name), "%s", p->config.name);
        snprintf(i->socket, sizeof(i->socket), "%s", p->config.socket);
        snprintf(i->role, sizeof(i->role), "%s",
                 p->config.role == VQL_ROLE_CLIENT ? "client" : "server");
        snprintf(i->state, sizeof(i->state), "%s", vql_port_state_name(p->state));
        snprintf(i->reason, sizeof(i->reason), "%s", p->reason);
        i->features_offered = p->offer.features;
        i->protocol_features_offered = p->offer.protocol_features;
        i->queue_pairs = p->config.queue_pairs;
        i->connections = p->connections;
        i->connected_us = -1;
        i->first_packet_us = vql_port_first_packet_us(p);
        for (uint16_t r = 0; r < p->offer.max_rings; r++)
                i->rings_running += p->rings[r].state == VQL_RING_RUNNING;
        if (p->session)
                fill_session(p, i);
        fill_uplink(p, i);
        snprintf(i->device, sizeof(i->device), "%s", vql_paths_address(p->paths));
        snprintf(i->device_driver, sizeof(i->device_driver), "%s", vql_paths_driver(p->paths));
        snprintf(i->device_state, sizeof(i->device_state), "%s", vql_paths_device_state(p->paths));
        snprintf(i->path_wish, sizeof(i->path_wish), "%s",
                 vql_path_wish_name(vql_paths_wished(p->paths)));
}

int vql_port_get_info(struct vql *v, const char *name, struct vql_port_info *ret_info)
{
        struct vql_port *p = vql_context_port(v, name);

        if (!p)
                return -ENOENT;
        vql_port_run(p, fill_info, ret_info);
        return 0;
}

/* The lane that has the queue among its rings, or -1. */
static int lane_of(const struct vql_port *p, const struct vql_queue *q)
{
        for (uint16_t i = 0; i < p->n_attached; i++) {
                const struct vql_lane *lane = p->lanes[i];

                for (uint16_t r = 0; r < lane->n_rx; r++)
                        if (lane->rx[r].q == q)
                                return i;
                for (uint16_t r = 0; r < lane->n_tx; r++)
                        if (lane->tx[r].q == q)
                                return i;
        }
        return -1;
}

static void fill_ring(struct vql_port *p, void *arg)
{
        struct vql_ring_info *i = arg;
        const unsigned int index = i->index;
        const struct vql_ring *r = &p->rings[index];
        const bool runs = r->state == VQL_RING_RUNNING;
        const int lane = lane_of(p, &r->q);

        memset(i, 0, sizeof(*i));
        i->index = index;
        snprintf(i->direction, sizeof(i->direction), "%s", r->q.rx ? "rx" : "tx");
        snprintf(i->path, sizeof(i->path), "%s", vql_path_name(vql_paths_of(p, (uint16_t)index)));
        snprintf(i->path_reason, sizeof(i->path_reason), "%s", vql_paths_why(p, (uint16_t)index));
        snprintf(i->state, sizeof(i->state), "%s", vql_ring_state_name(r->state));
        if (r->q.fault != VQL_FAULT_NONE)
                snprintf(i->fault, sizeof(i->fault), "%s",
                         vql_fault_name((enum vql_fault)r->q.fault));
        if (p->session) {
                i->enabled = p->session->vring[index].enabled;
                i->ring_size = p->session->vring[index].num;
        }
        i->packed = runs && r->q.packed;
        if (runs && r->instance)
                snprintf(i->instance, sizeof(i->instance), "%s", r->instance->name);
        i->worker = lane < 0 ? -1 : (int)p->lane_worker_index[lane];
        i->uplink_queue = lane < 0 ? 0 : p->lanes[lane]->uplink_queue;
}

/* The port if it has that ring; else NULL with the error in *ret_err. */
static struct vql_port *port_with_ring(struct vql *v, const char *name, unsigned int ring,
                                       int *ret_err)
{
        struct vql_port *p = vql_context_port(v, name);

        *ret_err = -ENOENT;
        if (p && ring >= p->offer.max_rings) {
                *ret_err = vql_fail(&v->error, ERANGE, "port %s: ring %u, expected 0 to %u", name,
                                    ring, p->offer.max_rings - 1u);
                return NULL;
        }
        return p;
}

int vql_port_get_ring(struct vql *v, const char *name, unsigned int ring,
                      struct vql_ring_info *ret_info)
{
        int err;
        struct vql_port *p = port_with_ring(v, name, ring, &err);

        if (!p)
                return err;
        ret_info->index = ring;
        vql_port_run(p, fill_ring, ret_info);
        return 0;
}

const char *const *vql_ring_stat_names(unsigned int *ret_count)
{
#define NAME(name, what) #name,
        static const char *const names[] = { VQL_QUEUE_COUNTERS(NAME) };
#undef NAME

        *ret_count = sizeof(names) / sizeof(names[0]);
        return names;
}

int vql_port_get_ring_stats(struct vql *v, const char *name, unsigned int ring,
                            uint64_t *ret_values, unsigned int n)
{
        struct vql_queue_counters c;
        uint64_t values[sizeof(c) / sizeof(uint64_t)];
        int err;
        struct vql_port *p = port_with_ring(v, name, ring, &err);

        if (!p)
                return err;
        /* The struct is nothing but counters, in the order of the names. */
        vql_queue_read_counters(&p->rings[ring].q, &c);
        memcpy(values, &c, sizeof(values));
        for (unsigned int i = 0; i < n && i < sizeof(values) / sizeof(values[0]); i++)
                ret_values[i] = values[i];
        return 0;
}

int vql_worker_get_info(struct vql *v, unsigned int index, struct vql_worker_info *ret_info)
{
        struct vql_worker_stats st;

        if (index >= v->n_workers)
                return vql_fail(&v->error, ERANGE, "worker %u, expected 0 to %u", index,
                                v->n_workers - 1);
        vql_worker_read_stats(v->workers[index], &st);
        *ret_info = (struct vql_worker_info){
                .index = index,
                .cpu = v->worker_cpu[index],
                .lanes = st.lanes,
                .polls = st.polls,
                .polls_busy = st.polls_busy,
                .sleeps = st.sleeps,
        };
        return 0;
}

int vql_feature_from_name(const char *name)
{
        return vql_feature_bit(name);
}

const char *vql_feature_to_name(unsigned int bit)
{
        return vql_feature_name(bit);
}

const char *vql_protocol_feature_to_name(unsigned int bit)
{
        return vql_protocol_feature_name(bit);
}

struct asked_move {
        unsigned int i;
        struct vql_move_info *ret_info;
        int err;
};

static void fill_move(struct vql_port *p, void *arg)
{
        struct asked_move *a = arg;
        const struct vql_path_move *m = vql_paths_move(p->paths, a->i);
        struct vql_move_info *i = a->ret_info;

        a->err = m ? 0 : -ERANGE;
        if (!m)
                return;
        memset(i, 0, sizeof(*i));
        i->ring = m->ring;
        snprintf(i->from, sizeof(i->from), "%s", vql_path_name(m->from));
        snprintf(i->to, sizeof(i->to), "%s", vql_path_name(m->to));
        snprintf(i->why, sizeof(i->why), "%s", m->why);
        i->at_us = m->at_us;
        i->took_us = m->took_us;
}

int vql_port_get_move(struct vql *v, const char *name, unsigned int i,
                      struct vql_move_info *ret_info)
{
        struct asked_move a = { .i = i, .ret_info = ret_info };
        struct vql_port *p = vql_context_port(v, name);

        if (!p)
                return -ENOENT;
        vql_port_run(p, fill_move, &a);
        return a.err;
}
