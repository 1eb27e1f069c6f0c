/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <time.h>

#include "vqlift/command.h"
#include "vqlift/table.h"

static json_t *name_params(const char *name)
{
        return name ? json_pack("{s:s}", "name", name) : json_object();
}

static void print_name(const json_t *result)
{
        const char *name = json_string_value(json_object_get(result, "name"));

        printf("%s\n", name ? name : "");
}

static int add(struct vql_cli *cli, const char *name)
{
        json_object_set_new(cli->port, "name", json_string(name));
        return vql_command_call(cli, "port.add", json_incref(cli->port), print_name);
}

static int del(struct vql_cli *cli, const char *name)
{
        return vql_command_call(cli, "port.del", name_params(name), print_name);
}

static void print_row(struct vql_table *t, const json_t *port)
{
        static const char *const keys[] = { "name",          "state",   "role",   "queue-pairs",
                                            "rings-running", "link-up", "uplink", "socket" };

        for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
                vql_table_add_json(t, json_object_get(port, keys[i]));
}

static void print_list(const json_t *ports)
{
        struct vql_table t;
        json_t *port;
        size_t i;

        vql_table_init(&t, "lllrrlll");
        for (const char *const *heading =
                     (const char *const[]){ "NAME", "STATE", "ROLE", "PAIRS", "RINGS", "LINK",
                                            "UPLINK", "SOCKET", NULL };
             *heading; heading++)
                vql_table_add(&t, "%s", *heading);
        json_array_foreach(ports, i, port) print_row(&t, port);
        vql_table_print(&t, stdout);
        vql_table_fini(&t);
}

/* The rings that the front-end has set up. */
static json_t *used_rings(const json_t *rings)
{
        json_t *used = json_array(), *ring;
        size_t i;

        json_array_foreach(rings, i, ring)
        {
                if (json_integer_value(json_object_get(ring, "ring-size")) > 0)
                        json_array_append(used, ring);
        }
        return used;
}

static void print_port(const json_t *port)
{
        json_t *rings = used_rings(json_object_get(port, "rings"));

        vql_table_print_members(port, stdout);
        if (json_array_size(rings) > 0)
                putchar('\n');
        vql_table_print_objects(rings, stdout);
        json_decref(rings);
}

/* Milliseconds, as people compare them. */
static void add_ms(struct vql_table *t, const json_t *us)
{
        if (json_is_integer(us))
                vql_table_add(t, "%.3f", (double)json_integer_value(us) / 1000);
        else
                vql_table_add(t, "-");
}

static void print_phases(const json_t *phases)
{
        struct vql_table t;
        json_t *phase;
        size_t i;

        vql_table_init(&t, "lrrr");
        for (const char *const *heading =
                     (const char *const[]){ "PHASE", "TIMES", "AT MS", "TOOK MS", NULL };
             *heading; heading++)
                vql_table_add(&t, "%s", *heading);
        json_array_foreach(phases, i, phase)
        {
                if (json_integer_value(json_object_get(phase, "count")) == 0)
                        continue;
                vql_table_add_json(&t, json_object_get(phase, "phase"));
                vql_table_add_json(&t, json_object_get(phase, "count"));
                add_ms(&t, json_object_get(phase, "at-us"));
                add_ms(&t, json_object_get(phase, "took-us"));
        }
        vql_table_print(&t, stdout);
        vql_table_fini(&t);
}

static void print_session(const json_t *session)
{
        const time_t began =
                (time_t)(json_integer_value(json_object_get(session, "began-us")) / 1000000);
        const json_t *lasted = json_object_get(session, "lasted-us");
        char when[32] = "";
        struct vql_table t;
        struct tm tm;

        if (gmtime_r(&began, &tm))
                strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
        vql_table_init(&t, "ll");
        vql_table_add(&t, "connection");
        vql_table_add_json(&t, json_object_get(session, "connection"));
        vql_table_add(&t, "began");
        vql_table_add(&t, "%s", when);
        vql_table_add(&t, "lasted ms");
        add_ms(&t, lasted);
        vql_table_add(&t, "reason");
        vql_table_add_json(&t, json_object_get(session, "reason"));
        vql_table_print(&t, stdout);
        vql_table_fini(&t);
        print_phases(json_object_get(session, "phases"));
}

static void print_timeline(const json_t *port)
{
        json_t *session;
        size_t i;

        json_array_foreach(json_object_get(port, "timeline"), i, session)
        {
                if (i > 0)
                        putchar('\n');
                print_session(session);
        }
}

static int list(struct vql_cli *cli, const char *argument)
{
        (void)argument;
        return vql_command_call(cli, "port.list", json_object(), print_list);
}

static int show(struct vql_cli *cli, const char *name)
{
        if (!name)
                return list(cli, NULL);
        return vql_command_call(cli, "port.show", name_params(name),
                                cli->timeline ? print_timeline : print_port);
}

static void print_nothing(const json_t *result)
{
        (void)result;
}

static int path(struct vql_cli *cli, const char *name)
{
        json_t *params = name_params(name);

        json_object_set_new(params, "path", json_string(cli->second));
        return vql_command_call(cli, "port.path", params, print_nothing);
}

static void print_moves(const json_t *list)
{
        vql_table_print_objects(list, stdout);
}

static int moves(struct vql_cli *cli, const char *name)
{
        return vql_command_call(cli, "port.moves", name_params(name), print_moves);
}

const struct vql_command vql_port_commands[] = {
        {
                .noun = "port",
                .verb = "add",
                .argument = "NAME",
                .takes_port_keys = true,
                .run = add,
                .help = "Add a port; its keys are options. It lives until it is deleted or the "
                        "daemon ends.",
        },
        {
                .noun = "port",
                .verb = "del",
                .argument = "NAME",
                .run = del,
                .help = "Delete a port; its front-end is disconnected.",
        },
        {
                .noun = "port",
                .verb = "show",
                .argument = "[NAME]",
                .run = show,
                .takes_timeline = true,
                .help = "Show all about a port, and the rings that its front-end has set up; "
                        "without NAME, list the ports. With --timeline, show how its last "
                        "sessions went instead: when each phase began and how long it took.",
        },
        {
                .noun = "port",
                .verb = "path",
                .argument = "NAME",
                .second = "PATH",
                .run = path,
                .help = "Ask for a path for all rings of a port with a device: direct, relay, "
                        "software, or auto, the best one. A ring that cannot have it gets the next "
                        "best; port show has the reason.",
        },
        {
                .noun = "port",
                .verb = "moves",
                .argument = "NAME",
                .run = moves,
                .help = "Show the last moves of a port's rings from one path to another, and how "
                        "long nobody served them.",
        },
        {
                .noun = "port",
                .verb = "list",
                .run = list,
                .help = "List the ports.",
        },
        { 0 },
};
