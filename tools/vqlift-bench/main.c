/* SPDX-License-Identifier: BSD-3-Clause */
/* vqlift-bench: vqlift's datapath and DPDK's vhost library, taking turns on the same rings. */

#include <stdio.h>
#include <string.h>

#include "vqlift-bench/idle.h"
#include "vqlift-bench/options.h"
#include "vqlift-bench/plot.h"
#include "vqlift-bench/prefix.h"
#include "vqlift-bench/pvp.h"
#include "vqlift-bench/report.h"
#include "vqlift-bench/run.h"
#include "vqlift-bench/table.h"

/* 0: good; 1: measured, and something failed; 2: not measured. */
enum { EXIT_GOOD, EXIT_BAD_RESULT, EXIT_BAD_USE };

static int write_results(const struct run *run)
{
        const struct options *o = run->options;
        int rc = 0;

        if (o->json)
                rc = report_print(run, stdout);
        else
                table_foot(stdout, run);
        if (rc == 0 && o->report)
                rc = report_write(run, o->report);
        if (rc == 0 && (o->report || o->plot))
                rc = plot_write(run, o->report ? o->report : o->plot);
        return rc;
}

static int compare_main(int argc, char **argv)
{
        struct machine machine;
        struct summary sum;
        struct options o;
        struct run run;
        int rc = options_parse(argc, argv, &o);

        if (rc != 0)
                return rc < 0 ? EXIT_BAD_USE : EXIT_GOOD;
        if (o.prefix && prefix_enter(o.prefix, argv) < 0)
                return EXIT_BAD_USE;
        if (machine_start(argv[0], &machine) < 0)
                return EXIT_BAD_USE;
        rc = run_cells(&o, &machine, &run);
        machine_stop(&machine);
        if (rc < 0)
                return EXIT_BAD_USE;
        sum = run_summary(&run);
        rc = write_results(&run);
        run_fini(&run);
        return rc == 0 && sum.failed == 0 && sum.under == 0 ? EXIT_GOOD : EXIT_BAD_RESULT;
}

static const struct {
        const char *name;
        int (*main)(int argc, char **argv);
} commands[] = {
        { "compare", compare_main },
        { "idle", idle_main },
        { "pvp", pvp_main },
};

int main(int argc, char **argv)
{
        for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
                if (strcmp(argv[1], commands[i].name) == 0)
                        return commands[i].main(argc - 1, argv + 1);
        return compare_main(argc, argv);
}
