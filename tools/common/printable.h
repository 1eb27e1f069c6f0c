/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_PRINTABLE_H
#define VQLIFT_TOOLS_PRINTABLE_H

#include <stdbool.h>

/* Replace control characters by '?': what others supplied must not forge lines of a log or move
 * the cursor of a terminal.  UTF-8 stays. */
void vql_printable(char *text);
bool vql_is_printable(const char *text);

#endif
