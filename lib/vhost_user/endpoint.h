/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_ENDPOINT_H
#define VQLIFT_VHOST_USER_ENDPOINT_H

/*
 * Where connections come from: a socket that we listen on (server role), or a socket of the
 * front-end that we connect to as soon as it appears (client role; inotify, no polling).
 *
 * Server: the socket is bound and listened on under a temporary name and then renamed, so that its
 * name appears only when connect() succeeds.  A stale socket file is replaced; one that somebody
 * listens on is refused with -EADDRINUSE, any other kind of file with -EEXIST.  While a connection
 * exists, further clients are closed at once and logged.
 *
 * Threads: the port's control thread, on its sd-event loop.
 */

#include <stdbool.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include "base/error.h"
#include "base/log.h"

enum vql_role { VQL_ROLE_SERVER, VQL_ROLE_CLIENT };

struct vql_endpoint;

struct vql_endpoint_params {
        sd_event *loop;
        const char *path; /* copied */
        enum vql_role role;
        mode_t mode; /* server: permissions of the socket */
        uid_t uid;   /* server: owner and group; (uid_t)-1, (gid_t)-1: as created */
        gid_t gid;
        const struct vql_log *log;
        /* A connection is there; fd is non-blocking, close-on-exec and now the callee's. */
        void (*connected)(void *arg, int fd);
        void *arg;
};

/* Begin to listen or to look.  -ENAMETOOLONG, -EADDRINUSE, -EEXIST, -errno of what failed. */
int vql_endpoint_new(const struct vql_endpoint_params *params, struct vql_endpoint **ret_endpoint,
                     struct vql_error *e);
/* The connection is over: accept or look again.  At most one connection exists at a time. */
void vql_endpoint_resume(struct vql_endpoint *ep);
/* Stop; a server's socket file is removed if it is still ours.  NULL is fine. */
void vql_endpoint_free(struct vql_endpoint *ep);

#endif
