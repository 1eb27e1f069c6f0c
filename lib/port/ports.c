/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/context.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "port/paths.h"

enum { MAX_PAIRS = 128 };

static struct vql_port *find(const struct vql *v, const char *name)
{
        for (size_t i = 0; i < v->n_ports; i++)
                if (strcmp(v->ports[i]->config.name, name) == 0)
                        return v->ports[i];
        return NULL;
}

struct vql_port *vql_context_port(struct vql *v, const char *name)
{
        struct vql_port *p = find(v, name);

        if (!p)
                vql_fail(&v->error, ENOENT, "no port '%s'", name);
        return p;
}

static int check_name(const struct vql *v, const char *name, struct vql_error *e)
{
        const size_t len = name ? strlen(name) : 0;

        if (len == 0 || len >= VQL_NAME_BYTES)
                return vql_fail(e, EINVAL, "name: %zu characters, expected 1 to %d", len,
                                VQL_NAME_BYTES - 1);
        for (const char *c = name; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
                        return vql_fail(e, EINVAL,
                                        "name '%s': expected letters, digits, '-', '_', '.'", name);
        /* The name becomes a file name in the state directory. */
        if (name[0] == '.')
                return vql_fail(e, EINVAL, "name '%s': expected not to begin with '.'", name);
        if (find(v, name))
                return vql_fail(e, EEXIST, "port '%s' exists already", name);
        return 0;
}

static int check_params(const struct vql *v, const struct vql_port_params *p, struct vql_error *e)
{
        int rc;

        if (p->size != sizeof(*p))
                return vql_fail(e, EINVAL, "vql_port_params.size is %zu, expected %zu", p->size,
                                sizeof(*p));
        rc = check_name(v, p->name, e);
        if (rc < 0)
                return rc;
        if (!p->socket || !p->socket[0] || strlen(p->socket) >= VQL_PATH_BYTES)
                return vql_fail(e, EINVAL, "socket: expected a path of 1 to %d characters",
                                VQL_PATH_BYTES - 1);
        if ((p->uplink || !p->device) && (!p->uplink || !p->uplink[0]))
                return vql_fail(e, EINVAL, "uplink: expected \"loopback\" or a DPDK device");
        if (p->queue_pairs > MAX_PAIRS)
                return vql_fail(e, EINVAL, "queue-pairs: %u, expected 1 to %d", p->queue_pairs,
                                MAX_PAIRS);
        if (p->uplink_queues > MAX_PAIRS)
                return vql_fail(e, EINVAL, "uplink-queues: %u, expected 1 to %d", p->uplink_queues,
                                MAX_PAIRS);
        if (p->mtu && (p->mtu < VQL_MTU_MIN || p->mtu > VQL_MTU_MAX))
                return vql_fail(e, EINVAL, "mtu: %u, expected %d to %d", p->mtu, VQL_MTU_MIN,
                                VQL_MTU_MAX);
        if (p->worker < -1 || p->worker >= (int)v->n_workers)
                return vql_fail(e, EINVAL, "worker: %d, expected -1 to %u", p->worker,
                                v->n_workers - 1);
        return 0;
}

/* Choose workers for up to n lanes: the one asked for, or the least laden in turn. */
static void choose_workers(const struct vql *v, int pinned, unsigned int n,
                           struct vql_worker **workers, unsigned int *index)
{
        unsigned int lanes[VQL_LANE_MAX_RINGS] = { 0 };

        memcpy(lanes, v->worker_lanes, v->n_workers * sizeof(lanes[0]));
        for (unsigned int i = 0; i < n; i++) {
                unsigned int best = 0;

                for (unsigned int w = 1; w < v->n_workers; w++)
                        if (lanes[w] < lanes[best])
                                best = w;
                if (pinned >= 0)
                        best = (unsigned int)pinned;
                lanes[best]++;
                workers[i] = v->workers[best];
                index[i] = best;
        }
}

/* The lanes that a port has count for the choice of the next port's workers. */
static void count_lanes(struct vql *v, const struct vql_port *p, int sign)
{
        for (uint16_t i = 0; i < p->n_lanes; i++)
                v->worker_lanes[p->lane_worker_index[i]] += (unsigned int)sign;
}

int vql_port_add(struct vql *v, const struct vql_port_params *params)
{
        struct vql_worker *workers[MAX_PAIRS];
        unsigned int index[MAX_PAIRS];
        const struct vql_port_env env = {
                .log = &v->log,
                .pool = v->pool,
                .indirect_pool = v->indirect_pool,
                .workers = workers,
                .worker_index = index,
                .n_workers = MAX_PAIRS,
                .state_dir = v->state_dir,
                .vfio = v->vfio,
        };
        struct vql_port **ports, *p;
        int rc = check_params(v, params, &v->error);

        if (rc < 0)
                return rc;
        ports = reallocarray(v->ports, v->n_ports + 1, sizeof(struct vql_port *));
        if (!ports)
                return vql_fail(&v->error, ENOMEM, "port %s: out of memory", params->name);
        v->ports = ports;
        choose_workers(v, params->worker, MAX_PAIRS, workers, index);
        rc = vql_port_new(params, &env, &p, &v->error);
        if (rc < 0)
                return rc;
        count_lanes(v, p, 1);
        v->ports[v->n_ports++] = p;
        return 0;
}

int vql_port_del(struct vql *v, const char *name)
{
        struct vql_port *p = vql_context_port(v, name);
        size_t i = 0;

        if (!p)
                return -ENOENT;
        while (v->ports[i] != p)
                i++;
        memmove(&v->ports[i], &v->ports[i + 1], (v->n_ports - i - 1) * sizeof(struct vql_port *));
        v->n_ports--;
        count_lanes(v, p, -1);
        vql_journal_forget(p->journal);
        vql_port_free(p);
        return 0;
}

size_t vql_port_count(const struct vql *v)
{
        return v->n_ports;
}

const char *vql_port_name(const struct vql *v, size_t i)
{
        return i < v->n_ports ? v->ports[i]->config.name : NULL;
}

static void set_wish(struct vql_port *p, void *arg)
{
        const int *wish = arg;

        vql_port_park(p);
        vql_paths_wish(p, (enum vql_path_wish) * wish);
        (void)vql_port_resume(p, NULL);
}

int vql_port_set_path(struct vql *v, const char *name, const char *path)
{
        int wish = vql_path_wish_from_name(path);
        struct vql_port *p = vql_context_port(v, name);

        if (!p)
                return -ENOENT;
        if (wish < 0)
                return vql_fail(&v->error, EINVAL,
                                "path: '%s', expected auto, direct, relay or software", path);
        if (!p->paths)
                return vql_fail(&v->error, EINVAL, "port %s has no device", name);
        vql_port_run(p, set_wish, &wish);
        return 0;
}
