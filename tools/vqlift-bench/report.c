/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/report.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "vqlift-bench/run.h"
#include "vqlift-bench/table.h"

/* ---- JSON ---- */

/* The name of a contender, or with a suffix that of something about it: "vqlift_spread". */
static void set_real(json_t *o, const char *name, const char *suffix, double value)
{
        char key[40];

        snprintf(key, sizeof(key), "%s%s", name, suffix);
        json_object_set_new(o, key, json_real(value));
}

static void set_count(json_t *o, const char *name, const char *suffix, size_t value)
{
        char key[40];

        snprintf(key, sizeof(key), "%s%s", name, suffix);
        json_object_set_new(o, key, json_integer((json_int_t)value));
}

static void set_statistic(json_t *o, const char *name, const struct statistic *s)
{
        set_real(o, name, "", s->median);
        set_real(o, name, "_spread", s->spread);
        set_count(o, name, "_batches", s->used);
        set_count(o, name, "_disturbed", s->disturbed);
        set_count(o, name, "_moved", s->moved);
}

static void set_keys(json_t *o, const struct cell *c)
{
        json_object_set_new(o, "mode", json_string(cell_value(c, KEY_MODE).s));
        json_object_set_new(o, "direction", json_string(cell_value(c, KEY_DIRECTION).s));
        json_object_set_new(o, "ring", json_string(cell_value(c, KEY_RING).s));
        json_object_set_new(o, "packed", json_boolean(c->packed));
        json_object_set_new(o, "in_order", json_boolean(c->in_order));
        json_object_set_new(o, "mergeable", json_boolean(c->mergeable));
        json_object_set_new(o, "layout", json_string(cell_value(c, KEY_LAYOUT).s));
        json_object_set_new(o, "size", json_integer(c->size));
        json_object_set_new(o, "burst", json_integer(c->burst));
        json_object_set_new(o, "ring_size", json_integer(c->ring));
}

static json_t *cell_json(const struct result *r, const struct options *opt)
{
        json_t *o = json_object();

        set_keys(o, &r->cell);
        if (r->rc < 0) {
                json_object_set_new(o, "error", json_string(measure_error(r->rc)));
                return o;
        }
        set_statistic(o, "vqlift", &r->m.of[CONTENDER_VQLIFT]);
        set_statistic(o, opt->control ? "control" : "rte_vhost", &r->m.of[CONTENDER_OTHER]);
        set_real(o, opt->control ? "gain" : "ratio", "", measurement_ratio(&r->m, CONTENDER_OTHER));
        if (opt->limit) {
                set_statistic(o, "limit", &r->m.of[CONTENDER_LIMIT]);
                set_real(o, "of_limit", "", 1 / measurement_ratio(&r->m, CONTENDER_LIMIT));
        }
        if (r->cell.pair) {
                set_real(o, "round_trip", "", r->m.of[CONTENDER_VQLIFT].round_trip);
                json_object_set_new(o, "placement", json_string(r->m.far ? "far" : "near"));
        }
        return o;
}

static json_t *summary_json(const struct run *run)
{
        const struct summary s = run_summary(run);
        json_t *o = json_object();

        set_real(o, "geomean", "", s.geomean);
        set_real(o, "min", "", s.least);
        set_count(o, "cells", "", s.cells);
        set_count(o, "failed", "", s.failed);
        set_count(o, "under", "", s.under);
        return o;
}

static json_t *machine_json(const struct run *run)
{
        const struct machine *m = &run->machine;
        json_t *o = json_object();

        json_object_set_new(o, "cpu", json_string(m->model));
        json_object_set_new(o, "dpdk", json_string(m->dpdk));
        json_object_set_new(o, "rte_vhost", json_string(m->rte_vhost));
        json_object_set_new(o, "huge_pages", json_boolean(m->huge));
        if (run->options->control)
                json_object_set_new(o, "control", json_string(run->options->control));
        if (run->options->set)
                json_object_set_new(o, "set", json_string(run->options->set));
        set_count(o, "rounds", "", run->options->rounds);
        return o;
}

json_t *report_json(const struct run *run)
{
        json_t *cells = json_array();

        for (size_t i = 0; i < run->n; i++)
                json_array_append_new(cells, cell_json(&run->results[i], run->options));
        return json_pack("{s:o, s:o, s:o}", "cells", cells, "summary", summary_json(run), "machine",
                         machine_json(run));
}

int report_print(const struct run *run, FILE *out)
{
        json_t *o = report_json(run);
        int rc = -ENOMEM;

        if (o)
                rc = json_dumpf(o, out, JSON_INDENT(1) | JSON_REAL_PRECISION(5)) < 0 ? -EIO : 0;
        json_decref(o);
        fputc('\n', out);
        return rc;
}

/* ---- files ---- */

static int complain(const char *folder, const char *name)
{
        const int err = errno;

        fprintf(stderr, "vqlift-bench: %s/%s: %s\n", folder, name, strerror(err));
        return -err;
}

int report_open(const char *folder, const char *name, FILE **ret_file)
{
        char path[PATH_MAX];
        FILE *f = NULL;

        errno = ENAMETOOLONG;
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path) &&
            (mkdir(folder, 0755) == 0 || errno == EEXIST))
                f = fopen(path, "we");
        if (!f)
                return complain(folder, name);
        *ret_file = f;
        return 0;
}

int report_close(FILE *f, const char *folder, const char *name)
{
        const bool bad = ferror(f) != 0;

        errno = EIO;
        return fclose(f) != 0 || bad ? complain(folder, name) : 0;
}

int report_write(const struct run *run, const char *folder)
{
        FILE *f = NULL;
        int rc = report_open(folder, "results.json", &f), closed;

        if (rc < 0)
                return rc;
        rc = report_print(run, f);
        closed = report_close(f, folder, "results.json");
        if (rc < 0 || closed < 0)
                return rc < 0 ? rc : closed;
        rc = report_open(folder, "results.md", &f);
        if (rc < 0)
                return rc;
        table_markdown(f, run);
        return report_close(f, folder, "results.md");
}
