/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_CALL_H
#define VQLIFT_TOOLS_CALL_H

#include <jansson.h>

/*
 * Call a method of the daemon that listens on `socket` and wait for its answer.  Takes over
 * `params`.  The result, a new reference; or NULL, and standard error has said why: the daemon
 * cannot be reached, does not answer, or refuses.
 */
json_t *vql_call(const char *socket, const char *method, json_t *params);

#endif
