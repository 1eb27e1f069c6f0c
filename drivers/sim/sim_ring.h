/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_DRIVERS_SIM_SIM_RING_H
#define VQLIFT_DRIVERS_SIM_SIM_RING_H

/*
 * The device's side of a ring, split (virtio 1.2, 2.7) or packed (2.8).  The ring is not to be
 * trusted: each word is read once and checked before it is used.
 *
 * Positions are numbers that run through one round: the free-running index of a split ring (0 to
 * 65535), and the slots of two laps of a packed one (0 to size - 1 in the lap with wrap counter 1).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_ring.h>

#include "base/error.h"
#include "drivers/sim/sim_memory.h"
#include "vqlift/driver.h"

/* A buffer that was taken from the ring: private copies of what its descriptors say. */
struct sim_chain {
        struct sim_seg *seg;
        uint32_t n, room;
        uint64_t bytes;
        uint16_t id;      /* split: head; packed: buffer id */
        uint16_t slots;   /* of a packed ring; split: 1 */
        uint32_t written; /* what the used element will say */
};

struct sim_seg {
        uint64_t iova;
        uint32_t len;
};

struct sim_ring {
        const struct sim_memory *mem;
        struct vql_dev_ring where;
        union {
                struct vring_desc *desc;
                struct vring_packed_desc *packed;
        };
        union {
                struct vring_avail *avail_ring;
                struct vring_packed_desc_event *driver_event;
        };
        union {
                struct vring_used *used_ring;
                struct vring_packed_desc_event *device_event;
        };
        bool event_idx;
        bool fills;     /* the device writes to the buffers of this queue */
        uint32_t round; /* number of positions */
        uint32_t avail, used;
        uint64_t unsignalled; /* positions since the driver was last interrupted */
        bool signalled;       /* false: not yet since the start, so where it stood is unknown */
        /* Buffers that were taken and not returned, in that order. */
        struct sim_chain *chain;
        uint16_t head, count;
};

struct sim_ring_params {
        const struct sim_memory *mem;
        const struct vql_dev_ring *where;
        const struct vql_position *at;
        bool event_idx, fills;
};

/* -EINVAL: not mapped, misaligned, or a split ring whose used index is elsewhere; -ENOMEM. */
int vql_sim_ring_open(struct sim_ring *r, const struct sim_ring_params *p, struct vql_error *e);
void vql_sim_ring_close(struct sim_ring *r);
/* Is it still where it was, after a change of maps? */
bool vql_sim_ring_is_mapped(const struct sim_ring *r);

/* Take a further buffer: 1, 0 there is none, -EBADMSG the ring is impossible. */
int vql_sim_ring_take(struct sim_ring *r);
/* Buffer i of those taken. */
struct sim_chain *vql_sim_ring_taken(struct sim_ring *r, uint16_t i);
/* The oldest `n` of those taken go back to the driver, which sees them all at once. */
void vql_sim_ring_return(struct sim_ring *r, uint16_t n);
/* The same, with one used element that speaks for all of them (IN_ORDER). */
void vql_sim_ring_return_batch(struct sim_ring *r, uint16_t n);
bool vql_sim_ring_has(const struct sim_ring *r);
/* Are all the slots that the ring has among the buffers taken? */
bool vql_sim_ring_holds_all(const struct sim_ring *r);

/* Ask for kicks, or for none.  After asking, look again: what came before was not kicked for. */
void vql_sim_ring_ask_kicks(struct sim_ring *r, bool wanted);
/* Does the driver want to be interrupted for what was returned since it last was? */
bool vql_sim_ring_signal_due(struct sim_ring *r);
/* All that was returned, and nothing else, lies before this. */
struct vql_position vql_sim_ring_position(const struct sim_ring *r);
/* The same as a split ring's memory has it; packed rings and lost memory do not show it. */
struct vql_position vql_sim_ring_position_shown(const struct sim_ring *r);

/* ---- what the formats have in common (sim_ring.c), for sim_split.c and sim_packed.c ---- */

struct sim_desc {
        uint64_t addr;
        uint32_t len;
        uint16_t flags, next;
};

static inline uint32_t sim_ring_ahead(const struct sim_ring *r, uint32_t to, uint32_t from)
{
        return to >= from ? to - from : to + r->round - from;
}

static inline uint32_t sim_ring_forward(const struct sim_ring *r, uint32_t from, uint32_t n)
{
        return (from + n) % r->round;
}

/* -EBADMSG: for the wrong direction, too long; -ENOMEM. */
int vql_sim_chain_add(struct sim_chain *c, const struct sim_ring *r, const struct sim_desc *d);
/* The buffers that an indirect table names.  -EBADMSG, -ENOMEM. */
int vql_sim_chain_add_table(struct sim_chain *c, const struct sim_ring *r,
                            const struct sim_desc *d);

int vql_sim_split_take(struct sim_ring *r, struct sim_chain *c);
void vql_sim_split_return(struct sim_ring *r, uint16_t n, bool batch);
bool vql_sim_split_has(const struct sim_ring *r);
void vql_sim_split_ask_kicks(struct sim_ring *r, bool wanted);
bool vql_sim_split_signal_due(const struct sim_ring *r);

int vql_sim_packed_take(struct sim_ring *r, struct sim_chain *c);
void vql_sim_packed_return(struct sim_ring *r, uint16_t n, bool batch);
bool vql_sim_packed_has(const struct sim_ring *r);
void vql_sim_packed_ask_kicks(struct sim_ring *r, bool wanted);
bool vql_sim_packed_signal_due(const struct sim_ring *r);

#endif
