/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_PORT_TIMELINE_H
#define VQLIFT_TOOLS_PORT_TIMELINE_H

/* The sessions of a port as JSON. */

#include <jansson.h>

#include <vqlift/vqlift.h>

#include "vqliftd/fields.h"

extern const struct vql_field vql_session_fields[];
extern const struct vql_field vql_phase_fields[];

/* A list, the newest first.  NULL: no memory, or no such port. */
json_t *vql_port_timeline(struct vql *v, const char *name);

#endif
