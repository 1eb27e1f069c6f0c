/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Double fetches: a second guest CPU changes one word of a ring, a table or a header while bursts
 * run over it.  Whatever a burst sees, it sees once: each outcome is one that the old or the new
 * value explains.  First the word changes at every access in turn, where the machine can stop
 * there; then a thread changes it all the time.  Memory has pages without access on both sides.
 *
 * An argument is the number of bursts beside the thread for each word.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <linux/virtio_net.h>

#include <rte_common.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_tcp.h>

#include "access_trap.h"
#include "bare_queue.h"
#include "base/bits.h"
#include "frontend/faults.h"
#include "sw-fallback/burst.h"
#include "sw-fallback/worker.h"
#include "unit/eal.h"
#include "virtqueue/features.h"

enum {
        RING = 8,
        CHAINS = 2,
        MEMORY = 1 << 20,
        FENCED = MEMORY + 2 * FE_PAGE,
        TABLES = 0x4000,   /* GPA of the tables, 64 bytes each */
        BUFFERS = 0x10000, /* GPA of the buffers */
        APART = 0x4000,    /* from one buffer to the next; what is between is nobody's */
        HEADER = 12,
        PACKET = 100,
        BYTES = HEADER + PACKET,
        BIG = 1500,
};

#define NOWHERE (UINT64_C(1) << 60)
#define NEXT    VRING_DESC_F_NEXT
#define WRITE   VRING_DESC_F_WRITE
#define TABLE   VRING_DESC_F_INDIRECT

enum build { ONE, TWO, INDIRECT }; /* how each chain is made */
enum place { DESC, SECOND, ENTRY, LAST_ENTRY, HEADER_WORD, AVAIL_IDX, AVAIL_ENTRY };
enum field { ADDR, LEN, FLAGS, LINK, LEN_FLAGS };

/* Which word changes to what; packet sizes and the fault that may come of it. */
struct flip {
        const char *name;
        unsigned int formats;
        bool tx, rx;
        enum build build;
        enum place place;
        enum field field;
        uint64_t value; /* of flags: without those of a packed ring */
        uint32_t len;   /* with LEN_FLAGS */
        enum vql_fault fault;
        uint32_t sizes[3]; /* beside PACKET: what the other value makes of it */
};

#define BOTH       .formats = FE_FOR_BOTH
#define SPLIT      .formats = FE_FOR_SPLIT
#define TX         .tx = true
#define RX         .rx = true
#define AT(b, p)   .build = (b), .place = (p)
#define TO(f, v)   .field = (f), .value = (v)
#define TO2(f, l)  .field = LEN_FLAGS, .value = (f), .len = (l)
#define FAULT(f)   .fault = VQL_FAULT_##f
#define SIZES(...) .sizes = { __VA_ARGS__ }

static const struct flip flips[] = {
        /* A length that goes with the wrong direction is never used. */
        { "length, direction", BOTH, TX, AT(ONE, DESC), TO2(WRITE, BIG), FAULT(DESC_DIRECTION) },
        { "length, direction", BOTH, RX, AT(ONE, DESC), TO2(0, BIG), FAULT(DESC_DIRECTION) },
        { "length", BOTH, TX, AT(ONE, DESC), TO(LEN, BIG), SIZES(BIG - HEADER) },
        { "length of 4 GiB", BOTH, TX, AT(ONE, DESC), TO(LEN, UINT32_MAX) },
        { "length of 1", BOTH, TX, RX, AT(ONE, DESC), TO(LEN, 1) },
        { "address", BOTH, TX, RX, AT(ONE, DESC), TO(ADDR, NOWHERE), FAULT(DESC_ADDRESS) },
        { "address at end", BOTH, TX, RX, AT(ONE, DESC), TO(ADDR, MEMORY - 1),
          FAULT(DESC_ADDRESS) },
        { "endless table", BOTH, TX, RX, AT(ONE, DESC), TO2(TABLE, 0xfffffff0), FAULT(INDIRECT) },
        { "next", SPLIT, TX, RX, AT(TWO, DESC), TO(LINK, RING), FAULT(DESC_INDEX) },
        { "end", BOTH, TX, AT(TWO, DESC), TO(FLAGS, 0), SIZES(PACKET - HEADER) },
        { "2nd address", BOTH, TX, RX, AT(TWO, SECOND), TO(ADDR, NOWHERE), FAULT(DESC_ADDRESS) },
        { "2nd length", BOTH, TX, AT(TWO, SECOND), TO2(WRITE, BIG), FAULT(DESC_DIRECTION) },
        { "2nd length", BOTH, RX, AT(TWO, SECOND), TO2(0, BIG), FAULT(DESC_DIRECTION) },
        { "2nd a table", BOTH, TX, RX, AT(TWO, SECOND), TO2(TABLE, 7), FAULT(INDIRECT) },
        { "table length", BOTH, TX, RX, AT(INDIRECT, DESC), TO(LEN, 0xfffffff0), FAULT(INDIRECT) },
        { "table address", BOTH, TX, RX, AT(INDIRECT, DESC), TO(ADDR, MEMORY - 16),
          FAULT(DESC_ADDRESS) },
        { "table, buffer", BOTH, TX, AT(INDIRECT, DESC), TO(FLAGS, WRITE), FAULT(DESC_DIRECTION) },
        { "entry address", BOTH, TX, RX, AT(INDIRECT, ENTRY), TO(ADDR, NOWHERE),
          FAULT(DESC_ADDRESS) },
        { "entry next", SPLIT, TX, RX, AT(INDIRECT, ENTRY), TO(LINK, 2), FAULT(DESC_INDEX) },
        { "entry a table", BOTH, TX, RX, AT(INDIRECT, ENTRY), TO(FLAGS, TABLE), FAULT(INDIRECT) },
        { "last entry", BOTH, TX, AT(INDIRECT, LAST_ENTRY), TO2(WRITE, BIG),
          FAULT(DESC_DIRECTION) },
        { "last entry", BOTH, RX, AT(INDIRECT, LAST_ENTRY), TO2(0, BIG), FAULT(DESC_DIRECTION) },
        /* NEEDS_CSUM, TCPV4, segments of 20 bytes, csum_start far outside. */
        { "header", BOTH, TX, AT(ONE, HEADER_WORD), TO(ADDR, UINT64_C(0xffff001400360101)) },
        { "2-part header", BOTH, TX, AT(TWO, HEADER_WORD), TO(ADDR, UINT64_C(0xffff001400360101)) },
        { "avail index", SPLIT, TX, RX, AT(ONE, AVAIL_IDX), TO(ADDR, RING + 1),
          FAULT(AVAIL_INDEX) },
        { "avail entry", SPLIT, TX, RX, AT(ONE, AVAIL_ENTRY), TO(ADDR, RING), FAULT(DESC_INDEX) },
};

struct bench {
        const struct flip *f;
        bool packed, rx;
        bool hit; /* the queue knows the region already, and takes runs of chains at once */
        struct vql_queue q;
        struct bare_params p;
        struct fe_memory *mem;
        struct vql_mem_table *table;
        uint8_t *fence;
        struct fe_driver *d; /* for its areas alone: descriptors are made by hand */
        uint64_t moved, faults;
};

static struct rte_mempool *packets;
static unsigned long bursts = 5000;

/* ---- memory with a fence ---- */

/* Map the memory into a hole of just its size in a mapping without access. */
static void map_fenced(struct bench *b)
{
        struct vql_mem_table *tried[16];
        struct vql_mem_span span;
        unsigned int n = 0;

        b->fence = mmap(NULL, FENCED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(b->fence != MAP_FAILED);
        assert_int_equal(munmap(b->fence + FE_PAGE, MEMORY), 0);
        /* The kernel may know other holes, and those are filled then. */
        while (!b->table && n < RTE_DIM(tried)) {
                tried[n] = bare_table_new(b->mem);
                assert_int_equal(vql_mem_find(tried[n], 0, &span), 0);
                if (span.va == b->fence + FE_PAGE)
                        b->table = tried[n];
                else
                        n++;
        }
        while (n > 0)
                vql_mem_table_put(tried[--n]);
        assert_non_null(b->table);
}

/* ---- rings by hand ---- */

static void *at(struct bench *b, uint64_t gpa)
{
        return fe_memory_at(b->mem, gpa, 16);
}

/* Descriptors are stored by halves: a thread that changes a word of one meanwhile must not make a
 * third value of two. */
static void put_halves(uint64_t *to, const void *from)
{
        uint64_t half[2];

        memcpy(half, from, sizeof(half));
        __atomic_store_n(&to[0], half[0], __ATOMIC_RELAXED);
        __atomic_store_n(&to[1], half[1], __ATOMIC_RELAXED);
}

static void put_desc(struct bench *b, void *to, const struct vring_desc *v)
{
        struct vring_packed_desc p = { v->addr, v->len, v->next, v->flags };

        put_halves(to, b->packed ? (const void *)&p : v);
}

static void clear_descs(struct vring_desc *d)
{
        for (unsigned int i = 0; i < RING; i++)
                put_halves((void *)&d[i], &(const struct vring_desc){ 0 });
}

/* Write one piece of a buffer to a descriptor; `link` is next, or the buffer's id. */
static void put_piece(struct bench *b, void *to, uint64_t gpa, uint32_t len, unsigned int more)
{
        struct vring_desc v = {
                .addr = gpa,
                .len = len,
                .flags = (uint16_t)((more >> 16) | (b->rx ? WRITE : 0)),
                .next = (uint16_t)more,
        };

        put_desc(b, to, &v);
}

static void put_table(struct bench *b, unsigned int chain, uint64_t buffer)
{
        uint8_t *t = at(b, TABLES + 64 * chain);
        const unsigned int next = b->packed ? 0 : NEXT << 16 | 1;

        put_piece(b, t, buffer, HEADER, next);
        put_piece(b, t + 16, buffer + HEADER, BYTES - HEADER, 0);
}

/* Chain number `chain` in ring descriptors from `slot` on; returns how many it takes. */
static unsigned int put_chain(struct bench *b, unsigned int chain, unsigned int slot)
{
        const uint64_t buffer = BUFFERS + chain * APART;
        const unsigned int shown = b->packed ? VQL_PACKED_AVAIL << 16 : 0;
        struct vring_desc *d = fe_driver_pointers(b->d).desc + slot;
        const unsigned int id = b->packed ? chain : 0;
        struct vring_desc head = {
                .addr = TABLES + 64 * chain,
                .len = 32,
                .flags = (uint16_t)(TABLE | shown >> 16),
                .next = (uint16_t)id,
        };

        switch (b->f->build) {
        case ONE:
                put_piece(b, d, buffer, BYTES, shown | id);
                return 1;
        case TWO:
                put_piece(b, d, buffer, HEADER, shown | NEXT << 16 | (b->packed ? 0 : slot + 1));
                put_piece(b, d + 1, buffer + HEADER, BYTES - HEADER, shown | id);
                return 2;
        default:
                put_table(b, chain, buffer);
                put_desc(b, d, &head);
                return 1;
        }
}

/* All chains new and available, the queue at the start of the ring. */
static void offer(struct bench *b)
{
        const struct fe_area_pointers p = fe_driver_pointers(b->d);
        unsigned int slot = 0;

        if (b->packed)
                clear_descs(p.desc);
        for (unsigned int i = 0; i < CHAINS; i++) {
                if (!b->packed)
                        __atomic_store_n(&p.avail->ring[i], (uint16_t)slot, __ATOMIC_RELAXED);
                slot += put_chain(b, i, slot);
        }
        if (!b->packed)
                __atomic_store_n(&p.avail->idx, CHAINS, __ATOMIC_RELAXED);
        bare_queue_init(&b->q, &b->p);
        if (b->hit)
                assert_int_equal(vql_mem_find(b->table, 0, &b->q.hit), 0);
}

/* A TCP packet with the header of a request that fits it. */
static void fill_buffers(struct bench *b)
{
        const struct virtio_net_hdr h = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                          .csum_start = 34,
                                          .csum_offset = 16 };
        uint8_t bytes[BYTES] = { 0 };
        struct rte_ipv4_hdr *ip = (void *)(bytes + HEADER + 14);

        memcpy(bytes, &h, sizeof(h));
        bytes[HEADER + 12] = 0x08; /* IPv4 */
        ip->version_ihl = RTE_IPV4_VHL_DEF;
        ip->total_length = rte_cpu_to_be_16(PACKET - 14);
        ip->next_proto_id = 6;
        ((struct rte_tcp_hdr *)(ip + 1))->data_off = 5 << 4;
        fe_memory_paint(b->mem, BUFFERS, CHAINS * APART);
        for (unsigned int i = 0; i < CHAINS && !b->rx; i++)
                fe_memory_write(b->mem, BUFFERS + i * APART, bytes, sizeof(bytes));
}

/* ---- the word ---- */

struct word {
        void *at;
        unsigned int bytes;
        uint64_t value[2];
};

static uint8_t *place_at(struct bench *b)
{
        const struct fe_area_pointers p = fe_driver_pointers(b->d);

        switch (b->f->place) {
        case DESC:
                return (uint8_t *)p.desc;
        case SECOND:
                return (uint8_t *)(p.desc + 1);
        case ENTRY:
                return at(b, TABLES);
        case LAST_ENTRY:
                return at(b, TABLES + 16);
        case HEADER_WORD:
                return at(b, BUFFERS);
        case AVAIL_IDX:
                return (uint8_t *)&p.avail->idx;
        default:
                return (uint8_t *)&p.avail->ring[0];
        }
}

static struct word find_word(struct bench *b)
{
        static const unsigned int bytes[] = { 8, 4, 2, 2, 8 }, offsets[] = { 0, 8, 12, 14, 8 };
        const enum field field = b->f->field;
        struct word w = { place_at(b), bytes[field], { 0, b->f->value } };
        const unsigned int flags_at = b->packed ? 14 : 12;
        const bool shown = b->packed && (b->f->place == DESC || b->f->place == SECOND);
        uint64_t flags = b->f->value | (shown ? VQL_PACKED_AVAIL : 0);

        if (b->f->place >= AVAIL_IDX)
                w.bytes = 2;
        w.at = (uint8_t *)w.at + (field == FLAGS ? flags_at : offsets[field]);
        if (field == FLAGS)
                w.value[1] = flags;
        if (field == LEN_FLAGS)
                w.value[1] = b->f->len | flags << (flags_at - 8) * 8;
        memcpy(&w.value[0], w.at, w.bytes);
        return w;
}

/* ---- bursts ---- */

#define CHECK(b, condition, ...)                                                         \
        do {                                                                             \
                if (!(condition)) {                                                      \
                        fprintf(stderr, "%s %s, %s: ", (b)->packed ? "packed" : "split", \
                                (b)->rx ? "rx" : "tx", (b)->f->name);                    \
                        fail_msg(__VA_ARGS__);                                           \
                }                                                                        \
        } while (0)

static void check_packet(struct bench *b, const struct rte_mbuf *m)
{
        uint32_t headers = (uint32_t)m->l2_len + m->l3_len + m->l4_len;
        bool right = m->pkt_len == PACKET;

        for (int i = 0; i < 3; i++)
                right |= b->f->sizes[i] != 0 && m->pkt_len == b->f->sizes[i];
        CHECK(b, right, "a packet of %u bytes", m->pkt_len);
        CHECK(b, headers <= m->pkt_len, "headers of %u in %u bytes", headers, m->pkt_len);
}

static void take(struct bench *b)
{
        struct rte_mbuf *m[VQL_BURST];
        uint16_t n = b->q.dequeue(&b->q, packets, m, VQL_BURST);

        for (uint16_t i = 0; i < n; i++)
                check_packet(b, m[i]);
        rte_pktmbuf_free_bulk(m, n);
        b->moved += n;
}

static void give(struct bench *b)
{
        struct rte_mbuf *m[CHAINS];

        assert_int_equal(rte_pktmbuf_alloc_bulk(packets, m, CHAINS), 0);
        for (unsigned int i = 0; i < CHAINS; i++) {
                /* The first is larger than a buffer: the rest must not go behind it. */
                uint16_t len = (uint16_t)(i == 0 ? PACKET + 30 : PACKET);

                memset(rte_pktmbuf_append(m[i], len), 0x11, len);
        }
        b->moved += b->q.enqueue(&b->q, m, CHAINS);
        rte_pktmbuf_free_bulk(m, CHAINS);
}

static void check_fences(struct bench *b)
{
        for (unsigned int i = 0; i < CHAINS; i++) {
                uint64_t end = BUFFERS + i * APART + BYTES;

                CHECK(b, fe_memory_untouched(b->mem, end, APART - BYTES) == APART - BYTES,
                      "bytes behind buffer %u are written", i);
        }
}

/* Two bursts: the first may end before the bad chain, which the next one meets. */
static void move_all(struct bench *b)
{
        for (int i = 0; i < 2; i++) {
                if (b->rx)
                        give(b);
                else
                        take(b);
        }
}

static void check_fault(struct bench *b)
{
        CHECK(b, b->q.fault == VQL_FAULT_NONE || b->q.fault == b->f->fault, "fault %s",
              vql_fault_name((enum vql_fault)b->q.fault));
        b->faults += b->q.fault != VQL_FAULT_NONE;
}

static void one_burst(struct bench *b)
{
        offer(b);
        move_all(b);
        check_fault(b);
}

/* ---- the tests ---- */

static void bench_init(struct bench *b, const struct flip *f, bool packed, bool rx)
{
        const struct fe_region_spec spec = { .size = MEMORY };
        struct fe_driver_params p = { .size = RING, .packed = packed };
        struct fe_text e;

        memset(b, 0, sizeof(*b));
        b->f = f;
        b->packed = packed;
        b->rx = rx;
        assert_int_equal(fe_memory_new(&spec, 1, &b->mem), 0);
        map_fenced(b);
        p.mem = b->mem;
        assert_int_equal(fe_driver_new(&p, &b->d, &e), 0);
        b->p = (struct bare_params){
                .d = b->d,
                .table = b->table,
                .features = vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_NET_F_MRG_RXBUF) |
                            vql_bit(VIRTIO_NET_F_CSUM),
                .rx = rx,
                .call_fd = -1,
        };
        fill_buffers(b);
}

static void bench_fini(struct bench *b)
{
        fe_driver_free(b->d);
        vql_mem_table_put(b->table);
        munmap(b->fence, FENCED);
        fe_memory_free(b->mem);
        assert_int_equal(rte_mempool_in_use_count(packets), 0);
}

/* At rest it all works. */
static void expect_working(struct bench *b)
{
        fill_buffers(b);
        b->moved = b->faults = 0;
        one_burst(b);
        CHECK(b, b->faults == 0 && b->moved >= CHAINS - (unsigned int)b->rx, "%ju packets at rest",
              (uintmax_t)b->moved);
}

static void one_flip(const struct flip *f, bool packed, bool rx, void (*play)(struct bench *b))
{
        struct bench *b = aligned_alloc(VQL_CACHE_LINE, RTE_ALIGN(sizeof(*b), VQL_CACHE_LINE));

        assert_non_null(b);
        bench_init(b, f, packed, rx);
        for (int hit = 0; hit < 2; hit++) {
                b->hit = hit;
                play(b);
                CHECK(b, b->moved > 0, "no packet at all");
                expect_working(b);
        }
        bench_fini(b);
        free(b);
}

static void each_flip(void (*play)(struct bench *b))
{
        for (const struct flip *f = flips; f < flips + RTE_DIM(flips); f++) {
                for (int packed = 0; packed < 2; packed++) {
                        if (!(f->formats & (packed ? FE_FOR_PACKED : FE_FOR_SPLIT)))
                                continue;
                        if (f->tx)
                                one_flip(f, packed, false, play);
                        if (f->rx)
                                one_flip(f, packed, true, play);
                }
        }
}

/* ---- every moment in turn ---- */

/* The word turns wrong at access number `at`, or right, or is wrong for this one alone. */
enum pattern { TURNS, TURNS_BACK, BLINKS, PATTERNS };

struct moment {
        struct word w;
        enum pattern pattern;
        unsigned int at;
};

static void put_word(const struct word *w, bool wrong)
{
        memcpy(w->at, &w->value[wrong], w->bytes);
}

static void on_access(void *arg, unsigned int n)
{
        const struct moment *m = arg;
        bool wrong = m->pattern == BLINKS ? n == m->at : n >= m->at;

        put_word(&m->w, wrong != (m->pattern == TURNS_BACK));
}

/* The page of the product's own mapping that the word is in. */
static void *page_of(struct bench *b, const struct word *w)
{
        uint64_t gpa = (uint64_t)((uint8_t *)w->at - (uint8_t *)at(b, 0));

        return b->fence + FE_PAGE + gpa / FE_PAGE * FE_PAGE;
}

static void every_moment(struct bench *b)
{
        struct moment m;

        for (int k = 0; k < PATTERNS; k++) {
                unsigned int seen = 1;

                for (unsigned int i = 0; i <= seen; i++) {
                        offer(b);
                        m = (struct moment){ find_word(b), (enum pattern)k, i };
                        access_trap_arm(page_of(b, &m.w), on_access, &m);
                        move_all(b);
                        seen = access_trap_disarm();
                        check_fault(b);
                        if (b->rx)
                                check_fences(b);
                        put_word(&m.w, false);
                }
                CHECK(b, seen > 0, "nobody looked");
        }
}

static void test_moments(void **state)
{
        (void)state;
        if (!access_trap_works()) {
                puts("needs single steps, which this build or CPU does not have");
                skip();
        }
        each_flip(every_moment);
}

/* ---- a second thread ---- */

static void many_bursts(struct bench *b)
{
        struct fe_flipper *flipper;
        struct word w;

        offer(b);
        w = find_word(b);
        assert_int_equal(fe_flipper_start(w.at, w.bytes, w.value[0], w.value[1], &flipper), 0);
        for (unsigned long i = 0; i < bursts; i++) {
                one_burst(b);
                if (b->rx && i % 64 == 0)
                        check_fences(b);
        }
        fe_flipper_stop(flipper);
        if (b->rx)
                check_fences(b);
}

static void test_threads(void **state)
{
        (void)state;
        each_flip(many_bursts);
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_moments),
                cmocka_unit_test(test_threads),
        };

        if (argc > 1)
                bursts = strtoul(argv[1], NULL, 0);
        if (test_eal_start() < 0)
                return 1;
        packets = test_pool("packets", 1023, 2048);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
