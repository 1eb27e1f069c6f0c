/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PREFIX_H
#define VQLIFT_BENCH_PREFIX_H

/* Another DPDK than the one that the system's loader finds. */

#include <stddef.h>

/* The file of DPDK's vhost library that this process runs with. */
void prefix_library(char *ret_path, size_t size);

/*
 * Start this program again with the DPDK below `prefix` (as its installation made it: lib or
 * lib/<triplet>).  Returns 0 if it is the one already, does not return if it starts again, and else
 * -ENOENT (no DPDK there) or -ENOEXEC (one with another binary interface), with a line on stderr.
 */
int prefix_enter(const char *prefix, char **argv);

#endif
