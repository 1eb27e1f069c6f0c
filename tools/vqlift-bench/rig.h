/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_RIG_H
#define VQLIFT_BENCH_RIG_H

/* A guest with one ring, and all back-ends that are to be compared on it. */

#include <stdbool.h>
#include <stdint.h>

#include "vqlift-bench/backend.h"
#include "vqlift-bench/cell.h"
#include "vqlift-bench/machine.h"

/* Who takes turns. */
enum contender {
        CONTENDER_VQLIFT,
        CONTENDER_OTHER, /* DPDK's vhost library, or vqlift with an idea switched off */
        CONTENDER_LIMIT, /* the bare copy: vqlift moves the packets, outside of the timed part */
        CONTENDERS,
};

struct rig_params {
        struct cell cell;
        const struct machine *machine;
        const struct vql_instance_set *set;     /* of vqlift; NULL: the best that runs here */
        const struct vql_instance_set *control; /* of the other; NULL: it is DPDK's library */
        bool limit;
        /* For tests, or NULL: stands between the rig and a back-end when it moves packets. */
        struct backend (*wrap)(const struct backend *real);
};

struct rig;

/* Build memory, rings and buffers for a cell, and connect all back-ends.  0 or -errno, with a line
 * on stderr. */
int rig_new(const struct rig_params *params, struct rig **ret_rig);
void rig_free(struct rig *r);

/* The contender that works from now on. */
int rig_use(struct rig *r, enum contender who);

/* Mode pair: let the guest run, and make it quiet.  Bursts are moved in between.  In mode alternate
 * nothing happens. */
void rig_run(struct rig *r);
int rig_quiet(struct rig *r);
/* Ticks of a cache line to the guest's CPU and back, while it is quiet; 0 in mode alternate. */
double rig_round_trip(struct rig *r);

/*
 * One burst: the driver makes buffers ready, the back-end moves packets (the only part that is
 * timed), the driver takes its buffers back; in mode pair all but the timed part is the guest's.
 * 0 and in *ret_tsc the ticks of the back-end's call.  Each packet's stamp is compared: -EBADMSG.
 * -EIO: the back-end moved fewer packets than there were, or returned fewer buffers.
 */
int rig_burst(struct rig *r, uint64_t *ret_tsc);

/* Send the ring once round by the contender, comparing every byte of packets that are all new,
 * while the guest is quiet.  Errors as for rig_burst(). */
int rig_check(struct rig *r, enum contender who);

#endif
