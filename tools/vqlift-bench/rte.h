/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_RTE_H
#define VQLIFT_BENCH_RTE_H

/* DPDK's vhost library as a back-end, connected to our front-end over a socket as always. */

#include <stdbool.h>
#include <stdint.h>

struct fe_frontend;
struct rte_mbuf;
struct rte_mempool;
struct rte_vhost_peer;

/* Register a socket and connect the front-end to it. */
int rte_vhost_peer_new(struct rte_vhost_peer **ret_peer, struct fe_frontend **ret_fe);
void rte_vhost_peer_free(struct rte_vhost_peer *p);
/* Until the library says that the device is ready.  -ETIMEDOUT. */
int rte_vhost_peer_wait(struct rte_vhost_peer *p);
/* Go on at a position (GET_VRING_BASE encoding). */
int rte_vhost_peer_seek(struct rte_vhost_peer *p, unsigned int ring, uint32_t at, bool packed);
/* enqueue if pool is NULL, else dequeue. */
uint16_t rte_vhost_peer_move(struct rte_vhost_peer *p, unsigned int ring, struct rte_mempool *pool,
                             struct rte_mbuf **pkts, uint16_t n);

#endif
