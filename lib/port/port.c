/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "base/bits.h"
#include "memory/userfault.h"
#include "port/offer.h"
#include "port/paths.h"

enum {
        DEADLINE_US = 5 * 1000 * 1000, /* for the rest of a message, or for a peer to read */
        DEFAULT_MODE = 0660,
};

static uint64_t now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int64_t wall_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void end_session(struct vql_port *p)
{
        /* A worker that waits for a page of a guest that is gone could not let go of its rings. */
        vql_session_end_postcopy(p->session);
        /* A front-end that sees the end of its connection takes the rings over: QEMU completes
         * what is in them from then on.  So they stop first. */
        vql_port_stop_rings(p);
        vql_paths_end_memory(p);
        vql_paths_forgive(p);
        rte_pktmbuf_free(atomic_exchange(&p->lanes[0]->inject, NULL));
        if (p->connection)
                vql_port_look(p);
        vql_connection_free(p->connection);
        p->connection = NULL;
        vql_session_fini(p->session);
        free(p->session);
        p->session = NULL;
}

static void on_closed(void *arg, int err, const char *reason)
{
        struct vql_port *p = arg;

        vql_log(&p->log, err ? LOG_WARNING : LOG_INFO, "disconnected: %s", reason);
        snprintf(p->reason, sizeof(p->reason), "%s", reason);
        end_session(p);
        vql_timeline_end(&p->timeline, now_us(), reason);
        vql_port_move(p, VQL_PORT_WAITING);
        vql_endpoint_resume(p->endpoint);
}

static int begin_session(struct vql_port *p, int fd)
{
        struct vql_connection_params cp = {
                .loop = p->loop,
                .fd = fd,
                .log = &p->log,
                .deadline_us = DEADLINE_US,
                .closed = on_closed,
                .arg = p,
        };
        int rc;

        p->session = calloc(1, sizeof(*p->session));
        if (!p->session) {
                close(fd);
                return -ENOMEM;
        }
        vql_session_init(p->session, &p->offer, &vql_port_session_host, p, &p->log, p->broken_fd);
        cp.session = p->session;
        rc = vql_connection_new(&cp, &p->connection);
        if (rc < 0)
                end_session(p);
        return rc;
}

static void on_connected(void *arg, int fd)
{
        struct vql_port *p = arg;
        int rc;

        rc = begin_session(p, fd);
        if (rc < 0) {
                vql_log(&p->log, LOG_ERR, "connection refused: %s", strerror(-rc));
                vql_endpoint_resume(p->endpoint);
        } else {
                p->connections++;
                p->connected_at_us = now_us();
                p->connected_tsc = rte_rdtsc();
                vql_timeline_begin(&p->timeline, p->connected_at_us, wall_us());
                for (uint16_t i = 0; i < p->n_lanes; i++)
                        atomic_store(&p->lanes[i]->first_packet_tsc, 0);
                vql_port_move(p, VQL_PORT_CONNECTED);
                vql_log(&p->log, LOG_INFO, "connected");
        }
}

static void eventfd_drain(int fd)
{
        uint64_t n;

        (void)!read(fd, &n, sizeof(n));
}

static int on_stop(sd_event_source *src, int fd, uint32_t events, void *arg)
{
        struct vql_port *p = arg;

        (void)src;
        (void)fd;
        (void)events;
        return sd_event_exit(p->loop, 0);
}

static int on_fault(sd_event_source *src, int fd, uint32_t events, void *arg)
{
        struct vql_port *p = arg;

        (void)src;
        (void)events;
        eventfd_drain(fd);
        if (p->session)
                vql_port_handle_faults(p);
        return 0;
}

/* The front-end took memory away.  What the guest sees there is lost; end the connection. */
static int on_broken(sd_event_source *src, int fd, uint32_t events, void *arg)
{
        struct vql_port *p = arg;

        (void)src;
        (void)events;
        eventfd_drain(fd);
        if (p->session && p->session->mem && vql_mem_table_broken(p->session->mem)) {
                vql_port_move(p, VQL_PORT_BROKEN);
                on_closed(p, -EFAULT, "the front-end truncated its memory file");
        }
        return 0;
}

/* A function that another thread wants run here. */
struct vql_port_call {
        void (*fn)(struct vql_port *p, void *arg);
        void *arg;
        sem_t done;
};

static int on_call(sd_event_source *src, int fd, uint32_t events, void *arg)
{
        struct vql_port *p = arg;
        struct vql_port_call *call;

        (void)src;
        (void)events;
        eventfd_drain(fd);
        call = atomic_exchange(&p->call, NULL);
        if (call) {
                call->fn(p, call->arg);
                sem_post(&call->done);
        }
        return 0;
}

void vql_port_run(struct vql_port *p, void (*fn)(struct vql_port *p, void *arg), void *arg)
{
        struct vql_port_call call = { .fn = fn, .arg = arg };
        const uint64_t one = 1;

        sem_init(&call.done, 0, 0);
        atomic_store(&p->call, &call);
        (void)!write(p->call_fd, &one, sizeof(one));
        while (sem_wait(&call.done) < 0 && errno == EINTR)
                ;
        sem_destroy(&call.done);
}

static void *port_main(void *arg)
{
        struct vql_port *p = arg;
        int rc = sd_event_loop(p->loop);

        if (rc < 0)
                vql_log(&p->log, LOG_ERR, "event loop: %s", strerror(-rc));
        return NULL;
}

static int watch(struct vql_port *p, int *ret_fd, sd_event_io_handler_t handler, int64_t priority)
{
        sd_event_source *src = NULL;
        int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        int rc;

        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        rc = sd_event_add_io(p->loop, &src, fd, EPOLLIN, handler, p);
        if (rc >= 0)
                rc = sd_event_source_set_priority(src, priority);
        if (rc >= 0)
                rc = sd_event_source_set_floating(src, 1);
        sd_event_source_unref(src);
        return rc < 0 ? rc : 0;
}

static int make_loop(struct vql_port *p, struct vql_error *e)
{
        int rc = sd_event_new(&p->loop);

        if (rc >= 0)
                rc = watch(p, &p->stop_fd, on_stop, SD_EVENT_PRIORITY_IMPORTANT);
        if (rc >= 0)
                rc = watch(p, &p->broken_fd, on_broken, SD_EVENT_PRIORITY_IMPORTANT);
        if (rc >= 0)
                rc = watch(p, &p->fault_fd, on_fault, SD_EVENT_PRIORITY_NORMAL);
        if (rc >= 0)
                rc = watch(p, &p->call_fd, on_call, SD_EVENT_PRIORITY_NORMAL);
        if (rc < 0)
                return vql_fail(e, -rc, "port %s: event loop: %s", p->config.name, strerror(-rc));
        return 0;
}

static int make_lanes(struct vql_port *p, const struct vql_port_env *env)
{
        /* Without an uplink one lane still has the relays. */
        p->n_lanes = p->uplink ? vql_uplink_queues(p->uplink) : 1;
        p->lanes = calloc(p->n_lanes, sizeof(*p->lanes));
        p->lane_worker = calloc(p->n_lanes, sizeof(struct vql_worker *));
        p->lane_worker_index = calloc(p->n_lanes, sizeof(*p->lane_worker_index));
        if (!p->lanes || !p->lane_worker || !p->lane_worker_index)
                return -ENOMEM;
        for (uint16_t i = 0; i < p->n_lanes; i++) {
                p->lanes[i] = calloc(1, sizeof(struct vql_lane));
                if (!p->lanes[i])
                        return -ENOMEM;
                p->lane_worker[i] = env->workers[i % env->n_workers];
                p->lane_worker_index[i] = env->worker_index[i % env->n_workers];
        }
        return 0;
}

static int make_rings(struct vql_port *p)
{
        const size_t bytes = p->offer.max_rings * sizeof(*p->rings);

        p->rings = aligned_alloc(VQL_CACHE_LINE, bytes);
        if (!p->rings)
                return -ENOMEM;
        memset(p->rings, 0, bytes);
        for (uint16_t i = 0; i < p->offer.max_rings; i++) {
                p->rings[i].q.call_fd = -1;
                p->rings[i].q.index = i;
                p->rings[i].q.rx = i % 2 == 0;
        }
        return 0;
}

static int copy_config(struct vql_port *p, const struct vql_port_params *params)
{
        struct vql_port_config *c = &p->config;

        c->name = strdup(params->name);
        c->socket = strdup(params->socket);
        c->uplink = params->uplink ? strdup(params->uplink) : NULL;
        c->device = params->device ? strdup(params->device) : NULL;
        c->role = params->role == VQL_SOCKET_CLIENT ? VQL_ROLE_CLIENT : VQL_ROLE_SERVER;
        c->queue_pairs = params->queue_pairs ? params->queue_pairs : 1;
        c->uplink_queues = params->uplink_queues ? params->uplink_queues : c->queue_pairs;
        c->mtu = params->mtu;
        c->features_only = params->features_only;
        c->features_off = params->features_off;
        c->postcopy = params->postcopy;
        return c->name && c->socket && (c->uplink || !params->uplink) &&
                               (c->device || !params->device)
                       ? 0
                       : -ENOMEM;
}

static int parse_owner(const char *owner, uid_t *ret_uid, struct vql_error *e)
{
        const struct passwd *pw;
        char *end;

        if (!owner)
                return 0;
        *ret_uid = (uid_t)strtoul(owner, &end, 10);
        if (*owner && !*end)
                return 0;
        pw = getpwnam(owner);
        if (!pw)
                return vql_fail(e, EINVAL, "socket-owner: no user '%s'", owner);
        *ret_uid = pw->pw_uid;
        return 0;
}

static int parse_group(const char *group, gid_t *ret_gid, struct vql_error *e)
{
        const struct group *gr;
        char *end;

        if (!group)
                return 0;
        *ret_gid = (gid_t)strtoul(group, &end, 10);
        if (*group && !*end)
                return 0;
        gr = getgrnam(group);
        if (!gr)
                return vql_fail(e, EINVAL, "socket-group: no group '%s'", group);
        *ret_gid = gr->gr_gid;
        return 0;
}

static int make_endpoint(struct vql_port *p, const struct vql_port_params *params,
                         struct vql_error *e)
{
        struct vql_endpoint_params ep = {
                .loop = p->loop,
                .path = p->config.socket,
                .role = p->config.role,
                .mode = params->socket_mode ? params->socket_mode : DEFAULT_MODE,
                .uid = (uid_t)-1,
                .gid = (gid_t)-1,
                .log = &p->log,
                .connected = on_connected,
                .arg = p,
        };
        int rc = parse_owner(params->socket_owner, &ep.uid, e);

        if (rc == 0)
                rc = parse_group(params->socket_group, &ep.gid, e);
        if (rc == 0)
                rc = vql_endpoint_new(&ep, &p->endpoint, e);
        return rc;
}

static int open_uplink(struct vql_port *p, const struct vql_port_env *env, struct vql_error *e)
{
        const struct vql_uplink_params up = {
                .name = p->config.name,
                .spec = p->config.uplink,
                .queues = (uint16_t)p->config.uplink_queues,
                .mtu = (uint16_t)p->config.mtu,
                .pool = env->pool,
                .indirect_pool = env->indirect_pool,
                .log = &p->log,
        };

        return p->config.uplink ? vql_uplink_open(&up, &p->uplink, e) : 0;
}

/* What the device cannot do is not offered: a ring may come to it on any day. */
static int open_device(struct vql_port *p, struct vql_error *e)
{
        int rc = 0;

        if (!p->config.device)
                return 0;
        rc = vql_paths_new(p, p->config.device, &p->paths, e);
        if (rc == 0)
                p->offer.features =
                        vql_offer_close(vql_paths_features(p->paths, p->offer.features));
        return rc;
}

static void offer_postcopy(struct vql_port *p)
{
        if (vql_userfault_works())
                p->offer.protocol_features |= vql_bit(VQL_PF_PAGEFAULT);
        else
                vql_log(&p->log, LOG_WARNING, "no postcopy: this host has no userfaultfd for us");
}

/* Everything but the thread.  On an error the caller frees what was made. */
static int make_parts(struct vql_port *p, const struct vql_port_params *params,
                      const struct vql_port_env *env, struct vql_error *e)
{
        int rc = copy_config(p, params);

        if (rc < 0)
                return vql_fail(e, -rc, "port %s: out of memory", params->name);
        p->log = *env->log;
        p->log.name = p->config.name;
        p->pool = env->pool;
        p->vfio = env->vfio;
        rc = vql_offer_make(p->config.queue_pairs, p->config.features_only, p->config.features_off,
                            &p->offer, e);
        if (rc == 0 && p->config.postcopy)
                offer_postcopy(p);
        if (rc == 0)
                rc = vql_journal_open(env->state_dir, p->config.name, &p->journal, e);
        if (rc == 0)
                rc = make_loop(p, e);
        if (rc == 0)
                rc = open_uplink(p, env, e);
        if (rc == 0)
                rc = open_device(p, e);
        if (rc < 0)
                return rc;
        if (make_rings(p) < 0 || make_lanes(p, env) < 0)
                return vql_fail(e, ENOMEM, "port %s: out of memory", params->name);
        return make_endpoint(p, params, e);
}

int vql_port_new(const struct vql_port_params *params, const struct vql_port_env *env,
                 struct vql_port **ret_port, struct vql_error *e)
{
        struct vql_port *p = calloc(1, sizeof(*p));
        int rc;

        if (!p)
                return vql_fail(e, ENOMEM, "port %s: out of memory", params->name);
        p->stop_fd = p->fault_fd = p->broken_fd = p->call_fd = -1;
        rc = make_parts(p, params, env, e);
        if (rc < 0)
                goto fail;
        rc = -pthread_create(&p->thread, NULL, port_main, p);
        if (rc < 0) {
                vql_fail(e, -rc, "port %s: thread: %s", params->name, strerror(-rc));
                p->thread = 0;
                goto fail;
        }
        *ret_port = p;
        return 0;
fail:
        vql_port_free(p);
        return rc;
}

static void stop_thread(struct vql_port *p)
{
        const uint64_t one = 1;

        if (!p->thread)
                return;
        (void)!write(p->stop_fd, &one, sizeof(one));
        pthread_join(p->thread, NULL);
}

static void free_lanes(struct vql_port *p)
{
        for (uint16_t i = 0; p->lanes && i < p->n_lanes; i++) {
                if (p->lanes[i])
                        rte_pktmbuf_free(atomic_exchange(&p->lanes[i]->inject, NULL));
                free(p->lanes[i]);
        }
        free(p->lanes);
        free(p->lane_worker);
        free(p->lane_worker_index);
}

static void close_fd(int fd)
{
        if (fd >= 0)
                close(fd);
}

void vql_port_free(struct vql_port *p)
{
        if (!p)
                return;
        stop_thread(p);
        vql_endpoint_free(p->endpoint);
        if (p->session)
                end_session(p);
        free_lanes(p);
        vql_uplink_close(p->uplink);
        vql_paths_free(p->paths);
        free(p->rings);
        vql_journal_close(p->journal);
        sd_event_unref(p->loop);
        close_fd(p->stop_fd);
        close_fd(p->fault_fd);
        close_fd(p->broken_fd);
        close_fd(p->call_fd);
        free(p->config.name);
        free(p->config.socket);
        free(p->config.uplink);
        free(p->config.device);
        free(p);
}
