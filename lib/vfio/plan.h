/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_PLAN_H
#define VQLIFT_VFIO_PLAN_H

/*
 * The way from one table to another: which pieces the kernel must map and unmap.  A plan is carried
 * out as a whole or not at all.
 */

#include <stddef.h>

#include "base/error.h"
#include "vfio/container.h"
#include "vfio/table.h"

enum vql_vfio_order {
        /* What comes first, unless it lies where something must go: nothing can go wrong any more
         * once the first thing is taken away.  For a moment there is more mapped than before. */
        VQL_PLAN_COME_FIRST,
        VQL_PLAN_GO_FIRST,
};

struct vql_vfio_step {
        enum { VQL_STEP_MAP, VQL_STEP_UNMAP } kind;
        struct vql_vfio_entry *first; /* the piece, in the table that has it */
        size_t n;
};

struct vql_vfio_plan {
        struct vql_vfio_step *steps;
        size_t n, done;
};

/* The plan points into both tables.  -ENOMEM. */
int vql_vfio_plan_make(const struct vql_vfio_table *from, const struct vql_vfio_table *to,
                       enum vql_vfio_order order, struct vql_vfio_plan *ret_plan);
void vql_vfio_plan_free(struct vql_vfio_plan *p);

/* On an error all is as it was, except after -ENOTRECOVERABLE.  The caller holds c->mutex. */
int vql_vfio_plan_run(struct vql_vfio_plan *p, struct vql_vfio_container *c, struct vql_error *e);
/* Take back what was done.  -ENOTRECOVERABLE, and then the container is lost. */
int vql_vfio_plan_undo(struct vql_vfio_plan *p, struct vql_vfio_container *c, struct vql_error *e);

/* Map entries that lie side by side, as one piece if their addresses still allow. */
int vql_vfio_plan_map(struct vql_vfio_container *c, struct vql_vfio_entry *first, size_t n,
                      struct vql_error *e);

#endif
