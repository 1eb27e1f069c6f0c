/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQPEER_NET_H
#define VQPEER_NET_H

/* Sockets, time and the end of the program, as all commands of vqpeer need them. */

#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>

enum { STALL_MS = 30000 }; /* no progress for this long: the path is dead */

union net_addr {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

extern volatile sig_atomic_t net_stopped; /* set by SIGTERM and SIGINT */

void net_catch_signals(void);
uint64_t net_now_ms(void);

/* All of these print what failed and exit with 1 rather than return an error. */
unsigned long net_number(const char *text, unsigned long min, unsigned long max);
/* Addresses are numeric, IPv4 or IPv6. */
socklen_t net_address(const char *addr, const char *port, union net_addr *ret_addr);
/* A bound socket that takes IPv4 and, where the kernel has it, IPv6. */
int net_bind(int type, const char *port);
/* As much of what arrives as the kernel can be told to keep. */
void net_make_room(int s);
/* A TCP connection; tries again while the other side does not listen yet. */
int net_connect(const char *addr, const char *port);
_Noreturn void net_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
