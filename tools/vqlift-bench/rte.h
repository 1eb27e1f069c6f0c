/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_RTE_H
#define VQLIFT_BENCH_RTE_H

/*
 * DPDK's vhost library as a back-end, connected to our front-end over a socket as always.  Its
 * callbacks know nothing of us, so that there is one listening socket a process and one connection
 * at a time.
 */

#include <stdbool.h>
#include <stdint.h>

struct fe_frontend;
struct rte_mbuf;
struct rte_mempool;
struct rte_peer;

/* Listen, for the whole run: the library takes a second to see a new socket, but no time to see a
 * new connection.  -EIO. */
int rte_peer_listen(void);
void rte_peer_unlisten(void);

/* Connect a front-end to it. */
int rte_peer_new(struct rte_peer **ret_peer, struct fe_frontend **ret_fe);
/* Until the library says that the device is ready.  -ETIMEDOUT. */
int rte_peer_wait(struct rte_peer *p);
/* After the front-end was freed: returns when the library has let go of its memory.  NULL is fine.
 */
void rte_peer_free(struct rte_peer *p);

/* Go on at a position (GET_VRING_BASE encoding). */
int rte_peer_seek(struct rte_peer *p, unsigned int ring, uint32_t at, bool packed);
/* enqueue if pool is NULL, else dequeue. */
uint16_t rte_peer_move(struct rte_peer *p, unsigned int ring, struct rte_mempool *pool,
                       struct rte_mbuf **pkts, uint16_t n);

#endif
