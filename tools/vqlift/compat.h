/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_COMPAT_H
#define VQLIFT_TOOLS_COMPAT_H

/* May a guest move?  What two ports offer, as compat.dump tells it, compared. */

#include <jansson.h>

#include "common/report.h"

/* Is the document one?  What is wrong with it is noted in `report`. */
void vql_compat_validate(const json_t *document, struct vql_report *report);

/*
 * Can `to` serve every guest that `from` may have agreed with?  Both are valid.  A list of reasons
 * why not, in the order of the document: objects with key, message and, for features, bit and name.
 * Empty: it can.  NULL: no memory.
 */
json_t *vql_compat_check(const json_t *from, const json_t *to);

#endif
