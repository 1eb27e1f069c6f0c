/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PVP_ENDS_H
#define VQLIFT_BENCH_PVP_ENDS_H

/* The programs at the two ends of a socket: how they are started, and what they count. */

#include <stdint.h>

#include "vqlift-bench/pvp_child.h"
#include "vqlift-bench/pvp_options.h"

enum { PVP_RING_SIZE = 1024 };

/* Packets and bytes that a program received and sent. */
struct pvp_counters {
        uint64_t rx, tx, rx_bytes, tx_bytes;
};

/* Start and wait until it is ready.  Negative: as in pvp_child.h. */
int pvp_guest_start(const struct pvp_place *place, const struct pvp_options *o,
                    const struct pvp_ring *ring, bool mergeable, const char *backend,
                    struct pvp_child **ret_guest);
int pvp_vhost_start(const struct pvp_place *place, const struct pvp_options *o,
                    struct pvp_child **ret_vhost);
int pvp_daemon_start(const struct pvp_place *place, const struct pvp_options *o,
                     struct pvp_child **ret_daemon);

/* Of either testpmd. */
int pvp_testpmd_counters(struct pvp_child *c, struct pvp_counters *ret_counters);
/* -EIO: no or no sensible answer, with a line on stderr.  It counts no bytes with headers. */
int pvp_daemon_counters(const struct pvp_place *place, struct pvp_counters *ret_counters);

#endif
