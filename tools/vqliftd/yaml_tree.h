/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_YAML_TREE_H
#define VQLIFT_TOOLS_YAML_TREE_H

/*
 * YAML read into the same kind of tree that the control socket gets as JSON, with the place of
 * every value.  Taken is what a configuration needs: one document of mappings, lists and scalars.
 * Refused, each at its place: anchors, aliases, tags, keys twice in one mapping, keys that are not
 * scalars, more than one document, more than a few levels.
 *
 * A plain (unquoted) scalar is null (~, null or empty), true, false, a decimal integer without
 * leading zeros, or else a string: 0660 and no are strings.
 */

#include <stddef.h>

#include <jansson.h>

#include "common/report.h"

struct vql_yaml {
        json_t *tree;   /* an empty document is an empty mapping */
        json_t *places; /* path: [line, column] */
};

/*
 * 0: a tree, although `report` may have gained problems.  -EINVAL: no tree, and `report` says why.
 * -ENOMEM.
 */
int vql_yaml_parse(const char *text, size_t n, struct vql_report *report, struct vql_yaml *ret_y);
void vql_yaml_fini(struct vql_yaml *y);

/* The place of the value at `path`, or of the nearest thing that contains it. */
struct vql_place vql_yaml_find(const struct vql_yaml *y, const char *path);

#endif
