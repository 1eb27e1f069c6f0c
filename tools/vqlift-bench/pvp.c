/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/pvp.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include <jansson.h>

#include "vqlift-bench/pvp_run.h"

enum { EXIT_GOOD, EXIT_BAD_RESULT, EXIT_NOT_MEASURED };

struct summary {
        double geomean, least;
        unsigned int compared; /* cells with a ratio */
};

static struct summary summarize(const struct pvp_run *run)
{
        struct summary s = { .least = INFINITY };
        double logs = 0;

        for (size_t i = 0; i < run->cells; i++) {
                const double ratio = run->cell[i].ratio;

                if (ratio <= 0)
                        continue;
                logs += log(ratio);
                s.least = fmin(s.least, ratio);
                s.compared++;
        }
        s.geomean = s.compared ? exp(logs / s.compared) : 0;
        return s;
}

/* ---- for people ---- */

static void print_head(void)
{
        printf("%-15s %-9s %5s %9s %9s %6s %8s %7s\n", "ring", "mergeable", "size", "vqlift",
               "rte_vhost", "ratio", "line ns", "rounds");
        printf("%-15s %-9s %5s %9s %9s\n", "", "", "bytes", "Mpps", "Mpps");
}

static void print_cell(const struct pvp_cell *c)
{
        printf("%-15s %-9s %5u ", c->ring->name, c->mergeable ? "on" : "off", c->size);
        if (c->kept)
                printf("%9.3f %9.3f %6.2f %8.0f", c->mpps[PVP_VQLIFT], c->mpps[PVP_RTE_VHOST],
                       c->ratio, c->trip);
        else
                printf("%9s %9s %6s %8s", "-", "-", "-", "-");
        printf(" %3u/%u\n", c->kept, c->rounds);
        fflush(stdout);
}

static void print_nothing(const struct pvp_cell *c)
{
        (void)c;
}

static void print_foot(const struct pvp_run *run)
{
        const struct summary s = summarize(run);

        if (s.compared)
                printf("%u cells: geometric mean %.2f, least %.2f\n", s.compared, s.geomean,
                       s.least);
        if (s.compared < run->cells)
                printf("%zu cells without a good round: the CPUs were moved, or others used them\n",
                       run->cells - s.compared);
}

/* ---- for programs ---- */

static json_t *pack_sample(const struct pvp_sample *s)
{
        return json_pack("{s:f, s:[f,f], s:f}", "mpps", s->mpps, "round-trip-ns", s->trip[0],
                         s->trip[1], "waited", s->waited);
}

static json_t *pack_rounds(const struct pvp_cell *c)
{
        json_t *rounds = json_array();

        for (unsigned int i = 0; i < c->rounds; i++) {
                const struct pvp_round *r = &c->round[i];

                json_array_append_new(
                        rounds, json_pack("{s:o, s:o, s:b}", "vqlift",
                                          pack_sample(&r->sample[PVP_VQLIFT]), "rte_vhost",
                                          pack_sample(&r->sample[PVP_RTE_VHOST]), "kept", r->kept));
        }
        return rounds;
}

static json_t *number_or_null(double n)
{
        return n > 0 ? json_real(n) : json_null();
}

static json_t *pack_cell(const struct pvp_cell *c)
{
        return json_pack("{s:s, s:s, s:b, s:i, s:o, s:o, s:o, s:o, s:o}", "mode", "pvp", "ring",
                         c->ring->name, "mergeable", c->mergeable, "size", (int)c->size, "vqlift",
                         number_or_null(c->mpps[PVP_VQLIFT]), "rte_vhost",
                         number_or_null(c->mpps[PVP_RTE_VHOST]), "ratio", number_or_null(c->ratio),
                         "round-trip-ns", number_or_null(c->trip), "rounds", pack_rounds(c));
}

static int print_json(const struct pvp_run *run)
{
        const struct summary s = summarize(run);
        json_t *cells = json_array(), *all;
        int rc;

        for (size_t i = 0; i < run->cells; i++)
                json_array_append_new(cells, pack_cell(&run->cell[i]));
        all = json_pack("{s:o, s:{s:o, s:o, s:i, s:i}}", "cells", cells, "summary", "geomean",
                        number_or_null(s.geomean), "min", number_or_null(s.compared ? s.least : 0),
                        "cells", (int)run->cells, "compared", (int)s.compared);
        rc = all ? json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : -1;
        putchar('\n');
        json_decref(all);
        return rc < 0 ? -ENOMEM : 0;
}

int pvp_main(int argc, char **argv)
{
        struct pvp_options o;
        struct pvp_run run;
        int rc = pvp_options_parse(argc, argv, &o);

        if (rc != 0)
                return rc < 0 ? EXIT_NOT_MEASURED : EXIT_GOOD;
        if (!o.json)
                print_head();
        rc = pvp_run(&o, o.json ? print_nothing : print_cell, &run);
        if (o.json && print_json(&run) < 0)
                rc = -ENOMEM;
        else if (!o.json)
                print_foot(&run);
        pvp_run_fini(&run);
        if (rc == -EINTR)
                fprintf(stderr, "vqlift-bench pvp: ended by a signal\n");
        if (rc == -EBADMSG)
                return EXIT_BAD_RESULT;
        return rc == 0 ? EXIT_GOOD : EXIT_NOT_MEASURED;
}
