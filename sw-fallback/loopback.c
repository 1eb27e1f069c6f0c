/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/loopback.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_mbuf.h>
#include <rte_ring.h>

enum { RING_PACKETS = 1024 };

struct vql_loopback {
        uint16_t queues;
        struct rte_ring *ring[];
};

static struct rte_ring *make_ring(void)
{
        size_t bytes = (size_t)rte_ring_get_memsize(RING_PACKETS);
        struct rte_ring *ring = aligned_alloc(RTE_CACHE_LINE_SIZE,
                                              RTE_ALIGN_CEIL(bytes, (size_t)RTE_CACHE_LINE_SIZE));

        if (ring)
                rte_ring_init(ring, "loopback", RING_PACKETS, RING_F_SP_ENQ | RING_F_SC_DEQ);
        return ring;
}

static void free_ring(struct rte_ring *ring)
{
        void *m;

        while (ring && rte_ring_dequeue(ring, &m) == 0)
                rte_pktmbuf_free(m);
        free(ring);
}

int vql_loopback_new(uint16_t queues, struct vql_loopback **ret_loopback)
{
        struct vql_loopback *l = calloc(1, sizeof(*l) + queues * sizeof(struct rte_ring *));

        if (!l)
                return -ENOMEM;
        l->queues = queues;
        for (uint16_t i = 0; i < queues; i++) {
                l->ring[i] = make_ring();
                if (!l->ring[i]) {
                        vql_loopback_free(l);
                        return -ENOMEM;
                }
        }
        *ret_loopback = l;
        return 0;
}

void vql_loopback_free(struct vql_loopback *l)
{
        for (uint16_t i = 0; l && i < l->queues; i++)
                free_ring(l->ring[i]);
        free(l);
}

uint16_t vql_loopback_send(struct vql_loopback *l, uint16_t queue, struct rte_mbuf **pkts,
                           uint16_t n)
{
        return (uint16_t)rte_ring_enqueue_burst(l->ring[queue], (void **)pkts, n, NULL);
}

uint16_t vql_loopback_receive(struct vql_loopback *l, uint16_t queue, struct rte_mbuf **pkts,
                              uint16_t n)
{
        return (uint16_t)rte_ring_dequeue_burst(l->ring[queue], (void **)pkts, n, NULL);
}
