/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_REPORT_H
#define VQLIFT_BENCH_REPORT_H

/* Results for programs, and files. */

#include <stdio.h>

#include <jansson.h>

struct run;

/*
 * {"cells": [{"mode", "direction", "ring", ..., "vqlift", "rte_vhost", "ratio", ...}],
 *  "summary": {"geomean", "min", "cells", "failed"}, "machine": {...}}
 * With a control "control" and "gain" are there instead of "rte_vhost" and "ratio".  NULL: no
 * memory.
 */
json_t *report_json(const struct run *run);

/* -EIO, -ENOMEM. */
int report_print(const struct run *run, FILE *out);

/* results.json and results.md in a folder, which is made if it is not there.  -errno, with a line
 * on stderr. */
int report_write(const struct run *run, const char *folder);

/* Open a file of that folder for writing, likewise. */
int report_open(const char *folder, const char *name, FILE **ret_file);
int report_close(FILE *f, const char *folder, const char *name);

#endif
