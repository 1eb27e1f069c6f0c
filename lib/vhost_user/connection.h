/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_CONNECTION_H
#define VQLIFT_VHOST_USER_CONNECTION_H

/*
 * One connected socket: bytes in, messages to the session, replies out.  Never blocks: a message
 * may arrive a byte at a time, and a reply waits in a queue while the peer does not read.  A peer
 * that leaves a message unfinished, or its replies unread, for longer than the deadline is cut.
 *
 * Threads: the port's control thread, on its sd-event loop.
 */

#include <systemd/sd-event.h>

#include "vhost_user/session.h"

struct vql_connection;

struct vql_connection_params {
        sd_event *loop; /* referenced */
        int fd;         /* connected stream socket; owned from here on, even on error */
        struct vql_session *session; /* borrowed: initialised by the caller, who also ends it */
        const struct vql_log *log;
        uint64_t deadline_us; /* for an unfinished message or unread replies */
        /* The connection is over; `reason` is a sentence, err the negative errno, 0 for a clean
         * close by the peer.  Called from the loop, at most once; the callee frees the connection.
         */
        void (*closed)(void *arg, int err, const char *reason);
        void *arg;
};

int vql_connection_new(const struct vql_connection_params *params,
                       struct vql_connection **ret_connection);
/* Close the socket and free.  NULL is fine.  Does not call closed(). */
void vql_connection_free(struct vql_connection *c);

#endif
