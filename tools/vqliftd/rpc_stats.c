/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/json_value.h"
#include "common/keys.h"
#include "vqliftd/methods.h"

static const struct vql_key get_keys[] = {
        { "name", &vql_port_name_rule, .help = "Name of a port; absent: all ports." },
        { 0 },
};

static const struct vql_rule get_rule = {
        .type = VQL_RULE_MAP,
        .what = "an object with at most the name of a port",
        .keys = get_keys,
};

/* The library's names, with room for the values of one ring. */
struct counters {
        const char *const *names;
        uint64_t *values;
        unsigned int n;
};

static json_t *pack_counters(const struct counters *c)
{
        json_t *object = json_object();

        for (unsigned int i = 0; i < c->n; i++) {
                if (json_object_set_new(object, c->names[i], vql_json_counter(c->values[i])) < 0) {
                        json_decref(object);
                        return NULL;
                }
        }
        return object;
}

/* One ring: -ERANGE past the last, NULL in *ret_ring if there is no memory. */
static int read_ring(struct vql_rpc *rpc, const char *port, unsigned int ring,
                     const struct counters *c, json_t **ret_ring)
{
        struct vql_ring_info info;
        int r;

        r = vql_port_get_ring(rpc->vql, port, ring, &info);
        if (r == 0)
                r = vql_port_get_ring_stats(rpc->vql, port, ring, c->values, c->n);
        if (r == 0)
                *ret_ring = json_pack("{s:i, s:s, s:o}", "index", (int)ring, "direction",
                                      info.direction, "counters", pack_counters(c));
        return r;
}

static json_t *read_rings(struct vql_rpc *rpc, const char *port, const struct counters *c,
                          struct vql_rpc_error *e)
{
        json_t *rings = json_array(), *ring;
        int r;

        for (unsigned int i = 0; (r = read_ring(rpc, port, i, c, &ring)) == 0; i++) {
                if (json_array_append_new(rings, ring) < 0) {
                        json_decref(rings);
                        return NULL;
                }
        }
        if (r == -ERANGE)
                return rings;
        json_decref(rings);
        return vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
}

/* Append a port; 0 or -1 with or without `e` filled, as vql_rpc_method.handle has it. */
static int append_port(struct vql_rpc *rpc, json_t *ports, const char *name,
                       const struct counters *c, struct vql_rpc_error *e)
{
        json_t *rings = read_rings(rpc, name, c, e);

        if (!rings)
                return -1;
        return json_array_append_new(ports, json_pack("{s:s, s:o}", "name", name, "rings", rings));
}

static json_t *read_ports(struct vql_rpc *rpc, const char *only, const struct counters *c,
                          struct vql_rpc_error *e)
{
        json_t *ports = json_array();
        const char *name;
        int r;

        if (only) {
                r = append_port(rpc, ports, only, c, e);
        } else {
                r = ports ? 0 : -1;
                for (size_t i = 0; r == 0 && (name = vql_port_name(rpc->vql, i)); i++)
                        r = append_port(rpc, ports, name, c, e);
        }
        if (r == 0)
                return ports;
        json_decref(ports);
        return NULL;
}

static json_t *get(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        struct counters c;
        json_t *ports = NULL;

        c.names = vql_ring_stat_names(&c.n);
        c.values = calloc(c.n, sizeof(*c.values));
        if (c.values)
                ports = read_ports(rpc, json_string_value(json_object_get(params, "name")), &c, e);
        free(c.values);
        return ports;
}

const struct vql_rpc_method vql_rpc_stats_methods[] = {
        {
                .name = "stats.get",
                .params = &get_rule,
                .handle = get,
                .help = "Counters of the rings of one port or of all. They count since the port "
                        "was added; take differences yourself.",
                .result = "A list of ports, each with name and rings; a ring has index, direction "
                          "(rx: to the guest; tx: from the guest) and counters, an object.",
        },
        { 0 },
};
