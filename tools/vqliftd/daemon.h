/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_DAEMON_H
#define VQLIFT_TOOLS_DAEMON_H

/* The daemon's life: start as the file says, serve until a signal ends it.  With "standby: yes"
 * this process becomes the keeper of daemons (keeper.h). */

struct vql_daemon_options {
        const char *config;
        int log_level; /* -1: as the file says */
        int turn_fd;   /* to our keeper (turn.h), ours to close; -1: we have none */
        char **argv;   /* as main() got them, for starting another daemon like this one */
};

/* 0: ended by a signal, in order.  -errno: could not start, or the loop failed; logged. */
int vql_daemon_run(const struct vql_daemon_options *options);

#endif
