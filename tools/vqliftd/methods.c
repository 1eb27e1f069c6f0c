/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/methods.h"

#include "common/keys.h"

static const struct vql_rpc_method *const tables[] = {
        vql_rpc_port_methods,    vql_rpc_path_methods,   vql_rpc_stats_methods,
        vql_rpc_compat_methods,  vql_rpc_uplink_methods, vql_rpc_worker_methods,
        vql_rpc_version_methods, vql_rpc_help_methods,
};

const struct vql_rule vql_rpc_no_params = {
        .type = VQL_RULE_MAP,
        .what = "an object without members",
        .keys = (const struct vql_key[]){ { 0 } },
};

static const struct vql_key name_keys[] = {
        { "name", &vql_port_name_rule, .required = true, .help = "Name of the port." },
        { 0 },
};

const struct vql_rule vql_rpc_name_params = {
        .type = VQL_RULE_MAP,
        .what = "an object with the name of a port",
        .keys = name_keys,
};

const struct vql_rpc_method *vql_rpc_method_at(size_t i)
{
        for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++) {
                for (const struct vql_rpc_method *m = tables[t]; m->name; m++) {
                        if (i-- == 0)
                                return m;
                }
        }
        return NULL;
}
