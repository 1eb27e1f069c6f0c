/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Every wrong thing that a driver can do to its ring (tests/frontend/faults.h), with good buffers
 * before and behind it: the good ones before are used and returned, the fault has its right name,
 * nothing happens after it, a neighbour's ring goes on, and a reset makes the ring good again.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/virtio_net.h>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "bare_queue.h"
#include "base/bits.h"
#include "frontend/faults.h"
#include "sw-fallback/burst.h"
#include "sw-fallback/worker.h"
#include "unit/eal.h"
#include "virtqueue/features.h"

enum { RING = 64, HEADER = 12, BEFORE = 5, BEHIND = 4, GOOD = 16, BYTES = FE_FAULT_PACKET };

/* What becomes of the bad buffer. */
enum fate { BROKEN, RETURNED, ACCEPTED };

struct expected {
        const char *name;
        enum fate tx, rx;
        enum vql_fault fault;
        const char *counter; /* RETURNED: what is counted */
};

static const struct expected table[] = {
        { "head outside the table", BROKEN, BROKEN, VQL_FAULT_DESC_INDEX, NULL },
        { "next outside the table", BROKEN, BROKEN, VQL_FAULT_DESC_INDEX, NULL },
        { "next far outside", BROKEN, BROKEN, VQL_FAULT_DESC_INDEX, NULL },
        /* A packet that ends before the loop closes does not meet it. */
        { "loop", BROKEN, ACCEPTED, VQL_FAULT_DESC_LOOP, NULL },
        { "loop of empty descriptors", BROKEN, BROKEN, VQL_FAULT_DESC_LOOP, NULL },
        { "loop in a table", BROKEN, ACCEPTED, VQL_FAULT_DESC_LOOP, NULL },
        { "next behind the table", BROKEN, BROKEN, VQL_FAULT_DESC_INDEX, NULL },
        { "endless chain", BROKEN, BROKEN, VQL_FAULT_DESC_LOOP, NULL },
        { "index one too far", BROKEN, BROKEN, VQL_FAULT_AVAIL_INDEX, NULL },
        { "index back by one", BROKEN, BROKEN, VQL_FAULT_AVAIL_INDEX, NULL },
        { "table of length 0", BROKEN, BROKEN, VQL_FAULT_INDIRECT, NULL },
        { "table of 8 bytes", BROKEN, BROKEN, VQL_FAULT_INDIRECT, NULL },
        { "table of 36 bytes", BROKEN, BROKEN, VQL_FAULT_INDIRECT, NULL },
        { "table of 4 GiB", BROKEN, BROKEN, VQL_FAULT_INDIRECT, NULL },
        { "table in a table", BROKEN, BROKEN, VQL_FAULT_INDIRECT, NULL },
        { "table and next", BROKEN, BROKEN, VQL_FAULT_INDIRECT, NULL },
        { "table marked writable", ACCEPTED, ACCEPTED, VQL_FAULT_NONE, NULL },
        { "table nowhere", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "table over the end", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "buffer nowhere", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "header nowhere", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "buffer nowhere, in a table", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "buffer wraps", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "buffer over the end", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "buffer of 4 GiB", RETURNED, ACCEPTED, VQL_FAULT_NONE, "too long" },
        { "empty buffer nowhere", ACCEPTED, ACCEPTED, VQL_FAULT_NONE, NULL },
        { "wrong direction", BROKEN, BROKEN, VQL_FAULT_DESC_DIRECTION, NULL },
        { "readable behind writable", BROKEN, BROKEN, VQL_FAULT_DESC_DIRECTION, NULL },
        { "shorter than the header", RETURNED, RETURNED, VQL_FAULT_NONE, "short" },
        { "header and nothing else", RETURNED, RETURNED, VQL_FAULT_NONE, "short" },
        { "empty", RETURNED, RETURNED, VQL_FAULT_NONE, "short" },
        { "no room for the header", ACCEPTED, ACCEPTED, VQL_FAULT_NONE, NULL },
        { "no room at all", ACCEPTED, ACCEPTED, VQL_FAULT_NONE, NULL },
        { "header byte by byte", ACCEPTED, ACCEPTED, VQL_FAULT_NONE, NULL },
        { "an empty piece", ACCEPTED, ACCEPTED, VQL_FAULT_NONE, NULL },
        { "128 KiB", RETURNED, RETURNED, VQL_FAULT_NONE, "too long" },
        { "csum_start behind the packet", RETURNED, RETURNED, VQL_FAULT_NONE, "offload" },
        { "csum_offset behind the packet", RETURNED, RETURNED, VQL_FAULT_NONE, "offload" },
        { "gso_size 0", RETURNED, RETURNED, VQL_FAULT_NONE, "offload" },
        { "unknown gso_type", RETURNED, RETURNED, VQL_FAULT_NONE, "offload" },
        { "gso of what is not TCP", RETURNED, RETURNED, VQL_FAULT_NONE, "offload" },
        { "own header, next outside", BROKEN, BROKEN, VQL_FAULT_DESC_INDEX, NULL },
        { "own header, next itself", BROKEN, ACCEPTED, VQL_FAULT_DESC_LOOP, NULL },
        { "own header, table out of order", ACCEPTED, ACCEPTED, VQL_FAULT_NONE, NULL },
        { "own header, next behind the table", BROKEN, BROKEN, VQL_FAULT_DESC_INDEX, NULL },
        { "own header, packet nowhere", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "own header, packet over the end", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "own header, wrong direction", BROKEN, BROKEN, VQL_FAULT_DESC_DIRECTION, NULL },
        { "own header, 4 GiB", RETURNED, ACCEPTED, VQL_FAULT_NONE, "too long" },
        { "own header, no packet", RETURNED, ACCEPTED, VQL_FAULT_NONE, "short" },
        { "own header, nested table", BROKEN, BROKEN, VQL_FAULT_INDIRECT, NULL },
        { "own header, table longer than memory", BROKEN, BROKEN, VQL_FAULT_DESC_ADDRESS, NULL },
        { "index one too far, good buffers", BROKEN, BROKEN, VQL_FAULT_AVAIL_INDEX, NULL },
};

/* ---- faults behind a header in a descriptor of its own, the shape that most drivers send ---- */

static struct fe_desc desc(struct fe_driver *d, unsigned int i)
{
        struct fe_desc v;

        assert_int_equal(fe_driver_desc(d, i, &v), 0);
        return v;
}

static void arrange_own(struct fe_fault_room *room)
{
        room->seg[1].gpa = room->at + HEADER;
        room->seg[1].len = BYTES;
        room->seg[0].len = HEADER;
}

static void arrange_three(struct fe_fault_room *room)
{
        arrange_own(room);
        room->seg[2] = room->seg[1];
        room->seg[1].len = 100;
        room->seg[2].gpa += 100;
        room->seg[2].len -= 100;
        room->n = 3;
}

static void arrange_nothing(struct fe_fault_room *room)
{
        arrange_own(room);
        room->seg[1].len = 0;
}

static void next_outside(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).next = RING;
}

static void next_itself(struct fe_driver *d, const struct fe_fault_room *room)
{
        struct fe_area_pointers at = fe_driver_pointers(d);

        (void)room;
        *desc(d, 0).next = (uint16_t)((struct vring_desc *)(void *)desc(d, 0).addr - at.desc);
}

static void next_behind_table(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).next = 2;
}

/* Entries 0, 2, 1: nothing says that a table must be in order (2.7.5.3). */
static void out_of_order(struct fe_driver *d, const struct fe_fault_room *room)
{
        const struct fe_seg *s = room->seg;

        *desc(d, 0).next = 2;
        *desc(d, 2).addr = s[1].gpa;
        *desc(d, 2).len = s[1].len;
        *desc(d, 2).next = 1;
        *desc(d, 2).flags |= VRING_DESC_F_NEXT;
        *desc(d, 1).addr = s[2].gpa;
        *desc(d, 1).len = s[2].len;
        *desc(d, 1).flags = (uint16_t)(*desc(d, 1).flags & ~VRING_DESC_F_NEXT);
}

static void packet_nowhere(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).addr = UINT64_C(1) << 60;
}

static void packet_over_the_end(struct fe_driver *d, const struct fe_fault_room *room)
{
        *desc(d, 1).addr = fe_memory_end(room->mem) - BYTES + 1;
}

static void packet_direction(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).flags ^= VRING_DESC_F_WRITE;
}

static void packet_endless(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).len = UINT32_MAX;
}

static void packet_a_table(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).flags |= VRING_DESC_F_INDIRECT;
}

/* Its first two entries are there and right, the other two are not. */
static void table_longer(struct fe_driver *d, const struct fe_fault_room *room)
{
        uint64_t at = fe_memory_end(room->mem) - 32;
        uint8_t entries[32];

        assert_int_equal(fe_memory_read(room->mem, room->table, entries, sizeof(entries)), 0);
        assert_int_equal(fe_memory_write(room->mem, at, entries, sizeof(entries)), 0);
        *fe_driver_head(d).addr = at;
        *fe_driver_head(d).len = 64;
}

static void arrange_one(struct fe_fault_room *room)
{
        room->seg[0].len = HEADER + BYTES;
        room->n = 1;
}

/* Every entry of the ring names this buffer, and there is one more of them than the ring has. */
static void good_but_too_many(struct fe_driver *d, const struct fe_fault_room *room)
{
        struct fe_area_pointers at = fe_driver_pointers(d);
        uint16_t head = (uint16_t)((struct vring_desc *)(void *)desc(d, 0).addr - at.desc);

        (void)room;
        for (int i = 0; i < RING; i++)
                at.avail->ring[i] = head;
        fe_driver_jump(d, RING + 1);
}

#define OWN   .tx = true, .rx = true, .arrange = arrange_own
#define SPLIT .formats = FE_FOR_SPLIT
#define BOTH  .formats = FE_FOR_BOTH

static const struct fe_ring_fault own_faults[] = {
        { "own header, next outside", SPLIT, OWN, .spoil = next_outside },
        { "own header, next itself", SPLIT, OWN, .spoil = next_itself },
        { "own header, table out of order", SPLIT, .tx = true, .rx = true, .table = true,
          .arrange = arrange_three, .spoil = out_of_order },
        { "own header, next behind the table", SPLIT, OWN, .table = true,
          .spoil = next_behind_table },
        { "own header, packet nowhere", BOTH, OWN, .spoil = packet_nowhere },
        { "own header, packet nowhere", BOTH, OWN, .table = true, .spoil = packet_nowhere },
        { "own header, packet over the end", BOTH, OWN, .spoil = packet_over_the_end },
        { "own header, packet over the end", BOTH, OWN, .table = true,
          .spoil = packet_over_the_end },
        { "own header, wrong direction", BOTH, OWN, .spoil = packet_direction },
        { "own header, wrong direction", BOTH, OWN, .table = true, .spoil = packet_direction },
        { "own header, 4 GiB", BOTH, OWN, .spoil = packet_endless },
        { "own header, 4 GiB", BOTH, OWN, .table = true, .spoil = packet_endless },
        { "own header, no packet", BOTH, .tx = true, .rx = true, .arrange = arrange_nothing },
        { "own header, nested table", BOTH, OWN, .table = true, .spoil = packet_a_table },
        { "own header, table longer than memory", BOTH, OWN, .table = true, .spoil = table_longer },
        { "index one too far, good buffers", SPLIT, .tx = true, .rx = true, .shown = true,
          .arrange = arrange_one, .spoil = good_but_too_many },
};

/* One ring with its driver. */
struct lane {
        struct vql_queue q;
        struct fe_driver *d;
        struct bare_params p;
        struct fe_seg seg[GOOD][2];
        unsigned int next; /* good buffer */
};

struct bench {
        struct lane bad, good;
        struct fe_memory *mem;
        struct vql_mem_table *table;
        struct fe_fault_room room;
        bool rx;
        const char *name;
};

static struct rte_mempool *packets;
static uint8_t payload[BYTES]; /* of all packets: that of the bad buffer, which may be used, too */

#define CHECK(b, condition, ...)                                     \
        do {                                                         \
                if (!(condition)) {                                  \
                        fprintf(stderr, __VA_ARGS__);                \
                        fail_msg(": %s, %s", (b)->name, #condition); \
                }                                                    \
        } while (0)

static const struct expected *find(const char *name)
{
        for (size_t i = 0; i < RTE_DIM(table); i++)
                if (strcmp(table[i].name, name) == 0)
                        return &table[i];
        fail_msg("\"%s\": no row says what is right", name);
        return NULL;
}

/* ---- set-up ---- */

static void lane_init(struct bench *b, struct lane *l, const struct fe_driver_params *params,
                      uint64_t features)
{
        struct fe_text e;

        assert_int_equal(fe_driver_new(params, &l->d, &e), 0);
        for (int i = 0; i < GOOD; i++)
                for (int k = 0; k < 2; k++)
                        assert_int_equal(fe_seg_alloc(b->mem, FE_ANY_REGION, HEADER + BYTES, b->rx,
                                                      &l->seg[i][k]),
                                         0);
        l->p = (struct bare_params){
                .d = l->d,
                .table = b->table,
                .features = features,
                .rx = b->rx,
                .call_fd = -1,
        };
        bare_queue_init(&l->q, &l->p);
}

static void bench_init(struct bench *b, bool packed, bool rx, uint16_t start)
{
        const uint64_t offloads = vql_bit(VIRTIO_NET_F_CSUM) | vql_bit(VIRTIO_NET_F_HOST_TSO4);
        const uint64_t features = vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_NET_F_MRG_RXBUF);
        struct fe_driver_params p = {
                .size = RING,
                .packed = packed,
                .start = start,
                .pick = FE_PICK_FIFO,
        };

        memset(b, 0, sizeof(*b));
        b->rx = rx;
        assert_int_equal(fe_memory_new_layout(FE_ONE_REGION, &b->mem), 0);
        b->table = bare_table_new(b->mem);
        p.mem = b->mem;
        lane_init(b, &b->bad, &p, features | offloads);
        lane_init(b, &b->good, &p, features | offloads);
        assert_int_equal(fe_fault_room_init(&b->room, b->mem, FE_ANY_REGION, rx, HEADER), 0);
        memcpy(payload, b->room.packet, BYTES);
}

static void bench_fini(struct bench *b)
{
        fe_driver_free(b->bad.d);
        fe_driver_free(b->good.d);
        vql_mem_table_put(b->table);
        fe_memory_free(b->mem);
        assert_int_equal(rte_mempool_in_use_count(packets), 0);
}

/* ---- good buffers ---- */

/* Of one piece or of two in turn: the short way through the burst and the long one. */
static void add_good(struct bench *b, struct lane *l)
{
        struct fe_seg *s = l->seg[l->next++ % GOOD];
        struct fe_chain c = { .segs = s, .n = 1 + l->next % 2, .cookie = s };
        uint8_t bytes[HEADER + BYTES] = { 0 };

        memcpy(bytes + HEADER, payload, BYTES);
        s[0].len = c.n == 1 ? HEADER + BYTES : HEADER + 1;
        s[1].len = HEADER + BYTES - s[0].len;
        fe_segs_write(b->mem, s, c.n, bytes, sizeof(bytes));
        assert_int_equal(fe_driver_add(l->d, &c, NULL), 0);
}

static uint16_t take(struct bench *b, struct lane *l, uint16_t n)
{
        struct rte_mbuf *m[VQL_BURST];
        uint16_t got = l->q.dequeue(&l->q, packets, m, n);

        for (uint16_t i = 0; i < got; i++) {
                uint8_t bytes[BYTES];
                const uint8_t *p;

                CHECK(b, m[i]->pkt_len <= BYTES, "%u bytes", m[i]->pkt_len);
                p = rte_pktmbuf_read(m[i], 0, m[i]->pkt_len, bytes);
                CHECK(b, p && memcmp(p, payload, m[i]->pkt_len) == 0, "packet %u is wrong", i);
        }
        rte_pktmbuf_free_bulk(m, got);
        return got;
}

static uint16_t put(struct lane *l, uint16_t n)
{
        struct rte_mbuf *m[VQL_BURST];
        uint16_t got;

        assert_int_equal(rte_pktmbuf_alloc_bulk(packets, m, n), 0);
        for (uint16_t i = 0; i < n; i++)
                memcpy(rte_pktmbuf_append(m[i], BYTES), payload, BYTES);
        got = l->q.enqueue(&l->q, m, n);
        rte_pktmbuf_free_bulk(m, n);
        return got;
}

/* A burst in the direction of the test: so many packets were moved. */
static uint16_t move(struct bench *b, struct lane *l, uint16_t n)
{
        return b->rx ? put(l, n) : take(b, l, n);
}

/* Take everything back; the number of good buffers, with the right bytes in them. */
static unsigned int collect(struct bench *b, struct lane *l, bool *ret_bad)
{
        unsigned int good = 0;
        struct fe_done done;
        int err;

        while ((err = fe_driver_get(l->d, &done)) == 1) {
                uint8_t bytes[HEADER + BYTES];

                if (done.cookie == &b->room) {
                        *ret_bad = true;
                        continue;
                }
                good++;
                CHECK(b, done.len <= (b->rx ? sizeof(bytes) : 0), "used length %u", done.len);
                if (!b->rx || done.len < sizeof(bytes))
                        continue;
                fe_segs_read(b->mem, done.cookie, 2, 0, bytes, sizeof(bytes));
                CHECK(b, memcmp(bytes + HEADER, payload, BYTES) == 0, "bytes are wrong");
        }
        CHECK(b, err == 0, "%s", fe_driver_error(l->d));
        return good;
}

/* The ring works: three good buffers make three packets and come back. */
static void expect_working(struct bench *b, struct lane *l)
{
        bool bad = false;

        for (int i = 0; i < 3; i++)
                add_good(b, l);
        fe_driver_publish(l->d);
        CHECK(b, move(b, l, 3) == 3, "fault %s", vql_fault_name((enum vql_fault)l->q.fault));
        CHECK(b, collect(b, l, &bad) == 3 && !bad, "buffers are missing");
}

static void reset(struct bench *b, struct lane *l)
{
        fe_driver_restart(l->d);
        bare_queue_init(&l->q, &l->p);
        expect_working(b, l);
}

/* ---- the faults ---- */

static void expect_counter(struct bench *b, const struct expected *e)
{
        struct vql_queue_counters c;
        const char *what = b->rx || e->tx != RETURNED ? "" : e->counter;

        vql_queue_read_counters(&b->bad.q, &c);
        CHECK(b, c.drop_short == !strcmp(what, "short"), "short: %ju", (uintmax_t)c.drop_short);
        CHECK(b, c.drop_too_long == !strcmp(what, "too long"), "long: %ju",
              (uintmax_t)c.drop_too_long);
        CHECK(b, c.drop_offload == !strcmp(what, "offload"), "offload: %ju",
              (uintmax_t)c.drop_offload);
        CHECK(b, c.no_mbuf == 0 && c.drop_disabled == 0 && c.drop_too_big == 0, "other counters");
}

/* It takes the whole ring, or makes all of it doubtful: there is nothing beside it. */
static bool is_alone(const struct fe_ring_fault *f)
{
        return f->shown || strcmp(f->name, "endless chain") == 0;
}

/* A number of good buffers, the bad one, more good ones; returns how many come behind it. */
static unsigned int offer(struct bench *b, const struct fe_ring_fault *f, unsigned int before)
{
        unsigned int behind = is_alone(f) ? 0 : BEHIND;

        for (unsigned int i = 0; i < before; i++)
                add_good(b, &b->bad);
        fe_driver_publish(b->bad.d);
        assert_int_equal(fe_fault_inject(f, b->bad.d, &b->room), 0);
        for (unsigned int i = 0; i < behind; i++)
                add_good(b, &b->bad);
        if (!f->shown)
                fe_driver_publish(b->bad.d);
        return behind;
}

static void expect_broken(struct bench *b, const struct expected *e, unsigned int before)
{
        struct lane *l = &b->bad;
        unsigned int moved = 0;
        bool bad = false;

        /* A claim may end at the bad buffer and meet it in the next one. */
        for (int i = 0; i < 2; i++)
                moved += move(b, l, VQL_BURST);
        CHECK(b, l->q.fault == e->fault, "fault %s, expected %s",
              vql_fault_name((enum vql_fault)l->q.fault), vql_fault_name(e->fault));
        CHECK(b, moved == before, "%u packets", moved);
        CHECK(b, collect(b, l, &bad) == before, "not all good buffers came back");
        CHECK(b, !bad, "the bad buffer came back");
        CHECK(b, move(b, l, VQL_BURST) == 0 && !fe_driver_pending(l->d), "moves on");
}

static void expect_used(struct bench *b, const struct expected *e, unsigned int good)
{
        enum fate fate = b->rx ? e->rx : e->tx;
        struct lane *l = &b->bad;
        unsigned int moved = move(b, l, (uint16_t)(good + 1)), back;
        bool bad = false;

        CHECK(b, l->q.fault == VQL_FAULT_NONE, "fault %s",
              vql_fault_name((enum vql_fault)l->q.fault));
        back = collect(b, l, &bad);
        CHECK(b, bad, "the bad buffer did not come back");
        CHECK(b, back == good, "%u of %u good buffers came back", back, good);
        /* To the guest: what is short of room takes less than a packet, and the last one waits. */
        if (b->rx)
                CHECK(b, moved == good || moved == good + 1, "%u packets", moved);
        else
                CHECK(b, moved == good + (fate == ACCEPTED), "%u packets", moved);
}

static void one_fault(const struct fe_ring_fault *f, bool packed, bool rx, unsigned int before)
{
        const struct expected *e = find(f->name);
        struct bench *b = aligned_alloc(VQL_CACHE_LINE, RTE_ALIGN(sizeof(*b), VQL_CACHE_LINE));
        unsigned int behind;

        assert_non_null(b);
        bench_init(b, packed, rx, packed ? RING - 3 : 65533);
        b->name = f->name;
        expect_working(b, &b->good);
        expect_working(b, &b->bad);
        behind = offer(b, f, before);
        if ((rx ? e->rx : e->tx) == BROKEN)
                expect_broken(b, e, before);
        else
                expect_used(b, e, before + behind);
        expect_counter(b, e);
        expect_working(b, &b->good);
        reset(b, &b->bad);
        bench_fini(b);
        free(b);
}

static unsigned int faults_of(const struct fe_ring_fault *faults, size_t n, bool packed, bool rx)
{
        unsigned int tried = 0;

        for (const struct fe_ring_fault *f = faults; f < faults + n; f++) {
                if (!(f->formats & (packed ? FE_FOR_PACKED : FE_FOR_SPLIT)) ||
                    !(rx ? f->rx : f->tx))
                        continue;
                one_fault(f, packed, rx, 0);
                if (!is_alone(f))
                        one_fault(f, packed, rx, BEFORE);
                tried++;
        }
        return tried;
}

static void all_faults(bool packed, bool rx)
{
        assert_true(faults_of(fe_ring_faults, fe_ring_fault_count, packed, rx) > 15);
        assert_true(faults_of(own_faults, RTE_DIM(own_faults), packed, rx) > 5);
}

static void test_split_tx(void **state)
{
        (void)state;
        all_faults(false, false);
}

static void test_split_rx(void **state)
{
        (void)state;
        all_faults(false, true);
}

static void test_packed_tx(void **state)
{
        (void)state;
        all_faults(true, false);
}

static void test_packed_rx(void **state)
{
        (void)state;
        all_faults(true, true);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_split_tx),
                cmocka_unit_test(test_split_rx),
                cmocka_unit_test(test_packed_tx),
                cmocka_unit_test(test_packed_rx),
        };

        if (test_eal_start() < 0)
                return 1;
        packets = test_pool("packets", 255, 2048);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
