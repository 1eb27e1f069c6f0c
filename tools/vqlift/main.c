/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/nearest.h"
#include "common/paths.h"
#include "vqlift/command.h"
#include "vqlift/port_options.h"

/* Values of long options without a letter; keys of ports follow. */
enum { OPTION_WATCH = 256, OPTION_TIMELINE, OPTION_KEY, OPTIONS_MAX = 64, WATCH_MAX_S = 86400 };

static int __attribute__((format(printf, 1, 2))) fail_usage(const char *fmt, ...)
{
        va_list ap;

        fputs("vqlift: ", stderr);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fputs("\nTry 'vqlift help'.\n", stderr);
        return VQL_EXIT_USAGE;
}

/* The fixed options, one for each key of a port, and the end. */
static void list_options(struct option options[OPTIONS_MAX])
{
        static const struct option fixed[] = {
                { "control", required_argument, NULL, 's' },
                { "json", no_argument, NULL, 'j' },
                { "watch", required_argument, NULL, OPTION_WATCH },
                { "timeline", no_argument, NULL, OPTION_TIMELINE },
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, 'V' },
        };
        size_t n = sizeof(fixed) / sizeof(*fixed);
        const struct vql_key *key;

        memcpy(options, fixed, sizeof(fixed));
        for (size_t i = 0; (key = vql_port_option_at(i)) && n < OPTIONS_MAX - 1; i++)
                options[n++] =
                        (struct option){ key->name, required_argument, NULL, OPTION_KEY + (int)i };
        options[n] = (struct option){ 0 };
}

static int read_watch(struct vql_cli *cli, const char *text)
{
        unsigned long seconds;
        char *end;

        seconds = strtoul(text, &end, 10);
        if (*end || seconds < 1 || seconds > WATCH_MAX_S || *text == '-')
                return fail_usage("--watch: \"%s\", expected 1 to %d seconds", text, WATCH_MAX_S);
        cli->watch = (unsigned int)seconds;
        return -1;
}

static int read_key(struct vql_cli *cli, size_t i, const char *text)
{
        const struct vql_key *key = vql_port_option_at(i);
        int r = vql_port_option_set(cli->port, key, text);

        if (r == -EEXIST)
                return fail_usage("--%s is there twice", key->name);
        if (r < 0) {
                fprintf(stderr, "vqlift: --%s: %s\n", key->name, strerror(-r));
                return VQL_EXIT_FAILED;
        }
        return -1;
}

/* -1: go on; else the code to exit with. */
static int read_option(struct vql_cli *cli, int option)
{
        switch (option) {
        case 's':
                cli->socket = optarg;
                return -1;
        case 'j':
                cli->json = true;
                return -1;
        case OPTION_WATCH:
                return read_watch(cli, optarg);
        case OPTION_TIMELINE:
                cli->timeline = true;
                return -1;
        case 'h':
                return vql_help_commands[0].run(cli, NULL);
        case 'V':
                printf("vqlift %s\n", VQLIFT_VERSION);
                return VQL_EXIT_DONE;
        case '?':
                return fail_usage("this command line is not understood");
        default:
                return read_key(cli, (size_t)(option - OPTION_KEY), optarg);
        }
}

static int read_options(struct vql_cli *cli, int argc, char **argv)
{
        struct option options[OPTIONS_MAX];
        int option, code;

        list_options(options);
        while ((option = getopt_long(argc, argv, "s:jhV", options, NULL)) != -1) {
                code = read_option(cli, option);
                if (code >= 0)
                        return code;
        }
        return -1;
}

/* Name the command that was probably meant. */
static int fail_command(const char *noun, const char *verb)
{
        char typed[64], known[32][32];
        struct vql_nearest nearest;
        const struct vql_command *c;

        snprintf(typed, sizeof(typed), "%s%s%s", noun, verb ? " " : "", verb ? verb : "");
        vql_nearest_init(&nearest, typed);
        for (size_t i = 0; i < 32 && (c = vql_command_at(i)); i++) {
                snprintf(known[i], sizeof(known[i]), "%s%s%s", c->noun, c->verb ? " " : "",
                         c->verb ? c->verb : "");
                vql_nearest_try(&nearest, known[i]);
        }
        if (nearest.found)
                return fail_usage("no command \"%s\", did you mean \"%s\"?", typed, nearest.found);
        return fail_usage("no command \"%s\"", typed);
}

/* The command that the words begin with; *ret_used counts its words. */
static const struct vql_command *find_command(char **words, int n, int *ret_used)
{
        const struct vql_command *c;

        for (size_t i = 0; (c = vql_command_at(i)); i++) {
                if (strcmp(c->noun, words[0]) != 0)
                        continue;
                *ret_used = c->verb ? 2 : 1;
                if (!c->verb || (n > 1 && strcmp(c->verb, words[1]) == 0))
                        return c;
        }
        return NULL;
}

static int run(struct vql_cli *cli, char **words, int n)
{
        const struct vql_command *c;
        int used, extra;

        if (n == 0)
                return fail_usage("no command");
        c = find_command(words, n, &used);
        if (!c)
                return fail_command(words[0], n > 1 ? words[1] : NULL);
        extra = n - used;
        if (extra > !!c->argument + !!c->second)
                return fail_usage("\"%s\" is one argument too many", words[n - 1]);
        if (extra == 0 && c->argument && c->argument[0] != '[')
                return fail_usage("%s %s: expected %s", c->noun, c->verb, c->argument);
        if (extra == 1 && c->second)
                return fail_usage("%s %s: expected %s", c->noun, c->verb, c->second);
        cli->second = extra > 1 ? words[used + 1] : NULL;
        if (json_object_size(cli->port) && !c->takes_port_keys)
                return fail_usage("keys of a port are options of port add alone");
        if (cli->watch && !c->takes_watch)
                return fail_usage("--watch is an option of stats alone");
        if (cli->timeline && !(c->takes_timeline && extra))
                return fail_usage("--timeline is an option of port show NAME alone");
        return c->run(cli, extra ? words[used] : NULL);
}

int main(int argc, char **argv)
{
        struct vql_cli cli = { .socket = VQL_DEFAULT_CONTROL, .port = json_object() };
        int code;

        if (!cli.port)
                return VQL_EXIT_FAILED;
        code = read_options(&cli, argc, argv);
        if (code < 0)
                code = run(&cli, argv + optind, argc - optind);
        json_decref(cli.port);
        if (fflush(stdout) != 0 && code == VQL_EXIT_DONE)
                code = VQL_EXIT_FAILED;
        return code;
}
