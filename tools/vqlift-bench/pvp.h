/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PVP_H
#define VQLIFT_BENCH_PVP_H

/*
 * End to end: DPDK's testpmd with net_virtio_user is the guest and bounces packets against vqliftd
 * and against testpmd with net_vhost in turn.
 */

/* The arguments behind the word "pvp", which is argv[0].  0: good; 1: measured, and something
 * failed; 2: not measured. */
int pvp_main(int argc, char **argv);

#endif
