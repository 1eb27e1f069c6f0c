/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ROUNDS = 12, MAX_ROUNDS = 100000 };

static const struct option options[] = {
        { "direction", required_argument, NULL, 'd' },
        { "ring", required_argument, NULL, 'r' },
        { "mergeable", required_argument, NULL, 'm' },
        { "layout", required_argument, NULL, 'l' },
        { "size", required_argument, NULL, 's' },
        { "burst", required_argument, NULL, 'b' },
        { "ring-size", required_argument, NULL, 'n' },
        { "rounds", required_argument, NULL, 'R' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
};

static const char usage[] =
        "usage: vqlift-bench [--direction enqueue|dequeue] [--mergeable on|off]\n"
        "                    [--ring split|split-in-order|packed|packed-in-order]\n"
        "                    [--layout one|chain|indirect] [--size BYTES] [--burst PACKETS]\n"
        "                    [--ring-size DESCRIPTORS] [--rounds N]\n"
        "Cycles per packet of vqlift's datapath and of DPDK's vhost library, which take turns on\n"
        "the same rings in the same memory.  Without options: all cells of the table.\n";

static int parse_number(const char *name, const char *text, unsigned long most,
                        unsigned long *ret_number)
{
        char *end;
        unsigned long n;

        errno = 0;
        n = strtoul(text, &end, 10);
        if (errno || end == text || *end || *text == '-' || n == 0 || n > most) {
                fprintf(stderr, "vqlift-bench: --%s: '%s', expected 1 to %lu\n", name, text, most);
                return -EINVAL;
        }
        *ret_number = n;
        return 0;
}

/* One of the words in a list like "on|off". */
static int parse_word(const char *name, const char *text, const char *words, const char **ret_word)
{
        const size_t n = strlen(text);

        for (const char *w = words; w; w = strchr(w, '|') ? strchr(w, '|') + 1 : NULL) {
                if (strcspn(w, "|") == n && strncmp(w, text, n) == 0) {
                        *ret_word = text;
                        return 0;
                }
        }
        fprintf(stderr, "vqlift-bench: --%s: '%s', expected %s\n", name, text, words);
        return -EINVAL;
}

static int parse_one(int option, const char *text, struct options *o)
{
        unsigned long n = 0;
        int rc;

        switch (option) {
        case 'd':
                return parse_word("direction", text, "enqueue|dequeue", &o->cells.direction);
        case 'r':
                return parse_word("ring", text, "split|split-in-order|packed|packed-in-order",
                                  &o->cells.ring);
        case 'm':
                return parse_word("mergeable", text, "on|off", &o->cells.mergeable);
        case 'l':
                return parse_word("layout", text, "one|chain|indirect", &o->cells.layout);
        case 's':
                rc = parse_number("size", text, UINT16_MAX, &n);
                o->cells.size = (uint32_t)n;
                return rc;
        case 'b':
                rc = parse_number("burst", text, 32, &n);
                o->cells.burst = (uint16_t)n;
                return rc;
        case 'n':
                rc = parse_number("ring-size", text, 32768, &n);
                o->cells.ring_size = (uint16_t)n;
                return rc;
        case 'R':
                rc = parse_number("rounds", text, MAX_ROUNDS, &n);
                o->rounds = (unsigned int)n;
                return rc;
        default:
                fputs(usage, stderr);
                return -EINVAL;
        }
}

int options_parse(int argc, char **argv, struct options *ret_options)
{
        struct options o = { .rounds = DEFAULT_ROUNDS };
        int option, rc = 0;

        while (rc == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == 'h') {
                        fputs(usage, stdout);
                        return 1;
                }
                rc = parse_one(option, optarg, &o);
        }
        if (rc == 0 && optind < argc) {
                fprintf(stderr, "vqlift-bench: '%s', expected no argument\n%s", argv[optind],
                        usage);
                rc = -EINVAL;
        }
        if (rc == 0)
                *ret_options = o;
        return rc;
}
