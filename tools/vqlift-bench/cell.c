/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/cell.h"

#include <string.h>

enum { TSO_BYTES = 65000 };

static const uint32_t sizes[] = { 64, 128, 256, 512, 1024, 1518, 9000, TSO_BYTES };
static const uint16_t bursts[] = { 32, 4, 1 };
static const uint16_t rings[] = { 1024, 256 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

const char *cell_direction(const struct cell *c)
{
        return c->to_guest ? "enqueue" : "dequeue";
}

const char *cell_ring(const struct cell *c)
{
        if (c->packed)
                return c->in_order ? "packed-in-order" : "packed";
        return c->in_order ? "split-in-order" : "split";
}

const char *cell_layout_name(const struct cell *c)
{
        static const char *const names[LAYOUTS] = { "one", "chain", "indirect" };

        return names[c->layout];
}

/* Take the next digit, to base n, off a number. */
static size_t digit(size_t *number, size_t n)
{
        size_t d = *number % n;

        *number /= n;
        return d;
}

/* The table is a product of lists; a cell's number is written in their bases. */
static bool nth(size_t i, struct cell *c)
{
        c->size = sizes[digit(&i, COUNT(sizes))];
        c->mergeable = digit(&i, 2) == 0;
        c->in_order = digit(&i, 2) == 1;
        c->packed = digit(&i, 2) == 1;
        c->to_guest = digit(&i, 2) == 0;
        c->layout = (enum cell_layout)digit(&i, LAYOUTS);
        c->burst = bursts[digit(&i, COUNT(bursts))];
        c->ring = rings[digit(&i, COUNT(rings))];
        return i == 0;
}

static bool sensible(const struct cell *c)
{
        /* Buffers for the guest to receive into are one piece; what is mergeable has no meaning for
         * what it sends. */
        if (c->to_guest ? c->layout != LAYOUT_ONE : !c->mergeable)
                return false;
        /* Buffers of 64 KiB: no guest posts a thousand of them. */
        return c->size < TSO_BYTES || c->ring == 256;
}

static bool same(const char *wanted, const char *is)
{
        return !wanted || strcmp(wanted, is) == 0;
}

static bool chosen(const struct cell_choice *w, const struct cell *c)
{
        return same(w->direction, cell_direction(c)) && same(w->ring, cell_ring(c)) &&
               same(w->layout, cell_layout_name(c)) &&
               same(w->mergeable, c->mergeable ? "on" : "off") &&
               (!w->size || w->size == c->size) && (!w->burst || w->burst == c->burst) &&
               (!w->ring_size || w->ring_size == c->ring);
}

bool cell_get(const struct cell_choice *choice, size_t i, struct cell *ret_cell)
{
        struct cell c;

        for (size_t n = 0; nth(n, &c); n++) {
                if (!sensible(&c) || !chosen(choice, &c))
                        continue;
                if (i-- == 0) {
                        *ret_cell = c;
                        return true;
                }
        }
        return false;
}
