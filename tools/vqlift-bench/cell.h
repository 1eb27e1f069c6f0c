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
        bool pair;     /* the guest works on another CPU; else on that of the back-end */
        bool to_guest; /* enqueue; else dequeue */
        bool packed, in_order, mergeable;
        enum cell_layout layout;
        uint32_t size; /* bytes of a packet */
        uint16_t burst, ring;
};

/* The largest of the table, for what has to have room. */
enum { CELL_MAX_BURST = 32, CELL_MAX_BYTES = 65000 };

/* What a cell is told from others by, in the order of the table's columns. */
enum cell_key {
        KEY_MODE,
        KEY_DIRECTION,
        KEY_RING,
        KEY_MERGEABLE,
        KEY_LAYOUT,
        KEY_SIZE,
        KEY_BURST,
        KEY_RING_SIZE,
        CELL_KEYS,
};

/* Which cells are wanted: a list like "64,1518" for a key, or NULL for all of its values. */
struct cell_choice {
        const char *wanted[CELL_KEYS];
        bool quick; /* of those, the few that are looked at after each change */
};

const char *cell_key_name(enum cell_key key);   /* "ring-size" */
const char *cell_key_values(enum cell_key key); /* "256|1024" */

/* Is each word of the list, separated by commas, one of the key's values? */
bool cell_key_takes(enum cell_key key, const char *list);

/* A value of the cell as text. */
struct cell_text {
        char s[24];
};
struct cell_text cell_value(const struct cell *c, enum cell_key key);

/* Cell i of those that are wanted, in the order of the table; false past the last. */
bool cell_get(const struct cell_choice *choice, size_t i, struct cell *ret_cell);
size_t cell_count(const struct cell_choice *choice);

#endif
