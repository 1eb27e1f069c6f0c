/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP both ways at once: each side sends pattern and checks the other's, on several connections. */
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net.h"
#include "pattern.h"

enum { CHUNK = 65536, MAX_FLOWS = 32 };

struct opening {
        uint64_t bytes, seed, stall_ms;
};

struct half {
        uint64_t at, bytes, seed;
        size_t held, held_at; /* of the chunk that is being sent */
        uint8_t buf[CHUNK];
};

static bool send_some(int s, struct half *h)
{
        ssize_t n;

        if (h->held_at == h->held) {
                uint64_t left = h->bytes - h->at;

                h->held = left < CHUNK ? (size_t)left : CHUNK;
                h->held_at = 0;
                pattern_fill(h->buf, h->held, h->seed, h->at);
        }
        n = send(s, h->buf + h->held_at, h->held - h->held_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
                net_die("send after %llu bytes: %s", (unsigned long long)h->at, strerror(errno));
        if (n <= 0)
                return false;
        h->held_at += (size_t)n;
        h->at += (uint64_t)n;
        return true;
}

static bool receive_some(int s, struct half *h)
{
        uint64_t left = h->bytes - h->at;
        ssize_t n = recv(s, h->buf, left < CHUNK ? (size_t)left : CHUNK, MSG_DONTWAIT);
        size_t good;

        if (n == 0)
                net_die("the other side ended after %llu bytes", (unsigned long long)h->at);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
                net_die("receive after %llu bytes: %s", (unsigned long long)h->at, strerror(errno));
        if (n < 0)
                return false;
        good = pattern_check(h->buf, (size_t)n, h->seed, h->at);
        if (good != (size_t)n) {
                const unsigned long long wrong = h->at + good;

                net_die("byte %llu is wrong", wrong);
        }
        h->at += (uint64_t)n;
        return true;
}

static void move(int s, const struct opening *o, unsigned int side)
{
        static struct half out, in;

        out = (struct half){ .bytes = o->bytes, .seed = o->seed * 2 + side };
        in = (struct half){ .bytes = o->bytes, .seed = o->seed * 2 + !side };
        while (out.at < out.bytes || in.at < in.bytes) {
                struct pollfd p = { .fd = s };

                p.events = (short)((in.at < in.bytes ? POLLIN : 0) |
                                   (out.at < out.bytes ? POLLOUT : 0));
                if (poll(&p, 1, (int)o->stall_ms) == 0)
                        net_die("stalled: sent %llu, received %llu of %llu",
                                (unsigned long long)out.at, (unsigned long long)in.at,
                                (unsigned long long)o->bytes);
                if (out.at < out.bytes && p.revents & (POLLOUT | POLLERR))
                        send_some(s, &out);
                if (in.at < in.bytes && p.revents & (POLLIN | POLLHUP | POLLERR))
                        receive_some(s, &in);
        }
}

/* Close only when the other side has all too, so that no reset cuts it short. */
static void finish(int s)
{
        char c;

        shutdown(s, SHUT_WR);
        while (recv(s, &c, 1, 0) < 0 && errno == EINTR)
                ;
        close(s);
}

int stream_serve(char **args)
{
        int l = net_bind(SOCK_STREAM, args[0]);

        signal(SIGCHLD, SIG_IGN);
        if (listen(l, MAX_FLOWS) < 0)
                net_die("listen: %s", strerror(errno));
        while (!net_stopped) {
                struct opening o;
                int s = accept(l, NULL, NULL);

                if (s < 0)
                        continue;
                if (fork() == 0) {
                        if (recv(s, &o, sizeof(o), MSG_WAITALL) != sizeof(o))
                                net_die("no opening");
                        move(s, &o, 1);
                        finish(s);
                        _exit(0);
                }
                close(s);
        }
        return 0;
}

static void run_flow(char **args, const struct opening *o)
{
        int s = net_connect(args[0], args[1]);

        if (send(s, o, sizeof(*o), MSG_NOSIGNAL) != sizeof(*o))
                net_die("opening: %s", strerror(errno));
        move(s, o, 0);
        finish(s);
        _exit(0);
}

int stream_run(char **args)
{
        unsigned long flows = net_number(args[2], 1, MAX_FLOWS), failed = 0;
        struct opening o = { .bytes = net_number(args[3], 1, 1 << 20) << 10 };
        uint64_t start = net_now_ms();
        int status;

        o.stall_ms = args[4] != NULL ? net_number(args[4], 1, 3600) * 1000 : STALL_MS;
        for (unsigned long i = 0; i < flows; i++) {
                o.seed = (start << 8) + i;
                if (fork() == 0)
                        run_flow(args, &o);
        }
        for (unsigned long i = 0; i < flows; i++) {
                if (wait(&status) < 0 || status != 0)
                        failed++;
        }
        printf("flows %lu failed %lu kib %llu ms %llu\n", flows, failed,
               (unsigned long long)(o.bytes >> 10), (unsigned long long)(net_now_ms() - start));
        return failed != 0;
}
