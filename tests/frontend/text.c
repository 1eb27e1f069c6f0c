/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/text.h"

#include <stdarg.h>
#include <stdio.h>

int fe_fail(struct fe_text *t, int err, const char *fmt, ...)
{
        va_list args;

        if (t) {
                va_start(args, fmt);
                vsnprintf(t->s, sizeof(t->s), fmt, args);
                va_end(args);
        }
        return -err;
}
