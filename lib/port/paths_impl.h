/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_PATHS_IMPL_H
#define VQLIFT_PORT_PATHS_IMPL_H

/* What the parts of the path code share: paths.c (choice and moves), path_device.c (the device's
 * life), path_queue.c (one queue). */

#include <systemd/sd-event.h>

#include "port/device.h"
#include "port/paths.h"
#include "port/port.h"
#include "sw-fallback/relay.h"

/* Memory of a shadow ring, and where the device sees it. */
struct vql_arena {
        void *va; /* NULL: none yet */
        uint64_t iova;
        struct vql_relay_layout layout;
        uint16_t size; /* slots */
        bool packed, mapped;
};

struct vql_path_queue {
        struct vql_port *port;
        uint16_t index; /* of the ring, and of the device's queue */
        enum vql_path path;
        const char *why;
        bool refused_direct, refused_relay;
        bool order_lost; /* the device returned buffers out of order */
        struct vql_relay *relay;
        bool at_wrap; /* the relay was told to stop there */
        struct vql_pending *pending;
        struct vql_arena arena;
        int shadow_fd;         /* the device's interrupts, on the relay path */
        sd_event_source *kick; /* the guest's kicks, on the direct path */
};

struct vql_paths {
        struct vql_port *port;
        const struct vql_driver *driver;
        char *spec, *address, *args; /* the latter two point into spec */
        struct vql_device *device;   /* NULL: gone */
        const char *given_up;        /* why it is not tried again, until forgive(), or NULL */
        const char *no_device;       /* why it serves nothing now, or NULL; of the last prepare() */
        struct vql_map *maps;        /* of the guest's memory, that it reaches; NULL: none */
        size_t n_maps;
        uint16_t pairs;      /* that it was told are in use */
        unsigned int resets; /* after failures, since forgive() */
        enum vql_path_wish wish;
        sd_event_source *events, *reopen;
        struct vql_path_queue *queue; /* one a ring of the port */
        struct vql_path_move history[VQL_PATH_HISTORY];
        uint64_t n_moves;
};

/* ---- path_device.c ---- */

/* Open it and watch its events. */
int vql_path_device_open(struct vql_paths *v, struct vql_error *e);
void vql_path_device_close(struct vql_paths *v);
/* Make it ready for the session's rings, or say in no_device why not. */
void vql_path_device_prepare(struct vql_paths *v);
/* It did not do what it must: take it out of every ring, and reset it. */
void vql_path_device_fail(struct vql_paths *v, const char *why, const struct vql_error *e);
/* It does not reach the guest's memory afterwards. */
void vql_path_device_unmap(struct vql_paths *v);

/* ---- path_queue.c ---- */

/* Give a ring that nobody owns to an owner.  -errno: nobody owns it still. */
int vql_path_queue_up(struct vql_path_queue *pq, enum vql_path path, struct vql_error *e);
/* Take it back.  Afterwards nobody owns it and its queue is at a canonical position, also if that
 * fails: then the device is not to be trusted before a reset. */
int vql_path_queue_down(struct vql_path_queue *pq, struct vql_error *e);
/* A ring that the device works on: kicks and interrupts go by other descriptors now. */
int vql_path_queue_route(struct vql_path_queue *pq, struct vql_error *e);
/* The device was reset, or is gone: settle what it did before. */
void vql_path_queue_wreck(struct vql_path_queue *pq);
bool vql_path_queue_initial(const struct vql_path_queue *pq);
void vql_path_queue_fini(struct vql_path_queue *pq);

#endif
