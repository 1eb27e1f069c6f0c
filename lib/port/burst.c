/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift/burst.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/burst_impl.h"
#include "port/ring.h"
#include "vhost_user/session.h"

/* A ring and the session that a front-end would have made for it. */
struct vql_burst_queue {
        struct vql_ring ring;
        struct vql_offer offer;
        struct vql_session session;
        uint16_t index;
};

static int map_memory(const struct vql_burst_params *p, struct vql_mem_table **ret_table,
                      struct vql_error *e)
{
        struct vql_region *regions[VQL_MEM_MAX_REGIONS] = { NULL };
        int rc = 0;

        if (p->n_regions == 0 || p->n_regions > VQL_MEM_MAX_REGIONS)
                return vql_fail(e, EINVAL, "%u regions, expected 1 to %d", p->n_regions,
                                VQL_MEM_MAX_REGIONS);
        for (unsigned int i = 0; i < p->n_regions && rc == 0; i++) {
                const struct vql_burst_region *r = &p->regions[i];
                const struct vql_region_desc d = { r->gpa, r->size, r->uva, r->mmap_offset };

                rc = vql_region_map(&d, r->fd, -1, &regions[i], e);
        }
        if (rc == 0)
                rc = vql_mem_table_new(regions, p->n_regions, ret_table, e);
        for (unsigned int i = 0; i < p->n_regions; i++)
                vql_region_put(regions[i]);
        return rc;
}

static int start(struct vql_burst_queue *b, const struct vql_burst_params *p, struct vql_error *e)
{
        struct vql_vring *v = &b->session.vring[b->index];
        int rc = map_memory(p, &b->session.mem, e);

        if (rc < 0)
                return rc;
        b->session.features = p->features;
        b->session.features_set = true;
        v->num = p->ring_size;
        v->base = p->base;
        v->desc_uva = p->desc;
        v->avail_uva = p->driver;
        v->used_uva = p->device;
        v->addr_set = v->base_set = v->kick_set = v->enabled = true;
        rc = vql_ring_start(&b->ring, &b->session, b->index, NULL, e);
        b->ring.q.call_fd = p->call_fd;
        return rc;
}

int vql_burst_open(const struct vql_burst_params *params, struct vql_burst_queue **ret_queue,
                   char *ret_error, size_t n)
{
        struct vql_error e = { "out of memory" };
        struct vql_burst_queue *b = aligned_alloc(VQL_CACHE_LINE, sizeof(*b));
        int rc = -ENOMEM;

        if (b) {
                memset(b, 0, sizeof(*b));
                vql_session_init(&b->session, &b->offer, NULL, NULL, NULL, -1);
                b->index = params->to_guest ? 0 : 1;
                if (params->size == sizeof(*params))
                        rc = start(b, params, &e);
                else
                        rc = vql_fail(&e, EINVAL, "vql_burst_params.size is %zu, expected %zu",
                                      params->size, sizeof(*params));
        }
        if (rc == 0) {
                *ret_queue = b;
                return 0;
        }
        if (ret_error && n > 0)
                snprintf(ret_error, n, "%s", e.text);
        vql_burst_close(b);
        return rc;
}

void vql_burst_close(struct vql_burst_queue *b)
{
        if (!b)
                return;
        if (b->ring.state != VQL_RING_STOPPED)
                vql_ring_stop(&b->ring);
        vql_session_fini(&b->session);
        free(b);
}

uint16_t vql_burst_enqueue(struct vql_burst_queue *b, struct rte_mbuf **pkts, uint16_t n)
{
        return b->ring.q.enqueue(&b->ring.q, pkts, n);
}

uint16_t vql_burst_dequeue(struct vql_burst_queue *b, struct rte_mempool *pool,
                           struct rte_mbuf **pkts, uint16_t n)
{
        return b->ring.q.dequeue(&b->ring.q, pool, pkts, n);
}

uint32_t vql_burst_position(const struct vql_burst_queue *b)
{
        const struct vql_cursor at = vql_queue_cursor(&b->ring.q);

        return vql_cursor_encode(&at, b->ring.q.packed);
}

int vql_burst_set_position(struct vql_burst_queue *b, uint32_t base)
{
        const int call_fd = b->ring.q.call_fd;
        int rc;

        b->session.vring[b->index].base = base;
        vql_ring_stop(&b->ring);
        rc = vql_ring_start(&b->ring, &b->session, b->index, NULL, NULL);
        b->ring.q.call_fd = call_fd;
        return rc;
}

unsigned int vql_burst_fault(const struct vql_burst_queue *b)
{
        return b->ring.q.fault;
}

const char *vql_burst_fault_name(unsigned int fault)
{
        return vql_fault_name((enum vql_fault)fault);
}

void vql_burst_use(struct vql_burst_queue *b, const struct vql_instance_set *set)
{
        b->ring.set = set;
        vql_ring_select(&b->ring, &b->session);
}

const char *vql_burst_instance(const struct vql_burst_queue *b)
{
        return b->ring.instance->name;
}
