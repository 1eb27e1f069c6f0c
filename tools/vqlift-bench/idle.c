/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/idle.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "vqlift-bench/lanes.h"
#include "vqlift-bench/machine.h"
#include "vqlift-bench/sample.h"

enum { QUEUES = 128, MOST_QUEUES = 254, TURNS = 12, MOST_TURNS = 1000 };

static const char usage[] =
        "usage: vqlift-bench idle [--queues N] [--turns N] [--json]\n"
        "Ticks per packet of a busy queue beside N (128) idle ones on the same worker and without\n"
        "them, in turn, and the memory that an idle queue takes.\n";

struct idle_options {
        unsigned int queues, turns;
        bool json;
};

/* Of one ring format. */
struct idle_result {
        double alone, beside; /* ticks per packet */
        double bytes;         /* per idle queue */
};

static int parse_number(const char *name, const char *text, unsigned long most,
                        unsigned int *ret_number)
{
        char *end;
        unsigned long n;

        errno = 0;
        n = strtoul(text, &end, 10);
        if (errno || end == text || *end || *text == '-' || n < 2 || n > most || n % 2) {
                fprintf(stderr,
                        "vqlift-bench idle: --%s: '%s', expected an even number from 2 to %lu\n",
                        name, text, most);
                return -EINVAL;
        }
        *ret_number = (unsigned int)n;
        return 0;
}

static int parse(int argc, char **argv, struct idle_options *o)
{
        static const struct option options[] = {
                { "queues", required_argument, NULL, 'q' },
                { "turns", required_argument, NULL, 't' },
                { "json", no_argument, NULL, 'j' },
                { "help", no_argument, NULL, 'h' },
                { 0 },
        };
        int option, rc = 0;

        while (rc == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == 'q')
                        rc = parse_number("queues", optarg, MOST_QUEUES, &o->queues);
                else if (option == 't')
                        rc = parse_number("turns", optarg, MOST_TURNS, &o->turns);
                else if (option == 'j')
                        o->json = true;
                else
                        rc = option == 'h' ? 1 : -EINVAL;
        }
        if (rc == 0 && optind < argc)
                rc = -EINVAL;
        if (rc != 0)
                fputs(usage, rc > 0 ? stdout : stderr);
        return rc;
}

/* One after the other, so that what changes on the machine changes for both. */
static int take_turns(struct lanes *l, unsigned int turns, struct idle_result *ret_result)
{
        double alone[MOST_TURNS], beside[MOST_TURNS];
        int rc = 0;

        for (unsigned int i = 0; i < turns && rc == 0; i++) {
                rc = lanes_measure(l, &alone[i]);
                if (rc == 0)
                        rc = lanes_attach_idle(l);
                if (rc == 0)
                        rc = lanes_measure(l, &beside[i]);
                lanes_detach_idle(l);
        }
        if (rc == 0) {
                ret_result->alone = sample_median(alone, turns);
                ret_result->beside = sample_median(beside, turns);
                ret_result->bytes = lanes_bytes_per_queue(l);
        }
        return rc;
}

static int measure(const struct idle_options *o, const struct machine *m, bool packed,
                   struct idle_result *ret_result)
{
        const struct lanes_params p = { .machine = m, .idle = o->queues, .packed = packed };
        struct lanes *l;
        int rc = lanes_new(&p, &l);

        if (rc < 0)
                return rc;
        rc = take_turns(l, o->turns, ret_result);
        lanes_free(l);
        if (rc < 0)
                fprintf(stderr, "vqlift-bench idle: %s\n", strerror(-rc));
        return rc;
}

static void print_json(const struct idle_options *o, const struct idle_result result[2])
{
        json_t *rings = json_array();
        json_t *all;

        for (int packed = 0; packed < 2; packed++) {
                const struct idle_result *r = &result[packed];

                json_array_append_new(rings, json_pack("{s:s, s:f, s:f, s:f, s:f}", "ring",
                                                       packed ? "packed" : "split", "alone",
                                                       r->alone, "beside_idle", r->beside, "ratio",
                                                       r->beside / r->alone, "bytes_per_idle_queue",
                                                       r->bytes));
        }
        all = json_pack("{s:i, s:o}", "idle_queues", (int)o->queues, "rings", rings);
        json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(5));
        fputc('\n', stdout);
        json_decref(all);
}

static void print_table(const struct idle_options *o, const struct idle_result result[2])
{
        printf("%-8s %12s %12s %7s %22s\n", "ring", "alone", "beside idle", "ratio",
               "bytes of an idle queue");
        for (int packed = 0; packed < 2; packed++) {
                const struct idle_result *r = &result[packed];

                printf("%-8s %12.1f %12.1f %7.3f %22.0f\n", packed ? "packed" : "split", r->alone,
                       r->beside, r->beside / r->alone, r->bytes);
        }
        printf("ticks per packet of 64 bytes in bursts of 32, with the uplink; %u idle queues\n",
               o->queues);
}

int idle_main(int argc, char **argv)
{
        struct idle_options o = { .queues = QUEUES, .turns = TURNS };
        struct idle_result result[2] = { 0 };
        struct machine machine;
        int rc = parse(argc, argv, &o);

        if (rc != 0)
                return rc > 0 ? 0 : 2;
        if (machine_start(argv[0], &machine) < 0)
                return 2;
        for (int packed = 0; packed < 2 && rc == 0; packed++)
                rc = measure(&o, &machine, packed, &result[packed]);
        machine_stop(&machine);
        if (rc < 0)
                return 2;
        if (o.json)
                print_json(&o, result);
        else
                print_table(&o, result);
        return 0;
}
