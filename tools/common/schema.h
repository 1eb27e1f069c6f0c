/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_SCHEMA_H
#define VQLIFT_TOOLS_SCHEMA_H

/*
 * What a JSON document may look like, as tables of rules, and the one validator that reads them.
 * The configuration file, the parameters of every control method, the options of the command line
 * and the tables in the manual all come from the same rules (keys.h).
 */

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "common/report.h"

enum vql_rule_type {
        VQL_RULE_INTEGER,
        VQL_RULE_WORD, /* a string out of a few */
        VQL_RULE_STRING,
        VQL_RULE_LIST,
        VQL_RULE_MAP,
};

struct vql_rule {
        enum vql_rule_type type;
        json_int_t min, max;              /* integer: its value; string: bytes; list: entries */
        const char *what;                 /* string, list, map: what is expected, for people */
        const char *const *words;         /* word: the words, then NULL */
        bool (*valid)(const char *s);     /* string: beyond its length; may be NULL */
        const struct vql_rule *item;      /* list: each entry */
        const struct vql_key *keys;       /* map: the keys, then one without a name */
        const struct vql_rule *otherwise; /* another form that is as good, or NULL */
};

struct vql_key {
        const char *name;
        const struct vql_rule *rule;
        bool required;
        const char *fallback; /* JSON of the value that an absent key has; NULL: it stays absent */
        const char *help;     /* one or more sentences for the manual */
};

/* Note in `report` everything in `value` that breaks the rule.  `path` is that of the value. */
void vql_schema_check(const struct vql_rule *rule, const json_t *value, const char *path,
                      struct vql_report *report);

/* Give absent keys their fallback, as far as `value` has the right form.  -ENOMEM. */
int vql_schema_fill(const struct vql_rule *rule, json_t *value);

/* Note that `found` is not what was expected: "300, expected 1 to 128". */
void vql_schema_refuse(struct vql_report *report, const char *path, const json_t *found,
                       const char *expected);

/* What the rule expects, in all its forms: "auto" or an integer, 0 to 127. */
void vql_rule_expected(const struct vql_rule *rule, char *ret_text, size_t n);

#endif
