/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_DATAPATH_RIG_H
#define FUNC_DATAPATH_RIG_H

/*
 * One instance of the datapath on one ring of a guest that we play, and beside it a plain model of
 * what both sides know: buffers by number, positions that never wrap, wishes to be notified, pages
 * that may be dirty.  Everything random comes from the scenario's number and one seed.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frontend/driver.h"
#include "memory/memory.h"
#include "sw-fallback/burst.h"
#include "virtqueue/notify.h"
#include "virtqueue/queue.h"

enum { DP_LAYOUTS = 3, DP_ARENAS = 2, DP_SEGS = 32, DP_CHAINS = 512, DP_CANARY = 16 };

enum dp_shape { DP_DIRECT, DP_INDIRECT, DP_MIXED, DP_SHAPES };
enum dp_header {
        DP_HEADER_OWN,    /* a descriptor of its own */
        DP_HEADER_WITH,   /* followed by payload in the same descriptor */
        DP_HEADER_SPREAD, /* over up to 12 descriptors */
        DP_HEADER_LEGACY, /* a driver without VERSION_1: 10 bytes, unless MRG_RXBUF adds two */
        DP_HEADERS,
};

struct dp_scenario {
        unsigned int number;
        uint64_t seed;
        const struct vql_instance_set *set;
        const struct vql_instance *instance; /* of that set */
        bool event_idx, in_order, wrap_0;
        enum dp_shape shape;
        enum dp_header header;
        enum fe_layout layout;
        uint16_t size, start;
};

/* The memories of all layouts, as the guest and as the product see them; made once. */
struct dp_world {
        struct fe_memory *mem[DP_LAYOUTS];
        struct vql_mem_table *table[DP_LAYOUTS];
        uint8_t *bits[2]; /* dirty logs: of the queue, and of the pages it must mark */
        uint8_t *may;     /* pages that it may mark, too */
        uint64_t log_bytes;
        int call_fd;
};

/* When one side wants to hear from the other. */
struct dp_wish {
        enum { DP_NEVER, DP_ALWAYS, DP_AT } mode;
        int64_t at; /* a position */
};

/* A stretch of guest memory that is handed out and comes back in the same order. */
struct dp_arena {
        uint64_t gpa, size;
        uint64_t head, tail; /* bytes, never wrapping */
};

/* A buffer in the ring. */
struct dp_chain {
        struct fe_seg seg[DP_SEGS];
        unsigned int n;
        uint64_t table, table_print;
        uint64_t arena_head[DP_ARENAS];
        uint32_t bytes; /* of all segments */
        uint16_t slots; /* that it takes in the ring */
        /* From the guest: what it bears.  To the guest: what the device did. */
        unsigned int kind;
        uint32_t packet;     /* bytes */
        uint64_t seed;       /* of the packet's bytes */
        uint16_t gso_size;   /* asked for */
        uint32_t used, soil; /* bytes written; bytes that a packet that was taken back may have */
};

struct dp_rig {
        struct dp_scenario s;
        struct dp_world *world;
        struct fe_memory *mem;
        struct fe_driver *d;
        struct vql_queue q;
        struct vql_dirty_log log;
        struct dp_arena arena[DP_ARENAS];
        uint64_t random;
        /* Buffers by number: got <= used <= published <= added; chain i is chain[i % DP_CHAINS]. */
        struct dp_chain *chain;
        uint32_t added, published, used, got;
        /* The same as positions: slots of a packed ring, buffers of a split one. */
        int64_t at_added, at_published, at_used, at_got, at_kicked;
        struct dp_wish calls, kicks;
        bool signalled; /* there was a publication */
        struct vql_queue_counters expect;
        uint8_t *desc_copy, *driver_copy; /* of the areas, before a burst */
};

void dp_world_init(struct dp_world *w);
void dp_world_fini(struct dp_world *w);

void dp_rig_init(struct dp_rig *r, struct dp_world *w, const struct dp_scenario *s);
void dp_rig_fini(struct dp_rig *r);

/* A number below `below`; one of lo to hi; true once in n times. */
uint32_t dp_random(struct dp_rig *r, uint32_t below);
uint32_t dp_between(struct dp_rig *r, uint32_t lo, uint32_t hi);
bool dp_once_in(struct dp_rig *r, uint32_t n);
/* A packet's size, 1 byte to 64 KiB, small ones most often. */
uint32_t dp_random_size(struct dp_rig *r);
void dp_fill(uint8_t *to, size_t len, uint64_t seed);

/* Print the scenario and what went wrong, and end the test. */
_Noreturn void dp_fail(const struct dp_rig *r, int line, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
#define DP_CHECK(r, condition, ...)                          \
        do {                                                 \
                if (!(condition))                            \
                        dp_fail((r), __LINE__, __VA_ARGS__); \
        } while (0)

/* ---- the driver's moves ---- */

/* What a buffer is to be. */
struct dp_load {
        uint32_t header, payload; /* bytes; the scenario says how they are cut */
        unsigned int kind;
        void (*fill)(struct dp_rig *r, struct dp_chain *c); /* NULL: nothing to be read */
};
/* Make a buffer and add it to the ring.  NULL: there is no room now. */
struct dp_chain *dp_chain_add(struct dp_rig *r, const struct dp_load *load);
/* Publish; the kick is due exactly if the model says so. */
void dp_publish(struct dp_rig *r);
/* Take back up to n buffers: in order, each once, with the used length of the model. */
void dp_get(struct dp_rig *r, uint32_t n);
void dp_toggle_calls(struct dp_rig *r);

/* ---- the device's moves ---- */

void dp_toggle_kicks(struct dp_rig *r);
/* Before a burst: note what must not change. */
void dp_burst_begin(struct dp_rig *r);
/* After a burst that was to return the next n buffers: position, interrupt, ring areas, log. */
void dp_burst_end(struct dp_rig *r, uint32_t n);
struct dp_chain *dp_chain(struct dp_rig *r, uint32_t number);
/* Nothing but `used` (or `soil`) bytes of the buffer may have changed. */
void dp_check_guard(struct dp_rig *r, const struct dp_chain *c);

/* The device wrote `len` bytes to the buffer and was to; or it may have. */
void dp_wrote(struct dp_rig *r, struct dp_chain *c, uint32_t len);
void dp_may_have_written(struct dp_rig *r, struct dp_chain *c, uint32_t len);

/* ---- scenarios ---- */

/* The test's main(): walk the scenarios of one direction as the arguments say. */
int dp_main(int argc, char **argv, bool rx, void (*play)(struct dp_rig *r));

#endif
