/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_vql.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

enum { MAX_PORTS = 4096, FEATURES = 64 };

struct port {
        struct vql_port_params params; /* its strings are copies */
};

struct vql {
        struct vql_params params;
        unsigned int n_workers, cpus[128];
        struct port *ports[MAX_PORTS];
        size_t n_ports;
        char error[256];
};

static const char *const features[FEATURES] = {
        [0] = "CSUM", [5] = "MAC", [15] = "MRG_RXBUF", [32] = "VERSION_1", [34] = "RING_PACKED",
};

static const char *const counters[] = { "packets", "bytes", "drops" };
enum { COUNTERS = sizeof(counters) / sizeof(*counters) };

static int __attribute__((format(printf, 3, 4))) fail(struct vql *v, int err, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(v->error, sizeof(v->error), fmt, ap);
        va_end(ap);
        return -err;
}

int vql_create(const struct vql_params *params, struct vql **ret_vql, char *ret_error, size_t n)
{
        struct vql *v;

        if (params->memory_mb == 666) {
                snprintf(ret_error, n, "packet memory: 666 MiB cannot be had");
                return -ENOMEM;
        }
        v = calloc(1, sizeof(*v));
        if (!v)
                abort();
        v->params = *params;
        v->n_workers = params->n_worker_cpus ? params->n_worker_cpus : 1;
        for (unsigned int i = 0; i < params->n_worker_cpus; i++)
                v->cpus[i] = params->worker_cpus[i];
        *ret_vql = v;
        return 0;
}

static void port_free(struct port *p)
{
        free((char *)p->params.name);
        free((char *)p->params.socket);
        free((char *)p->params.uplink);
        free((char *)p->params.socket_owner);
        free((char *)p->params.socket_group);
        free(p);
}

void vql_close_ports(struct vql *v)
{
        while (v && v->n_ports > 0)
                port_free(v->ports[--v->n_ports]);
}

void vql_destroy(struct vql *v)
{
        vql_close_ports(v);
        free(v);
}

const char *vql_last_error(const struct vql *v)
{
        return v->error;
}

const char *vql_version(void)
{
        return "0.0.0-fake";
}

/* Index of a port, or n_ports. */
static size_t find(const struct vql *v, const char *name)
{
        size_t i = 0;

        while (i < v->n_ports && strcmp(v->ports[i]->params.name, name) != 0)
                i++;
        return i;
}

static void say(const struct vql *v, const char *what, const char *name)
{
        char line[128];

        if (!v->params.log)
                return;
        snprintf(line, sizeof(line), "fake: %s %s", what, name);
        v->params.log(v->params.log_arg, LOG_INFO, NULL, line);
}

static char *copy(const char *s)
{
        return s ? strdup(s) : NULL;
}

int vql_port_add(struct vql *v, const struct vql_port_params *params)
{
        struct port *p;

        if (find(v, params->name) < v->n_ports)
                return fail(v, EEXIST, "port %s exists", params->name);
        for (size_t i = 0; i < v->n_ports; i++) {
                if (strcmp(v->ports[i]->params.socket, params->socket) == 0)
                        return fail(v, EADDRINUSE, "socket %s is taken", params->socket);
        }
        if (strncmp(params->uplink, "fail:", 5) == 0)
                return fail(v, (int)strtol(params->uplink + 5, NULL, 10), "uplink %s fails",
                            params->uplink);
        p = calloc(1, sizeof(*p));
        if (!p || v->n_ports == MAX_PORTS)
                abort();
        p->params = *params;
        p->params.name = copy(params->name);
        p->params.socket = copy(params->socket);
        p->params.uplink = copy(params->uplink);
        p->params.socket_owner = copy(params->socket_owner);
        p->params.socket_group = copy(params->socket_group);
        v->ports[v->n_ports++] = p;
        say(v, "added", params->name);
        return 0;
}

int vql_port_del(struct vql *v, const char *name)
{
        size_t i = find(v, name);

        if (i == v->n_ports)
                return fail(v, ENOENT, "no port %s", name);
        say(v, "deleted", name);
        port_free(v->ports[i]);
        memmove(&v->ports[i], &v->ports[i + 1], (--v->n_ports - i) * sizeof(*v->ports));
        return 0;
}

size_t vql_port_count(const struct vql *v)
{
        return v->n_ports;
}

const char *vql_port_name(const struct vql *v, size_t i)
{
        return i < v->n_ports ? v->ports[i]->params.name : NULL;
}

const struct vql_port_params *fake_vql_params(const struct vql *v, const char *name)
{
        size_t i = find(v, name);

        return i < v->n_ports ? &v->ports[i]->params : NULL;
}

int vql_port_get_info(struct vql *v, const char *name, struct vql_port_info *ret_info)
{
        const struct vql_port_params *p = fake_vql_params(v, name);

        if (!p)
                return fail(v, ENOENT, "no port %s", name);
        *ret_info = (struct vql_port_info){
                .state = "waiting",
                .features_offered = UINT64_C(1) << 34 | UINT64_C(1) << 40 | 1,
                .queue_pairs = p->queue_pairs,
                .connections = 3,
                .connected_us = -1,
                .first_packet_us = -1,
                .link_up = true,
                .link_mbps = 10000,
                .uplink_mtu = 1500,
                .uplink_mac = { 2, 0, 0, 0, 0, 1 },
        };
        snprintf(ret_info->name, sizeof(ret_info->name), "%s", p->name);
        snprintf(ret_info->socket, sizeof(ret_info->socket), "%s", p->socket);
        snprintf(ret_info->uplink, sizeof(ret_info->uplink), "%s", p->uplink);
        snprintf(ret_info->role, sizeof(ret_info->role), "%s",
                 p->role == VQL_SOCKET_CLIENT ? "client" : "server");
        if (strcmp(p->uplink, "odd") == 0)
                snprintf(ret_info->reason, sizeof(ret_info->reason), "\xff\x01 gone\xc3");
        return 0;
}

int vql_port_get_compat(struct vql *v, const char *name, struct vql_compat_info *ret_info)
{
        if (name && !fake_vql_params(v, name))
                return fail(v, ENOENT, "no port %s", name);
        *ret_info = (struct vql_compat_info){
                .features = UINT64_C(1) << 34 | UINT64_C(1) << 40 | 1,
                .protocol_features = 2,
                .queue_pairs = name ? fake_vql_params(v, name)->queue_pairs : 128,
                .ring_size_split = 1024,
                .ring_size_packed = 512,
                .mem_slots = 8,
                .mtu = name ? 1500 : 0,
                .state_version = 1,
        };
        return 0;
}

const char *vql_protocol_feature_to_name(unsigned int bit)
{
        return bit == 1 ? "LOG_SHMFD" : NULL;
}

/* The ring's index is good? */
static int check_ring(struct vql *v, const char *name, unsigned int ring)
{
        const struct vql_port_params *p = fake_vql_params(v, name);

        if (!p)
                return fail(v, ENOENT, "no port %s", name);
        return ring < 2 * p->queue_pairs ? 0 : fail(v, ERANGE, "no ring %u", ring);
}

int vql_port_get_ring(struct vql *v, const char *name, unsigned int ring,
                      struct vql_ring_info *ret_info)
{
        int r = check_ring(v, name, ring);

        if (r < 0)
                return r;
        *ret_info = (struct vql_ring_info){
                .index = ring,
                .path = "none",
                .state = "stopped",
                .ring_size = ring < 2 ? 256 : 0,
                .worker = -1,
        };
        snprintf(ret_info->direction, sizeof(ret_info->direction), "%s", ring % 2 ? "tx" : "rx");
        return 0;
}

int vql_port_get_session(struct vql *v, const char *name, unsigned int i,
                         struct vql_session_info *ret_info)
{
        if (!fake_vql_params(v, name))
                return fail(v, ENOENT, "no port %s", name);
        if (i > 0)
                return fail(v, ERANGE, "no session %u", i);
        *ret_info = (struct vql_session_info){ .connection = 3, .began_us = 1, .lasted_us = -1 };
        for (i = 0; i < VQL_PHASES; i++)
                ret_info->phase[i] = (struct vql_phase_info){ "phase", i, i, -1 };
        return 0;
}

const char *const *vql_ring_stat_names(unsigned int *ret_count)
{
        *ret_count = COUNTERS;
        return counters;
}

int vql_port_get_ring_stats(struct vql *v, const char *name, unsigned int ring,
                            uint64_t *ret_values, unsigned int n)
{
        int r = check_ring(v, name, ring);

        if (r < 0)
                return r;
        for (unsigned int i = 0; i < n; i++)
                ret_values[i] = ring * 100 + i;
        return 0;
}

int vql_worker_get_info(struct vql *v, unsigned int index, struct vql_worker_info *ret_info)
{
        if (index >= v->n_workers)
                return fail(v, ERANGE, "no worker %u", index);
        *ret_info = (struct vql_worker_info){ .index = index, .cpu = -1, .polls = UINT64_MAX };
        if (v->params.n_worker_cpus)
                ret_info->cpu = (int)v->cpus[index];
        return 0;
}

int vql_feature_from_name(const char *name)
{
        for (int bit = 0; bit < FEATURES; bit++) {
                if (features[bit] && strcmp(features[bit], name) == 0)
                        return bit;
        }
        return -ENOENT;
}

const char *vql_feature_to_name(unsigned int bit)
{
        return bit < FEATURES ? features[bit] : NULL;
}

int vql_port_set_path(struct vql *v, const char *name, const char *path)
{
        if (!fake_vql_params(v, name))
                return -ENOENT;
        say(v, "path of", name);
        say(v, "is now", path);
        return 0;
}

int vql_port_get_move(struct vql *v, const char *name, unsigned int i,
                      struct vql_move_info *ret_info)
{
        if (!fake_vql_params(v, name))
                return -ENOENT;
        if (i > 0)
                return -ERANGE;
        *ret_info = (struct vql_move_info){
                .ring = 1,
                .from = "relay",
                .to = "direct",
                .at_us = 1000000,
                .took_us = 20,
        };
        return 0;
}
