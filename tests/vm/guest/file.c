/* SPDX-License-Identifier: BSD-3-Clause */
/* One file over one TCP connection, its length first. */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net.h"

enum { CHUNK = 65536 };

/* Until n bytes are through; a short one means an error or the end, which is said. */
static void put(int fd, const uint8_t *buf, size_t n)
{
        while (n > 0) {
                ssize_t did = write(fd, buf, n);

                if (did <= 0)
                        net_die("write: %s", strerror(errno));
                buf += did;
                n -= (size_t)did;
        }
}

static void copy(int from, int to, uint64_t bytes)
{
        static uint8_t buf[CHUNK];
        struct timeval wait = { .tv_sec = STALL_MS / 1000 };

        setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        while (bytes > 0) {
                ssize_t n = read(from, buf, bytes < CHUNK ? (size_t)bytes : CHUNK);

                if (n <= 0)
                        net_die("%llu bytes are missing: %s", (unsigned long long)bytes,
                                n == 0 ? "the end" : strerror(errno));
                put(to, buf, (size_t)n);
                bytes -= (uint64_t)n;
        }
}

int file_receive(char **args)
{
        int l = net_bind(SOCK_STREAM, args[0]), s, fd;
        uint64_t bytes;

        if (listen(l, 1) < 0 || (s = accept(l, NULL, NULL)) < 0)
                net_die("port %s: %s", args[0], strerror(errno));
        fd = open(args[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0)
                net_die("%s: %s", args[1], strerror(errno));
        if (recv(s, &bytes, sizeof(bytes), MSG_WAITALL) != sizeof(bytes))
                net_die("no length");
        copy(s, fd, bytes);
        return close(fd) < 0;
}

int file_send(char **args)
{
        int fd = open(args[2], O_RDONLY), s;
        struct stat st;
        uint64_t bytes;
        char end;

        if (fd < 0 || fstat(fd, &st) < 0)
                net_die("%s: %s", args[2], strerror(errno));
        s = net_connect(args[0], args[1]);
        bytes = (uint64_t)st.st_size;
        put(s, (const uint8_t *)&bytes, sizeof(bytes));
        copy(fd, s, bytes);
        shutdown(s, SHUT_WR);
        return recv(s, &end, 1, 0) != 0; /* the receiver ends when it has all */
}
