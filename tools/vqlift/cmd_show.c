/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "vqlift/command.h"
#include "vqlift/table.h"

static void print_version(const json_t *result)
{
        const char *version = json_string_value(json_object_get(result, "version"));

        printf("vqliftd %s\nvqlift %s\n", version ? version : "-", VQLIFT_VERSION);
}

static int version(struct vql_cli *cli, const char *argument)
{
        (void)argument;
        return vql_command_call(cli, "version", json_object(), print_version);
}

static void print_list(const json_t *result)
{
        vql_table_print_objects(result, stdout);
}

static int uplinks(struct vql_cli *cli, const char *argument)
{
        (void)argument;
        return vql_command_call(cli, "uplink.list", json_object(), print_list);
}

static int workers(struct vql_cli *cli, const char *argument)
{
        (void)argument;
        return vql_command_call(cli, "worker.list", json_object(), print_list);
}

const struct vql_command vql_show_commands[] = {
        {
                .noun = "show",
                .verb = "version",
                .run = version,
                .help = "Show the versions of the running daemon and of this program.",
        },
        {
                .noun = "show",
                .verb = "uplinks",
                .run = uplinks,
                .help = "Show the uplinks of all ports: devices, drivers, links, queues.",
        },
        {
                .noun = "show",
                .verb = "workers",
                .run = workers,
                .help = "Show the workers: CPUs, load, sleeps.",
        },
        { 0 },
};
