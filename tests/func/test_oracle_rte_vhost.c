/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * DPDK's vhost library as an oracle: two guests with equal memories offer equal buffers, vqlift
 * serves one and rte_vhost the other.  Afterwards every byte of guest memory, every used element as
 * the driver reads it, every interrupt and every packet taken must be the same.
 *
 * The two may differ in this, and in nothing else:
 *
 * 1. The wish to be kicked (used->flags, avail_event, the device's event area) is not part of
 * moving packets; see blank_wishes().
 * 2. A packet that no buffer can hold: vqlift drops and counts it and goes on with the next,
 *    rte_vhost stops in front of it and leaves it to the caller.  The test steps over it there, and
 *    only there.  In finding out, and in finding that the guest has too few buffers now, vqlift may
 *    have written to buffers: what is in those that the guest did not get back, or behind the
 *    length of those that it did get back in this burst, is not compared.
 * 3. A buffer from the guest without a byte behind the header: vqlift returns it and goes on,
 *    rte_vhost returns it and ends the burst, or makes an empty packet of it.  It is called again
 *    until it has returned as many buffers, and empty packets are dropped.
 * 4. num_buffers without MRG_RXBUF: see settle_count().
 * 5. What is reserved in used descriptors of a packed ring from the guest: see blank_reserved().
 * 6. In order, one used element for many buffers: see blank_batches().
 */

#include "oracle_twin.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "oracle_peer.h"
#include "unit/eal.h"

enum { STEPS = 60, BURST = 32, SCENARIOS = 32, LEAST_MERGED = 600, ROOM = 2048 };

struct plan {
        uint64_t seed, rounds;
        long only; /* a scenario's number, or -1 */
        struct rte_mempool *pool;
        struct twin *twin;
};

/* ---- packets ---- */

static uint32_t random_size(struct twin *w)
{
        const uint32_t kind = twin_random(w, 32);

        if (kind == 0)
                return twin_between(w, 9000, TWIN_PACKET - 16);
        if (kind < 4)
                return twin_between(w, 1500, 9000);
        return kind < 12 ? twin_between(w, 200, 1600) : twin_between(w, 1, 200);
}

static void random_bytes(struct twin *w, uint8_t *to, uint32_t n)
{
        uint64_t x = twin_random(w, UINT32_MAX) | 1;

        for (uint32_t i = 0; i < n; i++) {
                x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
                to[i] = (uint8_t)(x >> 56);
        }
}

static struct rte_mbuf *append(struct twin *w, struct rte_mempool *pool, struct rte_mbuf *head,
                               const uint8_t *bytes, uint32_t n)
{
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

        TWIN_CHECK(w, m, "out of packet buffers");
        memcpy(rte_pktmbuf_append(m, (uint16_t)n), bytes, n);
        if (!head)
                return m;
        TWIN_CHECK(w, rte_pktmbuf_chain(head, m) == 0, "too many segments");
        return head;
}

/*
 * Four packets of a segment each are a batch to rte_vhost if four descriptors of a packed ring
 * follow on an aligned place, and then it takes parts of a chain, or tables, for buffers.  So that
 * it can be compared there are scenarios with buffers of one descriptor, and scenarios where every
 * packet has at least two segments.
 */
static struct rte_mbuf *make_packet(struct twin *w, struct rte_mempool *pool, uint32_t size)
{
        static uint8_t bytes[TWIN_PACKET];
        const bool batches = !w->s.packed || w->s.plain_rx;
        const bool whole = batches && twin_once_in(w, 2);
        struct rte_mbuf *head = NULL;

        random_bytes(w, bytes, size);
        for (uint32_t at = 0, n; at < size; at += n) {
                const uint32_t most = RTE_MIN(size - at, (uint32_t)ROOM);

                n = whole ? most : twin_between(w, RTE_MIN(most, 1 + size / 32), most);
                if (!batches && n == size)
                        n--;
                head = append(w, pool, head, bytes + at, n);
        }
        return head;
}

/* ---- to the guest ---- */

/* How many buffers a packet takes from number `first` on; 0: there are too few; -1: never fits. */
static int chains_of(struct twin *w, uint32_t first, uint32_t need)
{
        struct twin_ring *r = &w->ring[RX];
        uint32_t room = 0;
        int n = 0;

        while (room < need) {
                if (n == 1 && !w->s.mergeable)
                        return -1;
                if (first + (uint32_t)n == r->published)
                        return 0;
                room += twin_chain(r, first + (uint32_t)n++)->bytes;
        }
        return n;
}

/* The rest of a burst at rte_vhost; returns how many packets never fitted (difference 2). */
static uint16_t enqueue_theirs(struct twin *w, struct rte_mbuf **m, uint16_t taken, uint16_t n)
{
        uint32_t next = w->ring[RX].got;
        uint16_t done = 0, moved, unfit = 0;

        while (done < taken) {
                moved = oracle_enqueue(w->vid, RX, m + done, (uint16_t)(taken - done));
                for (uint16_t i = 0; i < moved; i++)
                        next += (uint32_t)chains_of(w, next, m[done + i]->pkt_len + w->hdr_len);
                done = (uint16_t)(done + moved);
                if (moved > 0)
                        continue;
                TWIN_CHECK(w, chains_of(w, next, m[done]->pkt_len + w->hdr_len) < 0,
                           "rte_vhost stopped at packet %u of %u, %u bytes", done, taken,
                           m[done]->pkt_len);
                unfit++;
                done++;
        }
        moved = taken < n ? oracle_enqueue(w->vid, RX, m + taken, (uint16_t)(n - taken)) : 0;
        TWIN_CHECK(w, moved == 0, "vqlift took %u packets of %u, rte_vhost %u more", taken, n,
                   moved);
        return unfit;
}

/*
 * Without merging, a buffer is 16 KiB at the most.  With it, rte_vhost uses at most 256 pieces of
 * memory for a packet, and one buffer less than the ring has.
 */
static uint32_t fitting_size(struct twin *w)
{
        const uint32_t merged = RTE_MIN((w->s.ring - 1u) * LEAST_MERGED - w->hdr_len, 40000u);

        return RTE_MAX(RTE_MIN(random_size(w), w->s.mergeable ? merged : 9000u), 2u);
}

static void post(struct twin *w)
{
        for (uint32_t n = twin_once_in(w, 3) ? TWIN_BUFFERS : twin_random(w, 8); n > 0; n--) {
                const uint32_t bytes = w->s.mergeable       ? twin_between(w, LEAST_MERGED, 4000)
                                       : twin_once_in(w, 4) ? twin_between(w, 100, 9012)
                                                            : twin_between(w, 1400, 9012);

                if (!twin_add(w, RX, bytes, NULL))
                        return;
        }
}

static void finish(struct twin *w, unsigned int direction, bool soiled)
{
        struct twin_ring *r = &w->ring[direction];
        const bool ours = twin_interrupted(w, direction, OURS);
        const bool theirs = twin_interrupted(w, direction, THEIRS);

        TWIN_CHECK(w, ours == theirs, "ring %u: vqlift %s, rte_vhost %s", direction,
                   ours ? "interrupted" : "did not interrupt", theirs ? "did" : "did not");
        twin_get(w, direction, soiled);
        twin_compare(w);
        TWIN_CHECK(w, vql_burst_fault(r->queue) == 0, "fault: %s",
                   vql_burst_fault_name(vql_burst_fault(r->queue)));
}

static void enqueue(struct twin *w, struct rte_mempool *pool)
{
        struct rte_mbuf *m[BURST];
        const uint16_t n = (uint16_t)twin_between(w, 1, twin_once_in(w, 2) ? BURST : 6);
        uint16_t taken, unfit;

        for (uint16_t i = 0; i < n; i++)
                m[i] = make_packet(w, pool, fitting_size(w));
        taken = vql_burst_enqueue(w->ring[RX].queue, m, n);
        unfit = enqueue_theirs(w, m, taken, n);
        finish(w, RX, unfit > 0 || taken < n);
        rte_pktmbuf_free_bulk(m, n);
}

/* ---- from the guest ---- */

static void offer(struct twin *w)
{
        static uint8_t bytes[TWIN_PACKET];

        for (uint32_t n = twin_once_in(w, 3) ? TWIN_BUFFERS : twin_random(w, 8); n > 0; n--) {
                const uint32_t size = twin_once_in(w, 40) ? 0 : random_size(w);

                random_bytes(w, bytes, size);
                if (!twin_add(w, TX, w->hdr_len + size, bytes))
                        return;
        }
}

static void compare_packet(struct twin *w, const struct rte_mbuf *a, const struct rte_mbuf *b)
{
        static uint8_t room[GUESTS][TWIN_PACKET];
        const void *ours, *theirs;

        TWIN_CHECK(w, a->pkt_len == b->pkt_len && a->nb_segs == b->nb_segs,
                   "a packet of %u bytes in %u segments from vqlift, %u in %u from rte_vhost",
                   a->pkt_len, a->nb_segs, b->pkt_len, b->nb_segs);
        TWIN_CHECK(w, a->ol_flags == b->ol_flags, "packet flags %#jx from vqlift, %#jx",
                   (uintmax_t)a->ol_flags, (uintmax_t)b->ol_flags);
        ours = rte_pktmbuf_read(a, 0, a->pkt_len, room[OURS]);
        theirs = rte_pktmbuf_read(b, 0, b->pkt_len, room[THEIRS]);
        TWIN_CHECK(w, memcmp(ours, theirs, a->pkt_len) == 0, "packets of %u bytes differ",
                   a->pkt_len);
}

/* In batches of a packed ring rte_vhost makes an empty packet of a bare header (difference 3). */
static uint16_t drop_empty(struct twin *w, struct rte_mbuf **m, uint16_t n)
{
        uint16_t kept = 0;

        for (uint16_t i = 0; i < n; i++) {
                if (w->s.packed && m[i]->pkt_len == 0)
                        rte_pktmbuf_free(m[i]);
                else
                        m[kept++] = m[i];
        }
        return kept;
}

/* Let rte_vhost return as many buffers as vqlift has (difference 3). */
static uint16_t dequeue_theirs(struct twin *w, struct rte_mempool *pool, struct rte_mbuf **m)
{
        const uint32_t until = twin_take(w, TX, OURS);
        uint16_t made = 0;

        for (unsigned int calls = 0; twin_take(w, TX, THEIRS) != until; calls++) {
                const uint32_t left = until - twin_take(w, TX, THEIRS);
                uint16_t n;

                TWIN_CHECK(w, calls < BURST && left <= BURST, "%u buffers are left at rte_vhost",
                           left);
                n = oracle_dequeue(w->vid, TX, pool, m + made, (uint16_t)left);
                made = (uint16_t)(made + drop_empty(w, m + made, n));
        }
        return made;
}

static void dequeue(struct twin *w, struct rte_mempool *pool)
{
        struct rte_mbuf *m[GUESTS][BURST];
        const uint16_t n = (uint16_t)twin_between(w, 1, twin_once_in(w, 2) ? BURST : 6);
        const uint16_t ours = vql_burst_dequeue(w->ring[TX].queue, pool, m[OURS], n);
        const uint16_t theirs = dequeue_theirs(w, pool, m[THEIRS]);

        TWIN_CHECK(w, ours == theirs, "%u packets from vqlift, %u from rte_vhost", ours, theirs);
        for (uint16_t i = 0; i < ours; i++)
                compare_packet(w, m[OURS][i], m[THEIRS][i]);
        for (unsigned int g = 0; g < GUESTS; g++)
                rte_pktmbuf_free_bulk(m[g], ours);
        finish(w, TX, false);
}

/* ---- scenarios ---- */

static void play(struct twin *w, struct rte_mempool *pool)
{
        for (int i = 0; i < STEPS; i++) {
                post(w);
                offer(w);
                for (unsigned int d = 0; d < DIRECTIONS; d++) {
                        if (twin_random(w, 5))
                                twin_publish(w, d);
                        if (twin_once_in(w, 3))
                                twin_toggle_calls(w, d);
                }
                enqueue(w, pool);
                dequeue(w, pool);
        }
        TWIN_CHECK(w, rte_mempool_in_use_count(pool) == 0, "packet buffers leak");
}

/* The low bits of the number are the features, so that a round has all of them. */
static struct twin_scenario scenario(uint64_t seed, unsigned int number)
{
        static const uint16_t rings[] = { 4, 16, 256, 1024 };
        struct twin_scenario s = {
                .seed = seed,
                .number = number,
                .packed = number & 1,
                .mergeable = number & 2,
                .in_order = number & 4,
                .event_idx = number & 8,
                .ring = rings[number / 3 % RTE_DIM(rings)],
                .start = number % 5 < 2 ? 0 : (uint16_t)(number * 37),
                .plain_rx = number / 16 % 2,
                .wrap_0 = number & 1 && number % 3 == 0,
                .pick = (enum fe_pick)(number / 2 % 3),
        };
        const bool legacy = !s.packed && number % 5 == 3;

        if (s.packed) {
                s.ring = (uint16_t)(s.ring + (number % 7 == 0 ? 3 : 0));
                s.start = (uint16_t)(s.start % s.ring);
        }
        s.features = (legacy ? 0 : FE_BIT(VIRTIO_F_VERSION_1)) |
                     (number % 4 == 3 ? 0 : FE_BIT(VIRTIO_RING_F_INDIRECT_DESC)) |
                     (s.packed ? FE_BIT(VIRTIO_F_RING_PACKED) : 0) |
                     (s.mergeable ? FE_BIT(VIRTIO_NET_F_MRG_RXBUF) : 0) |
                     (s.in_order ? FE_BIT(VIRTIO_F_IN_ORDER) : 0) |
                     (s.event_idx ? FE_BIT(VIRTIO_RING_F_EVENT_IDX) : 0);
        return s;
}

static void test_same(void **state)
{
        struct plan *p = *state;
        unsigned int played = 0;

        for (uint64_t round = 0; round < p->rounds; round++) {
                for (unsigned int i = 0; i < SCENARIOS; i++) {
                        const struct twin_scenario s = scenario(p->seed + round, i);

                        if (p->only >= 0 && p->only != (long)i)
                                continue;
                        twin_init(p->twin, &s);
                        play(p->twin, p->pool);
                        twin_fini(p->twin);
                        played++;
                }
        }
        printf("%u scenarios\n", played);
        assert_true(played > 0);
}

static void usage(const char *name)
{
        fprintf(stderr,
                "usage: %s [--rounds N] [--seed N] [--scenario N]\n"
                "  --rounds    with N seeds, one after the other\n"
                "  --seed      the first seed\n"
                "  --scenario  this one only, as a failure names it\n",
                name);
        exit(2);
}

static void parse(int argc, char **argv, struct plan *p)
{
        static const struct option options[] = {
                { "rounds", required_argument, NULL, 'r' },
                { "seed", required_argument, NULL, 's' },
                { "scenario", required_argument, NULL, 'o' },
                { 0 },
        };
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (c == 'r')
                        p->rounds = strtoull(optarg, NULL, 0);
                else if (c == 's')
                        p->seed = strtoull(optarg, NULL, 0);
                else if (c == 'o')
                        p->only = strtol(optarg, NULL, 0);
                else
                        usage(argv[0]);
        }
        if (optind < argc)
                usage(argv[0]);
}

int main(int argc, char **argv)
{
        struct plan p = { .seed = 1, .rounds = 1, .only = -1 };
        const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(test_same, &p) };
        int failed;

        parse(argc, argv, &p);
        if (test_eal_start() < 0)
                return 1;
        p.pool = test_pool("oracle", 4095, ROOM);
        p.twin = calloc(1, sizeof(*p.twin));
        if (!p.twin)
                return 1;
        if (oracle_listen() < 0) {
                free(p.twin);
                return 1;
        }
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        oracle_unlisten();
        free(p.twin);
        return failed;
}
