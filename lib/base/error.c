/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

int vql_fail(struct vql_error *e, int err, const char *fmt, ...)
{
        va_list ap;

        if (e) {
                va_start(ap, fmt);
                vsnprintf(e->text, sizeof(e->text), fmt, ap);
                va_end(ap);
        }
        return -err;
}
