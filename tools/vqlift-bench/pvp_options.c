/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/pvp_options.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct pvp_ring pvp_rings[PVP_RINGS] = {
        { "split", false, false, true },
        { "split-in-order", false, true, false },
        { "packed", true, false, true },
        { "packed-in-order", true, true, false },
};

static const unsigned int all_sizes[] = { 64, 128, 256, 512, 1024, 1518 };

static void usage(FILE *out)
{
        fprintf(out,
                "usage: vqlift-bench pvp [OPTION...]\n"
                "Let a guest, testpmd with net_virtio_user, bounce packets against vqliftd and\n"
                "against testpmd with net_vhost in turn.  Needs two CPUs and dpdk-testpmd.\n\n"
                "  --ring NAME        split, split-in-order, packed, packed-in-order;\n"
                "                     may be given again (split and packed)\n"
                "  --mergeable on|off mergeable receive buffers (both)\n"
                "  --size BYTES       of packets, %d to %d; may be given again\n"
                "                     (64, 128, 256, 512, 1024, 1518)\n"
                "  --rounds N         pairs of samples a cell, 1 to 1000 (5)\n"
                "  --seconds N        of a sample, 0.1 to 60 (0.5)\n"
                "  --cpus A,B         of the guest and of the back-ends (the first two)\n"
                "  --testpmd FILE     (dpdk-testpmd)\n"
                "  --vqliftd FILE     (beside this program's folder, or vqliftd)\n"
                "  --json             results for programs\n"
                "  --help\n",
                PVP_SIZE_MIN, PVP_SIZE_MAX);
}

static int wrong(const char *option, const char *value, const char *expected)
{
        fprintf(stderr, "vqlift-bench pvp: --%s %s, expected %s\n", option, value, expected);
        return -EINVAL;
}

static int parse_ring(struct pvp_options *o, const char *name)
{
        for (unsigned int i = 0; i < PVP_RINGS; i++) {
                if (strcmp(name, pvp_rings[i].name) == 0) {
                        o->ring[i] = true;
                        return 0;
                }
        }
        return wrong("ring", name, "split, split-in-order, packed or packed-in-order");
}

static int parse_mergeable(struct pvp_options *o, const char *word)
{
        const bool on = strcmp(word, "on") == 0;

        if (!on && strcmp(word, "off") != 0)
                return wrong("mergeable", word, "on or off");
        o->mergeable[on] = true;
        return 0;
}

static bool parse_number(const char *text, double min, double max, double *ret_number)
{
        char *end;
        double n = strtod(text, &end);

        /* A NaN is in no range. */
        if (end == text || *end != '\0' || !(n >= min && n <= max))
                return false;
        *ret_number = n;
        return true;
}

static int parse_size(struct pvp_options *o, const char *text)
{
        double n;

        if (!parse_number(text, PVP_SIZE_MIN, PVP_SIZE_MAX, &n) || n != (unsigned int)n)
                return wrong("size", text, "a number of bytes, 64 to 1518");
        if (o->sizes == PVP_SIZES_MAX)
                return wrong("size", text, "at most 16 sizes");
        o->size[o->sizes++] = (unsigned int)n;
        return 0;
}

static int parse_rounds(struct pvp_options *o, const char *text)
{
        double n;

        if (!parse_number(text, 1, 1000, &n) || n != (unsigned int)n)
                return wrong("rounds", text, "a number, 1 to 1000");
        o->rounds = (unsigned int)n;
        return 0;
}

static int parse_cpus(struct pvp_options *o, const char *text)
{
        char rest;

        if (sscanf(text, "%d,%d%c", &o->guest_cpu, &o->backend_cpu, &rest) != 2 ||
            o->guest_cpu < 0 || o->backend_cpu < 0 || o->guest_cpu == o->backend_cpu)
                return wrong("cpus", text, "two different CPUs such as 0,1");
        return 0;
}

static int parse_option(struct pvp_options *o, int option, const char *value)
{
        switch (option) {
        case 'r':
                return parse_ring(o, value);
        case 'm':
                return parse_mergeable(o, value);
        case 's':
                return parse_size(o, value);
        case 'n':
                return parse_rounds(o, value);
        case 't':
                if (parse_number(value, 0.1, 60, &o->seconds))
                        return 0;
                return wrong("seconds", value, "a number, 0.1 to 60");
        case 'c':
                return parse_cpus(o, value);
        case 'p':
                o->testpmd = value;
                return 0;
        case 'd':
                o->vqliftd = value;
                return 0;
        case 'j':
                o->json = true;
                return 0;
        case 'h':
                usage(stdout);
                return 1;
        default:
                usage(stderr);
                return -EINVAL;
        }
}

/* The first two CPUs that we may use. */
static int choose_cpus(struct pvp_options *o)
{
        cpu_set_t allowed;
        int *next[] = { &o->guest_cpu, &o->backend_cpu };
        int found = 0;

        if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
                return -errno;
        for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
                if (CPU_ISSET(i, &allowed))
                        *next[found++] = i;
        if (found == 2)
                return 0;
        fprintf(stderr,
                "vqlift-bench pvp: one CPU, expected two: for the guest and the back-end\n");
        return -EINVAL;
}

static void fill_in(struct pvp_options *o)
{
        bool any = false;

        for (unsigned int i = 0; i < PVP_RINGS; i++)
                any |= o->ring[i];
        for (unsigned int i = 0; i < PVP_RINGS && !any; i++)
                o->ring[i] = pvp_rings[i].by_default;
        if (!o->mergeable[0] && !o->mergeable[1])
                o->mergeable[0] = o->mergeable[1] = true;
        if (o->sizes == 0) {
                o->sizes = sizeof(all_sizes) / sizeof(all_sizes[0]);
                memcpy(o->size, all_sizes, sizeof(all_sizes));
        }
}

int pvp_options_parse(int argc, char **argv, struct pvp_options *ret_options)
{
        static const struct option options[] = {
                { "ring", required_argument, NULL, 'r' },
                { "mergeable", required_argument, NULL, 'm' },
                { "size", required_argument, NULL, 's' },
                { "rounds", required_argument, NULL, 'n' },
                { "seconds", required_argument, NULL, 't' },
                { "cpus", required_argument, NULL, 'c' },
                { "testpmd", required_argument, NULL, 'p' },
                { "vqliftd", required_argument, NULL, 'd' },
                { "json", no_argument, NULL, 'j' },
                { "help", no_argument, NULL, 'h' },
                { 0 },
        };
        struct pvp_options o = { .rounds = 5, .seconds = 0.5, .guest_cpu = -1 };
        int c, rc = 0;

        o.testpmd = "dpdk-testpmd";
        while (rc == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1)
                rc = parse_option(&o, c, optarg);
        if (rc == 0 && optind < argc) {
                fprintf(stderr, "vqlift-bench pvp: %s, expected an option\n", argv[optind]);
                rc = -EINVAL;
        }
        if (rc == 0 && o.guest_cpu < 0)
                rc = choose_cpus(&o);
        if (rc == 0) {
                fill_in(&o);
                *ret_options = o;
        }
        return rc;
}
