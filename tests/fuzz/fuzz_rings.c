/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A guest that does anything with its rings, against every instance of the datapath.  The input is
 * a few choices, a number of steps, and what the guest's memory holds, rings first; addresses in
 * descriptors are folded into the little memory there is unless their top bit is set.
 */

#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "fuzz.h"
#include "memory/memory.h"
#include "packets.h"
#include "sw-fallback/burst.h"
#include "virtqueue/features.h"
#include "virtqueue/notify.h"

/* Guest addresses.  Regions 0 and 1 are neighbours, region 2 is apart. */
enum {
        REGIONS = 3,
        REGION = 0x4000,
        APART = 0x10000, /* where region 2 begins */
        MEMORY = REGIONS * REGION,
        DESC = 0,
        DRIVER = 0x400,
        DEVICE = 0x500,
        TABLES = 0x800,
        BUFFERS = 0x1000,
        MAX_RING = 64,
        STEPS = 24,
        PACKETS = 40,
        LOG_BYTES = (APART + REGION) / 4096 / 8 + 1,
};

struct choices {
        uint8_t instance, features, size, wrap;
        uint16_t start;
        uint16_t packet; /* size of packets to the guest */
};

struct guest {
        struct vql_queue q;
        const struct vql_instance_set *set;
        const struct vql_instance *instance;
        uint8_t *va; /* our mapping of the file, in which the regions lie one after another */
        struct vql_dirty_log log;
        uint8_t bits[LOG_BYTES], before[MEMORY];
        uint16_t packet;
};

/* ---- memory ---- */

static uint8_t *file_va;
static struct vql_mem_table *table;
static struct rte_mempool *pool;

/* A page without access on each side, where nothing else is. */
static void fence(const struct vql_mem_table *t, uint64_t gpa)
{
        struct vql_mem_span s;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

        FUZZ_REQUIRE(vql_mem_find(t, gpa, &s) == 0);
        (void)!mmap(s.va - 4096, 4096, PROT_NONE, flags, -1, 0);
        (void)!mmap(s.va + s.size, 4096, PROT_NONE, flags, -1, 0);
}

static void make_memory(void)
{
        int fd = memfd_create("vql-fuzz-guest", MFD_CLOEXEC);
        struct vql_region *region[REGIONS];

        FUZZ_REQUIRE(fd >= 0 && ftruncate(fd, MEMORY) == 0);
        for (unsigned int i = 0; i < REGIONS; i++) {
                const struct vql_region_desc d = {
                        .gpa = i < 2 ? i * REGION : APART,
                        .size = REGION,
                        .uva = 0x700000000000 + i * 0x100000,
                        .mmap_offset = i * REGION,
                };

                FUZZ_REQUIRE(vql_region_map(&d, fd, -1, &region[i], NULL) == 0);
        }
        FUZZ_REQUIRE(vql_mem_table_new(region, REGIONS, &table, NULL) == 0);
        for (unsigned int i = 0; i < REGIONS; i++) {
                fence(table, vql_region_desc(region[i])->gpa);
                vql_region_put(region[i]);
        }
        file_va = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        FUZZ_REQUIRE(file_va != MAP_FAILED);
        close(fd);
}

static void start(void)
{
        if (table)
                return;
        fuzz_start_eal();
        pool = test_pool("rings", 1023, 1000);
        make_memory();
}

static void fold_addresses(uint8_t *from, const uint8_t *to)
{
        for (; from < to; from += 16) {
                uint64_t addr;

                memcpy(&addr, from, sizeof(addr));
                if (!(addr >> 63))
                        addr &= 2 * APART - 1;
                memcpy(from, &addr, sizeof(addr));
        }
}

static void fill_memory(struct fuzz_input *in)
{
        size_t n = in->left < MEMORY ? in->left : MEMORY;

        memset(file_va, 0, MEMORY);
        memcpy(file_va, in->at, n);
        fold_addresses(file_va + DESC, file_va + DRIVER);
        fold_addresses(file_va + TABLES, file_va + BUFFERS);
}

/* ---- the queue ---- */

static uint64_t features(const struct vql_traits *t, uint8_t choice)
{
        uint64_t f = 0;

        if (t->packed)
                f |= vql_bit(VIRTIO_F_RING_PACKED);
        if (t->mergeable)
                f |= vql_bit(VIRTIO_NET_F_MRG_RXBUF);
        if (t->offloads)
                f |= vql_bit(t->rx ? VIRTIO_NET_F_GUEST_CSUM : VIRTIO_NET_F_CSUM);
        if (choice & 1)
                f |= vql_bit(VIRTIO_RING_F_EVENT_IDX);
        if (choice & 2)
                f |= vql_bit(VIRTIO_F_VERSION_1);
        return f;
}

static uint16_t ring_size(bool packed, uint8_t choice)
{
        return (uint16_t)(packed ? choice % MAX_RING + 1 : 1 << choice % 7);
}

static void make_queue(struct guest *g, const struct choices *c)
{
        const struct vql_traits *t = &g->instance->traits;
        const uint16_t size = ring_size(t->packed, c->size);
        const uint64_t at[] = { DESC, DRIVER, DEVICE };
        struct vql_queue_params p = {
                .desc_gpa = DESC,
                .device_gpa = DEVICE,
                .mem = table,
                .features = features(t, c->features),
                .state.at = { .avail = c->start },
                .state.size = size,
                .rx = t->rx,
                .call_fd = -1,
        };

        if (t->packed)
                p.state.at = (struct vql_cursor){ c->start % size, 0, c->wrap & 1, c->wrap & 1 };
        p.state.at.used = p.state.at.avail;
        for (int i = 0; i < VQL_AREA_COUNT; i++)
                p.area[i] =
                        vql_mem_uva(table, 0x700000000000 + at[i],
                                    vql_area_bytes((enum vql_ring_area)i, size, t->packed), NULL);
        vql_queue_init(&g->q, &p);
        memset(g->bits, 0, sizeof(g->bits));
        g->log = (struct vql_dirty_log){ g->bits, sizeof(g->bits), 0 };
        if (t->logging)
                g->q.log = &g->log;
        FUZZ_REQUIRE(vql_burst_select(&g->q, g->set) == g->instance);
}

/* ---- bursts ---- */

static uint16_t take(struct guest *g, uint16_t n, bool discard)
{
        struct rte_mbuf *m[PACKETS];
        uint16_t got = g->q.dequeue(&g->q, discard ? NULL : pool, m, n);

        FUZZ_REQUIRE(got <= n && (!discard || got == 0));
        for (uint16_t i = 0; i < got; i++) {
                fuzz_check_packet(m[i]);
                FUZZ_REQUIRE(m[i]->pkt_len > 0 && m[i]->pkt_len <= 65536 + 64);
        }
        rte_pktmbuf_free_bulk(m, got);
        return got;
}

static uint16_t give(struct guest *g, uint16_t n)
{
        struct rte_mbuf *m[PACKETS];
        uint16_t got;

        FUZZ_REQUIRE(rte_pktmbuf_alloc_bulk(pool, m, PACKETS) == 0);
        for (uint16_t i = 0; i < n; i++)
                for (uint32_t left = g->packet % (1u << (i % 14)) + 1; left > 0;) {
                        uint16_t part = (uint16_t)(left < 700 ? left : 700);
                        struct rte_mbuf *s = m[i]->pkt_len ? rte_pktmbuf_alloc(pool) : m[i];

                        FUZZ_REQUIRE(s);
                        memset(rte_pktmbuf_append(s, part), 0xa5, part);
                        if (s != m[i])
                                FUZZ_REQUIRE(rte_pktmbuf_chain(m[i], s) == 0);
                        left -= part;
                }
        if (g->packet & 1)
                m[0]->ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
        got = g->q.enqueue(&g->q, m, n);
        FUZZ_REQUIRE(got <= n);
        rte_pktmbuf_free_bulk(m, PACKETS);
        return got;
}

/* What a device that only reads buffers has no business with. */
static void check_untouched(const struct guest *g)
{
        const size_t device = DEVICE + vql_area_bytes(VQL_AREA_DEVICE, g->q.size, g->q.packed);
        const size_t from = g->q.packed ? DRIVER : 0;

        FUZZ_REQUIRE(memcmp(file_va + from, g->before + from, DEVICE - from) == 0);
        FUZZ_REQUIRE(memcmp(file_va + device, g->before + device, MEMORY - device) == 0);
}

static void check_queue(const struct guest *g)
{
        const struct vql_cursor c = vql_queue_cursor(&g->q);

        FUZZ_REQUIRE(c.avail == c.used && c.avail_wrap == c.used_wrap);
        FUZZ_REQUIRE(!g->q.packed || c.avail < g->q.size);
        FUZZ_REQUIRE(c.avail_wrap <= 1 && g->q.fault < VQL_FAULT_COUNT);
        FUZZ_REQUIRE(g->log.dropped == 0);
        FUZZ_REQUIRE(rte_mempool_in_use_count(pool) == 0);
}

static void burst(struct guest *g, uint8_t choice)
{
        const bool faulty = g->q.fault != VQL_FAULT_NONE;
        const uint16_t n = choice % PACKETS, at = g->q.last_used;
        uint16_t got;

        memcpy(g->before, file_va, MEMORY);
        got = g->q.rx ? give(g, n) : take(g, n, choice & 0x40);
        FUZZ_REQUIRE(!faulty || (got == 0 && g->q.last_used == at));
        if (!g->q.rx)
                check_untouched(g);
        check_queue(g);
}

/* ---- the guest ---- */

/* Show the next `n` descriptors or ring entries. */
static void publish(struct guest *g, uint8_t n)
{
        struct vring_packed_desc *d = (void *)(file_va + DESC);
        uint16_t idx;

        if (!g->q.packed) {
                memcpy(&idx, file_va + DRIVER + 2, sizeof(idx));
                idx = (uint16_t)(idx + n);
                memcpy(file_va + DRIVER + 2, &idx, sizeof(idx));
                return;
        }
        for (uint32_t i = 0; i < n % MAX_RING; i++) {
                uint32_t at = g->q.last_avail + i;
                bool wrap = (g->q.avail_wrap ^ (at / g->q.size)) & 1;
                uint16_t *flags = &d[at % g->q.size].flags;

                *flags = (uint16_t)(*flags & ~(VQL_PACKED_AVAIL | VQL_PACKED_USED));
                *flags |= wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED;
        }
}

static void poke(struct fuzz_input *in)
{
        struct {
                uint16_t at, value;
        } p;

        if (fuzz_take(in, &p, sizeof(p)))
                memcpy(file_va + p.at % (BUFFERS - 1), &p.value, sizeof(p.value));
}

static void step(struct guest *g, struct fuzz_input *steps)
{
        uint8_t op = fuzz_byte(steps);

        switch (op >> 5) {
        case 0:
        case 1:
        case 2:
                burst(g, fuzz_byte(steps));
                break;
        case 3:
                vql_notify_enable(&g->q);
                break;
        case 4:
                vql_notify_disable(&g->q);
                break;
        case 5:
                poke(steps);
                break;
        default:
                publish(g, op & 0x3f);
        }
        check_queue(g);
}

/* All sets have the same rows in the same order. */
static void choose_instance(struct guest *g, uint8_t number)
{
        const struct vql_instance_set *best = vql_instance_set_best();
        const size_t wanted = number / best->count % vql_instance_set_count;

        g->set =
                vql_instance_set_runs(vql_instance_sets[wanted]) ? vql_instance_sets[wanted] : best;
        g->instance = &g->set->rows[number % g->set->count];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static _Alignas(VQL_CACHE_LINE) struct guest g;
        struct fuzz_input in = { data, size }, steps;
        struct choices c;
        uint8_t n;

        if (!fuzz_take(&in, &c, sizeof(c)))
                return 0;
        n = fuzz_byte(&in);
        steps = (struct fuzz_input){ in.at, n < in.left ? n : in.left };
        in.at += steps.left;
        in.left -= steps.left;
        start();
        fill_memory(&in);
        choose_instance(&g, c.instance);
        g.packet = c.packet;
        make_queue(&g, &c);
        for (int i = 0; i < STEPS && steps.left > 0; i++)
                step(&g, &steps);
        return 0;
}
