/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "vqlift-bench/report.h"
#include "vqlift-bench/run.h"
#include "vqlift-bench/svg.h"

enum {
        WIDTH = 760,
        HEIGHT = 460,
        LEFT = 70,
        RIGHT = 30,
        TOP = 60,
        BOTTOM = 60,
        MOST_POINTS = 16,
};

/* One plot: cells that differ in size only. */
struct plot {
        const struct run *run;
        size_t n;
        const struct result *point[MOST_POINTS];
        double x_min, x_max, y_min, y_max;
};

/* ---- choice of cells ---- */

static bool same_plot(const struct cell *a, const struct cell *b)
{
        return a->pair == b->pair && a->to_guest == b->to_guest && a->packed == b->packed &&
               a->in_order == b->in_order;
}

/* The ring may be a smaller one for packets that no guest posts a thousand buffers for. */
static bool same_line(const struct cell *a, const struct cell *b)
{
        return same_plot(a, b) && a->mergeable == b->mergeable && a->layout == b->layout &&
               a->burst == b->burst;
}

static bool has_size(const struct plot *p, uint32_t size)
{
        for (size_t i = 0; i < p->n; i++)
                if (p->point[i]->cell.size == size)
                        return true;
        return false;
}

/* All sizes of the line that result `first` is on. */
static void collect(struct plot *p, size_t first)
{
        const struct cell *c = &p->run->results[first].cell;

        for (size_t i = first; i < p->run->n && p->n < MOST_POINTS; i++) {
                const struct result *r = &p->run->results[i];

                if (r->rc == 0 && same_line(c, &r->cell) && !has_size(p, r->cell.size))
                        p->point[p->n++] = r;
        }
}

static bool is_first(const struct run *run, size_t i)
{
        for (size_t k = 0; k < i; k++)
                if (run->results[k].rc == 0 &&
                    same_plot(&run->results[k].cell, &run->results[i].cell))
                        return false;
        return run->results[i].rc == 0;
}

/* ---- axes ---- */

static unsigned int contenders(const struct run *run)
{
        return run->options->limit ? CONTENDERS : CONTENDER_LIMIT;
}

static void find_range(struct plot *p)
{
        p->x_min = p->y_min = INFINITY;
        p->x_max = p->y_max = 0;
        for (size_t i = 0; i < p->n; i++) {
                p->x_min = fmin(p->x_min, p->point[i]->cell.size);
                p->x_max = fmax(p->x_max, p->point[i]->cell.size);
                for (unsigned int who = 0; who < contenders(p->run); who++) {
                        p->y_min = fmin(p->y_min, p->point[i]->m.of[who].median);
                        p->y_max = fmax(p->y_max, p->point[i]->m.of[who].median);
                }
        }
        p->y_min /= 1.2;
        p->y_max *= 1.2;
        /* A single size still has its place in the middle. */
        if (p->x_min == p->x_max) {
                p->x_min /= 2;
                p->x_max *= 2;
        }
}

static struct svg_point place(const struct plot *p, double size, double ticks)
{
        const double x = log(size / p->x_min) / log(p->x_max / p->x_min);
        const double y = log(ticks / p->y_min) / log(p->y_max / p->y_min);

        return (struct svg_point){ LEFT + x * (WIDTH - LEFT - RIGHT),
                                   HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM) };
}

static void draw_size(FILE *f, const struct plot *p, uint32_t size)
{
        struct svg_point low = place(p, size, p->y_min);
        char text[16];

        svg_line(f, SVG_GRID, low, place(p, size, p->y_max));
        low.y += 18;
        snprintf(text, sizeof(text), "%u", size);
        svg_text(f, SVG_NOTE, low, "middle", text);
}

static void draw_ticks(FILE *f, const struct plot *p, double ticks)
{
        struct svg_point left = place(p, p->x_min, ticks);
        char text[16];

        if (ticks < p->y_min || ticks > p->y_max)
                return;
        svg_line(f, SVG_GRID, left, place(p, p->x_max, ticks));
        left.x -= 6;
        left.y += 4;
        snprintf(text, sizeof(text), "%g", ticks);
        svg_text(f, SVG_NOTE, left, "end", text);
}

static void draw_axes(FILE *f, const struct plot *p)
{
        static const unsigned int steps[] = { 1, 2, 5 };

        for (size_t i = 0; i < p->n; i++)
                draw_size(f, p, p->point[i]->cell.size);
        for (unsigned long decade = 1; (double)decade < p->y_max; decade *= 10)
                for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
                        draw_ticks(f, p, (double)(decade * steps[i]));
        svg_line(f, SVG_FRAME, place(p, p->x_min, p->y_min), place(p, p->x_max, p->y_min));
        svg_line(f, SVG_FRAME, place(p, p->x_min, p->y_min), place(p, p->x_min, p->y_max));
        svg_text(f, SVG_NOTE, (struct svg_point){ (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14 },
                 "middle", "bytes of a packet");
        svg_text(f, SVG_NOTE, (struct svg_point){ 8, TOP - 14 }, "start", "ticks per packet");
}

/* ---- lines ---- */

static void draw_legend(FILE *f, unsigned int number, const char *name)
{
        const struct svg_point at[] = { { LEFT + 20, TOP + 14 + 20.0 * number },
                                        { LEFT + 60, TOP + 14 + 20.0 * number } };

        svg_series(f, number, at, 2);
        svg_text(f, SVG_NOTE, (struct svg_point){ at[1].x + 10, at[1].y + 4 }, "start", name);
}

static void draw_contender(FILE *f, const struct plot *p, unsigned int who)
{
        const char *control = p->run->options->control;
        const char *const names[CONTENDERS] = { "vqlift", control ? control : "rte_vhost",
                                                "limit: the bare copy" };
        struct svg_point at[MOST_POINTS];

        for (size_t i = 0; i < p->n; i++)
                at[i] = place(p, p->point[i]->cell.size, p->point[i]->m.of[who].median);
        svg_series(f, who, at, p->n);
        draw_legend(f, who, names[who]);
}

static void draw(FILE *f, const struct plot *p)
{
        const struct cell *c = &p->point[0]->cell;
        char title[192];

        snprintf(title, sizeof(title), "%s, %s ring, mergeable %s, %s, bursts of %u, mode %s",
                 cell_value(c, KEY_DIRECTION).s, cell_value(c, KEY_RING).s,
                 cell_value(c, KEY_MERGEABLE).s,
                 c->layout == LAYOUT_ONE ? "one descriptor" : cell_value(c, KEY_LAYOUT).s, c->burst,
                 cell_value(c, KEY_MODE).s);
        svg_begin(f, WIDTH, HEIGHT, title);
        svg_text(f, SVG_TITLE, (struct svg_point){ WIDTH / 2.0, 24 }, "middle", title);
        draw_axes(f, p);
        for (unsigned int who = contenders(p->run); who-- > 0;)
                draw_contender(f, p, who);
        svg_end(f);
}

int plot_write(const struct run *run, const char *folder)
{
        int rc = 0;

        for (size_t i = 0; i < run->n && rc == 0; i++) {
                struct plot p = { .run = run };
                const struct cell *c = &run->results[i].cell;
                char name[96];
                FILE *f;

                if (!is_first(run, i))
                        continue;
                collect(&p, i);
                find_range(&p);
                snprintf(name, sizeof(name), "%s-%s-%s.svg", cell_value(c, KEY_MODE).s,
                         cell_value(c, KEY_DIRECTION).s, cell_value(c, KEY_RING).s);
                rc = report_open(folder, name, &f);
                if (rc < 0)
                        break;
                draw(f, &p);
                rc = report_close(f, folder, name);
        }
        return rc;
}
