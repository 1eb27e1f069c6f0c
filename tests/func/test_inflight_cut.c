/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The back-end is cut down at each of its accesses to the ring and to the in-flight region, in
 * turn.  Whoever finds both as they were at that moment must know: every buffer that was taken is
 * either returned, so that the driver sees it, or still in flight or to be taken again; none is
 * both, none is neither.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/virtio_net.h>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "access_trap.h"
#include "bare_queue.h"
#include "base/bits.h"
#include "frontend/driver.h"
#include "port/leftover.h"
#include "unit/eal.h"
#include "virtqueue/features.h"

enum {
        SIZE = 8,
        BUFFERS = 6,
        HEADER = 12,
        BYTES = HEADER + 60,
        RING = 0, /* the in-flight region's queue */
};

/* Offsets in a queue's part of the region, as the specification has them. */
enum {
        AT_VERSION = 8,
        AT_DESC_NUM = 10,
        SPLIT_USED = 14,
        SPLIT_DESC = 16,
        PACKED_FREE = 12,
        PACKED_OLD_FREE = 14,
        PACKED_USED = 16,
        PACKED_OLD_USED = 18,
        PACKED_WRAP = 20,
        PACKED_OLD_WRAP = 21,
        PACKED_DESC = 32,
};

/* A region: the product's mapping and ours. */
struct region {
        struct vql_inflight *f;
        uint8_t *bytes;
        uint64_t len;
        int fd;
};

struct rig {
        bool packed, rx;
        uint16_t start;
        bool wrap_0;
        struct fe_memory *mem;
        const struct vql_mem_table *table;
        struct fe_driver *d;
        struct vql_session session;  /* of which only the in-flight region counts */
        struct region region, found; /* in use; as it was at the cut */
        struct vql_queue q;
        unsigned int taken[SIZE], n_taken; /* ids that another back-end has in hand */
        unsigned int cuts;
};

static struct rte_mempool *packets;

/* ---- set up ---- */

static void region_open(struct region *r, bool packed)
{
        struct vql_inflight_desc d = { 0, 0, 1, SIZE, packed };

        assert_int_equal(vql_inflight_create(1, SIZE, packed, &r->fd, &r->len, NULL), 0);
        d.bytes = r->len;
        assert_int_equal(vql_inflight_map(r->fd, &d, &r->f, NULL), 0);
        r->bytes = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        assert_true(r->bytes != MAP_FAILED);
}

static void region_close(struct region *r)
{
        vql_inflight_unmap(r->f);
        munmap(r->bytes, r->len);
        close(r->fd);
}

static void add_buffers(struct rig *r)
{
        for (unsigned int i = 0; i < BUFFERS; i++) {
                struct fe_seg seg = { .len = BYTES, .write = r->rx };
                const struct fe_chain chain = { .segs = &seg, .n = 1 };

                assert_int_equal(fe_memory_alloc(r->mem, FE_ANY_REGION, BYTES, 64, &seg.gpa), 0);
                memset(fe_memory_at(r->mem, seg.gpa, BYTES), 0, BYTES);
                assert_int_equal(fe_driver_add(r->d, &chain, NULL), 0);
        }
        fe_driver_publish(r->d);
}

static struct rig *rig_new(bool packed, bool rx, uint16_t start, bool wrap_0)
{
        struct rig *r = aligned_alloc(VQL_CACHE_LINE, RTE_ALIGN(sizeof(*r), VQL_CACHE_LINE));
        const struct fe_region_spec spec = { .size = 1 << 20 };
        struct fe_driver_params p = {
                .size = SIZE, .packed = packed, .start = start, .start_wrap_0 = wrap_0
        };
        struct fe_text e;

        assert_non_null(r);
        memset(r, 0, sizeof(*r));
        r->packed = packed;
        r->rx = rx;
        r->start = start;
        r->wrap_0 = wrap_0;
        assert_int_equal(fe_memory_new(&spec, 1, &r->mem), 0);
        r->table = bare_table_new(r->mem);
        p.mem = r->mem;
        assert_int_equal(fe_driver_new(&p, &r->d, &e), 0);
        add_buffers(r);
        region_open(&r->region, packed);
        region_open(&r->found, packed);
        r->session.inflight = r->region.f;
        r->session.inflight_queues = 1;
        return r;
}

static void rig_free(struct rig *r)
{
        region_close(&r->found);
        region_close(&r->region);
        fe_driver_free(r->d);
        vql_mem_table_put((struct vql_mem_table *)(uintptr_t)r->table);
        fe_memory_free(r->mem);
        free(r);
}

static struct vql_inflight_ring as_found(const struct rig *r)
{
        const struct fe_area_pointers p = fe_driver_pointers(r->d);
        struct vql_inflight_ring ring = { .size = SIZE };

        if (r->packed)
                ring.desc = p.packed;
        else
                ring.used_idx = p.used->idx;
        return ring;
}

/* The queue at what the region says, or at the beginning. */
static void start_queue(struct rig *r, struct vql_leftover *l)
{
        const struct vql_inflight_ring ring = as_found(r);
        const struct bare_params p = {
                .d = r->d,
                .table = r->table,
                .features = vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_NET_F_MRG_RXBUF),
                .rx = r->rx,
                .call_fd = -1,
        };

        assert_int_equal(vql_leftover_find(&r->session, RING, &ring, l, NULL), 0);
        bare_queue_init(&r->q, &p);
}

/* ---- the check ---- */

/* Ids that the driver sees as returned, in order; *ret_wrap: the lap behind them. */
static unsigned int visible(const struct rig *r, unsigned int ids[SIZE], uint8_t *ret_wrap)
{
        const struct fe_area_pointers p = fe_driver_pointers(r->d);
        uint16_t at = r->start;
        unsigned int n = 0;

        *ret_wrap = r->packed && !r->wrap_0;
        if (!r->packed) {
                for (; at != p.used->idx; at++)
                        ids[n++] = p.used->ring[at % SIZE].id;
                return n;
        }
        while (n < SIZE && vql_packed_is_used(p.packed[at].flags, *ret_wrap)) {
                ids[n++] = p.packed[at].id;
                if (++at == SIZE) {
                        at = 0;
                        *ret_wrap ^= 1;
                }
        }
        return n;
}

static bool among(unsigned int id, const unsigned int *ids, unsigned int n)
{
        while (n > 0)
                if (ids[--n] == id)
                        return true;
        return false;
}

/* Read the region as it is now, as the next back-end would. */
static void check(struct rig *r)
{
        struct vql_inflight_ring ring = as_found(r);
        struct vql_inflight_chain *chains = NULL;
        unsigned int back[SIZE], left[SIZE], n_back, n_left = 0;
        struct vql_cursor at;
        uint8_t wrap;
        int rc, n;

        memcpy(r->found.bytes, r->region.bytes, r->region.len);
        n_back = visible(r, back, &wrap);
        rc = vql_inflight_recover(r->found.f, RING, &ring);
        if (rc == -ENODATA) {
                /* Being written anew: then nothing may be in flight, and nothing hidden. */
                assert_true(r->n_taken == 0 || n_back == r->n_taken);
                return;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(vql_inflight_read(r->found.f, RING, SIZE, &at), 0);
        n = vql_inflight_list(r->found.f, RING, SIZE, &chains);
        assert_true(n >= 0);
        for (; n_left < (unsigned int)n; n_left++)
                left[n_left] = chains[n_left].id;
        free(chains);
        for (unsigned int i = 0; i < r->n_taken; i++)
                if (among(r->taken[i], back, n_back) == among(r->taken[i], left, n_left))
                        fail_msg("buffer %u is %s (%u returned, %u in flight)", r->taken[i],
                                 among(r->taken[i], left, n_left) ? "returned and in flight"
                                                                  : "lost",
                                 n_back, n_left);
        assert_int_equal(n_left + (r->n_taken ? n_back : 0), r->n_taken);
        if (r->packed) {
                assert_int_equal(at.used, (r->start + n_back) % SIZE);
                assert_int_equal(at.used_wrap, wrap);
        } else {
                assert_int_equal(at.used, (uint16_t)(r->start + n_back));
        }
}

static void on_access(void *arg, unsigned int n)
{
        struct rig *r = arg;

        (void)n;
        r->cuts++;
        check(r);
}

/* ---- what is cut ---- */

static void burst(struct rig *r)
{
        struct rte_mbuf *m[BUFFERS];
        uint16_t n;

        if (!r->rx) {
                n = r->q.dequeue(&r->q, packets, m, BUFFERS);
                assert_int_equal(n, BUFFERS);
                rte_pktmbuf_free_bulk(m, n);
                return;
        }
        assert_int_equal(rte_pktmbuf_alloc_bulk(packets, m, BUFFERS), 0);
        for (int i = 0; i < BUFFERS; i++)
                memset(rte_pktmbuf_append(m[i], 60), i, 60);
        assert_int_equal(r->q.enqueue(&r->q, m, BUFFERS), BUFFERS);
        rte_pktmbuf_free_bulk(m, BUFFERS);
}

static void put16(struct rig *r, size_t at, unsigned int value)
{
        const uint16_t v = (uint16_t)value;

        memcpy(r->region.bytes + at, &v, sizeof(v));
}

/* An image by another back-end, which works out of order: three buffers taken, in an order of their
 * own, none returned. */
static void fill_region(struct rig *r)
{
        static const unsigned int ids[] = { 2, 0, 4 }, counters[] = { 5, 3, 9 };
        uint8_t *b = r->region.bytes;

        put16(r, AT_VERSION, 1);
        put16(r, AT_DESC_NUM, SIZE);
        if (r->packed) {
                put16(r, PACKED_FREE, 3);
                put16(r, PACKED_OLD_FREE, 3);
                put16(r, PACKED_USED, r->start);
                put16(r, PACKED_OLD_USED, r->start);
                b[PACKED_WRAP] = b[PACKED_OLD_WRAP] = !r->wrap_0;
                for (unsigned int i = 0; i < SIZE; i++)
                        put16(r, PACKED_DESC + i * 32 + 2, i + 1);
        } else {
                put16(r, SPLIT_USED, r->start);
        }
        for (unsigned int i = 0; i < RTE_DIM(ids); i++) {
                const size_t at = r->packed ? PACKED_DESC + i * 32 : SPLIT_DESC + ids[i] * 16;

                b[at] = 1;
                put16(r, at + 8, counters[i]);
                if (r->packed) {
                        put16(r, at + 4, i);
                        put16(r, at + 6, 1);
                        put16(r, at + 16, ids[i]);
                }
                r->taken[r->n_taken++] = ids[i];
        }
}

static void give_back(struct rig *r)
{
        static const unsigned int order[] = { 0, 2, 4 };
        struct vql_leftover l;
        unsigned int back[SIZE];
        uint8_t wrap;

        start_queue(r, &l);
        assert_int_equal(l.n, RTE_DIM(order));
        vql_leftover_return(&l, &r->session, RING, &r->q);
        vql_leftover_fini(&l);
        assert_int_equal(visible(r, back, &wrap), RTE_DIM(order));
        for (unsigned int i = 0; i < RTE_DIM(order); i++)
                assert_int_equal(back[i], order[i]);
}

/* The product's own mapping of the region: the one that is not ours. */
static void *region_page(const struct rig *r)
{
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[256], want[32];
        void *found = NULL;
        unsigned long from;

        assert_non_null(maps);
        /* Ours of this file is known; of the other region both were mapped later. */
        snprintf(want, sizeof(want), "%lx-", (unsigned long)(uintptr_t)r->region.bytes);
        while (!found && fgets(line, sizeof(line), maps)) {
                if (!strstr(line, "vqlift-inflight") || strncmp(line, want, strlen(want)) == 0 ||
                    sscanf(line, "%lx-", &from) != 1)
                        continue;
                /* Is it the same file?  Then a byte written here shows there. */
                r->region.bytes[0] ^= 0x80;
                if (((uint8_t *)from)[0] == r->region.bytes[0] &&
                    (uint8_t *)from != r->found.bytes && (r->found.bytes[0] & 0x80) == 0)
                        found = (void *)from;
                r->region.bytes[0] ^= 0x80;
                if (found && ((uint8_t *)from)[0] != r->region.bytes[0])
                        found = NULL;
        }
        fclose(maps);
        assert_non_null(found);
        return found;
}

static void *ring_page(const struct rig *r)
{
        const uintptr_t at = (uintptr_t)(r->packed ? (void *)r->q.packed_ring : (void *)r->q.used);

        return (void *)(at / FE_PAGE * FE_PAGE);
}

static void cut_burst(struct rig *r, bool ring)
{
        struct vql_leftover l;

        start_queue(r, &l);
        assert_false(l.found);
        vql_leftover_return(&l, &r->session, RING, &r->q);
        access_trap_arm(ring ? ring_page(r) : region_page(r), on_access, r);
        burst(r);
        access_trap_disarm();
        check(r);
}

static void cut_give_back(struct rig *r, bool ring)
{
        struct vql_leftover l;

        fill_region(r);
        start_queue(r, &l);
        vql_leftover_fini(&l);
        access_trap_arm(ring ? ring_page(r) : region_page(r), on_access, r);
        /* The queue is made again in there: its ring is the same page. */
        give_back(r);
        access_trap_disarm();
        check(r);
}

static void each_ring(void (*cut)(struct rig *r, bool ring), bool always)
{
        static const struct {
                bool packed;
                uint16_t start;
                bool wrap_0;
        } rings[] = {
                { false, 0, false }, { false, 65533, false },  { true, 0, false },
                { true, 5, false },  { true, SIZE - 1, true },
        };

        for (size_t i = 0; i < RTE_DIM(rings) * 4; i++) {
                struct rig *r = rig_new(rings[i / 4].packed, i & 1, rings[i / 4].start,
                                        rings[i / 4].wrap_0);

                cut(r, i & 2);
                /* A split ring's region is not touched by bursts: the used index tells it all. */
                assert_true(r->cuts > 0 || (!always && !r->packed && !(i & 2)));
                rig_free(r);
        }
}

static void test_bursts(void **state)
{
        (void)state;
        if (!access_trap_works()) {
                puts("needs single steps, which this build or CPU does not have");
                skip();
        }
        each_ring(cut_burst, false);
}

static void test_what_another_left(void **state)
{
        (void)state;
        if (!access_trap_works()) {
                puts("needs single steps, which this build or CPU does not have");
                skip();
        }
        each_ring(cut_give_back, true);
}

/* Without cuts, wherever the test runs. */
static void run_give_back(struct rig *r, bool ring)
{
        (void)ring;
        fill_region(r);
        give_back(r);
        check(r);
        r->cuts = 1;
}

static void test_giving_back(void **state)
{
        (void)state;
        each_ring(run_give_back, true);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_giving_back),
                cmocka_unit_test(test_bursts),
                cmocka_unit_test(test_what_another_left),
        };

        if (test_eal_start() < 0)
                return 1;
        packets = test_pool("packets", 1023, 2048);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
