/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "common/paths.h"
#include "vqlift/command.h"
#include "vqlift/port_options.h"

enum { USAGE_COLUMN = 26, TEXT_COLUMNS = 62 };

/* Print words, and go on below them where a line is full. */
static void print_wrapped(const char *text)
{
        size_t column = 0, word;

        for (const char *p = text; *p; p += word) {
                while (*p == ' ')
                        p++;
                for (word = 0; p[word] && p[word] != ' '; word++) {
                }
                if (column && column + 1 + word > TEXT_COLUMNS) {
                        printf("\n%*s", USAGE_COLUMN, "");
                        column = 0;
                }
                printf("%s%.*s", column ? " " : "", (int)word, p);
                column += word + (column ? 1 : 0);
        }
        putchar('\n');
}

static void print_row(const char *left, const char *text)
{
        printf("  %-*s", USAGE_COLUMN - 2, left);
        print_wrapped(text);
}

static void print_commands(void)
{
        const struct vql_command *c;
        char left[64];

        for (size_t i = 0; (c = vql_command_at(i)); i++) {
                snprintf(left, sizeof(left), "%s%s%s%s%s%s%s", c->noun, c->verb ? " " : "",
                         c->verb ? c->verb : "", c->argument ? " " : "",
                         c->argument ? c->argument : "", c->second ? " " : "",
                         c->second ? c->second : "");
                print_row(left, c->help);
        }
}

static void print_port_options(void)
{
        const struct vql_key *key;
        char left[64];

        for (size_t i = 0; (key = vql_port_option_at(i)); i++) {
                snprintf(left, sizeof(left), "--%s", key->name);
                print_row(left, key->help);
        }
}

static int help(struct vql_cli *cli, const char *argument)
{
        (void)cli;
        (void)argument;
        puts("Usage: vqlift [OPTION...] COMMAND\n\nCommands:");
        print_commands();
        puts("\nOptions:");
        print_row("-s, --control SOCKET",
                  "The daemon's control socket, " VQL_DEFAULT_CONTROL " without this option.");
        print_row("-j, --json", "Print what the daemon answers, as JSON.");
        print_row("--timeline", "With port show: how the last sessions went.");
        print_row("--watch SECONDS", "With stats: rates, every so many seconds.");
        print_row("-h, --help", "Show this text.");
        print_row("-V, --version", "Show the version of this program.");
        puts("\nOptions of port add (vqlift.yaml(5) has their values):");
        print_port_options();
        puts("\nExit status: 0 done, 1 refused, or the daemon is not there, 2 wrong usage.");
        return VQL_EXIT_DONE;
}

const struct vql_command vql_help_commands[] = {
        { .noun = "help", .run = help, .help = "Show this text." },
        { 0 },
};
