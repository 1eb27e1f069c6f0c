/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vqlift-bench/sets.h"

enum { DEFAULT_ROUNDS = 100, QUICK_ROUNDS = 40, MAX_ROUNDS = 100000 };

#define DEFAULT_FOLDER "doc/perf"
#define QUICK_LEAST    0.9

/* Options that choose cells have their key's number. */
enum {
        OPTION_ROUNDS = CELL_KEYS,
        OPTION_QUICK,
        OPTION_JSON,
        OPTION_LIMIT,
        OPTION_SET,
        OPTION_CONTROL,
        OPTION_PLOT,
        OPTION_REPORT,
        OPTION_PREFIX,
        OPTION_FAIL_UNDER,
        OPTION_HELP,
};

static const struct option options[] = {
        { "mode", required_argument, NULL, KEY_MODE },
        { "direction", required_argument, NULL, KEY_DIRECTION },
        { "ring", required_argument, NULL, KEY_RING },
        { "mergeable", required_argument, NULL, KEY_MERGEABLE },
        { "layout", required_argument, NULL, KEY_LAYOUT },
        { "size", required_argument, NULL, KEY_SIZE },
        { "burst", required_argument, NULL, KEY_BURST },
        { "ring-size", required_argument, NULL, KEY_RING_SIZE },
        { "rounds", required_argument, NULL, OPTION_ROUNDS },
        { "quick", no_argument, NULL, OPTION_QUICK },
        { "json", no_argument, NULL, OPTION_JSON },
        { "limit", no_argument, NULL, OPTION_LIMIT },
        { "set", required_argument, NULL, OPTION_SET },
        { "control", required_argument, NULL, OPTION_CONTROL },
        { "plot", optional_argument, NULL, OPTION_PLOT },
        { "report", optional_argument, NULL, OPTION_REPORT },
        { "rte-vhost-prefix", required_argument, NULL, OPTION_PREFIX },
        { "fail-under", required_argument, NULL, OPTION_FAIL_UNDER },
        { "help", no_argument, NULL, OPTION_HELP },
        { 0 },
};

static const char usage[] =
        "usage: vqlift-bench [OPTION]...\n"
        "       vqlift-bench idle [--queues N] [--turns N] [--json]\n"
        "       vqlift-bench pvp [OPTION...]   (see vqlift-bench pvp --help)\n"
        "\n"
        "Cycles per packet of vqlift's datapath and of DPDK's vhost library, which take turns on\n"
        "the same rings in the same memory.\n"
        "\n"
        "Which cells (lists like 64,1518; all values unless chosen, of --mode only alternate):\n";

static const char more_usage[] =
        "  --quick                   a few cells and rounds, and --fail-under 0.9\n"
        "\n"
        "What is compared:\n"
        "  --control NAME|list       vqlift with that switched off instead of DPDK's library\n"
        "  --set NAME                vqlift's code for that instruction set instead of the best\n"
        "  --limit                   also the bare copy of the same bytes on this machine\n"
        "  --rte-vhost-prefix DIR    the DPDK installed there instead of the system's\n"
        "  --rounds N                turns of each in a cell\n"
        "\n"
        "What comes out:\n"
        "  --json                    JSON instead of a table\n"
        "  --plot[=DIR]              also plots, DIR/*.svg (doc/perf)\n"
        "  --report[=DIR]            also results.json, results.md and plots in DIR (doc/perf)\n"
        "  --fail-under RATIO        exit code 1 if a cell's ratio is smaller\n"
        "\n"
        "idle: what a packet costs if the worker has idle queues beside the busy one.\n";

static void print_usage(FILE *out)
{
        fputs(usage, out);
        for (enum cell_key key = 0; key < CELL_KEYS; key++) {
                char option[32];

                snprintf(option, sizeof(option), "--%s LIST", cell_key_name(key));
                fprintf(out, "  %-25s %s\n", option, cell_key_values(key));
        }
        fputs(more_usage, out);
}

static int parse_rounds(const char *text, unsigned int *ret_rounds)
{
        char *end;
        unsigned long n;

        errno = 0;
        n = strtoul(text, &end, 10);
        if (errno || end == text || *end || *text == '-' || n == 0 || n > MAX_ROUNDS) {
                fprintf(stderr, "vqlift-bench: --rounds: '%s', expected 1 to %d\n", text,
                        MAX_ROUNDS);
                return -EINVAL;
        }
        *ret_rounds = (unsigned int)n;
        return 0;
}

static int parse_ratio(const char *text, double *ret_ratio)
{
        char *end;
        const double ratio = strtod(text, &end);

        if (end == text || *end || !isfinite(ratio) || ratio <= 0) {
                fprintf(stderr, "vqlift-bench: --fail-under: '%s', expected a ratio like 0.9\n",
                        text);
                return -EINVAL;
        }
        *ret_ratio = ratio;
        return 0;
}

static int parse_key(enum cell_key key, const char *text, struct cell_choice *choice)
{
        if (!cell_key_takes(key, text)) {
                fprintf(stderr, "vqlift-bench: --%s: '%s', expected %s, or several with commas\n",
                        cell_key_name(key), text, cell_key_values(key));
                return -EINVAL;
        }
        choice->wanted[key] = text;
        return 0;
}

static int parse_one(int option, const char *text, struct options *o)
{
        switch (option) {
        case OPTION_ROUNDS:
                return parse_rounds(text, &o->rounds);
        case OPTION_QUICK:
                o->cells.quick = true;
                return 0;
        case OPTION_JSON:
                o->json = true;
                return 0;
        case OPTION_LIMIT:
                o->limit = true;
                return 0;
        case OPTION_SET:
                o->set = text;
                return set_find(text) ? 0 : -EINVAL;
        case OPTION_CONTROL:
                o->control = text;
                return strcmp(text, "list") == 0 || control_find(text) ? 0 : -EINVAL;
        case OPTION_PLOT:
                o->plot = text ? text : DEFAULT_FOLDER;
                return 0;
        case OPTION_REPORT:
                o->report = text ? text : DEFAULT_FOLDER;
                return 0;
        case OPTION_PREFIX:
                o->prefix = text;
                return 0;
        case OPTION_FAIL_UNDER:
                return parse_ratio(text, &o->fail_under);
        default:
                if (option >= 0 && option < CELL_KEYS)
                        return parse_key((enum cell_key)option, text, &o->cells);
                fputs("Try vqlift-bench --help.\n", stderr);
                return -EINVAL;
        }
}

/* What depends on several options. */
static int complete(struct options *o)
{
        if (o->cells.quick && o->fail_under == 0 && !o->control)
                o->fail_under = QUICK_LEAST;
        if (o->rounds == 0)
                o->rounds = o->cells.quick ? QUICK_ROUNDS : DEFAULT_ROUNDS;
        if (!o->cells.wanted[KEY_MODE])
                o->cells.wanted[KEY_MODE] = "alternate";
        if (cell_count(&o->cells) == 0) {
                fputs("vqlift-bench: no cell of the table is all that: see --help\n", stderr);
                return -EINVAL;
        }
        return 0;
}

int options_parse(int argc, char **argv, struct options *ret_options)
{
        struct options o = { 0 };
        int option, rc = 0;

        optind = 1;
        while (rc == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == OPTION_HELP) {
                        print_usage(stdout);
                        return 1;
                }
                rc = parse_one(option, optarg, &o);
        }
        if (rc == 0 && optind < argc) {
                fprintf(stderr, "vqlift-bench: '%s', expected no argument: see --help\n",
                        argv[optind]);
                rc = -EINVAL;
        }
        if (rc == 0 && o.control && strcmp(o.control, "list") == 0) {
                control_list(stdout);
                return 1;
        }
        if (rc == 0)
                rc = complete(&o);
        if (rc == 0)
                *ret_options = o;
        return rc;
}
