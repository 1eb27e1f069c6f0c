/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift/table.h"

#include <ctype.h>
#include <err.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/printable.h"

enum { COLUMNS_MAX = 64, GAP = 2, FAILED = 1 };

void vql_table_init(struct vql_table *t, const char *align)
{
        *t = (struct vql_table){ .align = align };
}

void vql_table_fini(struct vql_table *t)
{
        for (size_t i = 0; i < t->n_cells; i++)
                free(t->cells[i]);
        free(t->cells);
}

/* Takes over `text`. */
static void append(struct vql_table *t, char *text)
{
        char **cells = reallocarray(t->cells, t->n_cells + 1, sizeof(*cells));

        if (!cells || !text)
                err(FAILED, "vqlift");
        vql_printable(text);
        cells[t->n_cells++] = text;
        t->cells = cells;
}

void vql_table_add(struct vql_table *t, const char *fmt, ...)
{
        char *text = NULL;
        va_list ap;

        va_start(ap, fmt);
        if (vasprintf(&text, fmt, ap) < 0)
                text = NULL;
        va_end(ap);
        append(t, text);
}

static char *describe(const json_t *value)
{
        if (json_is_boolean(value))
                return strdup(json_is_true(value) ? "yes" : "no");
        if (json_is_string(value) && json_string_length(value) > 0)
                return strdup(json_string_value(value));
        if (json_is_number(value) || json_is_object(value))
                return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        return strdup("-");
}

static char *describe_list(const json_t *list)
{
        char *text = NULL, *word;
        size_t i, size = 0;
        FILE *stream = open_memstream(&text, &size);
        json_t *value;

        if (!stream)
                return NULL;
        json_array_foreach(list, i, value)
        {
                word = describe(value);
                fprintf(stream, "%s%s", i ? "," : "", word ? word : "");
                free(word);
        }
        if (json_array_size(list) == 0)
                fputs("-", stream);
        return fclose(stream) == 0 ? text : NULL;
}

void vql_table_add_json(struct vql_table *t, const json_t *value)
{
        append(t, json_is_array(value) ? describe_list(value) : describe(value));
}

/* Characters, not bytes: those that continue one in UTF-8 take no room. */
static size_t width(const char *text)
{
        size_t n = 0;

        for (; *text; text++)
                n += ((unsigned char)*text & 0xc0) != 0x80;
        return n;
}

static void pad(size_t n, FILE *to)
{
        fprintf(to, "%*s", (int)n, "");
}

static void print_cell(const char *text, char align, size_t column, FILE *to)
{
        size_t room = column - width(text);

        if (align == 'r')
                pad(room, to);
        fputs(text, to);
        if (align != 'r')
                pad(room, to);
}

void vql_table_print(const struct vql_table *t, FILE *to)
{
        size_t columns = strlen(t->align), widths[COLUMNS_MAX] = { 0 };

        if (columns > COLUMNS_MAX)
                columns = COLUMNS_MAX;
        for (size_t i = 0; i < t->n_cells; i++) {
                size_t w = width(t->cells[i]), *widest = &widths[i % columns];

                *widest = w > *widest ? w : *widest;
        }
        for (size_t i = 0; i < t->n_cells; i++) {
                bool last = i % columns == columns - 1;

                /* No spaces at the end of a line. */
                if (last && t->align[i % columns] != 'r')
                        fputs(t->cells[i], to);
                else
                        print_cell(t->cells[i], t->align[i % columns], widths[i % columns], to);
                if (last)
                        fputc('\n', to);
                else
                        pad(GAP, to);
        }
}

static void add_heading(struct vql_table *t, const char *key)
{
        char *text = strdup(key);

        for (char *p = text; p && *p; p++)
                *p = (char)toupper((unsigned char)*p);
        append(t, text);
}

void vql_table_print_objects(const json_t *list, FILE *to)
{
        char align[COLUMNS_MAX + 1] = "";
        size_t i, n = 0;
        json_t *object = json_array_get(list, 0), *value;
        struct vql_table t;
        const char *key;

        vql_table_init(&t, align);
        json_object_foreach(object, key, value)
        {
                if (n == COLUMNS_MAX)
                        break;
                align[n++] = json_is_integer(value) || json_is_null(value) ? 'r' : 'l';
                add_heading(&t, key);
        }
        if (n == 0)
                return;
        json_array_foreach(list, i, object)
        {
                n = 0;
                json_object_foreach(json_array_get(list, 0), key, value)
                {
                        if (n++ == COLUMNS_MAX)
                                break;
                        vql_table_add_json(&t, json_object_get(object, key));
                }
        }
        vql_table_print(&t, to);
        vql_table_fini(&t);
}

void vql_table_print_members(const json_t *object, FILE *to)
{
        struct vql_table t;
        const char *key;
        json_t *value;

        vql_table_init(&t, "ll");
        json_object_foreach((json_t *)object, key, value)
        {
                if (json_is_object(json_array_get(value, 0)))
                        continue;
                vql_table_add(&t, "%s", key);
                vql_table_add_json(&t, value);
        }
        vql_table_print(&t, to);
        vql_table_fini(&t);
}
