/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_REPORT_H
#define VQLIFT_TOOLS_REPORT_H

/*
 * What is wrong with a document, whether it came as a file or over the control socket: a list of
 * problems, each with the path of the value, a sentence, and what was expected.
 *
 * A path names a value as an operator would: "ports[1].queue-pairs".
 */

#include <stdbool.h>
#include <stddef.h>

enum { VQL_REPORT_PATH = 256, VQL_REPORT_TEXT = 512, VQL_REPORT_EXPECTED = 384 };

/* Where a value stands in its file, counted from 1; line 0: not known. */
struct vql_place {
        unsigned int line, column;
};

struct vql_problem {
        struct vql_place place;
        char path[VQL_REPORT_PATH]; /* "": the document */
        char text[VQL_REPORT_TEXT];
        char expected[VQL_REPORT_EXPECTED];
};

struct vql_report {
        struct vql_problem *problems;
        size_t n;
        size_t dropped; /* not kept: there were too many, or no memory */
};

void vql_report_fini(struct vql_report *r);

/* Note a problem.  `expected` alone is what a program shows, the sentence what a person reads. */
void vql_report_add(struct vql_report *r, const char *path, const char *expected, const char *fmt,
                    ...) __attribute__((format(printf, 4, 5)));
/* The same with a place that is known already. */
void vql_report_add_at(struct vql_report *r, struct vql_place place, const char *path,
                       const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* No problem so far? */
bool vql_report_clean(const struct vql_report *r);

/* Ask for the place of each problem that has none, sort them by place, and drop what is said
 * twice about one place. */
void vql_report_locate(struct vql_report *r,
                       struct vql_place (*find)(const void *arg, const char *path),
                       const void *arg);

/* Give `put` a line for each problem, "FILE:LINE: PATH: SENTENCE", unprintable bytes replaced. */
void vql_report_print(const struct vql_report *r, const char *file,
                      void (*put)(void *arg, const char *line), void *arg);

/* The path of a member or an element; too long paths end early. */
void vql_path_key(char ret_path[VQL_REPORT_PATH], const char *parent, const char *key);
void vql_path_index(char ret_path[VQL_REPORT_PATH], const char *parent, size_t index);
/* Cut the last step off; false if there was none. */
bool vql_path_up(char path[VQL_REPORT_PATH]);

#endif
