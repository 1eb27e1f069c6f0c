/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/printable.h"

#include <stddef.h>

/* The length of the control character at p, or 0.  C1 controls are two bytes of UTF-8. */
static size_t control_length(const unsigned char *p)
{
        if (*p < 0x20 || *p == 0x7f)
                return 1;
        return p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

void vql_printable(char *text)
{
        for (unsigned char *p = (unsigned char *)text; *p; p++) {
                for (size_t n = control_length(p); n > 0; n--)
                        p[n - 1] = '?';
        }
}

bool vql_is_printable(const char *text)
{
        for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
                if (control_length(p))
                        return false;
        }
        return true;
}
