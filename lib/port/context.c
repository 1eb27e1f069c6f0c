/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <rte_errno.h>
#include <rte_mbuf.h>

#include "memory/sigbus.h"
#include "port/eal.h"
#include "vfio/vfio.h"

enum {
        DEFAULT_MEMORY_MB = 256,
        MIN_MEMORY_MB = 64,
        MBUF_FOOTPRINT = 2432, /* data room, headroom, struct rte_mbuf, pool header */
        INDIRECT_MBUFS = 8192,
        MBUF_CACHE = 256,
        MAX_WORKERS = 64,
};

static int make_pools(struct vql *v, unsigned int memory_mb)
{
        /* Not all of it: uplinks want their share, net_tap 3 MiB a queue. */
        const unsigned int n =
                (unsigned int)((uint64_t)memory_mb * 1024 * 1024 * 3 / 8 / MBUF_FOOTPRINT);
        char name[RTE_MEMPOOL_NAMESIZE];

        snprintf(name, sizeof(name), "vqlift-%" PRIxPTR, (uintptr_t)v & 0xffffffff);
        v->pool = rte_pktmbuf_pool_create(name, n, MBUF_CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                          SOCKET_ID_ANY);
        snprintf(name, sizeof(name), "vqlift-i-%" PRIxPTR, (uintptr_t)v & 0xffffffff);
        v->indirect_pool =
                rte_pktmbuf_pool_create(name, INDIRECT_MBUFS, MBUF_CACHE, 0, 0, SOCKET_ID_ANY);
        if (!v->pool || !v->indirect_pool)
                return vql_fail(&v->error, ENOMEM, "packet memory: %u buffers in %u MiB: %s", n,
                                memory_mb, rte_strerror(rte_errno));
        return 0;
}

static int make_workers(struct vql *v, const struct vql_params *p)
{
        const unsigned int n = p->n_worker_cpus ? p->n_worker_cpus : 1;

        if (n > MAX_WORKERS)
                return vql_fail(&v->error, EINVAL, "%u workers, expected at most %d", n,
                                MAX_WORKERS);
        v->workers = calloc(n, sizeof(struct vql_worker *));
        v->worker_cpu = calloc(n, sizeof(*v->worker_cpu));
        v->worker_lanes = calloc(n, sizeof(*v->worker_lanes));
        if (!v->workers || !v->worker_cpu || !v->worker_lanes)
                return vql_fail(&v->error, ENOMEM, "out of memory");
        for (unsigned int i = 0; i < n; i++) {
                struct vql_worker_params wp = {
                        .index = i,
                        .cpu = p->n_worker_cpus ? (int)p->worker_cpus[i] : -1,
                        .log = &v->log,
                };
                int rc = vql_worker_new(&wp, &v->workers[i], &v->error);

                if (rc < 0)
                        return rc;
                v->worker_cpu[i] = wp.cpu;
                v->n_workers++;
        }
        return 0;
}

static int make_state_dir(struct vql *v, const char *dir)
{
        if (!dir)
                return 0;
        v->state_dir = strdup(dir);
        if (!v->state_dir)
                return vql_fail(&v->error, ENOMEM, "out of memory");
        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
                return vql_fail(&v->error, errno, "state directory %s: %s", dir, strerror(errno));
        return 0;
}

static int make_vfio(struct vql *v)
{
        struct vql_vfio_place place = vql_vfio_host;

        place.log = &v->log;
        return vql_vfio_new(&place, &v->vfio, &v->error);
}

static int make_parts(struct vql *v, const struct vql_params *p)
{
        const unsigned int mb = p->memory_mb ? p->memory_mb : DEFAULT_MEMORY_MB;
        const struct vql_eal_params ep = {
                .pci = p->pci,
                .n_pci = p->n_pci,
                .memory_mb = mb,
                .no_huge = p->no_huge,
                .log = &v->log,
        };
        int rc = 0;

        if (mb < MIN_MEMORY_MB)
                rc = vql_fail(&v->error, EINVAL, "packet memory of %u MiB, expected at least %d",
                              mb, MIN_MEMORY_MB);
        if (rc == 0)
                rc = vql_eal_start(&ep, &v->error);
        if (rc == 0)
                rc = vql_sigbus_install();
        if (rc == 0)
                rc = make_state_dir(v, p->state_dir);
        if (rc == 0)
                rc = make_vfio(v);
        if (rc == 0)
                rc = make_pools(v, mb);
        if (rc == 0)
                rc = make_workers(v, p);
        return rc;
}

int vql_create(const struct vql_params *params, struct vql **ret_vql, char *ret_error, size_t n)
{
        struct vql *v = calloc(1, sizeof(*v));
        int rc = -ENOMEM;

        if (v && params->size != sizeof(*params)) {
                rc = vql_fail(&v->error, EINVAL, "vql_params.size is %zu, expected %zu",
                              params->size, sizeof(*params));
        } else if (v) {
                v->log.write = params->log;
                v->log.arg = params->log_arg;
                v->log.level = params->log_level ? params->log_level : LOG_INFO;
                rc = make_parts(v, params);
        }
        if (rc == 0) {
                *ret_vql = v;
                return 0;
        }
        if (ret_error && n > 0)
                snprintf(ret_error, n, "%s", v ? v->error.text : "out of memory");
        vql_destroy(v);
        return rc;
}

void vql_close_ports(struct vql *v)
{
        while (v && v->n_ports > 0)
                vql_port_free(v->ports[--v->n_ports]);
}

void vql_destroy(struct vql *v)
{
        if (!v)
                return;
        vql_close_ports(v);
        vql_vfio_free(v->vfio);
        for (unsigned int i = 0; i < v->n_workers; i++)
                vql_worker_free(v->workers[i]);
        rte_mempool_free(v->pool);
        rte_mempool_free(v->indirect_pool);
        free(v->ports);
        free(v->workers);
        free(v->worker_cpu);
        free(v->worker_lanes);
        free(v->state_dir);
        free(v);
}

const char *vql_last_error(const struct vql *v)
{
        return v->error.text;
}

const char *vql_version(void)
{
        return VQL_VERSION;
}
