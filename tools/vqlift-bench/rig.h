/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_RIG_H
#define VQLIFT_BENCH_RIG_H

/*
 * One guest's memory and rings, driven by our own front-end, with two back-ends on them at the same
 * time: vqlift's burst datapath and DPDK's vhost library.  One of them works at a time; handing
 * over is a matter of the position.
 */

#include <stdbool.h>
#include <stdint.h>

#include "vqlift-bench/cell.h"

struct rte_mbuf;
struct rte_mempool;

enum backend { BACKEND_VQLIFT, BACKEND_RTE_VHOST, BACKENDS };

struct rig;

/* Build memory, rings and buffers for a cell, and connect both back-ends.  0 or -errno, with a line
 * on stderr. */
int rig_new(const struct cell *cell, struct rte_mempool *pool, struct rig **ret_rig);
void rig_free(struct rig *r);

/* The back-end that works from now on. */
int rig_use(struct rig *r, enum backend b);

/*
 * One burst: the driver makes buffers ready, the back-end moves packets (the only part that is
 * timed), the driver takes its buffers back.  Returns the number of packets, and in *ret_tsc the
 * ticks of the back-end's call.  `check`: compare every byte.  Negative: -EBADMSG wrong content.
 */
int rig_burst(struct rig *r, bool check, uint64_t *ret_tsc);

#endif
