/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vqpeer: traffic that is checked byte by byte, and the few settings of a NIC that tests change.
 * One static program, so that it runs in a guest that has nothing but busybox.
 */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "net.h"

static const struct command {
        const char *name, *args, *what;
        int min, max;
        int (*run)(char **args);
} commands[] = {
        { "echo-serve", "PORT", "answer datagrams until a signal", 1, 1, echo_serve },
        { "echo", "ADDR PORT MIN MAX COUNT WINDOW",
          "COUNT datagrams (0: until a signal) of MIN to MAX bytes, WINDOW at a time", 6, 6,
          echo_run },
        { "stream-serve", "PORT", "the other side of stream, until a signal", 1, 1, stream_serve },
        { "stream", "ADDR PORT FLOWS KIB [SECONDS]",
          "FLOWS connections that move KIB each, both ways; SECONDS without progress are too many",
          4, 5, stream_run },
        { "recv-file", "PORT FILE", "receive one file", 2, 2, file_receive },
        { "send-file", "ADDR PORT FILE", "send it", 3, 3, file_send },
        { "count-send", "ADDR PORT BYTES RATE COUNT",
          "COUNT numbered datagrams (0: until a signal), RATE of them a second", 5, 5, count_send },
        { "count-recv", "PORT", "count them until a signal; SIGUSR1, SIGUSR2 show figures", 1, 1,
          count_receive },
        { "announcements", "DEV", "show RARP, and ARP about oneself, that come in", 1, 1,
          announce_watch },
        { "channels", "DEV [N]", "show or set the number of queue pairs in use", 1, 2,
          nic_channels },
        { "offload", "DEV [on|off]", "show or switch checksum, TSO, GSO and GRO offloads", 1, 2,
          nic_offload },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

int main(int argc, char **argv)
{
        net_catch_signals();
        for (int i = 0; argc >= 2 && i < COMMANDS; i++) {
                const struct command *c = &commands[i];

                if (strcmp(argv[1], c->name) == 0 && argc - 2 >= c->min && argc - 2 <= c->max)
                        return c->run(argv + 2);
        }
        for (int i = 0; i < COMMANDS; i++)
                printf("vqpeer %s %s\n        %s\n", commands[i].name, commands[i].args,
                       commands[i].what);
        return 2;
}
