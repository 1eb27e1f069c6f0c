/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/nearest.h"
#include "common/text.h"

enum { SHOWN_BYTES = 64 };

/* Strings are shown as JSON so that quotes and control characters are told apart from ours. */
static void describe_string(struct vql_text *t, const json_t *value)
{
        char *dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

        if (!dumped)
                vql_text_add(t, "a string");
        else if (strlen(dumped) <= SHOWN_BYTES)
                vql_text_add(t, "%s", dumped);
        else
                vql_text_add(t, "%.*s...\" (%zu bytes)", SHOWN_BYTES, dumped,
                             json_string_length(value));
        free(dumped);
}

static void describe(struct vql_text *t, const json_t *value)
{
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                vql_text_add(t, "a mapping");
                break;
        case JSON_ARRAY:
                vql_text_add(t, "a list of %zu", json_array_size(value));
                break;
        case JSON_STRING:
                describe_string(t, value);
                break;
        case JSON_INTEGER:
                vql_text_add(t, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
                break;
        case JSON_REAL:
                vql_text_add(t, "%g", json_real_value(value));
                break;
        case JSON_TRUE:
        case JSON_FALSE:
                vql_text_add(t, "%s", json_is_true(value) ? "true" : "false");
                break;
        case JSON_NULL:
                vql_text_add(t, "nothing");
                break;
        }
}

void vql_schema_refuse(struct vql_report *report, const char *path, const json_t *found,
                       const char *expected)
{
        char buffer[SHOWN_BYTES + 64];
        struct vql_text t;

        vql_text_init(&t, buffer, sizeof(buffer));
        describe(&t, found);
        vql_report_add(report, path, expected, "%s, expected %s", buffer, expected);
}

static void expect_words(struct vql_text *t, const char *const *words)
{
        for (size_t i = 0; words[i]; i++) {
                const char *glue = i == 0 ? "" : words[i + 1] ? ", " : " or ";

                vql_text_add(t, "%s\"%s\"", glue, words[i]);
        }
}

static void expect_one(struct vql_text *t, const struct vql_rule *rule)
{
        if (rule->type == VQL_RULE_INTEGER)
                vql_text_add(t, "an integer, %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT,
                             rule->min, rule->max);
        else if (rule->type == VQL_RULE_WORD)
                expect_words(t, rule->words);
        else
                vql_text_add(t, "%s", rule->what);
}

void vql_rule_expected(const struct vql_rule *rule, char *ret_text, size_t n)
{
        struct vql_text t;

        vql_text_init(&t, ret_text, n);
        for (const struct vql_rule *form = rule; form; form = form->otherwise) {
                expect_one(&t, form);
                if (form->otherwise)
                        vql_text_add(&t, form->otherwise->otherwise ? ", " : " or ");
        }
}

static bool is_word(const char *const *words, const char *s)
{
        for (; *words; words++) {
                if (strcmp(*words, s) == 0)
                        return true;
        }
        return false;
}

static bool in_range(const struct vql_rule *rule, json_int_t n)
{
        return n >= rule->min && n <= rule->max;
}

/* Is the value of this form, its members aside? */
static bool accepts(const struct vql_rule *rule, const json_t *value)
{
        const char *s = json_string_value(value);

        switch (rule->type) {
        case VQL_RULE_INTEGER:
                return json_is_integer(value) && in_range(rule, json_integer_value(value));
        case VQL_RULE_WORD:
                return s && is_word(rule->words, s);
        case VQL_RULE_STRING:
                return s && in_range(rule, (json_int_t)json_string_length(value)) &&
                       (!rule->valid || rule->valid(s));
        case VQL_RULE_LIST:
                return json_is_array(value) && in_range(rule, (json_int_t)json_array_size(value));
        case VQL_RULE_MAP:
                return json_is_object(value);
        }
        return false;
}

static void refuse_by_rule(const struct vql_rule *rule, const json_t *value, const char *path,
                           struct vql_report *report)
{
        char expected[VQL_REPORT_EXPECTED];

        /* Of an integer that is out of range, only the range is wrong. */
        if (rule->type == VQL_RULE_INTEGER && !rule->otherwise && json_is_integer(value))
                snprintf(expected, sizeof(expected),
                         "%" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT, rule->min, rule->max);
        else
                vql_rule_expected(rule, expected, sizeof(expected));
        vql_schema_refuse(report, path, value, expected);
}

static const struct vql_key *find_key(const struct vql_key *keys, const char *name)
{
        for (; keys->name; keys++) {
                if (strcmp(keys->name, name) == 0)
                        return keys;
        }
        return NULL;
}

static void refuse_key(const struct vql_key *keys, const char *name, const char *path,
                       struct vql_report *report)
{
        char expected[VQL_REPORT_EXPECTED];
        struct vql_nearest nearest;
        struct vql_text t;

        vql_text_init(&t, expected, sizeof(expected));
        vql_nearest_init(&nearest, name);
        for (const struct vql_key *k = keys; k->name; k++) {
                vql_nearest_try(&nearest, k->name);
                vql_text_add(&t, "%s%s", k == keys ? "" : ", ", k->name);
        }
        if (!keys->name)
                vql_text_add(&t, "nothing");
        if (nearest.found)
                vql_report_add(report, path, expected, "unknown key, did you mean \"%s\"?",
                               nearest.found);
        else
                vql_report_add(report, path, expected, "unknown key, expected %s%s",
                               keys->name && keys[1].name ? "one of " : "", expected);
}

static void check_map(const struct vql_key *keys, const json_t *map, const char *path,
                      struct vql_report *report)
{
        char member[VQL_REPORT_PATH], expected[VQL_REPORT_EXPECTED];
        const struct vql_key *key;
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)map, name, value)
        {
                vql_path_key(member, path, name);
                key = find_key(keys, name);
                if (key)
                        vql_schema_check(key->rule, value, member, report);
                else
                        refuse_key(keys, name, member, report);
        }
        for (key = keys; key->name; key++) {
                if (!key->required || json_object_get(map, key->name))
                        continue;
                vql_path_key(member, path, key->name);
                vql_rule_expected(key->rule, expected, sizeof(expected));
                vql_report_add(report, member, expected, "missing, expected %s", expected);
        }
}

static void check_list(const struct vql_rule *item, const json_t *list, const char *path,
                       struct vql_report *report)
{
        char member[VQL_REPORT_PATH];
        json_t *value;
        size_t i;

        json_array_foreach(list, i, value)
        {
                vql_path_index(member, path, i);
                vql_schema_check(item, value, member, report);
        }
}

/* The form of the rule that the value has, or NULL. */
static const struct vql_rule *find_form(const struct vql_rule *rule, const json_t *value)
{
        do {
                if (accepts(rule, value))
                        return rule;
                rule = rule->otherwise;
        } while (rule);
        return NULL;
}

void vql_schema_check(const struct vql_rule *rule, const json_t *value, const char *path,
                      struct vql_report *report)
{
        const struct vql_rule *form = find_form(rule, value);

        if (!form)
                refuse_by_rule(rule, value, path, report);
        else if (form->type == VQL_RULE_MAP)
                check_map(form->keys, value, path, report);
        else if (form->type == VQL_RULE_LIST)
                check_list(form->item, value, path, report);
}

static int fill_map(const struct vql_key *keys, json_t *map)
{
        int r;

        for (const struct vql_key *key = keys; key->name; key++) {
                json_t *value = json_object_get(map, key->name);

                if (!value && key->fallback) {
                        value = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
                        if (json_object_set_new(map, key->name, value) < 0)
                                return -ENOMEM;
                }
                r = value ? vql_schema_fill(key->rule, value) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

int vql_schema_fill(const struct vql_rule *rule, json_t *value)
{
        const struct vql_rule *form = find_form(rule, value);
        json_t *entry;
        size_t i;
        int r;

        if (form && form->type == VQL_RULE_MAP)
                return fill_map(form->keys, value);
        if (!form || form->type != VQL_RULE_LIST)
                return 0;
        json_array_foreach(value, i, entry)
        {
                r = vql_schema_fill(form->item, entry);
                if (r < 0)
                        return r;
        }
        return 0;
}
