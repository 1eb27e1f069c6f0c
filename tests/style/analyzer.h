/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TESTS_STYLE_ANALYZER_H
#define VQLIFT_TESTS_STYLE_ANALYZER_H

/*
 * Included first by clang-tidy (tidy.py).  Its analyser looks at one file at a time, so it cannot
 * know that vql_fail() always returns a negative number, and would follow paths on which a refusal
 * counts as success.
 */

#include "base/error.h"

int vql_analyzer_any(void); /* nobody defines it: a number that may be anything */

static inline int vql_analyzer_negative(void)
{
        int rc = vql_analyzer_any();

        return rc < 0 ? rc : -1;
}

#define vql_fail(e, err, ...) (vql_fail((e), (err), __VA_ARGS__), vql_analyzer_negative())

#endif
