/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_PORT_OPTIONS_H
#define VQLIFT_TOOLS_PORT_OPTIONS_H

/* The keys of a port as options of the command line: --queue-pairs 4, --features-off A,B. */

#include <stddef.h>

#include <jansson.h>

#include "common/schema.h"

/* The key of the i-th option, NULL past the end.  The name is an argument, not an option. */
const struct vql_key *vql_port_option_at(size_t i);

/*
 * Add what the option says to `port`.  A list takes entries separated by commas, and grows with
 * every use.  Whether the value is right is for the daemon to say.  -ENOMEM; -EEXIST: the option is
 * there twice.
 */
int vql_port_option_set(json_t *port, const struct vql_key *key, const char *text);

#endif
