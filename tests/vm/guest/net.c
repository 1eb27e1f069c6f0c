/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t net_stopped;

static void stop(int sig)
{
        (void)sig;
        net_stopped = 1;
}

void net_catch_signals(void)
{
        struct sigaction a = { .sa_handler = stop }; /* no SA_RESTART: a wait ends */

        sigaction(SIGTERM, &a, NULL);
        sigaction(SIGINT, &a, NULL);
        signal(SIGPIPE, SIG_IGN);
}

uint64_t net_now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void net_die(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
        _exit(1);
}

unsigned long net_number(const char *text, unsigned long min, unsigned long max)
{
        char *end;
        unsigned long n = strtoul(text, &end, 10);

        if (*text == '\0' || *end != '\0' || n < min || n > max)
                net_die("'%s' is not a number from %lu to %lu", text, min, max);
        return n;
}

socklen_t net_address(const char *addr, const char *port, union net_addr *ret_addr)
{
        in_port_t p = htons((in_port_t)net_number(port, 1, 65535));
        union net_addr a = { 0 };

        if (inet_pton(AF_INET, addr, &a.v4.sin_addr) == 1) {
                a.v4.sin_family = AF_INET;
                a.v4.sin_port = p;
                *ret_addr = a;
                return sizeof(a.v4);
        }
        memset(&a, 0, sizeof(a));
        if (inet_pton(AF_INET6, addr, &a.v6.sin6_addr) != 1)
                net_die("'%s' is not an IP address", addr);
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = p;
        *ret_addr = a;
        return sizeof(a.v6);
}

int net_bind(int type, const char *port)
{
        union net_addr a;
        int off = 0, on = 1;
        int s = socket(AF_INET6, type, 0);
        socklen_t n = net_address(s < 0 ? "0.0.0.0" : "::", port, &a);

        if (s < 0)
                s = socket(AF_INET, type, 0);
        else
                setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (s < 0 || bind(s, &a.sa, n) < 0)
                net_die("port %s: %s", port, strerror(errno));
        return s;
}

void net_make_room(int s)
{
        int bytes = 8 << 20;

        setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
}

int net_connect(const char *addr, const char *port)
{
        union net_addr a;
        socklen_t n = net_address(addr, port, &a);
        uint64_t end = net_now_ms() + STALL_MS;

        for (;;) {
                int s = socket(a.sa.sa_family, SOCK_STREAM, 0);

                if (s < 0)
                        net_die("socket: %s", strerror(errno));
                if (connect(s, &a.sa, n) == 0)
                        return s;
                if (errno != ECONNREFUSED || net_now_ms() > end)
                        net_die("connect to %s port %s: %s", addr, port, strerror(errno));
                close(s);
                usleep(100000);
        }
}
