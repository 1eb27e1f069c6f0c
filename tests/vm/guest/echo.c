/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams there and back.  A datagram is eight bytes of id and then pattern that depends on the
 * id, the length and the direction, so that both ends know each byte.  One that is not answered
 * is sent again, and counted: a path that must not lose anything shows 0 there.
 */
#include "commands.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net.h"
#include "pattern.h"

enum { MIN_BYTES = 10, MAX_BYTES = 65000, MAX_WINDOW = 64, RESEND_MS = 1500 };
enum direction { REQUEST, ANSWER };

static void write_message(uint8_t *buf, size_t n, uint64_t id, enum direction d)
{
        memcpy(buf, &id, sizeof(id));
        pattern_fill(buf + sizeof(id), n - sizeof(id), id * 2 + d, n << 20);
}

static bool check_message(const uint8_t *buf, ssize_t bytes, enum direction d, uint64_t *ret_id)
{
        const char *what = d == REQUEST ? "request" : "answer";
        size_t n = (size_t)bytes, head = sizeof(*ret_id), good;

        if (bytes < MIN_BYTES) {
                printf("%s of %zd bytes: none is that short\n", what, bytes);
                return false;
        }
        memcpy(ret_id, buf, head);
        good = head + pattern_check(buf + head, n - head, *ret_id * 2 + d, n << 20);
        if (good != n)
                printf("%s of %zu bytes is wrong at %zu\n", what, n, good);
        return good == n;
}

int echo_serve(char **args)
{
        static uint8_t buf[MAX_BYTES];
        unsigned long answered = 0, bad = 0;
        int s = net_bind(SOCK_DGRAM, args[0]);

        net_make_room(s);
        setlinebuf(stdout);
        while (!net_stopped) {
                union net_addr from;
                socklen_t from_bytes = sizeof(from);
                ssize_t n = recvfrom(s, buf, sizeof(buf), 0, &from.sa, &from_bytes);
                uint64_t id;

                if (n < 0)
                        continue;
                if (!check_message(buf, n, REQUEST, &id)) {
                        bad++;
                        continue;
                }
                write_message(buf, (size_t)n, id, ANSWER);
                if (sendto(s, buf, (size_t)n, 0, &from.sa, from_bytes) == n)
                        answered++;
        }
        printf("answered %lu bad %lu\n", answered, bad);
        return bad != 0;
}

struct slot {
        uint64_t id; /* 0: free */
        uint64_t sent_ms;
};

struct echo {
        int s;
        unsigned long min, max, count, window; /* count 0: until a signal */
        uint64_t run;                          /* tells our answers from those of an earlier run */
        unsigned long next, answered, resent, bad;
        uint64_t last_ms, gap_ms;
        struct slot slots[MAX_WINDOW];
};

/* All lengths come up, in an order that mixes long and short ones (the stride is prime). */
static size_t message_bytes(const struct echo *e, uint64_t id)
{
        return e->min + (id & 0xffffffff) * 7919 % (e->max - e->min + 1);
}

static void send_slot(struct echo *e, struct slot *slot, uint64_t now)
{
        static uint8_t buf[MAX_BYTES];
        size_t n = message_bytes(e, slot->id);

        write_message(buf, n, slot->id, REQUEST);
        slot->sent_ms = now;
        /* A link that is down for a while costs a second try, not the run. */
        if (send(e->s, buf, n, 0) < 0 && errno == EMSGSIZE)
                net_die("%zu bytes are too long for this path", n);
}

static bool more(const struct echo *e)
{
        return !net_stopped && (e->count == 0 || e->next < e->count);
}

/* Fill free slots, repeat what is overdue; returns how many wait for an answer. */
static unsigned int feed(struct echo *e, uint64_t now)
{
        unsigned int waiting = 0;

        for (unsigned long i = 0; i < e->window; i++) {
                struct slot *slot = &e->slots[i];

                if (slot->id == 0 && more(e)) {
                        slot->id = e->run << 32 | e->next++;
                        send_slot(e, slot, now);
                } else if (slot->id != 0 && now - slot->sent_ms > RESEND_MS) {
                        e->resent++;
                        send_slot(e, slot, now);
                }
                waiting += slot->id != 0;
        }
        return waiting;
}

static void take_answer(struct echo *e, uint64_t now)
{
        static uint8_t buf[MAX_BYTES];
        ssize_t n = recv(e->s, buf, sizeof(buf), MSG_DONTWAIT);
        uint64_t id;

        if (n < 0)
                return;
        if (!check_message(buf, n, ANSWER, &id)) {
                e->bad++;
                return;
        }
        for (unsigned long i = 0; i < e->window; i++) {
                if (e->slots[i].id != id)
                        continue;
                e->slots[i].id = 0;
                e->answered++;
                if (now - e->last_ms > e->gap_ms)
                        e->gap_ms = now - e->last_ms;
                e->last_ms = now;
                return;
        }
}

static void exchange(struct echo *e)
{
        uint64_t start = net_now_ms();

        e->last_ms = start;
        for (;;) {
                struct pollfd p = { .fd = e->s, .events = POLLIN };
                uint64_t now = net_now_ms();

                if (feed(e, now) == 0)
                        break;
                if (now - e->last_ms > STALL_MS)
                        net_die("no answer for %d ms: answered %lu of %lu, resent %lu bad %lu",
                                STALL_MS, e->answered, e->next, e->resent, e->bad);
                if (poll(&p, 1, 100) > 0)
                        take_answer(e, net_now_ms());
        }
        printf("answered %lu resent %lu bad %lu gap-ms %lu ms %lu\n", e->answered, e->resent,
               e->bad, (unsigned long)e->gap_ms, (unsigned long)(net_now_ms() - start));
}

int echo_run(char **args)
{
        static struct echo e;
        struct timespec t;
        union net_addr to;
        socklen_t n = net_address(args[0], args[1], &to);
        int whole = IP_PMTUDISC_DO, is_v6 = to.sa.sa_family == AF_INET6;

        e.min = net_number(args[2], MIN_BYTES, MAX_BYTES);
        e.max = net_number(args[3], e.min, MAX_BYTES);
        e.count = net_number(args[4], 0, 100000000);
        e.window = net_number(args[5], 1, MAX_WINDOW);
        clock_gettime(CLOCK_REALTIME, &t);
        e.run = ((uint64_t)t.tv_nsec / 1000 ^ (uint64_t)getpid() << 12) | 1u << 31;
        e.run &= 0xffffffff;
        e.s = socket(to.sa.sa_family, SOCK_DGRAM, 0);
        if (e.s < 0 || connect(e.s, &to.sa, n) < 0)
                net_die("socket to %s: %s", args[0], strerror(errno));
        net_make_room(e.s);
        /* Never in fragments: the length asked for is what travels. */
        setsockopt(e.s, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                   is_v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &whole, sizeof(whole));
        exchange(&e);
        return e.bad != 0;
}
