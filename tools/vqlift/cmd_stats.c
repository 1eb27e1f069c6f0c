/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "vqlift/call.h"
#include "vqlift/command.h"
#include "vqlift/table.h"

enum { RINGS_SHOWN = 30 };

static json_int_t counter_of(const json_t *ring, const char *name)
{
        return json_integer_value(json_object_get(json_object_get(ring, "counters"), name));
}

static const char *direction_of(const json_t *ring)
{
        const char *direction = json_string_value(json_object_get(ring, "direction"));

        return direction ? direction : "-";
}

/* Sum over the rings of a port in one direction. */
static json_int_t total(const json_t *port, const char *direction, const char *name)
{
        json_int_t sum = 0;
        json_t *ring;
        size_t i;

        json_array_foreach(json_object_get(port, "rings"), i, ring)
        {
                if (strcmp(direction_of(ring), direction) == 0)
                        sum += counter_of(ring, name);
        }
        return sum;
}

static const json_t *counters_of(const json_t *port)
{
        const json_t *ring = json_array_get(json_object_get(port, "rings"), 0);

        return json_object_get(ring, "counters");
}

static const char *name_of(const json_t *port)
{
        const char *name = json_string_value(json_object_get(port, "name"));

        return name ? name : "-";
}

static size_t count_shown(const json_t *port, bool rings)
{
        size_t n = rings ? json_array_size(json_object_get(port, "rings")) : 0;

        return n < RINGS_SHOWN ? n : RINGS_SHOWN;
}

/* A line for each counter: the sums of both directions, and each ring if `rings` says so. */
static void print_port(const json_t *port, bool rings)
{
        char align[RINGS_SHOWN + 4];
        size_t shown = count_shown(port, rings);
        struct vql_table t;
        const char *name;
        json_t *value;

        memset(align, 'r', sizeof(align));
        align[0] = 'l';
        align[3 + shown] = '\0';
        vql_table_init(&t, align);
        vql_table_add(&t, "%s", name_of(port));
        vql_table_add(&t, "to guest");
        vql_table_add(&t, "from guest");
        for (size_t i = 0; i < shown; i++)
                vql_table_add(&t, "%s %zu",
                              direction_of(json_array_get(json_object_get(port, "rings"), i)), i);
        json_object_foreach((json_t *)counters_of(port), name, value)
        {
                vql_table_add(&t, "%s", name);
                vql_table_add(&t, "%" JSON_INTEGER_FORMAT, total(port, "rx", name));
                vql_table_add(&t, "%" JSON_INTEGER_FORMAT, total(port, "tx", name));
                for (size_t i = 0; i < shown; i++)
                        vql_table_add(&t, "%" JSON_INTEGER_FORMAT,
                                      counter_of(json_array_get(json_object_get(port, "rings"), i),
                                                 name));
        }
        vql_table_print(&t, stdout);
        vql_table_fini(&t);
}

static void print_ports(const json_t *ports, bool rings)
{
        json_t *port;
        size_t i;

        json_array_foreach(ports, i, port)
        {
                if (i > 0)
                        putchar('\n');
                print_port(port, rings);
        }
}

static void print_all(const json_t *ports)
{
        print_ports(ports, false);
}

static void print_one(const json_t *ports)
{
        print_ports(ports, true);
}

static const json_t *find_port(const json_t *ports, const char *name)
{
        json_t *port;
        size_t i;

        json_array_foreach(ports, i, port)
        {
                if (strcmp(name_of(port), name) == 0)
                        return port;
        }
        return NULL;
}

/* Counters start anew when a port is deleted and added. */
static double rate(json_int_t now, json_int_t before, double seconds)
{
        return now >= before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void print_rates(const json_t *port, const json_t *before, double seconds)
{
        struct vql_table t;
        const char *name;
        json_t *value;

        vql_table_init(&t, "lrr");
        vql_table_add(&t, "%s", name_of(port));
        vql_table_add(&t, "to guest/s");
        vql_table_add(&t, "from guest/s");
        json_object_foreach((json_t *)counters_of(port), name, value)
        {
                vql_table_add(&t, "%s", name);
                vql_table_add(&t, "%.0f",
                              rate(total(port, "rx", name), total(before, "rx", name), seconds));
                vql_table_add(&t, "%.0f",
                              rate(total(port, "tx", name), total(before, "tx", name), seconds));
        }
        vql_table_print(&t, stdout);
        putchar('\n');
        vql_table_fini(&t);
}

static void print_all_rates(const json_t *ports, const json_t *before, double seconds)
{
        json_t *port;
        size_t i;

        json_array_foreach(ports, i, port)
        {
                const json_t *then = find_port(before, name_of(port));

                if (then)
                        print_rates(port, then, seconds);
        }
        fflush(stdout);
}

static json_t *make_params(const char *name)
{
        return name ? json_pack("{s:s}", "name", name) : json_object();
}

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Look again and again, until the daemon or the person ends it. */
static int watch(const struct vql_cli *cli, const char *name)
{
        json_t *before = NULL, *ports;
        double then = 0, at;

        while ((ports = vql_call(cli->socket, "stats.get", make_params(name)))) {
                at = now();
                if (cli->json) {
                        vql_command_print_json(ports, true);
                        fflush(stdout);
                } else if (before) {
                        print_all_rates(ports, before, at - then);
                }
                json_decref(before);
                before = ports;
                then = at;
                poll(NULL, 0, (int)cli->watch * 1000);
        }
        json_decref(before);
        return VQL_EXIT_FAILED;
}

static int stats(struct vql_cli *cli, const char *name)
{
        if (cli->watch)
                return watch(cli, name);
        return vql_command_call(cli, "stats.get", make_params(name), name ? print_one : print_all);
}

const struct vql_command vql_stats_commands[] = {
        {
                .noun = "stats",
                .argument = "[NAME]",
                .takes_watch = true,
                .run = stats,
                .help = "Show the counters of all ports, or of one with those of its rings; with "
                        "--watch, rates.",
        },
        { 0 },
};
