/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_KEYS_H
#define VQLIFT_TOOLS_KEYS_H

/* The rules of the configuration file; those of a port are also the parameters of port.add. */

#include "common/schema.h"

extern const struct vql_rule vql_config_rule; /* the document: daemon, ports */
extern const struct vql_rule vql_daemon_rule;
extern const struct vql_rule vql_port_rule;

/* Names of ports, wherever one is a parameter. */
extern const struct vql_rule vql_port_name_rule;

#endif
