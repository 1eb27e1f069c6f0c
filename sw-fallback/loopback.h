/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_LOOPBACK_H
#define VQLIFT_SW_FALLBACK_LOOPBACK_H

/*
 * The uplink "loopback": what is sent to a queue comes back from it.  It is no ethdev, because DPDK
 * has few of those (Debian's: 32 in a process), and a net_ring device would take one for nothing.
 *
 * Threads: one queue is served by one thread at a time.
 */

#include <stdint.h>

struct rte_mbuf;
struct vql_loopback;

/* -ENOMEM. */
int vql_loopback_new(uint16_t queues, struct vql_loopback **ret_loopback);
/* Free it and the packets in it.  NULL is fine. */
void vql_loopback_free(struct vql_loopback *l);

/* Both return how many packets they took or gave; the caller keeps what was not taken. */
uint16_t vql_loopback_send(struct vql_loopback *l, uint16_t queue, struct rte_mbuf **pkts,
                           uint16_t n);
uint16_t vql_loopback_receive(struct vql_loopback *l, uint16_t queue, struct rte_mbuf **pkts,
                              uint16_t n);

#endif
