/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_NEAREST_H
#define VQLIFT_TOOLS_NEAREST_H

#include <stddef.h>

/* Finds, over any number of candidates, the one that was probably meant. */
struct vql_nearest {
        const char *typed;
        const char *found; /* one of the candidates, or NULL: none is near */
        size_t distance;
};

void vql_nearest_init(struct vql_nearest *n, const char *typed);
/* `candidate` is borrowed for as long as n->found is used. */
void vql_nearest_try(struct vql_nearest *n, const char *candidate);

#endif
