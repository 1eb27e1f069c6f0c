/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_PORT_PARAMS_H
#define VQLIFT_TOOLS_PORT_PARAMS_H

/* A port as the operator describes it, turned into what the library takes. */

#include <jansson.h>

#include <vqlift/vqlift.h>

#include "common/report.h"

struct vql_port_request {
        struct vql_port_params params; /* strings belong to the description, or are these: */
        char owner[12], group[12];     /* account numbers as text */
};

/*
 * Note in `report` what the rules of keys.h cannot say: names of features, keys that belong to
 * servers, a worker that does not exist.  `port` need not have passed them.
 */
void vql_port_params_check(const json_t *port, const char *path, unsigned int n_workers,
                           struct vql_report *report);

/* `port` passed both checks and has its defaults filled in; it is borrowed. */
void vql_port_params_from(const json_t *port, struct vql_port_request *ret_request);

#endif
