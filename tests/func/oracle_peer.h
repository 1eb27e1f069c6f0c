/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_ORACLE_PEER_H
#define FUNC_ORACLE_PEER_H

/*
 * DPDK's vhost library in this process, behind a socket as always.  Its callbacks have no argument,
 * so there is one of it, with one front-end at a time.
 */

#include <stdint.h>

struct fe_frontend;
struct rte_mbuf;
struct rte_mempool;

/* For the whole run: the library notices a new socket within a second, a new connection at once.
 * -EIO; -errno. */
int oracle_listen(void);
void oracle_unlisten(void);

/* Connect a front-end, which the caller sets up and frees. */
int oracle_connect(struct fe_frontend **ret_frontend);
/* Until the library can move packets; the rings do not ask for kicks then.  -ETIMEDOUT. */
int oracle_wait_ready(int *ret_vid);
/* Until it has let go of the memory of a front-end that was ready and is freed.  -ETIMEDOUT. */
int oracle_wait_gone(void);

uint16_t oracle_enqueue(int vid, uint16_t ring, struct rte_mbuf **pkts, uint16_t n);
uint16_t oracle_dequeue(int vid, uint16_t ring, struct rte_mempool *pool, struct rte_mbuf **pkts,
                        uint16_t n);

#endif
