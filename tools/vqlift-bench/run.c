/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "vqlift-bench/progress.h"
#include "vqlift-bench/sets.h"
#include "vqlift-bench/table.h"

enum { AGAIN = 3 }; /* how many times the rounds if a cell is measured again */

static bool is_under(const struct result *r, const struct options *o)
{
        return r->rc == 0 && measurement_ratio(&r->m, CONTENDER_OTHER) < o->fail_under;
}

/* A cell that fails for its ratio is measured once more, longer: it may have been the machine. */
static void run_cell(struct run *run, const struct cell *c)
{
        const struct options *o = run->options;
        const struct vql_instance_set *control = o->control ? control_find(o->control) : NULL;
        const struct rig_params p = {
                .cell = *c,
                .machine = &run->machine,
                .set = o->set    ? set_find(o->set)
                       : control ? control_base(control)
                                 : NULL,
                .control = control,
                .limit = o->limit,
        };
        struct result r = { .cell = *c };

        r.rc = measure_cell(&p, o->rounds, &r.m);
        if (r.rc == -ENODATA || is_under(&r, o))
                r.rc = measure_cell(&p, o->rounds * AGAIN, &r.m);
        run->results[run->n++] = r;
}

static bool wants_pair(const struct cell_choice *choice)
{
        struct cell c;

        for (size_t i = 0; cell_get(choice, i, &c); i++)
                if (c.pair)
                        return true;
        return false;
}

int run_cells(const struct options *o, const struct machine *machine, struct run *ret_run)
{
        struct run run = { .options = o, .machine = *machine, .room = cell_count(&o->cells) };
        struct progress progress;
        struct cell c;

        if (machine->guest_cpu < 0 && wants_pair(&o->cells)) {
                fputs("vqlift-bench: mode pair: the guest needs a CPU of its own, and this process "
                      "may use one CPU only\n",
                      stderr);
                return -ENODEV;
        }
        run.results = calloc(run.room, sizeof(*run.results));
        if (!run.results)
                return -ENOMEM;
        progress_start(&progress, run.room);
        if (!o->json)
                table_head(stdout, o);
        for (size_t i = 0; cell_get(&o->cells, i, &c); i++) {
                progress_step(&progress, i);
                run_cell(&run, &c);
                progress_hide(&progress);
                if (!o->json)
                        table_row(stdout, o, &run.results[i]);
        }
        *ret_run = run;
        return 0;
}

void run_fini(struct run *run)
{
        free(run->results);
        run->results = NULL;
}

struct summary run_summary(const struct run *run)
{
        struct summary s = { .least = INFINITY };
        double logs = 0;

        for (size_t i = 0; i < run->n; i++) {
                const struct result *r = &run->results[i];

                if (r->rc < 0) {
                        s.failed++;
                        continue;
                }
                s.cells++;
                s.under += is_under(r, run->options);
                s.least = fmin(s.least, measurement_ratio(&r->m, CONTENDER_OTHER));
                logs += log(measurement_ratio(&r->m, CONTENDER_OTHER));
        }
        s.geomean = s.cells ? exp(logs / (double)s.cells) : 0;
        s.least = s.cells ? s.least : 0;
        return s;
}
