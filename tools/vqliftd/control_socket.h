/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_CONTROL_SOCKET_H
#define VQLIFT_TOOLS_CONTROL_SOCKET_H

/*
 * The listening socket of the daemon and the file that names it.  A lock file beside it, which
 * stays, decides between daemons that start at the same time.
 */

#include <sys/types.h>

#include "vqliftd/logger.h"

struct vql_control_socket {
        int fd, lock_fd;
        char path[108];
        dev_t device; /* of the socket's file, to tell it from another's */
        ino_t inode;
};

/* Make the folder of a socket, 0755, if there is none: 0 or -errno. */
int vql_control_socket_make_folder(const char *path);

/*
 * Make the folder if there is none, replace a socket that nobody listens on, listen with
 * mode 0660 and group `gid`, or the process's for (gid_t)-1.  Not to be called beside
 * threads that make files: the umask changes.  -EADDRINUSE a daemon listens there, -EEXIST the file
 * is not a socket, -errno of what failed.  Errors are logged.
 */
int vql_control_socket_open(const char *path, gid_t gid, const struct vql_logger *log,
                            struct vql_control_socket *ret_socket);
/* Remove the file if it is still ours. */
void vql_control_socket_close(struct vql_control_socket *s);

#endif
