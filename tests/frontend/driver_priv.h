/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_DRIVER_PRIV_H
#define FRONTEND_DRIVER_PRIV_H

/* What the two ring formats share; nobody but driver*.c includes it. */

#include "frontend/driver.h"

/* A queue of numbers below `cap`, each at most once. */
struct fe_fifo {
        uint16_t *item;
        unsigned int cap, head, count;
};

enum fe_slot_state { FE_SLOT_FREE, FE_SLOT_ADDED, FE_SLOT_SHOWN };

/* A buffer, found by the number that the device returns. */
struct fe_slot {
        enum fe_slot_state state;
        uint16_t n_desc; /* of the ring */
        unsigned int n_segs, cap_segs;
        struct fe_seg *segs;
        uint64_t table;
        void *cookie;
        uint64_t writable;    /* bytes */
        uint64_t fingerprint; /* of readable bytes, with `guard` */
        uint64_t table_print; /* of the indirect table, with `guard` */
};

struct fe_driver {
        struct fe_driver_params p;
        const struct fe_driver_ops *ops;
        struct fe_areas areas;
        struct fe_area_pointers at;
        struct fe_text error;
        uint32_t random;

        struct fe_slot *slot;    /* by id */
        struct fe_fifo free_ids; /* split: descriptors; packed: buffer ids */
        struct fe_fifo added;    /* not published yet, in order */
        struct fe_fifo order;    /* in_order: all outstanding, in order of addition */
        uint16_t *next;          /* split: our own record of each descriptor's successor */
        unsigned int free_desc;
        unsigned int outstanding;

        /* Positions.  Split: free-running indices.  Packed: slot and wrap counter. */
        uint16_t avail, used;
        bool avail_wrap, used_wrap;
        unsigned int since_kick; /* published since the last kick_due: buffers; packed: slots */
        uint16_t published;      /* split: as stored in memory */
        uint16_t old_avail;      /* position of the last kick_due */
        bool old_wrap;

        /* Packed: the flags that hold back all that was added since the last publication. */
        bool held;
        uint16_t held_slot, held_flags;
        unsigned int held_slots; /* how many slots wait behind it */

        /* An in-order batch being given out. */
        uint16_t batch_id;
        uint32_t batch_len;
        bool in_batch;

        /* The buffer added last. */
        uint16_t last_id, last_slot;
        unsigned int last_n;
        uint64_t last_table;
};

/* A used element as the device wrote it. */
struct fe_used {
        uint32_t id, len;
        bool written; /* packed: the WRITE flag; split: true */
};

struct fe_driver_ops {
        void (*area_bytes)(uint16_t size, uint64_t ret_bytes[3]);
        void (*restart)(struct fe_driver *d);
        uint16_t (*add)(struct fe_driver *d, const struct fe_chain *c); /* there is room */
        void (*publish)(struct fe_driver *d);
        bool (*kick_due)(struct fe_driver *d);
        /* The element at the used position: 1, 0 none, -EBADMSG. */
        int (*peek)(struct fe_driver *d, struct fe_used *ret_used);
        /* Step over the buffer `id`, whose descriptors are free now. */
        void (*pop)(struct fe_driver *d, uint16_t id);
        bool (*calls_on)(struct fe_driver *d, uint16_t after);
        void (*calls_off)(struct fe_driver *d);
        struct fe_position (*device_position)(struct fe_driver *d);
        struct fe_desc (*ring_desc)(struct fe_driver *d, unsigned int i);
        void (*jump)(struct fe_driver *d, uint16_t n);
};

extern const struct fe_driver_ops fe_split_ops, fe_packed_ops;

void fe_guard_arm(struct fe_driver *d, struct fe_slot *s);
/* Buffer `id` came back with used length `len`: 0 or -EBADMSG. */
int fe_guard_check(struct fe_driver *d, uint16_t id, uint64_t len);

uint16_t fe_pick_id(struct fe_driver *d);
void fe_fifo_push(struct fe_fifo *f, uint16_t item);
uint16_t fe_fifo_pop(struct fe_fifo *f);
uint16_t fe_fifo_at(const struct fe_fifo *f, unsigned int i);

#endif
