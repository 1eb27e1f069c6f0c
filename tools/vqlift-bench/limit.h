/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_LIMIT_H
#define VQLIFT_BENCH_LIMIT_H

/*
 * What no back-end can save on this machine: copy the bytes of each packet between the same
 * buffers, and touch each line of the ring once that has to be read or written for them.  The
 * header is left alone: it lies in the packet's first line as a rule.  No decision is made, no
 * address is worked out or checked, and no packet buffer is taken or given back: all that is to be
 * done is in a list before the clock starts.
 */

#include <stdint.h>

struct guest;
struct rte_mbuf;
struct limit;

int limit_new(const struct guest *g, struct limit **ret_limit); /* -ENOMEM */
void limit_free(struct limit *l);                               /* NULL is fine */

/* Make the list for n packets, the first of which is in buffer number `first` of all times; their
 * mbufs are sources or have room for what comes. */
void limit_prepare(struct limit *l, uint64_t first, struct rte_mbuf **pkts, uint16_t n);

/* Do what the list says: the part that is timed. */
void limit_run(struct limit *l);

#endif
