/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_ORACLE_TWIN_H
#define FUNC_ORACLE_TWIN_H

/*
 * Two guests that do the same: equal memories, equal rings, equal buffers.  vqlift's datapath
 * serves one of them, DPDK's vhost library the other, and whatever they do differently shows when
 * the guests are compared.  Everything random comes from the seed and the scenario's number.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frontend/frontend.h"
#include "vqlift/burst.h"

enum { OURS, THEIRS, GUESTS };
enum {
        RX, /* to the guest */
        TX,
        DIRECTIONS,
};
enum { TWIN_BUFFERS = 48, TWIN_SEGS = 16, TWIN_PACKET = 65550 };

/* How the header lies in a buffer. */
enum twin_header { HEADER_WITH, HEADER_APART, HEADER_CUT, HEADER_SHAPES };

struct twin_scenario {
        uint64_t seed;
        unsigned int number;
        uint64_t features;
        bool packed, mergeable, in_order, event_idx;
        bool plain_rx; /* buffers to the guest are one descriptor each */
        uint16_t ring, start;
        bool wrap_0;
        enum fe_pick pick;
};

/* A buffer in both rings. */
struct twin_chain {
        struct fe_seg seg[TWIN_SEGS];
        unsigned int n;
        uint64_t table;
        uint32_t bytes; /* of all segments */
};

struct twin_ring {
        struct fe_driver *driver[GUESTS];
        int call_fd[GUESTS];
        struct vql_burst_queue *queue;
        struct twin_chain chain[TWIN_BUFFERS]; /* buffer i is chain[i % TWIN_BUFFERS] */
        struct fe_done done[GUESTS][TWIN_BUFFERS];
        uint32_t added, published, taken[GUESTS], got; /* got <= taken <= published <= added */
};

struct twin {
        struct twin_scenario s;
        uint64_t random;
        unsigned int hdr_len;
        struct fe_memory *mem[GUESTS];
        struct fe_frontend *fe; /* of rte_vhost's guest */
        int vid;                /* rte_vhost's number for it */
        struct twin_ring ring[DIRECTIONS];
};

void twin_init(struct twin *w, const struct twin_scenario *s);
void twin_fini(struct twin *w);

/* A number below `below`; one of lo to hi; true once in n times. */
uint32_t twin_random(struct twin *w, uint32_t below);
uint32_t twin_between(struct twin *w, uint32_t lo, uint32_t hi);
bool twin_once_in(struct twin *w, uint32_t n);

/* Print the scenario and what went wrong, and end the test. */
_Noreturn void twin_fail(const struct twin *w, int line, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
#define TWIN_CHECK(w, condition, ...)                          \
        do {                                                   \
                if (!(condition))                              \
                        twin_fail((w), __LINE__, __VA_ARGS__); \
        } while (0)

struct twin_chain *twin_chain(struct twin_ring *r, uint32_t number);
/*
 * Add a buffer of `bytes` with header to both rings.  A readable one holds a zero header and
 * `payload`.  False: there is no room.
 */
bool twin_add(struct twin *w, unsigned int direction, uint32_t bytes, const uint8_t *payload);
void twin_publish(struct twin *w, unsigned int direction);
void twin_toggle_calls(struct twin *w, unsigned int direction);

/* Was the guest interrupted since the last time? */
bool twin_interrupted(struct twin *w, unsigned int direction, unsigned int guest);
/* Let one driver take back what it can; how many it has taken in all. */
uint32_t twin_take(struct twin *w, unsigned int direction, unsigned int guest);
/*
 * Let both drivers take back what they can: the same buffers with the same lengths.  `soiled`: do
 * not compare what is in the buffers behind these lengths, nor in those that the devices still
 * have.
 */
void twin_get(struct twin *w, unsigned int direction, bool soiled);
/* Every byte of both memories but those by which a device asks for kicks. */
void twin_compare(struct twin *w);

#endif
