/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/backend.h"

#include <stdio.h>

#include <rte_mbuf.h>

#include "port/burst_impl.h"
#include "vqlift-bench/guest.h"
#include "vqlift-bench/rte.h"
#include "vqlift/burst.h"

/* ---- vqlift ---- */

int backend_vqlift_open(const struct guest *g, struct backend_vqlift *v)
{
        const struct fe_areas at = fe_driver_areas(g->driver);
        const struct fe_region *mem = &g->mem->region[0];
        const struct vql_burst_region region = { mem->spec.gpa, mem->spec.size, mem->spec.uva,
                                                 mem->spec.offset, mem->fd };
        const struct vql_burst_params params = {
                .size = sizeof(params),
                .regions = &region,
                .n_regions = 1,
                .features = guest_features(&g->cell),
                .to_guest = g->cell.to_guest,
                .ring_size = g->cell.ring,
                .desc = fe_memory_uva(g->mem, at.desc, 1),
                .driver = fe_memory_uva(g->mem, at.driver, 1),
                .device = fe_memory_uva(g->mem, at.device, 1),
                .base = g->cell.packed ? 0x80008000 : 0,
                .call_fd = g->fe->ring[g->ring].call_fd,
        };
        char error[256];
        int rc = vql_burst_open(&params, &v->queue, error, sizeof(error));

        if (rc < 0) {
                fprintf(stderr, "vqlift-bench: vqlift: %s\n", error);
                return rc;
        }
        if (v->set)
                vql_burst_use(v->queue, v->set);
        return 0;
}

void backend_vqlift_close(struct backend_vqlift *v)
{
        vql_burst_close(v->queue);
        v->queue = NULL;
}

static int vqlift_seek(void *arg, uint32_t position)
{
        const struct backend_vqlift *v = arg;

        return vql_burst_set_position(v->queue, position);
}

static uint16_t vqlift_enqueue(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
        const struct backend_vqlift *v = arg;

        return vql_burst_enqueue(v->queue, pkts, n);
}

static uint16_t vqlift_dequeue(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
        const struct backend_vqlift *v = arg;

        return vql_burst_dequeue(v->queue, v->pool, pkts, n);
}

struct backend backend_vqlift(const char *name, const struct guest *g, struct backend_vqlift *v)
{
        return (struct backend){
                .name = name,
                .arg = v,
                .seek = vqlift_seek,
                .move = g->cell.to_guest ? vqlift_enqueue : vqlift_dequeue,
        };
}

/* ---- DPDK ---- */

static int rte_seek(void *arg, uint32_t position)
{
        const struct backend_rte *r = arg;

        return rte_peer_seek(r->peer, r->ring, position, r->packed);
}

static uint16_t rte_enqueue(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
        const struct backend_rte *r = arg;

        return rte_peer_move(r->peer, r->ring, NULL, pkts, n);
}

static uint16_t rte_dequeue(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
        const struct backend_rte *r = arg;

        return rte_peer_move(r->peer, r->ring, r->pool, pkts, n);
}

struct backend backend_rte(struct backend_rte *r)
{
        return (struct backend){
                .name = "rte_vhost",
                .arg = r,
                .seek = rte_seek,
                .move = r->ring == 0 ? rte_enqueue : rte_dequeue,
        };
}
