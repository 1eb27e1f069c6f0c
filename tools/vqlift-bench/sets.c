/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/sets.h"

#include <string.h>

#include "sw-fallback/burst.h"

static const struct vql_instance_set *find(const char *name)
{
        for (size_t i = 0; i < vql_instance_set_count; i++)
                if (strcmp(vql_instance_sets[i]->name, name) == 0 &&
                    vql_instance_set_runs(vql_instance_sets[i]))
                        return vql_instance_sets[i];
        return NULL;
}

static void list(FILE *out)
{
        for (size_t i = 0; i < vql_instance_set_count; i++)
                if (vql_instance_set_runs(vql_instance_sets[i]))
                        fprintf(out, "%s%s", i ? ", " : "", vql_instance_sets[i]->name);
}

const struct vql_instance_set *set_find(const char *name)
{
        const struct vql_instance_set *set = find(name);

        if (!set) {
                fprintf(stderr, "vqlift-bench: --set: '%s', expected ", name);
                list(stderr);
                fputs(" (of those that this CPU runs)\n", stderr);
        }
        return set;
}

const struct vql_instance_set *control_find(const char *name)
{
        const struct vql_instance_set *set = find(name);

        if (!set) {
                fprintf(stderr, "vqlift-bench: --control: '%s', expected one of:\n", name);
                control_list(stderr);
        }
        return set;
}

void control_list(FILE *out)
{
        for (size_t i = 0; i < vql_instance_set_count; i++)
                if (vql_instance_set_runs(vql_instance_sets[i]))
                        fprintf(out,
                                "%s: all that vqlift does, compiled for that instruction set\n",
                                vql_instance_sets[i]->name);
}
