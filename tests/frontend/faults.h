/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_FAULTS_H
#define FRONTEND_FAULTS_H

/*
 * Wrong things that a driver can do to its ring, one function each, in a table so that a test can
 * do them all in turn.  Each offers one spoiled buffer, built by fe_driver_add() on a right one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/driver.h"

/* What a right back-end does about it. */
enum fe_effect {
        FE_BREAKS_RING, /* stops the ring and tells the error eventfd */
        FE_RETURNED,    /* returns the buffer and goes on; nothing is sent */
        FE_ACCEPTED,    /* odd but right: the buffer is used normally */
        FE_ANY,         /* either of these; it must only survive */
};

enum { FE_FOR_SPLIT = 1, FE_FOR_PACKED = 2, FE_FOR_BOTH = 3 };

struct fe_fault_room; /* prepared buffers */

struct fe_ring_fault {
        const char *name;
        unsigned int formats;
        bool tx, rx;   /* on which of the rings it makes sense */
        bool indirect; /* needs INDIRECT_DESC */
        enum fe_effect effect;
        /* Spoil what was added last, before it is published.  NULL: `add` does everything. */
        void (*spoil)(struct fe_driver *d, const struct fe_fault_room *room);
        int (*add)(struct fe_driver *d, const struct fe_fault_room *room);
};

extern const struct fe_ring_fault fe_ring_faults[];
extern const size_t fe_ring_fault_count;

/* Buffers to be spoiled, allocated once from the driver's memory. */
int fe_fault_room_new(struct fe_memory *m, int region, struct fe_fault_room **ret_room);
void fe_fault_room_free(struct fe_fault_room *room);

/* Add, spoil, publish; the caller kicks. 0 or -errno. */
int fe_fault_inject(const struct fe_ring_fault *f, struct fe_driver *d, bool rx,
                    const struct fe_fault_room *room);

/* A second guest CPU that keeps changing one aligned word between two values while the device may
 * be reading it (double fetches). */
struct fe_flipper;
int fe_flipper_start(volatile void *word, unsigned int bytes, uint64_t a, uint64_t b,
                     struct fe_flipper **ret_flipper);
void fe_flipper_stop(struct fe_flipper *f); /* NULL is fine; leaves `a` */

#endif
