/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <rte_config.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "sw-fallback/uplink_impl.h"

/*
 * An ethdev over rings of our own.  The one that the vdev "net_ring0" makes would do for packets,
 * but frees at its end only the rings of the queues that were configured, and none of the packets
 * in them.
 */
enum { RING_PACKETS = 1024 };

static void free_ring(struct rte_ring *ring)
{
        void *m;

        while (ring && rte_ring_dequeue(ring, &m) == 0)
                rte_pktmbuf_free(m);
        rte_ring_free(ring);
}

void vql_loopback_close(struct vql_loopback *l)
{
        for (uint16_t i = 0; i < l->n; i++)
                free_ring(l->ring[i]);
        l->n = 0;
}

int vql_loopback_open(struct vql_loopback *l, uint16_t n, uint16_t *ret_port, struct vql_error *e)
{
        char name[RTE_RING_NAMESIZE];
        int port, rc;

        n = (uint16_t)RTE_MIN(n, RTE_PMD_RING_MAX_RX_RINGS);
        for (l->n = 0; l->n < n; l->n++) {
                /* Names are unique in the process, and short: our address is both. */
                snprintf(name, sizeof(name), "vql%" PRIxPTR "-%u", (uintptr_t)l, l->n);
                l->ring[l->n] = rte_ring_create(name, RING_PACKETS, SOCKET_ID_ANY,
                                                RING_F_SP_ENQ | RING_F_SC_DEQ);
                if (!l->ring[l->n]) {
                        rc = vql_fail(e, rte_errno,
                                      "loopback: no memory for a ring of %d packets: %s",
                                      RING_PACKETS, rte_strerror(rte_errno));
                        goto fail;
                }
        }
        snprintf(name, sizeof(name), "vql%" PRIxPTR, (uintptr_t)l);
        port = rte_eth_from_rings(name, l->ring, n, l->ring, n, 0);
        if (port < 0) {
                rc = vql_fail(e, rte_errno, "loopback: DPDK's net_ring driver made no device: %s",
                              rte_strerror(rte_errno));
                goto fail;
        }
        *ret_port = (uint16_t)port;
        return 0;

fail:
        vql_loopback_close(l);
        return rc;
}
