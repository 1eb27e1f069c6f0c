/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_COMMAND_H
#define VQLIFT_TOOLS_COMMAND_H

/* A command of vqlift(1) is a row of a table; the tables, one a noun, are listed in commands.c. */

#include <stdbool.h>

#include <jansson.h>

/* Documented in vqlift(1). */
enum vql_exit { VQL_EXIT_DONE = 0, VQL_EXIT_FAILED = 1, VQL_EXIT_USAGE = 2 };

/* What the options say. */
struct vql_cli {
        const char *socket;
        bool json, timeline;
        unsigned int watch; /* seconds between two looks; 0: look once */
        json_t *port;       /* keys of a port */
        const char *second; /* the other argument */
};

struct vql_command {
        const char *noun;
        const char *verb;     /* NULL: the noun is all */
        const char *argument; /* NULL: takes none; in brackets: may be left out */
        const char *second;   /* NULL: takes no other */
        bool takes_port_keys, takes_watch, takes_timeline;
        /* Returns a vql_exit.  `argument` is NULL if it was left out. */
        int (*run)(struct vql_cli *cli, const char *argument);
        const char *help;
};

extern const struct vql_command vql_port_commands[];
extern const struct vql_command vql_stats_commands[];
extern const struct vql_command vql_compat_commands[];
extern const struct vql_command vql_show_commands[];
extern const struct vql_command vql_help_commands[];

/* All commands by number, NULL past the end. */
const struct vql_command *vql_command_at(size_t i);

/*
 * Call a method, and print its result: as JSON if the options say so, else by `print`.  Takes over
 * `params`.  Returns a vql_exit.
 */
int vql_command_call(const struct vql_cli *cli, const char *method, json_t *params,
                     void (*print)(const json_t *result));

/* Print a result as -j has it. */
void vql_command_print_json(const json_t *result, bool one_line);

#endif
