/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/methods.h"

static json_t *version(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        (void)rpc;
        (void)params;
        (void)e;
        return json_pack("{s:s}", "version", vql_version());
}

const struct vql_rpc_method vql_rpc_version_methods[] = {
        {
                .name = "version",
                .params = &vql_rpc_no_params,
                .handle = version,
                .help = "The version of the running daemon.",
                .result = "An object with version, a string.",
        },
        { 0 },
};
