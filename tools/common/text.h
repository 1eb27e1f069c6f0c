/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_TEXT_H
#define VQLIFT_TOOLS_TEXT_H

#include <stddef.h>

/* Text put together piece by piece in a buffer of fixed size; what does not fit is cut. */
struct vql_text {
        char *buffer;
        size_t size, used;
};

void vql_text_init(struct vql_text *t, char *buffer, size_t size);
void vql_text_add(struct vql_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
