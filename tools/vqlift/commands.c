/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift/command.h"

#include <stdio.h>

#include "vqlift/call.h"

static const struct vql_command *const tables[] = {
        vql_port_commands, vql_stats_commands, vql_compat_commands,
        vql_show_commands, vql_help_commands,
};

const struct vql_command *vql_command_at(size_t i)
{
        for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++) {
                for (const struct vql_command *c = tables[t]; c->noun; c++) {
                        if (i-- == 0)
                                return c;
                }
        }
        return NULL;
}

void vql_command_print_json(const json_t *result, bool one_line)
{
        json_dumpf(result, stdout, JSON_ENCODE_ANY | (one_line ? JSON_COMPACT : JSON_INDENT(2)));
        putchar('\n');
}

int vql_command_call(const struct vql_cli *cli, const char *method, json_t *params,
                     void (*print)(const json_t *result))
{
        json_t *result = vql_call(cli->socket, method, params);

        if (!result)
                return VQL_EXIT_FAILED;
        if (cli->json)
                vql_command_print_json(result, false);
        else
                print(result);
        json_decref(result);
        return VQL_EXIT_DONE;
}
