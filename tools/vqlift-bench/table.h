/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_TABLE_H
#define VQLIFT_BENCH_TABLE_H

/* Results for people: columns on a terminal, or the same in Markdown. */

#include <stdio.h>

struct options;
struct result;
struct run;

void table_head(FILE *out, const struct options *o);
void table_row(FILE *out, const struct options *o, const struct result *r);
void table_foot(FILE *out, const struct run *run);

void table_markdown(FILE *out, const struct run *run);

#endif
