/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/nearest.h"

#include <stdint.h>
#include <string.h>

/* Longer words are not compared: nobody mistypes them, and hostile ones cost nothing. */
enum { WORD_MAX = 40 };

static size_t min3(size_t a, size_t b, size_t c)
{
        size_t least = a < b ? a : b;

        return least < c ? least : c;
}

/* Levenshtein's distance, one row of the table at a time. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
        size_t row[WORD_MAX + 1];

        for (size_t j = 0; j <= b_len; j++)
                row[j] = j;
        for (size_t i = 1; i <= a_len; i++) {
                size_t diagonal = row[0];

                row[0] = i;
                for (size_t j = 1; j <= b_len; j++) {
                        size_t above = row[j];

                        row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
                        diagonal = above;
                }
        }
        return row[b_len];
}

void vql_nearest_init(struct vql_nearest *n, const char *typed)
{
        n->typed = typed;
        n->found = NULL;
        n->distance = SIZE_MAX;
}

void vql_nearest_try(struct vql_nearest *n, const char *candidate)
{
        size_t typed_len = strlen(n->typed), len = strlen(candidate), d;

        if (typed_len > WORD_MAX || len > WORD_MAX)
                return;
        d = distance(n->typed, typed_len, candidate, len);
        /* A third of the letters wrong is a slip, more is another word. */
        if (d < n->distance && d <= (len + 2) / 3) {
                n->distance = d;
                n->found = candidate;
        }
}
