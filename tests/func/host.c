/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

/* The newest lines of the library's log, for host_logged(); VQL_TEST_LOG=1 shows them, too. */
enum { LOG_LINES = 64, LOG_LINE = 256 };

static struct {
        pthread_mutex_t lock;
        char line[LOG_LINES][LOG_LINE];
        unsigned int next;
        bool show;
} journal = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note_line(void *arg, int level, const char *name, const char *line)
{
        (void)arg;
        pthread_mutex_lock(&journal.lock);
        snprintf(journal.line[journal.next++ % LOG_LINES], LOG_LINE, "%s: %s", name ? name : "-",
                 line);
        pthread_mutex_unlock(&journal.lock);
        if (journal.show)
                fprintf(stderr, "<%d> %s: %s\n", level, name ? name : "-", line);
}

bool host_logged(const char *text)
{
        bool found = false;

        pthread_mutex_lock(&journal.lock);
        for (unsigned int i = 0; i < LOG_LINES && !found; i++)
                found = strstr(journal.line[i], text);
        pthread_mutex_unlock(&journal.lock);
        return found;
}

void host_log_clear(void)
{
        pthread_mutex_lock(&journal.lock);
        memset(journal.line, 0, sizeof(journal.line));
        pthread_mutex_unlock(&journal.lock);
}

/* ---- life cycle ---- */

static int start_library(struct host *h)
{
        const struct vql_params p = {
                .size = sizeof(p),
                .log = note_line,
                .log_level = LOG_DEBUG,
                .memory_mb = 64,
                .no_huge = true,
        };
        char error[256] = "";
        int err = vql_create(&p, &h->vql, error, sizeof(error));

        if (err < 0)
                fprintf(stderr, "vql_create: %s\n", error);
        return err;
}

int host_setup(void **state)
{
        struct host *h = calloc(1, sizeof(*h));

        if (!h)
                return -1;
        journal.show = getenv("VQL_TEST_LOG");
        snprintf(h->dir, sizeof(h->dir), "/tmp/vqlfunc.XXXXXX");
        if (!mkdtemp(h->dir) || start_library(h) < 0) {
                free(h);
                return -1;
        }
        sigaction(SIGBUS, NULL, &h->on_sigbus);
        *state = h;
        return 0;
}

int host_teardown(void **state)
{
        struct host *h = *state;

        vql_destroy(h->vql);
        /* Ports take their sockets with them: the directory must be empty. */
        if (rmdir(h->dir) < 0) {
                fprintf(stderr, "%s: %s\n", h->dir, strerror(errno));
                return -1;
        }
        free(h);
        return 0;
}

int host_tidy(void **state)
{
        const struct host *h = *state;

        while (vql_port_count(h->vql) > 0)
                if (vql_port_del(h->vql, vql_port_name(h->vql, 0)) < 0)
                        return -1;
        return 0;
}

const char *host_path(const struct host *h, const char *name)
{
        static _Thread_local char path[VQL_PATH_BYTES];

        snprintf(path, sizeof(path), "%s/%s", h->dir, name);
        return path;
}

void host_add(struct host *h, const char *name, unsigned int queue_pairs)
{
        const struct vql_port_params p = {
                .size = sizeof(p),
                .name = name,
                .socket = host_path(h, name),
                .role = VQL_SOCKET_SERVER,
                .queue_pairs = queue_pairs,
                .uplink = "loopback",
                .worker = -1,
        };

        sigaction(SIGBUS, &h->on_sigbus, NULL);
        if (vql_port_add(h->vql, &p) < 0)
                fail_msg("port %s: %s", name, vql_last_error(h->vql));
}

void host_del(struct host *h, const char *name)
{
        if (vql_port_del(h->vql, name) < 0)
                fail_msg("port %s: %s", name, vql_last_error(h->vql));
}

/* ---- looking ---- */

struct vql_port_info host_info(struct host *h, const char *name)
{
        struct vql_port_info info;

        if (vql_port_get_info(h->vql, name, &info) < 0)
                fail_msg("port %s: %s", name, vql_last_error(h->vql));
        return info;
}

void host_wait_state(struct host *h, const char *name, const char *state)
{
        struct vql_port_info info = host_info(h, name);

        for (int ms = 0; ms < HOST_WAIT_MS && strcmp(info.state, state) != 0; ms++) {
                poll(NULL, 0, 1);
                info = host_info(h, name);
        }
        if (strcmp(info.state, state) != 0)
                fail_msg("port %s is %s, not %s (%s)", name, info.state, state, info.reason);
}

uint64_t host_stat(struct host *h, const char *name, unsigned int ring, const char *stat)
{
        unsigned int n;
        const char *const *names = vql_ring_stat_names(&n);
        uint64_t values[64];

        assert_in_range(n, 1, 64);
        assert_int_equal(vql_port_get_ring_stats(h->vql, name, ring, values, n), 0);
        for (unsigned int i = 0; i < n; i++)
                if (strcmp(names[i], stat) == 0)
                        return values[i];
        fail_msg("no statistic is called %s", stat);
        return 0;
}

static unsigned int count_fds(void)
{
        DIR *d = opendir("/proc/self/fd");
        unsigned int n = 0;

        assert_non_null(d);
        while (readdir(d))
                n++;
        closedir(d);
        return n;
}

struct host_counts host_count(void)
{
        struct host_counts c = { .fds = count_fds() };
        FILE *f = fopen("/proc/self/maps", "re");
        char line[512];

        assert_non_null(f);
        while (fgets(line, sizeof(line), f)) {
                c.maps++;
                c.shared_maps += strstr(line, "rw-s ") != NULL;
        }
        fclose(f);
        return c;
}

/* ---- guests ---- */

void expect_result(const struct fe_frontend *fe, const char *call, int got, int want)
{
        if (got != want)
                fail_msg("%s: %d (%s), expected %d (%s): %s", call, got, strerror(-got), want,
                         strerror(-want), fe_frontend_error(fe));
}

struct fe_frontend *host_connect(struct host *h, const char *name)
{
        struct fe_frontend *fe;

        assert_int_equal(fe_frontend_connect(host_path(h, name), &fe), 0);
        return fe;
}

void guest_net(struct guest *g, const struct fe_net_params *params)
{
        struct fe_net_params p = *params;

        p.fe = g->fe;
        fe_net_free(g->net);
        g->net = NULL;
        assert_int_equal(fe_net_new(&p, &g->net), 0);
        g->flow.net = g->net;
}

void guest_adopt(struct guest *g, int fd, const struct fe_setup *setup)
{
        const struct fe_net_params p = { .region = FE_ANY_REGION, .buffers = 128 };
        struct fe_setup s = *setup;

        *g = (struct guest){ 0 };
        if (!s.mem) {
                assert_int_equal(fe_memory_new_layout(FE_MOSAIC, &g->mem), 0);
                s.mem = g->mem;
        }
        assert_int_equal(fe_frontend_new(fd, &g->fe), 0);
        expect_fe(g->fe, fe_frontend_setup(g->fe, &s), 0);
        guest_net(g, &p);
}

void guest_start(struct guest *g, struct host *h, const char *name, const struct fe_setup *setup)
{
        int fd;

        assert_int_equal(fe_socket_connect(host_path(h, name), HOST_WAIT_MS, &fd), 0);
        guest_adopt(g, fd, setup);
}

void guest_end(struct guest *g)
{
        fe_net_free(g->net);
        fe_frontend_free(g->fe);
        fe_memory_free(g->mem);
        *g = (struct guest){ 0 };
}

bool flow_moves(const struct fe_flow *f, uint64_t n)
{
        uint64_t end = fe_flow_progress(f) + n;

        for (int ms = 0; ms < HOST_WAIT_MS && fe_flow_progress(f) < end; ms++)
                poll(NULL, 0, 1);
        return fe_flow_progress(f) >= end;
}

void guest_traffic(struct guest *g, uint64_t n)
{
        if (fe_flow_run(&g->flow, n) < 0)
                fail_msg("%s", g->flow.error.s);
}
