/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_TABLE_H
#define VQLIFT_TOOLS_TABLE_H

/* Text in columns that line up. */

#include <stddef.h>
#include <stdio.h>

#include <jansson.h>

struct vql_table {
        const char *align; /* a letter a column: 'l' or 'r' */
        char **cells;      /* row by row */
        size_t n_cells;
};

/* `align` is borrowed. */
void vql_table_init(struct vql_table *t, const char *align);
void vql_table_fini(struct vql_table *t);

/* Add the next cell.  Control characters are replaced; no memory ends the program. */
void vql_table_add(struct vql_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A value of JSON as people read it: yes, no, - for nothing, lists with commas. */
void vql_table_add_json(struct vql_table *t, const json_t *value);

void vql_table_print(const struct vql_table *t, FILE *to);

/* Print a list of objects of one kind: a column for every member. */
void vql_table_print_objects(const json_t *list, FILE *to);
/* Print an object: a line for every member that is not a list of objects. */
void vql_table_print_members(const json_t *object, FILE *to);

#endif
