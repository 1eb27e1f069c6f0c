/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated NIC keeps the driver contract, whatever its abilities, rings and starting places;
 * and whoever breaks a sentence of the contract is found by the check for it (driver_lies.c).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver_conformance.h"
#include "driver_lies.h"
#include "drivers/drivers.h"
#include "drivers/sim/sim.h"

/* ---- the wire: our end of a socket ---- */

static int wire_send(void *arg, uint16_t pair, const void *frame, size_t n)
{
        (void)pair;
        return send(*(int *)arg, frame, n, MSG_NOSIGNAL) == (ssize_t)n ? 0 : -errno;
}

static ssize_t wire_receive(void *arg, uint16_t pair, void *ret_frame, size_t room, int timeout_ms)
{
        struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };
        ssize_t n;

        (void)pair;
        if (poll(&p, 1, timeout_ms) != 1)
                return 0;
        n = recv(p.fd, ret_frame, room, MSG_DONTWAIT);
        return n < 0 ? -errno : n;
}

static int provoke(void *arg, struct vql_dev *d, enum vql_event_kind kind)
{
        (void)arg;
        switch (kind) {
        case VQL_EVENT_CONFIG:
                vql_sim_link(d, false);
                return 0;
        case VQL_EVENT_BROKEN:
                vql_sim_break(d);
                return 0;
        case VQL_EVENT_REMOVE:
                vql_sim_want_back(d);
                return 0;
        case VQL_EVENT_GONE:
                vql_sim_pull_out(d);
                return 0;
        default:
                return -ENOTSUP;
        }
}

struct bench {
        const struct vql_driver *driver;
        const char *args;
        int patience_ms, quiet_ms;
};

static struct conf_result run(const struct bench *b, const struct conf_ring *ring, const char *only,
                              FILE *out)
{
        struct conf_result result = { 0 };
        char args[256], address[64];
        int fd[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0) {
                result.failed = 1;
                return result;
        }
        snprintf(address, sizeof(address), "sim-conformance-%d", (int)getpid());
        snprintf(args, sizeof(args), "wire=fd:%d+%d+%d+%d,size=%u%s%s", fd[1], fd[1], fd[1], fd[1],
                 ring->size < 256 || (ring->size & (ring->size - 1)) ? 256u : ring->size,
                 *b->args ? "," : "", b->args);
        conf_run(
                &(struct conf_target){
                        .driver = b->driver,
                        .address = address,
                        .args = args,
                        .wire = { wire_send, wire_receive, &fd[0] },
                        .provoke = provoke,
                        .patience_ms = b->patience_ms,
                        .quiet_ms = b->quiet_ms,
                },
                ring, only, out, &result);
        close(fd[0]);
        close(fd[1]);
        return result;
}

/* ---- all kinds of rings, all kinds of devices ---- */

struct totals {
        unsigned int runs, failed, passed, skipped;
};

static void run_and_count(const struct bench *b, const struct conf_ring *g, struct totals *t)
{
        const struct conf_result r = run(b, g, NULL, stdout);

        t->runs++;
        t->passed += r.passed;
        t->skipped += r.skipped;
        t->failed += r.failed;
        if (r.failed)
                printf("  with %s: %s ring of %u from %u (wrap %d), event_idx %d, in_order %d, "
                       "mergeable %d, indirect %d, seed %u\n",
                       *b->args ? b->args : "all abilities", g->packed ? "packed" : "split",
                       g->size, g->start, !g->start_wrap_0, g->event_idx, g->in_order, g->mergeable,
                       g->indirect, g->seed);
}

/* Sanitizers make it slow: they get one variant each, another one each time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEP = 5 };
#else
enum { STEP = 1 };
#endif

static void run_variants(const struct bench *b, struct conf_ring g, struct totals *t)
{
        for (unsigned int v = STEP == 1 ? 0 : g.seed / 4 % 4; v < 4; v += STEP) {
                g.event_idx = v & 1;
                g.in_order = v & 2;
                g.seed++;
                g.mergeable = g.seed & 1;
                g.indirect = g.seed & 2;
                run_and_count(b, &g, t);
        }
}

static void run_rings(struct totals *t)
{
        static const uint16_t split_sizes[] = { 2, 256, 32768 }, packed_sizes[] = { 1, 7, 256 };
        const struct bench plain = { .driver = &vql_driver_sim, .args = "" };
        uint32_t seed = 1;

        for (int i = 0; i < 3; i++) {
                const uint16_t starts[] = { 0, (uint16_t)(split_sizes[i] - 1), 65535 };

                for (int at = 0; at < 3; at++, seed += 4)
                        run_variants(&plain,
                                     (struct conf_ring){ .size = split_sizes[i],
                                                         .start = starts[at],
                                                         .seed = seed },
                                     t);
        }
        for (int i = 0; i < 3; i++) {
                for (int lap = 0; lap < 2; lap++, seed += 4)
                        run_variants(&plain,
                                     (struct conf_ring){ .size = packed_sizes[i],
                                                         .start = lap ? packed_sizes[i] - 1u : 0u,
                                                         .packed = true,
                                                         .start_wrap_0 = lap,
                                                         .seed = seed },
                                     t);
        }
}

static void run_devices(struct totals *t)
{
        static const char *const args[] = {
                "without=seek",
                "without=tell",
                "without=live",
                "without=live+seek+late+tell+orderly+log+ctrl",
                "without=late",
                "without=log",
                "without=orderly,repeat=1",
                "without=ctrl+irq_anyfd+hold_keeps",
                "without=hold_keeps",
                "without=ring_event_idx+mrg_rxbuf+in_order",
                "prefetch=16",
                "prefetch=64,batch=1",
                "batch=1",
                "shuffle=1",
                "shuffle=1,without=orderly,repeat=1",
                "stop_ms=3",
                "maps=8,pairs=4",
        };
        uint32_t seed = 100;

        for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
                for (int packed = 0; packed < 2; packed++, seed += 5) {
                        const struct bench b = { .driver = &vql_driver_sim, .args = args[i] };

                        run_variants(
                                &b,
                                (struct conf_ring){ .size = 64, .packed = packed, .seed = seed },
                                t);
                }
        }
}

/* ---- drivers that lie ---- */

static int run_lies(void)
{
        const struct conf_ring ring = { .size = 64, .indirect = true, .seed = 7 };
        struct conf_lie lie;
        int bad = 0;

        for (size_t i = 0; conf_lie_get(i, &lie); i++) {
                /* What a liar does wrong is done soon, so this is seldom waited for. */
                const struct bench b = { lie.driver, lie.args, 1000, 5000 };
                const struct conf_result r = run(&b, &ring, lie.check, NULL);

                printf("%-14s %s: %s\n", lie.check, lie.what, r.failed ? r.first : "NOT FOUND");
                bad += !r.failed;
        }
        return bad;
}

int main(void)
{
        struct totals t = { 0 };
        int believed;

        setvbuf(stdout, NULL, _IOLBF, 0);
        believed = run_lies();

        run_rings(&t);
        run_devices(&t);
        printf("%u runs: %u checks passed, %u failed, %u do not concern the device; "
               "%d lies believed\n",
               t.runs, t.passed, t.failed, t.skipped, believed);
        return t.failed || believed;
}
