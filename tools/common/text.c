/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>

void vql_text_init(struct vql_text *t, char *buffer, size_t size)
{
        t->buffer = buffer;
        t->size = size;
        t->used = 0;
        buffer[0] = '\0';
}

void vql_text_add(struct vql_text *t, const char *fmt, ...)
{
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(t->buffer + t->used, t->size - t->used, fmt, ap);
        va_end(ap);
        if (n > 0)
                t->used += (size_t)n;
        if (t->used >= t->size)
                t->used = t->size - 1;
}
