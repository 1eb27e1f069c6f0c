/* SPDX-License-Identifier: BSD-3-Clause */
#include "gen_docs/blocks.h"

#include <stdlib.h>
#include <string.h>

#include <vqlift/vqlift.h>

#include "common/keys.h"
#include "vqlift/command.h"
#include "vqlift/port_options.h"
#include "vqliftd/rpc.h"

enum { FEATURE_BITS = 64 };

/* Text for man(7): no hyphens where people copy options from, no line that is taken for a macro. */
static void put_roff(FILE *to, const char *text)
{
        if (*text == '.' || *text == '\'')
                fputs("\\&", to);
        for (; *text; text++) {
                if (*text == '-')
                        fputs("\\-", to);
                else if (*text == '\\')
                        fputs("\\e", to);
                else
                        fputc(*text, to);
        }
}

/* A fallback as one would write it in the file. */
static void put_fallback(FILE *to, const char *fallback)
{
        json_t *value = json_loads(fallback, JSON_DECODE_ANY, NULL);

        if (json_is_string(value))
                fputs(json_string_value(value), to);
        else if (json_is_array(value) && json_array_size(value) == 0)
                fputs("an empty list", to);
        else
                fputs(fallback, to);
        json_decref(value);
}

static void put_roff_key(FILE *to, const char *dashes, const struct vql_key *key)
{
        char expected[VQL_REPORT_EXPECTED];

        vql_rule_expected(key->rule, expected, sizeof(expected));
        fputs(".TP\n.B ", to);
        put_roff(to, dashes);
        put_roff(to, key->name);
        fputc('\n', to);
        put_roff(to, key->help);
        fputs("\n.br\nValue: ", to);
        put_roff(to, expected);
        fputs(".\n", to);
        if (key->required)
                fputs("This key is required.\n", to);
        if (!key->fallback)
                return;
        fputs("Default: ", to);
        put_fallback(to, key->fallback);
        fputs(".\n", to);
}

static void write_daemon_keys(FILE *to)
{
        for (const struct vql_key *key = vql_daemon_rule.keys; key->name; key++)
                put_roff_key(to, "", key);
}

static void write_port_keys(FILE *to)
{
        for (const struct vql_key *key = vql_port_rule.keys; key->name; key++)
                put_roff_key(to, "", key);
}

static void write_port_options(FILE *to)
{
        const struct vql_key *key;

        for (size_t i = 0; (key = vql_port_option_at(i)); i++)
                put_roff_key(to, "--", key);
}

static void write_commands(FILE *to)
{
        const struct vql_command *c;

        for (size_t i = 0; (c = vql_command_at(i)); i++) {
                fprintf(to, ".TP\n\\fBvqlift %s", c->noun);
                if (c->verb)
                        fprintf(to, " %s", c->verb);
                fputs("\\fR", to);
                if (c->argument)
                        fprintf(to, " \\fI%s\\fR", c->argument);
                if (c->second)
                        fprintf(to, " \\fI%s\\fR", c->second);
                if (c->takes_port_keys)
                        fputs(" \\fIOPTION\\fR...", to);
                if (c->takes_timeline)
                        fputs(" [\\fB\\-\\-timeline\\fR]", to);
                if (c->takes_watch)
                        fputs(" [\\fB\\-\\-watch\\fR \\fISECONDS\\fR]", to);
                fputc('\n', to);
                put_roff(to, c->help);
                fputc('\n', to);
        }
}

static void write_features(FILE *to)
{
        const char *name, *comma = "";

        for (unsigned int bit = 0; bit < FEATURE_BITS; bit++) {
                name = vql_feature_to_name(bit);
                if (!name)
                        continue;
                fprintf(to, "%s%s", comma, name);
                comma = ",\n";
        }
        fputs(".\n", to);
}

static void put_params(FILE *to, const struct vql_key *keys)
{
        char expected[VQL_REPORT_EXPECTED];

        if (!keys->name) {
                fputs("\nNo parameters.\n", to);
                return;
        }
        fputs("\n| parameter | value | default | meaning |\n|---|---|---|---|\n", to);
        for (; keys->name; keys++) {
                vql_rule_expected(keys->rule, expected, sizeof(expected));
                fprintf(to, "| `%s` | %s | ", keys->name, expected);
                if (keys->required)
                        fputs("required", to);
                else if (keys->fallback)
                        put_fallback(to, keys->fallback);
                fprintf(to, " | %s |\n", keys->help);
        }
}

static void put_fields(FILE *to, const char *what, const struct vql_field *fields)
{
        if (!fields)
                return;
        fprintf(to, "\n| %s | type | meaning |\n|---|---|---|\n", what);
        for (; fields->key; fields++)
                fprintf(to, "| `%s` | %s | %s |\n", fields->key, vql_field_type_name(fields->type),
                        fields->help);
}

static void write_methods(FILE *to)
{
        const struct vql_rpc_method *m;

        for (size_t i = 0; (m = vql_rpc_method_at(i)); i++) {
                fprintf(to, "%s### %s\n\n%s\n", i ? "\n" : "", m->name, m->help);
                put_params(to, m->params->keys);
                fprintf(to, "\nResult: %s\n", m->result);
                put_fields(to, "member", m->fields);
                put_fields(to, "member of a ring", m->ring_fields);
                put_fields(to, "member of a session", m->session_fields);
                put_fields(to, "member of a phase", m->phase_fields);
        }
}

static const struct gen_block blocks[] = {
        { "daemon-keys", write_daemon_keys },   { "port-keys", write_port_keys },
        { "port-options", write_port_options }, { "commands", write_commands },
        { "features", write_features },         { "methods", write_methods },
};

const struct gen_block *gen_block_at(size_t i)
{
        return i < sizeof(blocks) / sizeof(*blocks) ? &blocks[i] : NULL;
}
