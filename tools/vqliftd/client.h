/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_CLIENT_H
#define VQLIFT_TOOLS_CLIENT_H

/*
 * One connection of the control socket: lines in, answers out, never blocking.  A request is taken
 * up only when the answer before it is written, so that a client has at most one line and one
 * answer in memory.  A client that leaves a line unfinished or an answer unread for too long is
 * cut.
 */

#include <stdint.h>

#include <systemd/sd-event.h>

#include "vqliftd/rpc.h"

enum { VQL_CLIENT_LINE_MAX = 1 << 20 };

struct vql_client;

struct vql_client_params {
        sd_event *loop; /* referenced */
        struct vql_rpc *rpc;
        int fd;               /* connected, non-blocking; owned from here on, even on error */
        uint64_t deadline_us; /* for an unfinished line, or an answer that is not read */
        /* The connection is over; the callee frees the client.  Called from the loop. */
        void (*closed)(void *arg, struct vql_client *client);
        void *arg;
};

int vql_client_new(const struct vql_client_params *params, struct vql_client **ret_client);
/* Close the connection.  NULL is fine.  Does not call closed(). */
void vql_client_free(struct vql_client *c);

#endif
