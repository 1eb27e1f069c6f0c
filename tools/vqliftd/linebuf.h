/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_LINEBUF_H
#define VQLIFT_TOOLS_LINEBUF_H

/* Bytes of a stream, cut into lines.  Every byte is looked at once, however it arrives. */

#include <stdbool.h>
#include <stddef.h>

struct vql_linebuf {
        char *data;
        size_t start, end; /* bytes that are not taken yet */
        size_t scanned;    /* no end of line in [start, scanned) */
        size_t capacity;
        size_t max; /* longest line, its end included */
};

void vql_linebuf_init(struct vql_linebuf *b, size_t max);
void vql_linebuf_fini(struct vql_linebuf *b);

/* Room for new bytes; NULL: no memory, or an unfinished line of the greatest length.  Lines that
 * were taken are gone after it. */
char *vql_linebuf_room(struct vql_linebuf *b, size_t *ret_room);
/* n bytes were put there. */
void vql_linebuf_added(struct vql_linebuf *b, size_t n);

bool vql_linebuf_has_line(struct vql_linebuf *b);
/* The next complete line, without its end; valid until vql_linebuf_room(). */
bool vql_linebuf_take(struct vql_linebuf *b, const char **ret_line, size_t *ret_n);
/* What is left when nothing more will come: a last line without an end. */
bool vql_linebuf_take_rest(struct vql_linebuf *b, const char **ret_line, size_t *ret_n);

/* Has something begun that is not a line yet? */
bool vql_linebuf_is_partial(struct vql_linebuf *b);
/* An unfinished line of the greatest length? */
bool vql_linebuf_is_full(struct vql_linebuf *b);

#endif
