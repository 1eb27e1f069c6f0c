/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/cell.h"

#include <stdio.h>
#include <string.h>

static const uint32_t sizes[] = { 64, 128, 256, 512, 1024, 1518, 9000, CELL_MAX_BYTES };
static const uint16_t bursts[] = { CELL_MAX_BURST, 4, 1 };
static const uint16_t rings[] = { 1024, 256 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
        const char *name, *values;
} keys[CELL_KEYS] = {
        [KEY_MODE] = { "mode", "alternate|pair" },
        [KEY_DIRECTION] = { "direction", "enqueue|dequeue" },
        [KEY_RING] = { "ring", "split|split-in-order|packed|packed-in-order" },
        [KEY_MERGEABLE] = { "mergeable", "on|off" },
        [KEY_LAYOUT] = { "layout", "one|chain|indirect" },
        [KEY_SIZE] = { "size", "64|128|256|512|1024|1518|9000|65000" },
        [KEY_BURST] = { "burst", "1|4|32" },
        [KEY_RING_SIZE] = { "ring-size", "256|1024" },
};

const char *cell_key_name(enum cell_key key)
{
        return keys[key].name;
}

const char *cell_key_values(enum cell_key key)
{
        return keys[key].values;
}

/* Is the word of n bytes one of those in the list? */
static bool among(const char *list, const char *separator, const char *word, size_t n)
{
        for (const char *at = list;; at += strcspn(at, separator) + 1) {
                const size_t len = strcspn(at, separator);

                if (len == n && strncmp(at, word, n) == 0)
                        return true;
                if (at[len] == '\0')
                        return false;
        }
}

bool cell_key_takes(enum cell_key key, const char *list)
{
        for (const char *at = list;; at += strcspn(at, ",") + 1) {
                const size_t len = strcspn(at, ",");

                if (!among(keys[key].values, "|", at, len))
                        return false;
                if (at[len] == '\0')
                        return true;
        }
}

static const char *ring_name(const struct cell *c)
{
        if (c->packed)
                return c->in_order ? "packed-in-order" : "packed";
        return c->in_order ? "split-in-order" : "split";
}

static const char *word(const struct cell *c, enum cell_key key)
{
        static const char *const layouts[LAYOUTS] = { "one", "chain", "indirect" };

        switch (key) {
        case KEY_MODE:
                return c->pair ? "pair" : "alternate";
        case KEY_DIRECTION:
                return c->to_guest ? "enqueue" : "dequeue";
        case KEY_RING:
                return ring_name(c);
        case KEY_MERGEABLE:
                return c->mergeable ? "on" : "off";
        default:
                return layouts[c->layout];
        }
}

struct cell_text cell_value(const struct cell *c, enum cell_key key)
{
        struct cell_text t;

        if (key < KEY_SIZE)
                snprintf(t.s, sizeof(t.s), "%s", word(c, key));
        else
                snprintf(t.s, sizeof(t.s), "%u",
                         key == KEY_SIZE    ? c->size
                         : key == KEY_BURST ? c->burst
                                            : c->ring);
        return t;
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
        c->pair = digit(&i, 2) == 1;
        return i == 0;
}

static bool sensible(const struct cell *c)
{
        /* Buffers for the guest to receive into are one piece; what is mergeable has no meaning for
         * what it sends. */
        if (c->to_guest ? c->layout != LAYOUT_ONE : !c->mergeable)
                return false;
        /* No guest posts a thousand buffers of 64 KiB, and merged it takes a thousand small ones
         * for a burst. */
        if (c->size == CELL_MAX_BYTES)
                return c->ring == (c->to_guest && c->mergeable ? 1024 : 256);
        return true;
}

/* Small, middle and full packets in bursts on all rings; one size of everything else. */
static bool quick(const struct cell *c)
{
        if (c->burst == 4 || (c->ring != 256 && c->size != CELL_MAX_BYTES))
                return false;
        if (c->burst == CELL_MAX_BURST && c->layout == LAYOUT_ONE)
                return c->size == 64 || c->size == 512 || c->size == 1518 ||
                       (c->size > 1518 && !c->in_order);
        return c->size == 256 && !c->in_order;
}

static bool chosen(const struct cell_choice *w, const struct cell *c)
{
        for (enum cell_key key = 0; key < CELL_KEYS; key++) {
                const struct cell_text is = cell_value(c, key);

                if (w->wanted[key] && !among(w->wanted[key], ",", is.s, strlen(is.s)))
                        return false;
        }
        return !w->quick || quick(c);
}

/* The next wanted cell whose number is at least *n, and in *n the number behind it. */
static bool next(const struct cell_choice *choice, size_t *n, struct cell *ret_cell)
{
        struct cell c;

        while (nth((*n)++, &c)) {
                if (sensible(&c) && chosen(choice, &c)) {
                        *ret_cell = c;
                        return true;
                }
        }
        return false;
}

bool cell_get(const struct cell_choice *choice, size_t i, struct cell *ret_cell)
{
        struct cell c;
        size_t n = 0;

        do {
                if (!next(choice, &n, &c))
                        return false;
        } while (i-- > 0);
        *ret_cell = c;
        return true;
}

size_t cell_count(const struct cell_choice *choice)
{
        struct cell c;
        size_t n = 0, count = 0;

        while (next(choice, &n, &c))
                count++;
        return count;
}
