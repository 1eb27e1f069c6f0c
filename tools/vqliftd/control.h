/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_CONTROL_H
#define VQLIFT_TOOLS_CONTROL_H

/* The control socket's clients: accepted, counted, and ended together. */

#include <stdint.h>

#include <systemd/sd-event.h>

#include "vqliftd/rpc.h"

enum { VQL_CONTROL_MAX_CLIENTS = 64 };

struct vql_control;

struct vql_control_params {
        sd_event *loop;       /* referenced */
        struct vql_rpc *rpc;  /* borrowed */
        int fd;               /* listens, non-blocking; borrowed */
        uint64_t deadline_us; /* see struct vql_client_params */
};

int vql_control_new(const struct vql_control_params *params, struct vql_control **ret_control);
/* End all connections.  NULL is fine. */
void vql_control_free(struct vql_control *c);

#endif
