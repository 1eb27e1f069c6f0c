/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_PORT_H
#define VQLIFT_PORT_PORT_H

/*
 * A port: one vhost-user socket, its rings, its uplink, and the control thread that looks after
 * them.  The port is the only one that starts and stops rings.
 *
 * Threads: everything in here belongs to the control thread, which therefore takes no locks; the
 * context's thread creates and deletes ports, and has the control thread run what it wants to know.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include "base/error.h"
#include "base/log.h"
#include "port/journal.h"
#include "port/ring.h"
#include "port/timeline.h"
#include "sw-fallback/uplink.h"
#include "sw-fallback/worker.h"
#include "vhost_user/connection.h"
#include "vhost_user/endpoint.h"
#include "vhost_user/session.h"
#include "vqlift/vqlift.h"

struct rte_mempool;
struct vql_paths;
struct vql_port_call;
struct vql_vfio;

/* Life of a port.  The table of moves is in state.c. */
enum vql_port_state {
        VQL_PORT_WAITING,   /* for a front-end */
        VQL_PORT_CONNECTED, /* a session, no ring runs */
        VQL_PORT_RUNNING,   /* at least one ring runs */
        VQL_PORT_BROKEN,    /* guest memory is gone; the connection is about to end */
        VQL_PORT_CLOSED,
        VQL_PORT_STATES,
};

struct vql_port_config {
        char *name, *socket;
        char *uplink; /* NULL: none */
        char *device; /* NULL: none */
        enum vql_role role;
        unsigned int queue_pairs, uplink_queues, mtu;
        uint64_t features_only, features_off;
        bool postcopy;
};

struct vql_port {
        struct vql_port_config config;
        enum vql_port_state state;
        struct vql_log log;

        pthread_t thread;
        sd_event *loop;
        int stop_fd;   /* eventfd: leave the loop */
        int fault_fd;  /* eventfd: a worker found a ring faulty */
        int broken_fd; /* eventfd: the SIGBUS guard replaced a page */
        int call_fd;   /* eventfd: another thread wants `call` run */
        _Atomic(struct vql_port_call *) call;

        struct vql_offer offer;
        struct vql_endpoint *endpoint;
        struct vql_connection *connection; /* NULL: nobody is connected */
        struct vql_session *session;       /* NULL: as above */
        struct vql_journal *journal;

        struct vql_ring *rings;    /* offer.max_rings of them */
        struct vql_uplink *uplink; /* NULL: there is a device instead */
        struct vql_vfio *vfio;     /* borrowed, for its device */
        struct vql_paths *paths;   /* NULL: no device, every ring is on the software path */
        struct rte_mempool *pool;
        struct vql_lane **lanes;         /* n_lanes built ones, attached while not parked */
        struct vql_worker **lane_worker; /* lane_worker[i] serves lanes[i] */
        unsigned int *lane_worker_index;
        uint16_t n_lanes;    /* as many as the uplink has queues */
        uint16_t n_attached; /* lanes[0 .. n_attached) are with their workers */

        uint64_t connections;
        uint64_t connected_at_us, connected_tsc;
        struct vql_timeline timeline;
        uint64_t parked_at_us; /* the last time */
        char reason[VQL_TEXT_BYTES];
};

/* What the context lends to a port; all of it outlives the port. */
struct vql_port_env {
        const struct vql_log *log;
        struct rte_mempool *pool, *indirect_pool;
        struct vql_worker **workers; /* [n_lanes wanted] chosen for the lanes, in order */
        unsigned int *worker_index;
        unsigned int n_workers; /* entries of the two arrays */
        const char *state_dir;  /* or NULL */
        struct vql_vfio *vfio;  /* of the context */
};

int vql_port_new(const struct vql_port_params *params, const struct vql_port_env *env,
                 struct vql_port **ret_port, struct vql_error *e);
/* Stop the thread, disconnect, free.  NULL is fine. */
void vql_port_free(struct vql_port *p);

/* Run fn on the control thread and wait for it.  One caller at a time: the context's thread. */
void vql_port_run(struct vql_port *p, void (*fn)(struct vql_port *p, void *arg), void *arg);

/* Move to another state: checks the table, logs.  The state stays on a forbidden move. */
void vql_port_move(struct vql_port *p, enum vql_port_state to);
const char *vql_port_state_name(enum vql_port_state s);
bool vql_port_may_move(enum vql_port_state from, enum vql_port_state to);

/*
 * Rings and lanes (lanes.c).  Parked, no worker touches any ring of the port; every change of rings
 * is between park and resume.
 */
void vql_port_park(struct vql_port *p);
/* Build lanes from the rings that run, and attach them.  A ring whose kick fd cannot be waited for
 * fails the whole call, and the lanes that could be attached are. */
int vql_port_resume(struct vql_port *p, struct vql_error *e);

/* Microseconds from the connection to the first packet either way, as the worker that moved it saw
 * its time-stamp counter; -1: none yet. */
int64_t vql_port_first_packet_us(const struct vql_port *p);
/* Note in the timeline how far the session is. */
void vql_port_look(struct vql_port *p);

/* A device's state, for sessions (handover.c). */
int vql_port_save_state(void *host, uint8_t ret_bytes[VQL_STATE_MAX_BYTES], struct vql_error *e);
int vql_port_load_state(void *host, const uint8_t *bytes, size_t n, struct vql_error *e);

/* Wanted against actual (apply.c): what sessions call. */
extern const struct vql_session_host vql_port_session_host;
/* Stop all rings without a reply: the front-end is gone.  Parks and resumes. */
void vql_port_stop_rings(struct vql_port *p);
/* A worker reported faults: break those rings, tell the front-end. */
void vql_port_handle_faults(struct vql_port *p);

#endif
