/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream of numbered datagrams in one direction.  Its receiver knows what was lost, repeated or
 * changed on the way, and the longest time in which nothing came.
 */
#include "commands.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net.h"
#include "pattern.h"

enum { MIN_BYTES = 16, MAX_BYTES = 9000, MAX_NUMBERS = 1 << 23 };
enum { NS = 1000000000, LATEST_NS = NS / 20 };

static volatile sig_atomic_t asked; /* the signal that asked for the figures, or 0 */

static void ask(int sig)
{
        asked = sig;
}

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

/* Wait for the next moment of sending; one that fell behind begins anew, without a burst. */
static void pace(uint64_t *next, uint64_t period)
{
        uint64_t now = now_ns();
        struct timespec t;

        *next += period;
        if (*next + LATEST_NS < now)
                *next = now;
        t.tv_sec = (time_t)(*next / NS);
        t.tv_nsec = (long)(*next % NS);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* No checksum of UDP: it is for the receiver here to find what is wrong. */
static int open_sender(char **args)
{
        union net_addr to;
        socklen_t n = net_address(args[0], args[1], &to);
        int on = 1, s = socket(to.sa.sa_family, SOCK_DGRAM, 0);

        if (s < 0 || connect(s, &to.sa, n) < 0)
                net_die("socket to %s: %s", args[0], strerror(errno));
        setsockopt(s, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on));
        return s;
}

int count_send(char **args)
{
        static uint8_t buf[MAX_BYTES];
        unsigned long bytes = net_number(args[2], MIN_BYTES, MAX_BYTES);
        uint64_t period = NS / net_number(args[3], 1, 100000);
        unsigned long count = net_number(args[4], 0, MAX_NUMBERS), unsent = 0;
        int s = open_sender(args);
        uint64_t next = now_ns(), i;

        for (i = 0; !net_stopped && (count == 0 || i < count); i++) {
                memcpy(buf, &i, sizeof(i));
                pattern_fill(buf + sizeof(i), bytes - sizeof(i), i, 0);
                if (send(s, buf, bytes, 0) < 0)
                        unsent++;
                pace(&next, period);
        }
        printf("sent %llu unsent %lu\n", (unsigned long long)i, unsent);
        return 0;
}

struct tally {
        uint8_t seen[MAX_NUMBERS / 8];
        unsigned long got, repeated, bad;
        uint64_t end; /* behind the highest number */
        uint64_t last_ms, gap_ms;
};

static void take(struct tally *t, const uint8_t *buf, ssize_t bytes)
{
        uint64_t i = 0, now = net_now_ms();
        size_t n = (size_t)bytes;
        uint8_t bit;

        if (t->last_ms != 0 && now - t->last_ms > t->gap_ms)
                t->gap_ms = now - t->last_ms;
        t->last_ms = now;
        if (bytes >= MIN_BYTES)
                memcpy(&i, buf, sizeof(i));
        if (bytes < MIN_BYTES || i >= MAX_NUMBERS ||
            pattern_check(buf + sizeof(i), n - sizeof(i), i, 0) != n - sizeof(i)) {
                t->bad++;
                return;
        }
        bit = (uint8_t)(1u << i % 8);
        if (t->seen[i / 8] & bit)
                t->repeated++;
        else
                t->got++;
        t->seen[i / 8] |= bit;
        if (i >= t->end)
                t->end = i + 1;
}

static void show(struct tally *t)
{
        printf("got %lu lost %lu repeated %lu bad %lu gap-ms %lu\n", t->got,
               (unsigned long)t->end - t->got, t->repeated, t->bad, (unsigned long)t->gap_ms);
}

/* Until a signal; SIGUSR1 asks for the figures, SIGUSR2 begins a new longest gap after them. */
int count_receive(char **args)
{
        static uint8_t buf[MAX_BYTES];
        static struct tally t;
        struct sigaction a = { .sa_handler = ask };
        int s = net_bind(SOCK_DGRAM, args[0]);

        sigaction(SIGUSR1, &a, NULL);
        sigaction(SIGUSR2, &a, NULL);
        net_make_room(s);
        setlinebuf(stdout);
        while (!net_stopped) {
                ssize_t n = recv(s, buf, sizeof(buf), 0);

                if (n >= 0)
                        take(&t, buf, n);
                if (asked)
                        show(&t);
                if (asked == SIGUSR2)
                        t.gap_ms = 0;
                asked = 0;
        }
        show(&t);
        return t.bad != 0;
}
