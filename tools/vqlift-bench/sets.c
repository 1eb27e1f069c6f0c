/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/sets.h"

#include <string.h>

#include <rte_common.h>

#include "sw-fallback/burst.h"

/* sw-fallback/meson.build makes them. */
extern const struct vql_instance_set vql_set_no_batch, vql_set_no_prefetch, vql_set_no_header,
        vql_set_no_raw_mbuf;

/* What --control compares with: the same instruction set for both. */
static const struct control {
        const struct vql_instance_set *set;
        const char *what;
} controls[] = {
        { &vql_set_no_batch, "chains one after the other: taken, copied, returned" },
        { &vql_set_no_prefetch, "buffers are not prefetched while the run is taken" },
        { &vql_set_no_header, "headers are stored, also where the right one is there already" },
        { &vql_set_no_raw_mbuf, "each packet buffer is reset as a whole" },
};

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

        for (size_t i = 0; i < RTE_DIM(controls) && !set; i++)
                if (strcmp(controls[i].set->name, name) == 0)
                        set = controls[i].set;
        if (set)
                return set;
        fprintf(stderr, "vqlift-bench: --control: '%s', expected one of:\n", name);
        control_list(stderr);
        return NULL;
}

const struct vql_instance_set *control_base(const struct vql_instance_set *control)
{
        const struct vql_instance_set *avx2 = find("avx2");

        if (find(control->name))
                return vql_instance_set_best();
        return avx2 ? avx2 : find("baseline");
}

void control_list(FILE *out)
{
        for (size_t i = 0; i < RTE_DIM(controls); i++)
                fprintf(out, "%s: %s\n", controls[i].set->name, controls[i].what);
        for (size_t i = 0; i < vql_instance_set_count; i++)
                if (vql_instance_set_runs(vql_instance_sets[i]))
                        fprintf(out, "%s: compiled for that instruction set\n",
                                vql_instance_sets[i]->name);
}
