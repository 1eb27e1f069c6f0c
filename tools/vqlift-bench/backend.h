/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_BACKEND_H
#define VQLIFT_BENCH_BACKEND_H

/*
 * Who moves packets between a guest's ring and buffers of DPDK.  Several are on the same ring; one
 * of them works at a time, and handing over is a matter of the position.
 */

#include <stdbool.h>
#include <stdint.h>

struct guest;
struct rte_mbuf;
struct rte_mempool;
struct rte_peer;
struct vql_burst_queue;
struct vql_instance_set;

struct backend {
        const char *name;
        void *arg;
        /* Go on at a position, in the encoding of GET_VRING_BASE. */
        int (*seek)(void *arg, uint32_t position);
        uint16_t (*move)(void *arg, struct rte_mbuf **pkts, uint16_t n);
};

/* vqlift's datapath; `set` NULL: the best instances that run here. */
struct backend_vqlift {
        struct vql_burst_queue *queue;
        struct rte_mempool *pool;
        const struct vql_instance_set *set;
};
/* -errno, with a line on stderr. */
int backend_vqlift_open(const struct guest *g, struct backend_vqlift *v);
void backend_vqlift_close(struct backend_vqlift *v);
struct backend backend_vqlift(const char *name, const struct guest *g, struct backend_vqlift *v);

/* DPDK's vhost library. */
struct backend_rte {
        struct rte_peer *peer;
        struct rte_mempool *pool;
        unsigned int ring;
        bool packed;
};
struct backend backend_rte(struct backend_rte *r);

#endif
