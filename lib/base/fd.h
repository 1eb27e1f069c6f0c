/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BASE_FD_H
#define VQLIFT_BASE_FD_H

#include <unistd.h>

/* Close *fd unless it is -1, and set it to -1.  Descriptor 0 is one like any other. */
static inline void vql_fd_close(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

#endif
