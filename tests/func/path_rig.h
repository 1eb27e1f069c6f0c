/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_PATH_RIG_H
#define FUNC_PATH_RIG_H

/*
 * Ports with a simulated NIC, whose rings can be on any path.  The NIC's wire and the uplink both
 * send everything back, each on its own: a packet that is on one of them when the path changes
 * waits there until a path comes by again.
 */

#include "host.h"

enum { PATH_BUFFERS = 128 };

extern const uint64_t path_formats[]; /* split and packed, with and without EVENT_IDX, MRG_RXBUF */
enum { PATH_FORMATS = 8 };

/* Port "p", one pair, with the device "sim,..." under a name of its own.  `uplink` may be NULL. */
void path_add(struct host *h, const char *device, const char *uplink);
/* Ask for a path for both rings, and they must have it at once. */
void path_go(struct host *h, const char *path);
void path_ask(struct host *h, const char *wish);
struct vql_ring_info path_info(struct host *h, unsigned int ring);
/* One ring, or both, are on that path, and say why (NULL: whatever). */
void path_is(struct host *h, unsigned int ring, const char *path, const char *why);
void path_both(struct host *h, const char *path, const char *why);
/* Wait for that. */
void path_wait(struct host *h, unsigned int ring, const char *path, const char *why);
void path_wait_both(struct host *h, const char *path, const char *why);

/* A port, a guest on it, and its flow sleeps on interrupts; and its end, with positions checked. */
void path_begin(struct host *h, const char *device, const struct fe_setup *s, struct guest *g);
void path_end(struct host *h, struct guest *g);
/* Every buffer is with the one who has to have it: stop and start both rings, which compares
 * positions, and have each buffer used several times. */
void path_check_buffers(struct host *h, struct guest *g);

#endif
