/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/measure.h"

#include <errno.h>
#include <string.h>

#include <rte_common.h>

#include "vqlift-bench/probe.h"

enum {
        TURN_PACKETS = 1024,
        TURN_MOST = 192, /* bursts */
        TURN_LEAST = 16,
        WARM_UP = 8,  /* bursts at each turn that are not counted */
        LARGE = 2000, /* bytes; packets above that size: half as many */
};

double measurement_ratio(const struct measurement *m, enum contender than)
{
        return m->of[than].median / m->of[CONTENDER_VQLIFT].median;
}

static unsigned int bursts_of_turn(const struct cell *c)
{
        const unsigned int n = TURN_PACKETS / c->burst / (c->size > LARGE ? 2 : 1);

        return RTE_MAX((unsigned int)TURN_LEAST, RTE_MIN((unsigned int)TURN_MOST, n));
}

/* The bursts of one turn; in *ret_value ticks per packet. */
static int take_bursts(struct rig *r, const struct cell *c, uint64_t clock, double *ret_value)
{
        const unsigned int n = bursts_of_turn(c);
        double ticks[TURN_MOST];
        int rc = 0;

        for (unsigned int i = 0; rc == 0 && i < WARM_UP + n; i++) {
                uint64_t tsc = 0;

                rc = rig_burst(r, &tsc);
                if (i >= WARM_UP)
                        ticks[i - WARM_UP] = (double)(tsc > clock ? tsc - clock : 0);
        }
        if (rc == 0)
                *ret_value = sample_burst_mean(ticks, n) / c->burst;
        return rc;
}

static int take_turn(struct rig *r, const struct cell *c, enum contender who, struct series *s)
{
        const uint64_t clock = probe_clock();
        struct batch b = { 0 };
        int rc = rig_use(r, who), stopped;

        if (rc < 0)
                return rc;
        b.round_trip[0] = rig_round_trip(r);
        b.probe = (double)probe_spin();
        rig_run(r);
        rc = take_bursts(r, c, clock, &b.value);
        stopped = rig_quiet(r);
        b.probe = RTE_MAX(b.probe, (double)probe_spin());
        b.round_trip[1] = rig_round_trip(r);
        if (rc == 0)
                rc = stopped;
        if (rc == 0)
                series_add(s, &b);
        return rc;
}

static int check(struct rig *r)
{
        int rc = rig_check(r, CONTENDER_VQLIFT);

        return rc < 0 ? rc : rig_check(r, CONTENDER_OTHER);
}

static int take_turns(struct rig *r, const struct rig_params *p, unsigned int rounds,
                      struct series *s)
{
        const int n = p->limit ? CONTENDERS : CONTENDER_LIMIT;
        int rc = check(r);

        for (unsigned int i = 0; rc == 0 && i < rounds; i++)
                for (int who = 0; rc == 0 && who < n; who++)
                        rc = take_turn(r, &p->cell, (enum contender)who, &s[who]);
        return rc < 0 ? rc : check(r);
}

static int judge(const struct series *s, size_t n, struct measurement *ret_measurement)
{
        struct measurement m = { 0 };
        struct verdict v;
        int rc = verdict_reach(s, n, &v);

        for (size_t i = 0; rc == 0 && i < n; i++)
                rc = series_statistic(&s[i], &v, &m.of[i]);
        if (rc == 0) {
                m.far = v.near_far > 0 && v.far;
                *ret_measurement = m;
        }
        return rc;
}

int measure_cell(const struct rig_params *params, unsigned int rounds,
                 struct measurement *ret_measurement)
{
        struct series s[CONTENDERS] = { 0 };
        struct rig *r = NULL;
        int rc = rig_new(params, &r);

        for (int who = 0; who < CONTENDERS && rc == 0; who++)
                rc = series_init(&s[who], rounds);
        if (rc == 0)
                rc = take_turns(r, params, rounds, s);
        if (rc == 0)
                rc = judge(s, params->limit ? CONTENDERS : CONTENDER_LIMIT, ret_measurement);
        for (int who = 0; who < CONTENDERS; who++)
                series_fini(&s[who]);
        rig_free(r);
        return rc;
}

const char *measure_error(int rc)
{
        switch (rc) {
        case -EBADMSG:
                return "wrong bytes arrived";
        case -EIO:
                return "fewer packets arrived than were sent";
        case -ENODATA:
                return "the machine was disturbed all the time";
        case -ETIMEDOUT:
                return "the guest's thread or the back-end did not come forward";
        default:
                return strerror(-rc);
        }
}
