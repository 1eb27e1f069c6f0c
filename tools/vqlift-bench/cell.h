/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_CELL_H
#define VQLIFT_BENCH_CELL_H

/* A cell of the table: one way to move packets that is measured for both back-ends. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cell_layout {
        LAYOUT_ONE,      /* header and packet in one descriptor */
        LAYOUT_CHAIN,    /* header in a descriptor of its own, as Linux guests send */
        LAYOUT_INDIRECT, /* the same in an indirect table */
        LAYOUTS,
};

struct cell {
        bool to_guest; /* enqueue; else dequeue */
        bool packed, in_order, mergeable;
        enum cell_layout layout;
        uint32_t size; /* bytes of a packet */
        uint16_t burst, ring;
};

/* What was asked for on the command line: 0 or NULL means all. */
struct cell_choice {
        const char *direction; /* "enqueue", "dequeue" */
        const char *ring;      /* "split", "split-in-order", "packed", "packed-in-order" */
        const char *mergeable; /* "on", "off" */
        const char *layout;    /* "one", "chain", "indirect" */
        uint32_t size;
        uint16_t burst, ring_size;
};

/* Cell i of the whole table that the choice lets through; false past the last. */
bool cell_get(const struct cell_choice *choice, size_t i, struct cell *ret_cell);

const char *cell_direction(const struct cell *c);
const char *cell_ring(const struct cell *c);
const char *cell_layout_name(const struct cell *c);

#endif
