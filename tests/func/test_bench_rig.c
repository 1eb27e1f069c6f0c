/* SPDX-License-Identifier: BSD-3-Clause */
/* The bench's rig: both back-ends move what they are given, and one that does not is found out. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/eal.h"
#include "vqlift-bench/content.h"
#include "vqlift-bench/guest.h"
#include "vqlift-bench/limit.h"
#include "vqlift-bench/measure.h"
#include "vqlift-bench/rig.h"
#include "vqlift-bench/rte.h"

static struct machine machine;

/* ---- a back-end that does wrong ---- */

enum wrong {
        RIGHT,
        FLIP,  /* a bit of a packet's last byte */
        STAMP, /* the packets' order */
        LOSE,  /* the last packet of a burst, and say so */
        CLAIM, /* to have moved packets that nobody moved */
        WRONGS,
};

static struct {
        struct backend real;
        enum wrong wrong;
        unsigned int after; /* bursts that are moved well before that */
} spoiler;

static void flip(struct rte_mbuf *m)
{
        *rte_pktmbuf_mtod_offset(rte_pktmbuf_lastseg(m), uint8_t *,
                                 rte_pktmbuf_lastseg(m)->data_len - 1) ^= 0x10;
}

static void swap(struct rte_mbuf **pkts)
{
        struct rte_mbuf *first = pkts[0];

        pkts[0] = pkts[1];
        pkts[1] = first;
}

static void spoil(struct rte_mbuf **pkts)
{
        if (spoiler.wrong == FLIP)
                flip(pkts[1]);
        else if (spoiler.wrong == STAMP)
                swap(pkts);
}

static uint16_t spoiled_move(void *arg, struct rte_mbuf **pkts, uint16_t n, bool before)
{
        uint16_t moved;

        if (spoiler.after > 0) {
                spoiler.after--;
                return spoiler.real.move(arg, pkts, n);
        }
        if (spoiler.wrong == CLAIM)
                return n;
        if (spoiler.wrong == LOSE)
                n--;
        if (before)
                spoil(pkts);
        moved = spoiler.real.move(arg, pkts, n);
        if (!before)
                spoil(pkts);
        return moved;
}

/* To the guest the packets are spoiled before they are moved, from it afterwards. */
static uint16_t spoiled_enqueue(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
        return spoiled_move(arg, pkts, n, true);
}

static uint16_t spoiled_dequeue(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
        return spoiled_move(arg, pkts, n, false);
}

static struct backend wrap_enqueue(const struct backend *real)
{
        struct backend b = *real;

        spoiler.real = *real;
        b.move = spoiled_enqueue;
        return b;
}

static struct backend wrap_dequeue(const struct backend *real)
{
        struct backend b = wrap_enqueue(real);

        b.move = spoiled_dequeue;
        return b;
}

/* ---- tests ---- */

static struct rig_params params(size_t number)
{
        const struct cell_choice choice = {
                .wanted = { [KEY_MODE] = "alternate", [KEY_BURST] = "4", [KEY_RING_SIZE] = "256" },
        };
        struct rig_params p = { .machine = &machine };

        if (!cell_get(&choice, number, &p.cell))
                p.cell.size = 0;
        return p;
}

/* Every byte of a ring full of packets, by each back-end in turn, and what is measured too. */
static void test_all_cells_move(void **state)
{
        (void)state;
        for (size_t i = 0; params(i).cell.size; i++) {
                const struct rig_params p = params(i);
                struct measurement m;
                int rc = measure_cell(&p, 2, &m);

                if (rc < 0)
                        fail_msg("%s %s %s %s, %u bytes: %s", cell_value(&p.cell, KEY_DIRECTION).s,
                                 cell_value(&p.cell, KEY_RING).s,
                                 cell_value(&p.cell, KEY_MERGEABLE).s,
                                 cell_value(&p.cell, KEY_LAYOUT).s, p.cell.size, measure_error(rc));
                assert_true(m.of[CONTENDER_VQLIFT].median > 0);
                assert_true(m.of[CONTENDER_OTHER].median > 0);
        }
}

static int check_spoiled(const struct cell *cell, enum wrong wrong, unsigned int after)
{
        const struct rig_params p = {
                .cell = *cell,
                .machine = &machine,
                .wrap = cell->to_guest ? wrap_enqueue : wrap_dequeue,
        };
        struct rig *r;
        int rc;

        spoiler.wrong = wrong;
        spoiler.after = after;
        assert_int_equal(rig_new(&p, &r), 0);
        /* The spoiler knows the back-end that was wrapped last. */
        rc = rig_check(r, CONTENDER_OTHER);
        rig_free(r);
        return rc;
}

static void test_wrong_is_found(void **state)
{
        static const int error[WRONGS] = { 0, -EBADMSG, -EBADMSG, -EIO, -EIO };

        (void)state;
        for (int i = 0; i < 16; i++) {
                const struct cell cell = {
                        .to_guest = i & 1,
                        .packed = i & 2,
                        .mergeable = true,
                        .size = i & 4 ? 9000 : 64,
                        .layout = i & 8 && !(i & 1) ? LAYOUT_CHAIN : LAYOUT_ONE,
                        .burst = 4,
                        .ring = 256,
                };

                for (int wrong = RIGHT; wrong < WRONGS; wrong++) {
                        /* Claimed packets from the guest are none at all: there is no mbuf. */
                        if (wrong == CLAIM && !cell.to_guest)
                                continue;
                        for (unsigned int after = 0; after < 3; after += 2)
                                assert_int_equal(check_spoiled(&cell, (enum wrong)wrong, after),
                                                 error[wrong]);
                }
        }
}

/* What is measured is looked at, too: a stamp a packet. */
static void test_wrong_while_measured(void **state)
{
        const struct rig_params p = {
                .cell = { .mergeable = true, .size = 64, .burst = 4, .ring = 256 },
                .machine = &machine,
                .wrap = wrap_dequeue,
        };
        struct rig *r;
        uint64_t tsc;

        (void)state;
        assert_int_equal(rig_new(&p, &r), 0);
        spoiler.wrong = STAMP;
        spoiler.after = 3;
        assert_int_equal(rig_use(r, CONTENDER_OTHER), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(rig_burst(r, &tsc), 0);
        assert_int_equal(rig_burst(r, &tsc), -EBADMSG);
        rig_free(r);
}

/* ---- the bare copy ---- */

enum { COPIED = 3 };

static struct rte_mbuf *new_packet(uint32_t size)
{
        struct rte_mbuf *head = NULL;
        uint32_t done = 0;

        while (done < size) {
                const uint16_t n = (uint16_t)RTE_MIN(size - done, 2048u);
                struct rte_mbuf *m = rte_pktmbuf_alloc(machine.pool);

                assert_non_null(m);
                assert_non_null(rte_pktmbuf_append(m, n));
                if (!head)
                        head = m;
                else
                        assert_int_equal(rte_pktmbuf_chain(head, m), 0);
                done += n;
        }
        return head;
}

/* The bytes of a packet that begins in this buffer of the guest. */
static bool guest_has(const struct guest *g, uint64_t buffer, uint32_t serial)
{
        uint32_t at = 0;

        for (uint32_t skip = 0; at < g->cell.size; buffer++, skip = GUEST_HEADER) {
                const uint32_t room = g->segs[0][0].len - GUEST_HEADER + skip;
                const uint32_t n = RTE_MIN(room, g->cell.size - at);

                if (!content_matches(g->payload[buffer % g->buffers] - skip, at, n, serial))
                        return false;
                at += n;
        }
        return true;
}

static void copy_bare(struct guest *g, struct limit *l)
{
        const unsigned int each = guest_buffers_of_packet(&g->cell);
        /* Round the end of the ring. */
        const uint64_t first = 4ull * g->buffers - each;
        struct rte_mbuf *pkts[COPIED];

        for (uint32_t i = 0; i < COPIED; i++) {
                pkts[i] = new_packet(g->cell.size);
                if (g->cell.to_guest)
                        content_write_mbuf(pkts[i], i, true);
                else
                        content_write(g->payload[(first + i) % g->buffers], 0, g->cell.size, i);
        }
        limit_prepare(l, first, pkts, COPIED);
        limit_run(l);
        for (uint32_t i = 0; i < COPIED; i++) {
                if (g->cell.to_guest)
                        assert_true(guest_has(g, first + (uint64_t)i * each, i));
                else
                        assert_true(content_matches_mbuf(pkts[i], g->cell.size, i, true));
                rte_pktmbuf_free(pkts[i]);
        }
}

/* It would not be the limit if it left bytes out. */
static void test_limit_copies_all(void **state)
{
        (void)state;
        for (int i = 0; i < 8; i++) {
                const struct cell cell = {
                        .to_guest = i & 1,
                        .packed = i & 2,
                        .mergeable = true,
                        .size = i & 4 ? 9000 : 64,
                        .burst = 4,
                        .ring = 256,
                };
                struct rte_peer *peer;
                struct fe_frontend *fe;
                struct guest *g;
                struct limit *l;

                assert_int_equal(rte_peer_new(&peer, &fe), 0);
                assert_int_equal(guest_new(&cell, fe, &g), 0);
                assert_int_equal(rte_peer_wait(peer), 0);
                assert_int_equal(limit_new(g, &l), 0);
                copy_bare(g, l);
                limit_free(l);
                fe_frontend_free(fe);
                rte_peer_free(peer);
                guest_free(g);
        }
}

static int start(void **state)
{
        (void)state;
        if (test_eal_start() < 0 || rte_peer_listen() < 0)
                return -1;
        machine.pool = test_pool("bench", 4095, RTE_MBUF_DEFAULT_DATAROOM);
        machine.guest_cpu = -1;
        return 0;
}

static int stop(void **state)
{
        (void)state;
        rte_peer_unlisten();
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_cells_move),
                cmocka_unit_test(test_wrong_is_found),
                cmocka_unit_test(test_wrong_while_measured),
                cmocka_unit_test(test_limit_copies_all),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
