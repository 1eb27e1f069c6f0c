/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_PATHS_H
#define VQLIFT_PORT_PATHS_H

/*
 * The paths of a port that has a device: which ring is served how, and the moves from one path to
 * another while traffic flows.  A move leaves exactly one owner at any time (doc/architecture.md,
 * "The switch"): the last owner stops, what it has in hand is settled, the ring is at a position
 * that any owner can start from, the next owner starts, and both sides are told to look once.
 *
 * Threads: the port's control thread.  Everything but what says otherwise is called while the port
 * is parked, so that no worker has a relay or a ring.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "port/path_choice.h"
#include "sw-fallback/worker.h"

struct vql_port;
struct vql_paths; /* NULL everywhere: the port has no device */

enum { VQL_PATH_HISTORY = 64 };

/* A move of a ring, as it is told afterwards. */
struct vql_path_move {
        uint16_t ring;
        enum vql_path from, to;
        const char *why;
        int64_t at_us;    /* since 1970 */
        uint32_t took_us; /* how long the ring had no owner */
};

/*
 * Open the device that `device` names: an address or a driver's name, and its arguments behind a
 * comma.  -EINVAL no driver serves it, or what vql_device_open() says.
 */
int vql_paths_new(struct vql_port *p, const char *device, struct vql_paths **ret_paths,
                  struct vql_error *e);
void vql_paths_free(struct vql_paths *v);

/* Of virtio features `set`, those that the ring may have on any path. */
uint64_t vql_paths_features(const struct vql_paths *v, uint64_t set);

/* Bring every ring that runs to the path that is right for it now. */
void vql_paths_review(struct vql_port *p);
/* A ring is about to stop, or to change: nobody owns it afterwards, and its queue is where the last
 * owner left it. */
void vql_paths_end_ring(struct vql_port *p, uint16_t index);
/* The same for all rings; and the device no longer reaches the guest's memory. */
void vql_paths_end_memory(struct vql_port *p);
/* The guest, or its front-end, began anew: what failed may be tried again. */
void vql_paths_forgive(struct vql_port *p);
/* Running rings: an interrupt goes somewhere else now.  Not necessarily parked. */
void vql_paths_route(struct vql_port *p, uint16_t index);
/* A worker had news of relays. */
void vql_paths_look(struct vql_port *p);
void vql_paths_wish(struct vql_port *p, enum vql_path_wish wish);

/* Of a ring that runs.  Not necessarily parked. */
enum vql_path vql_paths_of(const struct vql_port *p, uint16_t index);
const char *vql_paths_why(const struct vql_port *p, uint16_t index);
/* What a lane needs to serve a ring on the relay path. */
struct vql_lane_relay vql_paths_relay(const struct vql_port *p, uint16_t index);
/* Name of the driver and address, and how the device is, for people. */
const char *vql_paths_driver(const struct vql_paths *v);
const char *vql_paths_address(const struct vql_paths *v);
const char *vql_paths_device_state(const struct vql_paths *v);
enum vql_path_wish vql_paths_wished(const struct vql_paths *v);
/* Move i, 0 is the newest; NULL past the oldest that is remembered. */
const struct vql_path_move *vql_paths_move(const struct vql_paths *v, size_t i);

#endif
