/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_RELAY_RIG_H
#define FUNC_RELAY_RIG_H

/*
 * A relay between a guest's driver (tests/frontend) and a plain device on the shadow ring
 * (ref_device.h), with what all three know of one another in plain lists beside it.  One thread,
 * and everything random comes from a seed.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frontend/driver.h"
#include "memory/memory.h"
#include "ref_device.h"
#include "sw-fallback/relay.h"
#include "virtqueue/queue.h"

enum { RR_SEGS = 4, RR_SEG_BYTES = 96, RR_PAGE = 4096, RR_HDR = 12 };

struct rr_setup {
        bool packed, rx, event_idx;
        bool in_order;   /* agreed with guest and device: it returns several by one element */
        bool disorder;   /* the device returns in any order */
        bool indirect;   /* the device reads tables */
        bool whole;      /* the guest offers no empty pieces and no chains without a packet */
        uint16_t size;   /* of the guest's ring */
        uint16_t shadow; /* 0: the same */
        uint16_t start;  /* of the guest's ring */
        bool start_wrap_0;
        uint64_t features; /* of the guest, beside those */
        uint32_t seed;
};

/* A chain that the device took. */
struct rr_held {
        uint16_t id, n_desc;
        unsigned int n;
        struct fe_seg seg[RR_SEGS];
        uint32_t bytes; /* of all segments */
        uint32_t len;   /* as returned */
};

/* What the guest offers in a buffer. */
struct rr_buffer {
        struct fe_seg seg[RR_SEGS];
        unsigned int n;
        bool out;          /* offered and not returned */
        unsigned int seen; /* how often the device took it since it was offered */
        uint64_t base, table;
};

struct rr_list {
        struct rr_held *item;
        unsigned int n;
};

struct rr_rig {
        struct rr_setup s;
        struct fe_memory *mem;
        struct vql_mem_table *table;
        struct fe_driver *d;
        struct vql_queue q;
        int call_fd;

        struct vql_relay *relay;
        struct vql_pending *pending;
        struct vql_relay_layout layout;
        uint8_t *arena;
        struct ref_device dev;
        struct rr_list held, done; /* in the device; returned by it, not yet to the guest */
        uint64_t harvested;        /* of this relay */
        unsigned int kicks;
        int device_kick_fd; /* kicks go there, too; -1 */

        struct rr_buffer *buffer;
        unsigned int n_buffers, *spare, n_spare;
        uint64_t offered, got, repeats;
        uint64_t packets, bytes; /* that the counters should have */

        struct vql_dirty_log log;
        uint8_t *expect; /* pages that must be marked */
        uint8_t *may;    /* pages that may */
        uint64_t random;
};

void rr_init(struct rr_rig *r, const struct rr_setup *s);
void rr_fini(struct rr_rig *r);

uint32_t rr_random(struct rr_rig *r, uint32_t below);

/* Open a relay on the queue as it stands, and a device on its shadow. */
void rr_open(struct rr_rig *r);
/* The device stops: what it has returned counts, what it has taken does not.  Settle and close. */
void rr_stop(struct rr_rig *r);

/* The guest offers up to n buffers of random shape.  How many there was room for. */
unsigned int rr_add(struct rr_rig *r, unsigned int n);
/* It offers one of exactly these segments (addresses are filled in), indirectly if `table`. */
bool rr_add_shape(struct rr_rig *r, const uint32_t *len, unsigned int n, bool table);
/* It takes back all that is there, and looks at each. */
unsigned int rr_get(struct rr_rig *r);

/* The device takes up to n chains; it returns up to n, of random length. */
unsigned int rr_take(struct rr_rig *r, unsigned int n);
unsigned int rr_complete(struct rr_rig *r, unsigned int n);

/* One pass, after which books and dirty log must agree. */
int rr_poll(struct rr_rig *r);
/* All go on until nothing moves. */
void rr_run(struct rr_rig *r);

void rr_log(struct rr_rig *r, bool on);
struct vql_relay_stats rr_stats(const struct rr_rig *r);

#endif
