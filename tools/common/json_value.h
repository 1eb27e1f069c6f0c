/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_JSON_VALUE_H
#define VQLIFT_TOOLS_JSON_VALUE_H

#include <stdint.h>

#include <jansson.h>

/* A JSON string of text that may have been cut within a character, or never was UTF-8: then what
 * is not ASCII becomes '?'.  NULL: no memory. */
json_t *vql_json_text(const char *text);

/* A counter; one beyond what JSON's readers take stays at their maximum. */
json_t *vql_json_counter(uint64_t n);

#endif
