/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_MAX_BYTES = 512 };

void vql_log(const struct vql_log *log, int level, const char *fmt, ...)
{
        char line[LINE_MAX_BYTES];
        va_list ap;

        if (!log || !log->write || level > log->level)
                return;
        va_start(ap, fmt);
        vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        log->write(log->arg, level, log->name, line);
}
