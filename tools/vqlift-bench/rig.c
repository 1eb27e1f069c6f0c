/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "frontend/frontend.h"
#include "vqlift-bench/rte.h"
#include "vqlift/burst.h"

enum {
        HDR = 12,
        RX_BUFFER = 2048, /* what DPDK guests post; Linux is near it */
        MEMORY = 512 << 20,
        MAX_BURST = 32,
        MAX_PARTS = 34, /* mbufs of a 64 KiB packet */
};

struct rig {
        struct cell cell;
        struct rte_mempool *pool;
        struct fe_memory *mem;
        struct fe_frontend *fe;
        struct fe_driver *driver;
        struct rte_vhost_peer *peer;
        struct vql_burst_queue *queue;
        enum backend backend;
        unsigned int ring;        /* index: 0 to the guest, 1 from it */
        struct fe_seg (*segs)[2]; /* one buffer per cookie */
        uint64_t *tables;
        unsigned int n_segs, buffers;
        struct rte_mbuf *pkts[MAX_BURST];
        uint8_t *pattern;
};

static uint64_t features(const struct cell *c)
{
        return FE_BIT(VIRTIO_F_VERSION_1) | FE_BIT(VIRTIO_RING_F_INDIRECT_DESC) |
               (c->packed ? FE_BIT(VIRTIO_F_RING_PACKED) : 0) |
               (c->in_order ? FE_BIT(VIRTIO_F_IN_ORDER) : 0) |
               (c->mergeable ? FE_BIT(VIRTIO_NET_F_MRG_RXBUF) : 0);
}

static uint32_t buffer_bytes(const struct cell *c)
{
        if (c->to_guest && c->mergeable)
                return RX_BUFFER;
        return (c->size + HDR + 63) & ~63u;
}

static int make_buffer(struct rig *r, unsigned int i)
{
        const struct cell *c = &r->cell;
        uint64_t gpa;
        int rc = fe_memory_alloc(r->mem, FE_ANY_REGION, buffer_bytes(c), 64, &gpa);

        if (rc < 0)
                return rc;
        if (c->to_guest || c->layout == LAYOUT_ONE) {
                r->segs[i][0] = (struct fe_seg){ gpa, c->to_guest ? buffer_bytes(c) : c->size + HDR,
                                                 c->to_guest, 0 };
        } else {
                r->segs[i][0] = (struct fe_seg){ gpa, HDR, false, 0 };
                r->segs[i][1] = (struct fe_seg){ gpa + HDR, c->size, false, 0 };
        }
        memset(fe_memory_at(r->mem, gpa, HDR), 0, HDR);
        if (!c->to_guest)
                memcpy(fe_memory_at(r->mem, gpa + HDR, c->size), r->pattern, c->size);
        if (c->layout == LAYOUT_INDIRECT)
                rc = fe_memory_alloc(r->mem, FE_ANY_REGION, 2 * sizeof(struct vring_desc), 16,
                                     &r->tables[i]);
        return rc;
}

static int make_buffers(struct rig *r)
{
        const struct cell *c = &r->cell;
        const unsigned int slots = c->layout == LAYOUT_CHAIN ? 2 : 1;
        int rc = 0;

        r->n_segs = c->layout == LAYOUT_ONE ? 1 : 2;
        r->buffers = c->ring / slots;
        r->segs = calloc(r->buffers, sizeof(*r->segs));
        r->tables = calloc(r->buffers, sizeof(*r->tables));
        r->pattern = malloc(c->size);
        if (!r->segs || !r->tables || !r->pattern)
                return -ENOMEM;
        for (uint32_t i = 0; i < c->size; i++)
                r->pattern[i] = (uint8_t)(i * 131 + 7);
        for (unsigned int i = 0; i < r->buffers && rc == 0; i++)
                rc = make_buffer(r, i);
        return rc;
}

/* Give buffer i to the device. */
static int post(struct rig *r, size_t i)
{
        const struct fe_chain chain = {
                .segs = r->segs[i],
                .n = r->n_segs,
                .table = r->tables[i],
                .cookie = (void *)(uintptr_t)i,
        };

        return fe_driver_add(r->driver, &chain, NULL);
}

static int post_all(struct rig *r)
{
        int rc = 0;

        for (unsigned int i = 0; i < r->buffers && rc == 0; i++)
                rc = post(r, i);
        fe_driver_publish(r->driver);
        return rc;
}

/* A packet of the cell's size in as many mbufs as it takes. */
static int make_packet(struct rig *r, struct rte_mbuf **ret_packet)
{
        struct rte_mbuf *head = rte_pktmbuf_alloc(r->pool), *last = head;
        uint32_t done = 0;

        while (last && done < r->cell.size) {
                uint32_t n = RTE_MIN((uint32_t)rte_pktmbuf_tailroom(last), r->cell.size - done);

                memcpy(rte_pktmbuf_mtod(last, uint8_t *), r->pattern + done, n);
                last->data_len = (uint16_t)n;
                head->pkt_len += n;
                done += n;
                if (done == r->cell.size)
                        break;
                last->next = rte_pktmbuf_alloc(r->pool);
                last = last->next;
                head->nb_segs++;
        }
        if (!last)
                return -ENOMEM;
        *ret_packet = head;
        return 0;
}

static int open_queue(struct rig *r)
{
        const struct fe_areas at = fe_driver_areas(r->driver);
        const struct fe_region *mem = &r->mem->region[0];
        const struct vql_burst_region region = { mem->spec.gpa, mem->spec.size, mem->spec.uva,
                                                 mem->spec.offset, mem->fd };
        const struct vql_burst_params params = {
                .size = sizeof(params),
                .regions = &region,
                .n_regions = 1,
                .features = features(&r->cell),
                .to_guest = r->cell.to_guest,
                .ring_size = r->cell.ring,
                .desc = fe_memory_uva(r->mem, at.desc, 1),
                .driver = fe_memory_uva(r->mem, at.driver, 1),
                .device = fe_memory_uva(r->mem, at.device, 1),
                .base = r->cell.packed ? 0x80008000 : 0,
                .call_fd = r->fe->ring[r->ring].call_fd,
        };
        char error[256];
        int rc = vql_burst_open(&params, &r->queue, error, sizeof(error));

        if (rc < 0)
                fprintf(stderr, "vqlift: %s\n", error);
        return rc;
}

static int set_up(struct rig *r)
{
        const struct fe_region_spec region = { .gpa = 0, .size = MEMORY };
        struct fe_setup setup = {
                .features = features(&r->cell),
                .required = features(&r->cell),
                .ring_size = r->cell.ring,
                .pick = FE_PICK_FIFO,
        };
        int rc = fe_memory_new(&region, 1, &r->mem);

        if (rc == 0)
                rc = rte_vhost_peer_new(&r->peer, &r->fe);
        if (rc < 0)
                return rc;
        setup.mem = r->mem;
        rc = fe_frontend_setup(r->fe, &setup);
        if (rc < 0) {
                fprintf(stderr, "rte_vhost: %s\n", fe_frontend_error(r->fe));
                return rc;
        }
        r->ring = r->cell.to_guest ? 0 : 1;
        r->driver = r->fe->ring[r->ring].driver;
        fe_driver_calls_off(r->driver);
        rc = make_buffers(r);
        if (rc == 0)
                rc = open_queue(r);
        if (rc == 0)
                rc = rte_vhost_peer_wait(r->peer);
        if (rc == 0 && r->cell.to_guest)
                rc = post_all(r);
        for (unsigned int i = 0; i < r->cell.burst && rc == 0 && r->cell.to_guest; i++)
                rc = make_packet(r, &r->pkts[i]);
        return rc;
}

int rig_new(const struct cell *cell, struct rte_mempool *pool, struct rig **ret_rig)
{
        struct rig *r = calloc(1, sizeof(*r));
        int rc;

        if (!r)
                return -ENOMEM;
        r->cell = *cell;
        r->pool = pool;
        r->backend = BACKEND_VQLIFT;
        rc = set_up(r);
        if (rc < 0) {
                rig_free(r);
                return rc;
        }
        *ret_rig = r;
        return 0;
}

void rig_free(struct rig *r)
{
        if (!r)
                return;
        for (unsigned int i = 0; i < MAX_BURST; i++)
                rte_pktmbuf_free(r->pkts[i]);
        vql_burst_close(r->queue);
        fe_frontend_free(r->fe);
        rte_vhost_peer_free(r->peer);
        fe_memory_free(r->mem);
        free(r->segs);
        free(r->tables);
        free(r->pattern);
        free(r);
}

int rig_use(struct rig *r, enum backend b)
{
        const struct fe_position at = fe_driver_position(r->driver);
        const uint32_t base = fe_position_encode(&at, r->cell.packed);

        r->backend = b;
        if (b == BACKEND_VQLIFT)
                return vql_burst_set_position(r->queue, base);
        return rte_vhost_peer_seek(r->peer, r->ring, base, r->cell.packed);
}

static uint16_t move(struct rig *r, struct rte_mbuf **pkts, uint16_t n)
{
        if (r->backend == BACKEND_VQLIFT)
                return r->cell.to_guest ? vql_burst_enqueue(r->queue, pkts, n)
                                        : vql_burst_dequeue(r->queue, r->pool, pkts, n);
        return rte_vhost_peer_move(r->peer, r->ring, r->cell.to_guest ? NULL : r->pool, pkts, n);
}

static int check_packets(const struct rig *r, struct rte_mbuf **pkts, uint16_t n)
{
        static uint8_t buf[1 << 16];

        for (uint16_t i = 0; i < n; i++) {
                const void *p = pkts[i] && pkts[i]->pkt_len == r->cell.size
                                        ? rte_pktmbuf_read(pkts[i], 0, r->cell.size, buf)
                                        : NULL;

                if (!p || memcmp(p, r->pattern, r->cell.size) != 0)
                        return -EBADMSG;
        }
        return 0;
}

/* Bytes of a buffer that came back, compared with the packet from *at on. */
static int check_received(const struct rig *r, const struct fe_done *done, uint32_t *at)
{
        const struct fe_seg *seg = r->segs[(uintptr_t)done->cookie];
        const uint32_t skip = *at == 0 ? HDR : 0;
        const uint32_t n = done->len - skip;
        const uint8_t *va = fe_memory_at(r->mem, seg->gpa, seg->len);

        if (done->len < skip || *at + n > r->cell.size ||
            memcmp(va + skip, r->pattern + *at, n) != 0)
                return -EBADMSG;
        /* The next packet must not pass the check by what this one left behind. */
        memset((uint8_t *)(uintptr_t)va, 0xee, done->len);
        *at = *at + n == r->cell.size ? 0 : *at + n;
        return 0;
}

/* Take back what the device returned; to-guest buffers are posted again. */
static int reap(struct rig *r, bool check)
{
        struct fe_done done;
        uint32_t at = 0;
        int rc = 0;

        while (rc == 0 && fe_driver_get(r->driver, &done) == 1) {
                if (r->cell.to_guest && check)
                        rc = check_received(r, &done, &at);
                if (rc == 0 && r->cell.to_guest)
                        rc = post(r, (uintptr_t)done.cookie);
        }
        if (r->cell.to_guest)
                fe_driver_publish(r->driver);
        return rc == 0 && at != 0 ? -EBADMSG : rc;
}

int rig_burst(struct rig *r, bool check, uint64_t *ret_tsc)
{
        static unsigned int next;
        struct rte_mbuf *taken[MAX_BURST] = { NULL }, **pkts = r->cell.to_guest ? r->pkts : taken;
        uint64_t begin;
        uint16_t n;
        int rc = 0;

        if (!r->cell.to_guest) {
                for (uint16_t i = 0; i < r->cell.burst && rc == 0; i++)
                        rc = post(r, next++ % r->buffers);
                fe_driver_publish(r->driver);
        }
        begin = rte_rdtsc_precise();
        n = move(r, pkts, r->cell.burst);
        *ret_tsc = rte_rdtsc_precise() - begin;
        if (!r->cell.to_guest) {
                if (check && rc == 0)
                        rc = check_packets(r, taken, n);
                rte_pktmbuf_free_bulk(taken, n);
        }
        if (rc == 0)
                rc = reap(r, check);
        return rc < 0 ? rc : n;
}
