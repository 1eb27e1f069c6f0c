/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift/port_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/keys.h"

const struct vql_key *vql_port_option_at(size_t i)
{
        for (const struct vql_key *key = vql_port_rule.keys; key->name; key++) {
                if (strcmp(key->name, "name") != 0 && i-- == 0)
                        return key;
        }
        return NULL;
}

static bool takes(const struct vql_rule *rule, enum vql_rule_type type)
{
        for (; rule; rule = rule->otherwise) {
                if (rule->type == type)
                        return true;
        }
        return false;
}

/* A number where the rule takes one and the text is one, else a string. */
static json_t *make_scalar(const struct vql_rule *rule, const char *text)
{
        json_int_t n;
        char *end;

        if (takes(rule, VQL_RULE_INTEGER) && *text) {
                errno = 0;
                n = strtoll(text, &end, 10);
                if (!*end && !errno)
                        return json_integer(n);
        }
        return json_string(text);
}

static int append_entries(json_t *list, const struct vql_rule *item, const char *text)
{
        char *copy = strdup(text), *rest = copy, *entry;
        int r = copy ? 0 : -ENOMEM;

        while (r == 0 && (entry = strsep(&rest, ","))) {
                if (json_array_append_new(list, make_scalar(item, entry)) < 0)
                        r = -ENOMEM;
        }
        free(copy);
        return r;
}

/* One of the words that the key takes instead of a list? */
static bool is_word(const struct vql_rule *rule, const char *text)
{
        for (; rule; rule = rule->otherwise) {
                for (size_t i = 0; rule->type == VQL_RULE_WORD && rule->words[i]; i++) {
                        if (strcmp(rule->words[i], text) == 0)
                                return true;
                }
        }
        return false;
}

int vql_port_option_set(json_t *port, const struct vql_key *key, const char *text)
{
        json_t *value = json_object_get(port, key->name);

        if (!takes(key->rule, VQL_RULE_LIST) || is_word(key->rule, text) || json_is_string(value)) {
                if (value)
                        return -EEXIST;
                value = make_scalar(key->rule, text);
                return json_object_set_new(port, key->name, value) < 0 ? -ENOMEM : 0;
        }
        if (!value) {
                value = json_array();
                if (json_object_set_new(port, key->name, value) < 0)
                        return -ENOMEM;
        }
        return append_entries(value, key->rule->item, text);
}
