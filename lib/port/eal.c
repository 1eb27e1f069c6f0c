/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/eal.h"

#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

enum { MAX_ARGS = 64, MAX_PCI = 24 };

struct args {
        char *v[MAX_ARGS];
        int n;
};

static void add(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct args *a, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        if (a->n < MAX_ARGS - 1 && vasprintf(&a->v[a->n], fmt, ap) >= 0)
                a->n++;
        va_end(ap);
}

static unsigned long read_number(const char *path)
{
        FILE *f = fopen(path, "re");
        unsigned long n = 0;

        if (!f)
                return 0;
        if (fscanf(f, "%lu", &n) != 1)
                n = 0;
        fclose(f);
        return n;
}

/* Are at least `mb` MiB of hugepages of one size free? */
static bool hugepages_free(unsigned int mb)
{
        bool enough = false;
        glob_t g;

        if (glob("/sys/kernel/mm/hugepages/hugepages-*kB/free_hugepages", 0, NULL, &g) != 0)
                return false;
        for (size_t i = 0; i < g.gl_pathc; i++) {
                unsigned long kb = 0;

                if (sscanf(g.gl_pathv[i], "/sys/kernel/mm/hugepages/hugepages-%lukB", &kb) == 1 &&
                    read_number(g.gl_pathv[i]) * kb / 1024 >= mb)
                        enough = true;
        }
        globfree(&g);
        return enough;
}

static int first_cpu(const cpu_set_t *set)
{
        for (int i = 0; i < CPU_SETSIZE; i++)
                if (CPU_ISSET(i, set))
                        return i;
        return 0;
}

/* DPDK's lines come without a level; warnings and worse are let through, and some of those are
 * harmless. */
static ssize_t write_dpdk_log(void *cookie, const char *buf, size_t n)
{
        const struct vql_log *log = cookie;
        int len = (int)n;

        while (len > 0 && (buf[len - 1] == '\n' || buf[len - 1] == '\r'))
                len--;
        if (len > 0)
                vql_log(log, LOG_INFO, "dpdk: %.*s", len, buf);
        return (ssize_t)n;
}

static void take_dpdk_log(const struct vql_log *log)
{
        FILE *f = fopencookie((void *)(uintptr_t)log, "w",
                              (cookie_io_functions_t){ .write = write_dpdk_log });

        if (!f)
                return;
        setvbuf(f, NULL, _IOLBF, 1024);
        rte_openlog_stream(f);
}

static void make_args(struct args *a, const struct vql_eal_params *p, int cpu)
{
        add(a, "vqlift");
        add(a, "--iova-mode=va");
        add(a, "--no-telemetry");
        add(a, "--log-level=*:warning");
        add(a, "--lcores=0@%d", cpu);
        if (p->n_pci == 0)
                add(a, "--no-pci");
        for (unsigned int i = 0; i < p->n_pci && i < MAX_PCI; i++)
                add(a, "--allow=%s", p->pci[i]);
        add(a, "-m");
        add(a, "%u", p->memory_mb);
        /* DPDK keeps --no-huge apart from --in-memory; both leave no shared files behind. */
        if (p->no_huge || !hugepages_free(p->memory_mb)) {
                add(a, "--no-huge");
                add(a, "--no-shconf");
        } else {
                add(a, "--in-memory");
        }
}

int vql_eal_start(const struct vql_eal_params *params, struct vql_error *e)
{
        struct args a = { .n = 0 };
        char *argv[MAX_ARGS];
        cpu_set_t affinity;
        int rc;

        if (params->n_pci > MAX_PCI)
                return vql_fail(e, EINVAL, "pci: %u addresses, expected at most %d", params->n_pci,
                                MAX_PCI);
        pthread_getaffinity_np(pthread_self(), sizeof(affinity), &affinity);
        make_args(&a, params, first_cpu(&affinity));
        /* EAL permutes the array, so that what is to be freed stays in another. */
        memcpy(argv, a.v, sizeof(argv));
        rc = rte_eal_init(a.n, argv);
        if (rc < 0 && rte_errno == EALREADY)
                rc = 0;
        else if (rc >= 0)
                take_dpdk_log(params->log);
        if (rc < 0)
                rc = vql_fail(e, rte_errno, "DPDK's environment does not start: %s",
                              rte_strerror(rte_errno));
        pthread_setaffinity_np(pthread_self(), sizeof(affinity), &affinity);
        for (int i = 0; i < a.n; i++)
                free(a.v[i]);
        return rc < 0 ? rc : 0;
}
