/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/daemon_params.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

unsigned int vql_daemon_params_workers(const json_t *daemon)
{
        const json_t *workers = json_object_get(daemon, "workers");

        if (json_array_size(workers) > 0)
                return (unsigned int)json_array_size(workers);
        return json_is_integer(workers) ? (unsigned int)json_integer_value(workers) : 1;
}

int vql_log_level_from_name(const char *name)
{
        static const struct {
                const char *name;
                int level;
        } levels[] = {
                { "error", LOG_ERR }, { "warning", LOG_WARNING }, { "notice", LOG_NOTICE },
                { "info", LOG_INFO }, { "debug", LOG_DEBUG },
        };

        for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++) {
                if (strcmp(levels[i].name, name) == 0)
                        return levels[i].level;
        }
        return -1;
}

/* The highest CPUs that we may use: the lowest serve most of the host's interrupts. */
static int choose_cpus(struct vql_daemon_params *p, unsigned int n, char *ret_error, size_t size)
{
        unsigned int found = 0;
        cpu_set_t set;

        CPU_ZERO(&set);
        if (sched_getaffinity(0, sizeof(set), &set) < 0) {
                snprintf(ret_error, size, "the CPUs that the daemon may use: %s", strerror(errno));
                return -errno;
        }
        for (unsigned int cpu = CPU_SETSIZE; cpu-- > 0 && found < n;) {
                if (CPU_ISSET(cpu, &set))
                        p->cpus[found++] = cpu;
        }
        if (found < n) {
                snprintf(ret_error, size,
                         "%u, expected at most %u, one for each CPU that the "
                         "daemon may use",
                         n, found);
                return -EINVAL;
        }
        p->params.n_worker_cpus = n;
        return 0;
}

static int set_workers(struct vql_daemon_params *p, const json_t *workers, char *ret_error,
                       size_t size)
{
        json_t *cpu;
        size_t i;

        p->params.worker_cpus = p->cpus;
        if (json_is_integer(workers) && json_integer_value(workers) > 1)
                return choose_cpus(p, (unsigned int)json_integer_value(workers), ret_error, size);
        json_array_foreach(workers, i, cpu) p->cpus[i] = (unsigned int)json_integer_value(cpu);
        p->params.n_worker_cpus = (unsigned int)json_array_size(workers);
        return 0;
}

static int set_pci(struct vql_daemon_params *p, const json_t *pci)
{
        json_t *address;
        size_t i;

        p->pci = calloc(json_array_size(pci) + 1, sizeof(*p->pci));
        if (!p->pci)
                return -ENOMEM;
        json_array_foreach(pci, i, address) p->pci[i] = json_string_value(address);
        p->params.pci = p->pci;
        p->params.n_pci = (unsigned int)json_array_size(pci);
        return 0;
}

int vql_daemon_params_init(struct vql_daemon_params *ret_p, const json_t *daemon, char *ret_error,
                           size_t n)
{
        const char *state_dir = json_string_value(json_object_get(daemon, "state-dir"));
        const char *level = json_string_value(json_object_get(daemon, "log-level"));
        const char *huge = json_string_value(json_object_get(daemon, "huge"));
        int r;

        *ret_p = (struct vql_daemon_params){
                .params = {
                        .size = sizeof(ret_p->params),
                        .log_level = vql_log_level_from_name(level),
                        .memory_mb = (unsigned int)json_integer_value(
                                json_object_get(daemon, "memory")),
                        .no_huge = strcmp(huge, "no") == 0,
                        .state_dir = strcmp(state_dir, "none") == 0 ? NULL : state_dir,
                },
        };
        r = set_workers(ret_p, json_object_get(daemon, "workers"), ret_error, n);
        if (r < 0)
                return r;
        return set_pci(ret_p, json_object_get(daemon, "pci"));
}

void vql_daemon_params_fini(struct vql_daemon_params *p)
{
        free(p->pci);
        p->pci = NULL;
}
