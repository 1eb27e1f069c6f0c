/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_GUEST_H
#define VQLIFT_BENCH_GUEST_H

/*
 * The guest of a cell: its memory, one ring under test, and what its driver does with buffers.
 *
 * Buffers go round: the driver gives them to the device in the order in which it got them back, and
 * every back-end returns them in order.  So the buffer number n of all times is buffer n modulo
 * their number, and the limit (limit.h) knows where they lie without looking at the ring.
 *
 * Threads: one at a time; the back-end's thread may read what is constant from guest_new() on.
 */

#include <stdbool.h>
#include <stdint.h>

#include "frontend/frontend.h"
#include "vqlift-bench/cell.h"

enum {
        GUEST_HEADER = 12,      /* bytes of virtio-net's header */
        GUEST_RX_BUFFER = 2048, /* what DPDK guests post if buffers merge; Linux is near it */
};

struct guest {
        /* constant */
        struct cell cell;
        struct fe_memory *mem;
        struct fe_frontend *fe; /* borrowed */
        struct fe_driver *driver;
        unsigned int ring; /* index: 0 to the guest, 1 from it */
        bool huge;         /* memory of huge pages */
        unsigned int buffers, n_segs;
        unsigned int slots;       /* of the ring that a buffer takes */
        struct fe_seg (*segs)[2]; /* by buffer */
        uint64_t *tables;
        uint8_t **payload; /* of each buffer, behind the header */

        /* the driver's */
        unsigned int next; /* to the device: the buffer that is given next */
        uint32_t serial;   /* from the guest: of the next packet; to it: that is expected */
        uint32_t at;       /* to the guest: bytes of the current packet that came already */
        uint64_t given;    /* buffers made available since the beginning */
};

/* Memory, the session with the back-end behind `fe`, buffers; to-guest buffers are all given.  0 or
 * -errno, with a line on stderr. */
int guest_new(const struct cell *cell, struct fe_frontend *fe, struct guest **ret_guest);
void guest_free(struct guest *g); /* NULL is fine */

/* The features that the guest acknowledges. */
uint64_t guest_features(const struct cell *c);

/* How many buffers a packet to the guest takes. */
unsigned int guest_buffers_of_packet(const struct cell *c);

/*
 * Give n buffers with packets to the device.  `whole`: all of their bytes are new, else only the
 * stamp is; `touch`: write to each line, as who made the packet did.  -errno of the driver.
 */
struct guest_manner {
        bool whole, touch;
};
int guest_send(struct guest *g, unsigned int n, struct guest_manner manner);

/*
 * Take back what the device returned, at most `most` buffers, and give those to the guest to it
 * again.  Packets must be there in order; `whole`: each byte is compared, `touch`: a word of each
 * line is read.  The number of buffers, -EBADMSG wrong content, or -errno of the driver.
 */
int guest_reap(struct guest *g, unsigned int most, struct guest_manner manner);

/* Buffers that the driver may still give. */
unsigned int guest_room(const struct guest *g);

#endif
