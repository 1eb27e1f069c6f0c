/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_SVG_H
#define VQLIFT_BENCH_SVG_H

/*
 * As much of SVG as a plot takes.  Colours are classes of a style sheet in the file, which follows
 * the reader's choice of a light or dark page.
 */

#include <stdio.h>

struct svg_point {
        double x, y;
};

/* Classes: what is drawn, not how. */
#define SVG_FRAME "frame"
#define SVG_GRID  "grid"
#define SVG_NOTE  "note"
#define SVG_TITLE "title"

void svg_begin(FILE *f, int width, int height, const char *title);
void svg_end(FILE *f);

void svg_line(FILE *f, const char *class, struct svg_point from, struct svg_point to);
/* Series number 0 to 2: a line through the points, and a mark at each. */
void svg_series(FILE *f, unsigned int number, const struct svg_point *p, size_t n);
/* `anchor`: "start", "middle" or "end".  Any text: what XML reserves is escaped. */
void svg_text(FILE *f, const char *class, struct svg_point at, const char *anchor,
              const char *text);

#endif
