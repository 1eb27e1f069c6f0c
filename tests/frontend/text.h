/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_TEXT_H
#define FRONTEND_TEXT_H

/* The sentence that goes with a negative errno. */
struct fe_text {
        char s[256];
};

/* Write the sentence to `t` (NULL is fine) and return -err. */
int fe_fail(struct fe_text *t, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
