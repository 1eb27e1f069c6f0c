/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/guest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "vqlift-bench/content.h"

enum { HUGE_PAGE = 2 << 20, LINE = 64, BETWEEN = 320, OTHER_USES = 1 << 20 };

uint64_t guest_features(const struct cell *c)
{
        return FE_BIT(VIRTIO_F_VERSION_1) | FE_BIT(VIRTIO_RING_F_INDIRECT_DESC) |
               (c->packed ? FE_BIT(VIRTIO_F_RING_PACKED) : 0) |
               (c->in_order ? FE_BIT(VIRTIO_F_IN_ORDER) : 0) |
               (c->mergeable ? FE_BIT(VIRTIO_NET_F_MRG_RXBUF) : 0);
}

static uint32_t buffer_bytes(const struct cell *c)
{
        if (c->to_guest && c->mergeable)
                return GUEST_RX_BUFFER;
        return RTE_ALIGN_CEIL(c->size + GUEST_HEADER, (uint32_t)LINE);
}

/*
 * What a buffer takes of memory.  Buffers that merge are alike, and those of DPDK guests have their
 * headroom and their descriptor between them: without that they would lie a power of two apart and
 * meet in a few sets of the caches, which no allocator of a guest does.
 */
static uint32_t buffer_room(const struct cell *c)
{
        return buffer_bytes(c) + (c->to_guest && c->mergeable ? BETWEEN : 0);
}

unsigned int guest_buffers_of_packet(const struct cell *c)
{
        return c->to_guest ? (c->size + GUEST_HEADER + buffer_bytes(c) - 1) / buffer_bytes(c) : 1;
}

/* ---- life cycle ---- */

/* Huge pages if there are any: guests that matter have them. */
static int make_memory(struct guest *g)
{
        const uint64_t bytes = (uint64_t)g->buffers * (buffer_room(&g->cell) + LINE) + OTHER_USES;
        struct fe_region_spec region = {
                .size = RTE_ALIGN_CEIL(bytes, (uint64_t)HUGE_PAGE),
                .backing = FE_HUGETLB,
        };

        if (fe_memory_new(&region, 1, &g->mem) == 0) {
                g->huge = true;
                return 0;
        }
        region.backing = FE_MEMFD;
        return fe_memory_new(&region, 1, &g->mem);
}

static int make_buffer(struct guest *g, unsigned int i)
{
        const struct cell *c = &g->cell;
        uint64_t gpa;
        int rc = fe_memory_alloc(g->mem, FE_ANY_REGION, buffer_room(c), LINE, &gpa);

        if (rc < 0)
                return rc;
        if (g->n_segs == 1) {
                g->segs[i][0] = (struct fe_seg){
                        gpa, c->to_guest ? buffer_bytes(c) : c->size + GUEST_HEADER, c->to_guest, 0
                };
        } else {
                g->segs[i][0] = (struct fe_seg){ gpa, GUEST_HEADER, false, 0 };
                g->segs[i][1] = (struct fe_seg){ gpa + GUEST_HEADER, c->size, false, 0 };
        }
        g->payload[i] = (uint8_t *)fe_memory_at(g->mem, gpa, buffer_bytes(c)) + GUEST_HEADER;
        memset(g->payload[i] - GUEST_HEADER, 0, buffer_bytes(c));
        if (c->layout == LAYOUT_INDIRECT)
                rc = fe_memory_alloc(g->mem, FE_ANY_REGION, 2 * sizeof(struct vring_desc), 16,
                                     &g->tables[i]);
        return rc;
}

static int make_buffers(struct guest *g)
{
        int rc = 0;

        g->segs = calloc(g->buffers, sizeof(*g->segs));
        g->tables = calloc(g->buffers, sizeof(*g->tables));
        g->payload = calloc(g->buffers, sizeof(*g->payload));
        if (!g->segs || !g->tables || !g->payload)
                return -ENOMEM;
        for (unsigned int i = 0; i < g->buffers && rc == 0; i++)
                rc = make_buffer(g, i);
        return rc;
}

static int set_up(struct guest *g)
{
        struct fe_setup setup = {
                .features = guest_features(&g->cell),
                .required = guest_features(&g->cell),
                .ring_size = g->cell.ring,
                .pick = FE_PICK_FIFO,
        };
        int rc = make_memory(g);

        if (rc < 0)
                return rc;
        setup.mem = g->mem;
        rc = fe_frontend_setup(g->fe, &setup);
        if (rc < 0) {
                fprintf(stderr, "vqlift-bench: rte_vhost: %s\n", fe_frontend_error(g->fe));
                return rc;
        }
        g->driver = g->fe->ring[g->ring].driver;
        fe_driver_calls_off(g->driver);
        return make_buffers(g);
}

/* Write buffer i's descriptors. */
static int give(struct guest *g, unsigned int i)
{
        const struct fe_chain chain = {
                .segs = g->segs[i],
                .n = g->n_segs,
                .table = g->tables[i],
                .cookie = (void *)(uintptr_t)i,
        };
        int rc = fe_driver_add(g->driver, &chain, NULL);

        if (rc == 0)
                g->given++;
        return rc;
}

int guest_new(const struct cell *cell, struct fe_frontend *fe, struct guest **ret_guest)
{
        struct guest *g = calloc(1, sizeof(*g));
        int rc;

        if (!g)
                return -ENOMEM;
        g->cell = *cell;
        g->fe = fe;
        g->ring = cell->to_guest ? 0 : 1;
        g->n_segs = cell->layout == LAYOUT_ONE ? 1 : 2;
        g->slots = cell->layout == LAYOUT_CHAIN ? 2 : 1;
        g->buffers = cell->ring / g->slots;
        rc = set_up(g);
        for (unsigned int i = 0; rc == 0 && cell->to_guest && i < g->buffers; i++)
                rc = give(g, i);
        if (rc < 0) {
                guest_free(g);
                return rc;
        }
        fe_driver_publish(g->driver);
        *ret_guest = g;
        return 0;
}

void guest_free(struct guest *g)
{
        if (!g)
                return;
        fe_memory_free(g->mem);
        free(g->segs);
        free(g->tables);
        free(g->payload);
        free(g);
}

/* ---- packets from the guest ---- */

static void touch_for_write(uint8_t *p, uint32_t n)
{
        for (uint32_t i = 0; i < n; i += LINE)
                __atomic_store_n(p + i, __atomic_load_n(p + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

int guest_send(struct guest *g, unsigned int n, struct guest_manner manner)
{
        int rc = 0;

        for (unsigned int i = 0; i < n && rc == 0; i++) {
                uint8_t *payload = g->payload[g->next];

                if (manner.whole)
                        content_write(payload, 0, g->cell.size, g->serial);
                else
                        content_stamp(payload, g->serial);
                if (manner.touch)
                        touch_for_write(payload, g->cell.size);
                rc = give(g, g->next);
                g->serial++;
                g->next = (g->next + 1) % g->buffers;
        }
        fe_driver_publish(g->driver);
        return rc;
}

/* ---- packets to the guest ---- */

static void touch_for_read(const uint8_t *p, uint32_t n)
{
        for (uint32_t i = 0; i < n; i += LINE)
                (void)*(const volatile uint8_t *)(p + i);
}

/* A buffer that came back: the bytes from g->at on of the packet that is expected. */
static int receive(struct guest *g, const struct fe_done *done, struct guest_manner manner)
{
        const uint8_t *payload = g->payload[(uintptr_t)done->cookie];
        const uint32_t skip = g->at == 0 ? GUEST_HEADER : 0;
        const uint8_t *bytes = payload - GUEST_HEADER + skip;
        const uint32_t left = g->cell.size - g->at;
        uint32_t n = done->len - skip;

        if (done->len < skip)
                return -EBADMSG;
        /* In order, one element may stand for several buffers, and tells the length of the last. */
        if (done->skipped)
                n = RTE_MIN(n, left);
        if (n > left || (g->at == 0 && !content_stamp_matches(bytes, g->serial)))
                return -EBADMSG;
        if (manner.whole && !content_matches(bytes, g->at, n, g->serial))
                return -EBADMSG;
        if (manner.touch)
                touch_for_read(bytes, n);
        g->at += n;
        if (g->at == g->cell.size) {
                g->at = 0;
                g->serial++;
        }
        return 0;
}

int guest_reap(struct guest *g, unsigned int most, struct guest_manner manner)
{
        struct fe_done done;
        unsigned int n = 0;
        int rc = 1;

        while (n < most && rc > 0) {
                rc = fe_driver_get(g->driver, &done);
                if (rc <= 0)
                        break;
                n++;
                if (!g->cell.to_guest)
                        continue;
                rc = receive(g, &done, manner);
                if (rc == 0)
                        rc = give(g, (unsigned int)(uintptr_t)done.cookie);
                rc = rc == 0 ? 1 : rc;
        }
        if (g->cell.to_guest)
                fe_driver_publish(g->driver);
        return rc < 0 ? rc : (int)n;
}

unsigned int guest_room(const struct guest *g)
{
        return fe_driver_free_slots(g->driver) / g->slots;
}
