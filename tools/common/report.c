/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/printable.h"
#include "common/text.h"

/* Nobody reads more; a hostile file does not get more memory than this. */
enum { PROBLEMS_MAX = 100, LINE_BYTES = 1024 };

void vql_report_fini(struct vql_report *r)
{
        free(r->problems);
        *r = (struct vql_report){ 0 };
}

static struct vql_problem *problem_new(struct vql_report *r)
{
        struct vql_problem *grown = NULL;

        if (r->n < PROBLEMS_MAX)
                grown = reallocarray(r->problems, r->n + 1, sizeof(*grown));
        if (!grown) {
                r->dropped++;
                return NULL;
        }
        r->problems = grown;
        grown[r->n] = (struct vql_problem){ 0 };
        return &grown[r->n++];
}

void vql_report_add(struct vql_report *r, const char *path, const char *expected, const char *fmt,
                    ...)
{
        struct vql_problem *p = problem_new(r);
        va_list ap;

        if (!p)
                return;
        snprintf(p->path, sizeof(p->path), "%s", path);
        snprintf(p->expected, sizeof(p->expected), "%s", expected);
        va_start(ap, fmt);
        vsnprintf(p->text, sizeof(p->text), fmt, ap);
        va_end(ap);
}

void vql_report_add_at(struct vql_report *r, struct vql_place place, const char *path,
                       const char *fmt, ...)
{
        struct vql_problem *p = problem_new(r);
        va_list ap;

        if (!p)
                return;
        p->place = place;
        snprintf(p->path, sizeof(p->path), "%s", path);
        va_start(ap, fmt);
        vsnprintf(p->text, sizeof(p->text), fmt, ap);
        va_end(ap);
}

bool vql_report_clean(const struct vql_report *r)
{
        return r->n == 0 && r->dropped == 0;
}

static int compare_problems(const void *a, const void *b)
{
        const struct vql_problem *x = a, *y = b;

        if (x->place.line != y->place.line)
                return x->place.line < y->place.line ? -1 : 1;
        if (x->place.column != y->place.column)
                return x->place.column < y->place.column ? -1 : 1;
        return strcmp(x->path, y->path);
}

void vql_report_locate(struct vql_report *r,
                       struct vql_place (*find)(const void *arg, const char *path), const void *arg)
{
        size_t kept = 0;

        for (size_t i = 0; i < r->n; i++) {
                if (!r->problems[i].place.line)
                        r->problems[i].place = find(arg, r->problems[i].path);
        }
        if (r->n)
                qsort(r->problems, r->n, sizeof(*r->problems), compare_problems);
        for (size_t i = 0; i < r->n; i++) {
                if (kept && compare_problems(&r->problems[kept - 1], &r->problems[i]) == 0)
                        continue;
                if (kept != i)
                        r->problems[kept] = r->problems[i];
                kept++;
        }
        r->n = kept;
}

static void format(const struct vql_problem *p, const char *file, char *line, size_t n)
{
        char place[32] = "";

        if (p->place.line)
                snprintf(place, sizeof(place), ":%u", p->place.line);
        snprintf(line, n, "%s%s: %s%s%s", file, place, p->path, p->path[0] ? ": " : "", p->text);
        vql_printable(line);
}

void vql_report_print(const struct vql_report *r, const char *file,
                      void (*put)(void *arg, const char *line), void *arg)
{
        char line[LINE_BYTES];

        for (size_t i = 0; i < r->n; i++) {
                format(&r->problems[i], file, line, sizeof(line));
                put(arg, line);
        }
        if (r->dropped) {
                snprintf(line, sizeof(line), "%s: %zu more problems", file, r->dropped);
                put(arg, line);
        }
}

/* Paths are ASCII: one that ends early must not end within a character. */
static void make_ascii(char *path)
{
        for (; *path; path++) {
                if (*path < 0x20 || *path > 0x7e)
                        *path = '?';
        }
}

void vql_path_key(char ret_path[VQL_REPORT_PATH], const char *parent, const char *key)
{
        struct vql_text t;

        vql_text_init(&t, ret_path, VQL_REPORT_PATH);
        vql_text_add(&t, "%s%s%s", parent, parent[0] ? "." : "", key);
        make_ascii(ret_path);
}

void vql_path_index(char ret_path[VQL_REPORT_PATH], const char *parent, size_t index)
{
        struct vql_text t;

        vql_text_init(&t, ret_path, VQL_REPORT_PATH);
        vql_text_add(&t, "%s[%zu]", parent, index);
}

bool vql_path_up(char path[VQL_REPORT_PATH])
{
        char *dot = strrchr(path, '.'), *bracket = strrchr(path, '[');
        char *last = dot > bracket ? dot : bracket;

        if (!path[0])
                return false;
        if (!last)
                last = path;
        *last = '\0';
        return true;
}
