/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_SETS_H
#define VQLIFT_BENCH_SETS_H

/* The datapath's instances by name: those of the product, and those with an idea switched off. */

#include <stdio.h>

struct vql_instance_set;

/* NULL: no such set, or this CPU cannot run it; then a line on stderr names those that there are.
 */
const struct vql_instance_set *set_find(const char *name);
const struct vql_instance_set *control_find(const char *name);

/* The set that differs from a control in one idea. */
const struct vql_instance_set *control_base(const struct vql_instance_set *control);

void control_list(FILE *out);

#endif
