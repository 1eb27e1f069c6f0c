/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/table.h"

#include <inttypes.h>

#include "vqlift-bench/run.h"

/* Widths of the columns that tell cells apart. */
static const int width[CELL_KEYS] = {
        [KEY_MODE] = -9,   [KEY_DIRECTION] = -9, [KEY_RING] = -15, [KEY_MERGEABLE] = -9,
        [KEY_LAYOUT] = -8, [KEY_SIZE] = 5,       [KEY_BURST] = 5,  [KEY_RING_SIZE] = 9,
};

static const char *other(const struct options *o)
{
        return o->control ? o->control : "rte_vhost";
}

static const char *comparison(const struct options *o)
{
        return o->control ? "gain" : "ratio";
}

void table_head(FILE *out, const struct options *o)
{
        for (enum cell_key key = 0; key < CELL_KEYS; key++)
                fprintf(out, "%*s ", width[key], cell_key_name(key));
        fprintf(out, "%16s %16s %6s", "vqlift", other(o), comparison(o));
        if (o->limit)
                fprintf(out, " %16s %8s", "limit", "of limit");
        fprintf(out, " %9s", "left out");
        fputc('\n', out);
}

static size_t left_out(const struct measurement *m)
{
        size_t n = 0;

        for (int i = 0; i < CONTENDERS; i++)
                n += m->of[i].disturbed + m->of[i].moved;
        return n;
}

static void statistic(FILE *out, const struct statistic *s)
{
        fprintf(out, " %9.1f +-%3.0f%%", s->median, 50 * s->spread);
}

void table_row(FILE *out, const struct options *o, const struct result *r)
{
        for (enum cell_key key = 0; key < CELL_KEYS; key++)
                fprintf(out, "%*s ", width[key], cell_value(&r->cell, key).s);
        if (r->rc < 0) {
                fprintf(out, "failed: %s\n", measure_error(r->rc));
                return;
        }
        statistic(out, &r->m.of[CONTENDER_VQLIFT]);
        statistic(out, &r->m.of[CONTENDER_OTHER]);
        fprintf(out, " %7.2f", measurement_ratio(&r->m, CONTENDER_OTHER));
        if (o->limit) {
                statistic(out, &r->m.of[CONTENDER_LIMIT]);
                fprintf(out, " %8.2f", 1 / measurement_ratio(&r->m, CONTENDER_LIMIT));
        }
        fprintf(out, " %9zu", left_out(&r->m));
        if (r->cell.pair)
                fprintf(out, "  round trip %.0f", r->m.of[CONTENDER_VQLIFT].round_trip);
        fputc('\n', out);
        fflush(out);
}

void table_foot(FILE *out, const struct run *run)
{
        const struct summary s = run_summary(run);

        fprintf(out, "%zu cells: geometric mean %.2f, least %.2f", s.cells, s.geomean, s.least);
        if (s.failed)
                fprintf(out, "; %zu failed", s.failed);
        if (s.under)
                fprintf(out, "; %zu under %.2f", s.under, run->options->fail_under);
        fputc('\n', out);
}

/* ---- Markdown ---- */

static void markdown_head(FILE *out, const struct options *o)
{
        int columns = CELL_KEYS + 3 + (o->limit ? 2 : 0);

        for (enum cell_key key = 0; key < CELL_KEYS; key++)
                fprintf(out, "| %s ", cell_key_name(key));
        fprintf(out, "| vqlift | %s | %s ", other(o), comparison(o));
        if (o->limit)
                fprintf(out, "| limit | of limit ");
        fputs("|\n", out);
        while (columns-- > 0)
                fputs("|---", out);
        fputs("|\n", out);
}

static void markdown_row(FILE *out, const struct options *o, const struct result *r)
{
        for (enum cell_key key = 0; key < CELL_KEYS; key++)
                fprintf(out, "| %s ", cell_value(&r->cell, key).s);
        if (r->rc < 0) {
                fprintf(out, "| %s |\n", measure_error(r->rc));
                return;
        }
        fprintf(out, "| %.1f | %.1f | %.2f ", r->m.of[CONTENDER_VQLIFT].median,
                r->m.of[CONTENDER_OTHER].median, measurement_ratio(&r->m, CONTENDER_OTHER));
        if (o->limit)
                fprintf(out, "| %.1f | %.2f ", r->m.of[CONTENDER_LIMIT].median,
                        1 / measurement_ratio(&r->m, CONTENDER_LIMIT));
        fputs("|\n", out);
}

void table_markdown(FILE *out, const struct run *run)
{
        const struct summary s = run_summary(run);
        const struct machine *m = &run->machine;

        fprintf(out,
                "# Results of vqlift-bench\n\n"
                "Ticks of the time-stamp counter per packet, medians; `%s` is %s / vqlift. Made "
                "by\n"
                "`vqlift-bench --report`; [performance.md](../performance.md) says how to read "
                "it.\n\n"
                "* CPU: %s\n* DPDK: %s\n* packet buffers in huge pages: %s\n"
                "* %zu cells: geometric mean %.2f, least %.2f\n\n",
                comparison(run->options), other(run->options), m->model, m->dpdk,
                m->huge ? "yes" : "no", s.cells, s.geomean, s.least);
        markdown_head(out, run->options);
        for (size_t i = 0; i < run->n; i++)
                markdown_row(out, run->options, &run->results[i]);
}
