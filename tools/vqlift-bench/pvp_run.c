/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/pvp_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vqlift-bench/pvp_ends.h"
#include "vqlift-bench/pvp_line.h"

#define PROMPT "testpmd> "

enum {
        BURSTS = 16, /* of 32 packets, which the guest sends at first and then bounces */
        IN_FLIGHT = BURSTS * 32,
        TRIES = 2, /* rounds at most, in multiples of those asked for */
};

static const double WARM_UP = 0.15, SETTLE = 0.02;
/* Trips that differ by more are not of the same placement. */
static const double SAME = 1.5;
/* Who waits longer for a CPU was disturbed by somebody else on it. */
static const double MOST_WAITED = 0.1;

/* Both back-ends and their guests, of which two work at a time. */
struct bench {
        const struct pvp_options *o;
        struct pvp_place place;
        struct pvp_child *backend[PVP_BACKENDS], *guest[PVP_BACKENDS];
};

static const char *const sockets[PVP_BACKENDS] = { "vqlift", "vhost" };
static const char *const names[PVP_BACKENDS] = { "vqlift", "rte_vhost" };

static void close_ends(struct bench *b)
{
        for (int i = 0; i < PVP_BACKENDS; i++) {
                pvp_child_free(b->guest[i]);
                pvp_child_free(b->backend[i]);
                b->guest[i] = b->backend[i] = NULL;
        }
}

static int open_ends(struct bench *b, const struct pvp_ring *ring, bool mergeable)
{
        int rc = pvp_daemon_start(&b->place, b->o, &b->backend[PVP_VQLIFT]);

        if (rc == 0)
                rc = pvp_vhost_start(&b->place, b->o, &b->backend[PVP_RTE_VHOST]);
        for (int i = 0; i < PVP_BACKENDS && rc == 0; i++)
                rc = pvp_guest_start(&b->place, b->o, ring, mergeable, sockets[i], &b->guest[i]);
        return rc;
}

/* ---- one sample ---- */

static int backend_counters(struct bench *b, enum pvp_backend which, struct pvp_counters *ret)
{
        if (which == PVP_VQLIFT)
                return pvp_daemon_counters(&b->place, ret);
        return pvp_testpmd_counters(b->backend[which], ret);
}

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The guest's counters and when it was that they had these values. */
static int look(struct bench *b, enum pvp_backend which, struct pvp_counters *ret, double *ret_when)
{
        const double begin = now();
        const int rc = pvp_testpmd_counters(b->guest[which], ret);

        *ret_when = (begin + now()) / 2;
        return rc;
}

static int start_traffic(struct bench *b, enum pvp_backend which, unsigned int size)
{
        char line[64];
        int rc = 0;

        snprintf(line, sizeof(line), "set txpkts %u", size);
        if (which == PVP_RTE_VHOST)
                rc = pvp_child_ask(b->backend[which], "start", PROMPT);
        if (rc == 0)
                rc = pvp_child_ask(b->guest[which], line, PROMPT);
        snprintf(line, sizeof(line), "start tx_first %d", BURSTS);
        return rc < 0 ? rc : pvp_child_ask(b->guest[which], line, PROMPT);
}

/* The guest first, so that all that is under way comes to rest in its ring. */
static int stop_traffic(struct bench *b, enum pvp_backend which)
{
        int rc = pvp_child_ask(b->guest[which], "stop", PROMPT);

        if (rc == 0)
                rc = pvp_place_wait(&b->place, SETTLE);
        if (rc == 0 && which == PVP_RTE_VHOST)
                rc = pvp_child_ask(b->backend[which], "stop", PROMPT);
        return rc;
}

static bool about(uint64_t a, uint64_t b)
{
        const uint64_t rest = 2 * PVP_RING_SIZE + IN_FLIGHT;

        return (a > b ? a - b : b - a) <= rest;
}

/* What the guest sent the back-end received, and the other way round, but for what rests in rings;
 * every packet has its size. */
static int check_counters(enum pvp_backend which, const struct pvp_counters guest[2],
                          const struct pvp_counters backend[2])
{
        const uint64_t sent = guest[1].tx - guest[0].tx, received = guest[1].rx - guest[0].rx;
        const uint64_t taken = backend[1].rx - backend[0].rx;
        const uint64_t given = backend[1].tx - backend[0].tx;

        if (received > IN_FLIGHT && about(sent, taken) && about(given, received))
                return 0;
        fprintf(stderr,
                "vqlift-bench pvp: %s: packets do not go both ways: guest sent %ju, back-end "
                "received %ju and sent %ju, guest received %ju\n",
                names[which], (uintmax_t)sent, (uintmax_t)taken, (uintmax_t)given,
                (uintmax_t)received);
        return -EBADMSG;
}

/* Between two looks at running traffic all packets have the size that was asked for. */
static int check_bytes(enum pvp_backend which, const struct pvp_counters n[2], unsigned int size)
{
        const uint64_t rx = n[1].rx - n[0].rx, tx = n[1].tx - n[0].tx;
        const uint64_t rx_bytes = n[1].rx_bytes - n[0].rx_bytes;
        const uint64_t tx_bytes = n[1].tx_bytes - n[0].tx_bytes;

        /* Packets and bytes are not counted in one step: a burst may lie between them. */
        if (rx > 0 && tx > 0 && about(rx_bytes / size, rx) && about(tx_bytes / size, tx))
                return 0;
        fprintf(stderr,
                "vqlift-bench pvp: %s: %ju bytes in %ju packets received, %ju in %ju sent, "
                "expected %u bytes each\n",
                names[which], (uintmax_t)rx_bytes, (uintmax_t)rx, (uintmax_t)tx_bytes,
                (uintmax_t)tx, size);
        return -EBADMSG;
}

/* Nanoseconds that one thread was ready to run and did not: proc_pid_schedstat, second number. */
static uint64_t thread_waited(int tasks, const char *thread)
{
        char path[64], text[128];
        uint64_t ns = 0;
        ssize_t n;
        int fd;

        snprintf(path, sizeof(path), "%.32s/schedstat", thread);
        fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return 0; /* it ended just now, or is no thread */
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
        text[n > 0 ? n : 0] = '\0';
        return sscanf(text, "%*u %" SCNu64, &ns) == 1 ? ns : 0;
}

/* Seconds that the threads of a program have waited for a CPU. */
static double waited(const struct pvp_child *c)
{
        char path[64];
        struct dirent *entry;
        uint64_t ns = 0;
        DIR *tasks;

        snprintf(path, sizeof(path), "/proc/%d/task", c->pid);
        tasks = opendir(path);
        if (!tasks)
                return 0;
        while ((entry = readdir(tasks)))
                if (entry->d_name[0] != '.')
                        ns += thread_waited(dirfd(tasks), entry->d_name);
        closedir(tasks);
        return (double)ns * 1e-9;
}

static int measure(struct bench *b, enum pvp_backend which, unsigned int size,
                   struct pvp_sample *ret_sample)
{
        const struct pvp_child *const ends[] = { b->guest[which], b->backend[which] };
        struct pvp_counters n[2] = { { 0 } };
        double when[2] = { 0 }, wait = 0, time;
        int rc = start_traffic(b, which, size);

        if (rc == 0)
                rc = pvp_place_wait(&b->place, WARM_UP);
        if (rc == 0)
                rc = look(b, which, &n[0], &when[0]);
        for (int i = 0; i < 2; i++)
                wait -= waited(ends[i]);
        if (rc == 0)
                rc = pvp_place_wait(&b->place, b->o->seconds);
        for (int i = 0; i < 2; i++)
                wait += waited(ends[i]);
        if (rc == 0)
                rc = look(b, which, &n[1], &when[1]);
        if (rc == 0)
                rc = stop_traffic(b, which);
        if (rc == 0)
                rc = check_bytes(which, n, size);
        if (rc < 0)
                return rc;
        time = when[1] - when[0];
        ret_sample->mpps = (double)(n[1].rx - n[0].rx) / time * 1e-6;
        ret_sample->waited = wait / time;
        return 0;
}

static int take_sample(struct bench *b, enum pvp_backend which, unsigned int size,
                       struct pvp_sample *ret_sample)
{
        struct pvp_counters guest[2], backend[2];
        int rc = pvp_line_round_trip(b->o->guest_cpu, b->o->backend_cpu, &ret_sample->trip[0]);

        if (rc == 0)
                rc = pvp_testpmd_counters(b->guest[which], &guest[0]);
        if (rc == 0)
                rc = backend_counters(b, which, &backend[0]);
        if (rc == 0)
                rc = measure(b, which, size, ret_sample);
        if (rc == 0)
                rc = pvp_testpmd_counters(b->guest[which], &guest[1]);
        if (rc == 0)
                rc = backend_counters(b, which, &backend[1]);
        if (rc == 0)
                rc = check_counters(which, guest, backend);
        if (rc == 0)
                rc = pvp_line_round_trip(b->o->guest_cpu, b->o->backend_cpu, &ret_sample->trip[1]);
        return rc;
}

/* ---- cells ---- */

/* Of one placement of the CPUs, and undisturbed. */
static bool is_good(const struct pvp_round *r)
{
        double least = r->sample[0].trip[0], most = least, wait = 0;

        for (int i = 0; i < PVP_BACKENDS; i++) {
                for (int k = 0; k < 2; k++) {
                        const double trip = r->sample[i].trip[k];

                        least = trip < least ? trip : least;
                        most = trip > most ? trip : most;
                }
                wait = r->sample[i].waited > wait ? r->sample[i].waited : wait;
        }
        return most <= SAME * least && wait <= MOST_WAITED;
}

static int by_value(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double median(double *v, unsigned int n)
{
        qsort(v, n, sizeof(*v), by_value);
        return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

enum value { VALUE_VQLIFT, VALUE_RTE_VHOST, VALUE_RATIO, VALUE_TRIP };

static double value_of(const struct pvp_round *r, enum value what)
{
        switch (what) {
        case VALUE_VQLIFT:
                return r->sample[PVP_VQLIFT].mpps;
        case VALUE_RTE_VHOST:
                return r->sample[PVP_RTE_VHOST].mpps;
        case VALUE_RATIO:
                return r->sample[PVP_VQLIFT].mpps / r->sample[PVP_RTE_VHOST].mpps;
        default:
                return r->sample[PVP_VQLIFT].trip[0];
        }
}

static double median_of(const struct pvp_cell *c, enum value what, double *v)
{
        unsigned int n = 0;

        for (unsigned int i = 0; i < c->rounds; i++)
                if (c->round[i].kept)
                        v[n++] = value_of(&c->round[i], what);
        return n > 0 ? median(v, n) : 0;
}

static int sum_up(struct pvp_cell *c)
{
        double *v = calloc(c->rounds + 1, sizeof(*v));

        if (!v)
                return -ENOMEM;
        c->mpps[PVP_VQLIFT] = median_of(c, VALUE_VQLIFT, v);
        c->mpps[PVP_RTE_VHOST] = median_of(c, VALUE_RTE_VHOST, v);
        c->ratio = median_of(c, VALUE_RATIO, v);
        c->trip = median_of(c, VALUE_TRIP, v);
        free(v);
        return 0;
}

/* Rounds until enough of them are good. */
static int run_cell(struct bench *b, struct pvp_cell *c)
{
        const unsigned int most = TRIES * b->o->rounds;
        int rc = 0;

        c->round = calloc(most, sizeof(*c->round));
        if (!c->round)
                return -ENOMEM;
        while (rc == 0 && c->rounds < most && c->kept < b->o->rounds) {
                struct pvp_round *r = &c->round[c->rounds];

                for (int i = 0; i < PVP_BACKENDS && rc == 0; i++)
                        rc = take_sample(b, (enum pvp_backend)i, c->size, &r->sample[i]);
                if (rc < 0)
                        break;
                r->kept = is_good(r);
                c->kept += r->kept;
                c->rounds++;
        }
        return rc < 0 ? rc : sum_up(c);
}

static int run_ring(struct bench *b, const struct pvp_ring *ring, bool mergeable,
                    void (*done)(const struct pvp_cell *), struct pvp_run *run)
{
        int rc = open_ends(b, ring, mergeable);

        for (unsigned int i = 0; i < b->o->sizes && rc == 0; i++) {
                struct pvp_cell *c = &run->cell[run->cells];

                *c = (struct pvp_cell){ .ring = ring,
                                        .mergeable = mergeable,
                                        .size = b->o->size[i] };
                rc = run_cell(b, c);
                if (rc < 0) {
                        free(c->round);
                        break;
                }
                run->cells++;
                done(c);
        }
        close_ends(b);
        return rc;
}

int pvp_run(const struct pvp_options *o, void (*done)(const struct pvp_cell *cell),
            struct pvp_run *ret_run)
{
        struct bench b = { .o = o };
        int rc;

        *ret_run = (struct pvp_run){ .options = o };
        ret_run->cell = calloc(2ul * PVP_RINGS * PVP_SIZES_MAX, sizeof(*ret_run->cell));
        if (!ret_run->cell)
                return -ENOMEM;
        rc = pvp_place_init(&b.place);
        for (unsigned int i = 0; i < 2 * PVP_RINGS && rc == 0; i++)
                if (o->ring[i / 2] && o->mergeable[i % 2])
                        rc = run_ring(&b, &pvp_rings[i / 2], i % 2, done, ret_run);
        pvp_place_fini(&b.place);
        return rc;
}

void pvp_run_fini(struct pvp_run *run)
{
        for (size_t i = 0; i < run->cells; i++)
                free(run->cell[i].round);
        free(run->cell);
}
