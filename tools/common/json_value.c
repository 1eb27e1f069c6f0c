/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/json_value.h"

#include <stdlib.h>
#include <string.h>

json_t *vql_json_text(const char *text)
{
        json_t *string = json_string(text);
        char *ascii;

        if (string)
                return string;
        ascii = strdup(text);
        if (!ascii)
                return NULL;
        for (char *p = ascii; *p; p++) {
                if (*p & 0x80)
                        *p = '?';
        }
        string = json_string(ascii);
        free(ascii);
        return string;
}

json_t *vql_json_counter(uint64_t n)
{
        return json_integer((json_int_t)(n > INT64_MAX ? INT64_MAX : n));
}
