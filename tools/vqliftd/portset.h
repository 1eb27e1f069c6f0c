/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_PORTSET_H
#define VQLIFT_TOOLS_PORTSET_H

/*
 * The ports that exist, with the description that each was added by and where that came from.  A
 * reload of the file concerns the ports of the file; those that were added over the control socket
 * stay, unless the file now has a port of that name.
 *
 * Errors of the library pass through: the sentence is vql_last_error().
 */

#include <stddef.h>

#include <jansson.h>

#include <vqlift/vqlift.h>

#include "vqliftd/logger.h"

enum vql_origin { VQL_ORIGIN_FILE, VQL_ORIGIN_CONTROL };

struct vql_portset;

/* Both are borrowed. */
int vql_portset_new(struct vql *v, const struct vql_logger *log, struct vql_portset **ret_set);
/* Forget the descriptions; the ports stay with the library.  NULL is fine. */
void vql_portset_free(struct vql_portset *set);

/* `port` is checked and complete; it is copied. */
int vql_portset_add(struct vql_portset *set, const json_t *port, enum vql_origin origin);
int vql_portset_del(struct vql_portset *set, const char *name);

/* "file" or "control", or NULL for no such port. */
const char *vql_portset_origin(const struct vql_portset *set, const char *name);

struct vql_portset_changes {
        size_t added, deleted, changed, kept, failed;
};

/* Make the ports of the file those of `ports`.  What stays as it is is not touched; what cannot be
 * deleted or added is logged, and the others proceed. */
void vql_portset_apply(struct vql_portset *set, const json_t *ports,
                       struct vql_portset_changes *ret_changes);

#endif
