/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_FAULTS_H
#define FRONTEND_FAULTS_H

/*
 * Wrong things that a driver can do to its ring, in a table so that a test can do them all in turn.
 * Each offers one buffer, built by fe_driver_add() and then spoiled before it is published.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/driver.h"

/* What a right virtio-net back-end does about it. */
enum fe_effect {
        FE_BREAKS_RING, /* stops the ring and tells the error eventfd */
        FE_RETURNED,    /* returns the buffer unused, sends nothing, goes on */
        FE_ACCEPTED,    /* odd but right: the buffer is used as any other */
        FE_ANY,         /* one of these */
};

enum { FE_FOR_SPLIT = 1, FE_FOR_PACKED = 2, FE_FOR_BOTH = 3 };

/* What a fault needs of the features that were negotiated. */
enum { FE_NEEDS_INDIRECT = 1, FE_NEEDS_OFFLOADS = 2 /* CSUM and HOST_TSO4 */ };

enum { FE_FAULT_PACKET = 600, FE_FAULT_SEGS = 64 };

/* Buffers to be spoiled, allocated once.  `packet` is what arrives at the far end if the buffer is
 * accepted: FE_FAULT_PACKET bytes of FE_NOISE_TYPE. */
struct fe_fault_room {
        struct fe_memory *mem;
        bool rx;
        size_t header; /* of virtio-net: 10 or 12 */
        uint8_t packet[FE_FAULT_PACKET];
        struct fe_seg seg[FE_FAULT_SEGS]; /* header and packet in whatever pieces */
        unsigned int n;
        uint64_t at;    /* GPA of header and packet, in one piece */
        uint64_t big;   /* GPA of 64 KiB */
        uint64_t table; /* GPA of a table of FE_FAULT_SEGS descriptors */
};
int fe_fault_room_init(struct fe_fault_room *room, struct fe_memory *m, int region, bool rx,
                       size_t header);

struct fe_ring_fault {
        const char *name;
        unsigned int formats, needs;
        bool tx, rx; /* the rings on which it makes sense */
        bool table;  /* the buffer is built as an indirect one */
        bool shown;  /* `spoil` shows it; nothing is to be published */
        enum fe_effect effect;
        /* Change room->seg before the buffer is added: NULL, nothing. */
        void (*arrange)(struct fe_fault_room *room);
        /* Spoil what was added and not published: NULL, nothing. */
        void (*spoil)(struct fe_driver *d, const struct fe_fault_room *room);
};

extern const struct fe_ring_fault fe_ring_faults[];
extern const size_t fe_ring_fault_count;

/* Add, spoil, publish; the caller kicks.  The ring needs up to 16 free descriptors. 0 or -errno.
 * The buffer's cookie is the room. */
int fe_fault_inject(const struct fe_ring_fault *f, struct fe_driver *d, struct fe_fault_room *room);

/*
 * A second guest CPU that keeps changing one aligned word between two values while the device may
 * be reading it (double fetches).  `bytes` is 1, 2, 4 or 8.  If we write there meanwhile, give it
 * an alias of the word (fe_memory_alias()).
 */
struct fe_flipper;
int fe_flipper_start(void *word, unsigned int bytes, uint64_t a, uint64_t b,
                     struct fe_flipper **ret_flipper);
void fe_flipper_stop(struct fe_flipper *f); /* NULL is fine; leaves `a` in the word */

#endif
