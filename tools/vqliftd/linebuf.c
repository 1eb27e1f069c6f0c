/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/linebuf.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096, KEPT_BYTES = 65536 };

void vql_linebuf_init(struct vql_linebuf *b, size_t max)
{
        *b = (struct vql_linebuf){ .max = max };
}

void vql_linebuf_fini(struct vql_linebuf *b)
{
        free(b->data);
        vql_linebuf_init(b, b->max);
}

static void compact(struct vql_linebuf *b)
{
        if (b->start == b->end && b->capacity > KEPT_BYTES) {
                vql_linebuf_fini(b);
        } else if (b->start > 0) {
                memmove(b->data, b->data + b->start, b->end - b->start);
                b->end -= b->start;
                b->scanned -= b->start;
                b->start = 0;
        }
}

char *vql_linebuf_room(struct vql_linebuf *b, size_t *ret_room)
{
        size_t capacity;
        char *data;

        compact(b);
        if (b->end == b->capacity) {
                if (b->capacity == b->max)
                        return NULL;
                capacity = b->capacity ? b->capacity * 2 : FIRST_BYTES;
                if (capacity > b->max)
                        capacity = b->max;
                data = realloc(b->data, capacity);
                if (!data)
                        return NULL;
                b->data = data;
                b->capacity = capacity;
        }
        *ret_room = b->capacity - b->end;
        return b->data + b->end;
}

void vql_linebuf_added(struct vql_linebuf *b, size_t n)
{
        b->end += n;
}

/* The end of the next line, or NULL. */
static char *find_end(struct vql_linebuf *b)
{
        char *found = NULL;

        if (b->scanned < b->end)
                found = memchr(b->data + b->scanned, '\n', b->end - b->scanned);
        b->scanned = found ? (size_t)(found - b->data) : b->end;
        return found;
}

bool vql_linebuf_has_line(struct vql_linebuf *b)
{
        return find_end(b) != NULL;
}

bool vql_linebuf_take(struct vql_linebuf *b, const char **ret_line, size_t *ret_n)
{
        char *end = find_end(b);

        if (!end)
                return false;
        *ret_line = b->data + b->start;
        *ret_n = (size_t)(end - *ret_line);
        b->start += *ret_n + 1;
        b->scanned = b->start;
        return true;
}

bool vql_linebuf_take_rest(struct vql_linebuf *b, const char **ret_line, size_t *ret_n)
{
        if (b->start == b->end)
                return false;
        *ret_line = b->data + b->start;
        *ret_n = b->end - b->start;
        b->start = b->scanned = b->end;
        return true;
}

bool vql_linebuf_is_partial(struct vql_linebuf *b)
{
        return b->start < b->end && !vql_linebuf_has_line(b);
}

bool vql_linebuf_is_full(struct vql_linebuf *b)
{
        return b->end - b->start == b->max && !vql_linebuf_has_line(b);
}
