/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BASE_ERROR_H
#define VQLIFT_BASE_ERROR_H

/*
 * An error is a negative errno for the code and one sentence for the person.  The sentence is
 * written at the level that knows the values and says what was found and what was expected.
 */

enum { VQL_ERROR_TEXT = 256 };

struct vql_error {
        char text[VQL_ERROR_TEXT];
};

/*
 * Write the sentence to `e` (which may be NULL) and return -err, so that a refusal is one line:
 *
 *         return vql_fail(e, EINVAL, "ring %u: size %u, expected a power of two", q, num);
 */
int vql_fail(struct vql_error *e, int err, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#endif
