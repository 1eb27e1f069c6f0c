/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>

int vql_turn_take(const char *text)
{
        char *end = NULL;
        long fd = strtol(text, &end, 10);

        if (end == text || *end || fd < 0 || fd > INT_MAX ||
            fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
                return -EINVAL;
        return (int)fd;
}

void vql_turn_tell(int fd, enum vql_turn_word word)
{
        const char byte = (char)word;

        if (fd >= 0)
                (void)!send(fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int vql_turn_wait(int fd)
{
        char byte = 0;
        ssize_t n;

        vql_turn_tell(fd, VQL_TURN_READY);
        do {
                n = recv(fd, &byte, 1, 0);
        } while (n < 0 && errno == EINTR);
        return n == 1 && byte == VQL_TURN_GO ? 0 : -EPIPE;
}
