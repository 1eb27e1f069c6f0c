/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_METHODS_H
#define VQLIFT_TOOLS_METHODS_H

/* The methods of each noun; every table ends with a row without a name. */

#include "vqliftd/rpc.h"

extern const struct vql_rpc_method vql_rpc_port_methods[];
extern const struct vql_rpc_method vql_rpc_path_methods[];
extern const struct vql_rpc_method vql_rpc_stats_methods[];
extern const struct vql_rpc_method vql_rpc_compat_methods[];
extern const struct vql_rpc_method vql_rpc_version_methods[];
extern const struct vql_rpc_method vql_rpc_uplink_methods[];
extern const struct vql_rpc_method vql_rpc_worker_methods[];
extern const struct vql_rpc_method vql_rpc_help_methods[];

/* Parameters of a method that takes none, and of one that takes the name of a port. */
extern const struct vql_rule vql_rpc_no_params;
extern const struct vql_rule vql_rpc_name_params;

#endif
