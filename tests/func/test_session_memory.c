/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Guest memory and rings in it, over a real socket to a real port: tables of every shape, changed
 * while packets run, and everything that a table, a log or a ring address must not be.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

enum { SLOTS = 509, CHANGES = 100 };

#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)

static const struct fe_setup modern = { .features = FE_FEATURES_MODERN };

static void start_flow(struct guest *g, struct fe_flow_thread **ret_thread)
{
        assert_int_equal(fe_flow_start(&g->flow, ret_thread), 0);
        assert_true(flow_moves(&g->flow, 100));
}

static void stop_flow(struct guest *g, struct fe_flow_thread *thread)
{
        /* It goes on after the last change, too. */
        bool moves = flow_moves(&g->flow, 100);

        if (fe_flow_stop(thread) < 0)
                fail_msg("%s", g->flow.error.s);
        assert_true(moves);
        assert_int_equal(g->flow.lost, 0);
}

/* ---- shapes ---- */

static void try_layout(struct host *h, const struct fe_region_spec *specs, unsigned int n,
                       const struct fe_setup *setup)
{
        struct fe_setup s = *setup;
        struct fe_memory *m;
        struct guest g;
        int err = fe_memory_new(specs, n, &m);

        /* Huge pages are not to be had everywhere. */
        if (err == -ENOMEM)
                return;
        assert_int_equal(err, 0);
        s.mem = m;
        s.guard = true;
        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        guest_traffic(&g, 500);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        fe_memory_free(m);
        host_del(h, "p");
}

static void test_layouts(void **state)
{
        static const struct fe_region_spec kinds[] = {
                { .gpa = 0, .size = MIB(16), .backing = FE_SHM },
                { .gpa = 0, .size = MIB(16), .backing = FE_FILE, .offset = FE_PAGE },
                { .gpa = 0, .size = MIB(16), .backing = FE_HUGETLB },
                { .gpa = MIB(64), .size = MIB(16), .backing = FE_HUGETLB, .offset = MIB(4) },
        };
        /* Rings and buffers behind 4 GiB of one region, and at the far end of guest space. */
        static const struct fe_region_spec large[] = {
                { .gpa = 0, .size = GIB(10), .border = GIB(5) - MIB(2) },
        };
        static const struct fe_region_spec far[] = {
                { .gpa = UINT64_C(1) << 51, .size = MIB(16), .uva = UINT64_C(1) << 62 },
        };
        /* The region that holds everything shares its file with another, at another offset. */
        static const struct fe_region_spec shared[] = {
                { .gpa = 0, .size = MIB(2), .border = MIB(1) },
                { .gpa = GIB(8), .size = MIB(16), .offset = MIB(1), .same_file = 1 },
        };

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                try_layout(*state, &kinds[i], 1, &modern);
        try_layout(*state, large, 1, &modern);
        try_layout(*state, far, 1, &modern);
        try_layout(*state, shared, 2, &modern);
}

/* As many slots as QEMU uses at most, each a page with a buffer in it, and not one more. */
static void test_all_slots(void **state)
{
        struct host *h = *state;
        struct fe_region_spec *specs = calloc(SLOTS + 1, sizeof(*specs));
        struct fe_setup s = modern;
        struct fe_memory *m;
        unsigned int extra;
        struct guest g;

        assert_non_null(specs);
        for (unsigned int i = 0; i < SLOTS; i++)
                specs[i] = (struct fe_region_spec){
                        .gpa = (uint64_t)i * 2 * FE_PAGE,
                        .size = i + 1 < SLOTS ? FE_PAGE : MIB(4),
                };
        specs[SLOTS] = (struct fe_region_spec){ .gpa = GIB(1), .size = FE_PAGE };
        assert_int_equal(fe_memory_new(specs, SLOTS, &m), 0);
        s.mem = m;
        s.guard = true;
        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        assert_int_equal(g.fe->slots_offered, SLOTS);
        guest_traffic(&g, 500);
        assert_int_equal(host_info(h, "p").mem_regions, SLOTS);
        assert_int_equal(fe_memory_add(m, &specs[SLOTS], &extra), 0);
        expect_fe(g.fe, fe_frontend_add_region(g.fe, extra), -EREMOTEIO);
        expect_fe(g.fe, fe_frontend_remove_region(g.fe, 7), 0);
        expect_fe(g.fe, fe_frontend_add_region(g.fe, extra), 0);
        expect_fe(g.fe, fe_frontend_remove_region(g.fe, extra), 0);
        expect_fe(g.fe, fe_frontend_add_region(g.fe, 7), 0);
        guest_traffic(&g, 500);
        guest_end(&g);
        fe_memory_free(m);
        free(specs);
        host_del(h, "p");
}

/* ---- what is refused ---- */

/* A region that would overlap another in guest or in front-end space, or double it. */
static void test_overlaps(void **state)
{
        struct host *h = *state;
        struct fe_mem_region base, r;
        struct guest g;
        int fd;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &modern);
        base = fe_frontend_region(g.fe, 0);
        fd = g.mem->region[0].fd;
        /* QEMU announces the same region for each queue pair, and takes it back as often. */
        r = base;
        expect_fe(g.fe, fe_add_mem_reg(&g.fe->link, &r, fd), 0);
        expect_fe(g.fe, fe_rem_mem_reg(&g.fe->link, &r), 0);
        r = (struct fe_mem_region){ base.gpa + base.size - FE_PAGE, FE_PAGE, GIB(1), 0 };
        expect_fe(g.fe, fe_add_mem_reg(&g.fe->link, &r, fd), -EREMOTEIO);
        r = (struct fe_mem_region){ GIB(100), 2 * FE_PAGE, base.uva - FE_PAGE, 0 };
        expect_fe(g.fe, fe_add_mem_reg(&g.fe->link, &r, fd), -EREMOTEIO);
        r = (struct fe_mem_region){ GIB(100), FE_PAGE, base.uva - FE_PAGE, 0 };
        expect_fe(g.fe, fe_add_mem_reg(&g.fe->link, &r, fd), 0);
        expect_fe(g.fe, fe_rem_mem_reg(&g.fe->link, &r), 0);
        /* Removal must match in all of address, size and front-end address. */
        r = base;
        r.size -= FE_PAGE;
        expect_fe(g.fe, fe_rem_mem_reg(&g.fe->link, &r), -EREMOTEIO);
        r = base;
        r.uva += FE_PAGE;
        expect_fe(g.fe, fe_rem_mem_reg(&g.fe->link, &r), -EREMOTEIO);
        guest_traffic(&g, 200);
        guest_end(&g);
        host_del(h, "p");
}

static void test_overlapping_table(void **state)
{
        const struct fe_mem_region r[2] = { { 0, MIB(1), GIB(1), 0 },
                                            { MIB(1) - FE_PAGE, MIB(1), GIB(2), 0 } };
        const struct fe_mem_region s[2] = { { 0, MIB(1), GIB(1), 0 },
                                            { MIB(1), MIB(1), GIB(1) + MIB(1) - FE_PAGE, 0 } };
        struct host *h = *state;
        struct guest g;
        int fds[2];

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &modern);
        fds[0] = fds[1] = g.mem->region[0].fd;
        expect_fe(g.fe, fe_set_mem_table(&g.fe->link, r, fds, 2), -EREMOTEIO);
        expect_fe(g.fe, fe_set_mem_table(&g.fe->link, s, fds, 2), -EREMOTEIO);
        /* The table that was there still is. */
        guest_traffic(&g, 200);
        guest_end(&g);
        host_del(h, "p");
}

/* What a ring's three areas must not be.  Told when it is known: at the latest when it starts. */
static const struct {
        const char *name;
        bool packed;
        int64_t desc, avail, used; /* moved by, from where they are right */
} misplaced[] = {
        { "desc misaligned", false, 8, 0, 0 },
        { "avail misaligned", false, 0, 1, 0 },
        { "used misaligned", false, 0, 0, 2 },
        { "packed ring misaligned", true, 8, 0, 0 },
        { "driver event misaligned", true, 0, 2, 0 },
        { "device event misaligned", true, 0, 0, 2 },
        { "desc outside", false, INT64_C(1) << 50, 0, 0 },
        { "avail outside", false, 0, INT64_C(1) << 50, 0 },
        { "used outside", false, 0, 0, INT64_C(1) << 50 },
        { "packed ring outside", true, INT64_C(1) << 50, 0, 0 },
        { "device event outside", true, 0, 0, INT64_C(1) << 50 },
};

static int send_ring(struct fe_frontend *fe, unsigned int i, const struct fe_vring_addr *a)
{
        int err = fe_set_state(&fe->link, FE_SET_VRING_NUM, i, 256);

        if (err == 0)
                err = fe_set_vring_addr(&fe->link, a);
        if (err == 0)
                err = fe_set_vring_fd(&fe->link, FE_SET_VRING_KICK, i, fe->ring[i].kick_fd);
        return err < 0 ? err : fe_frontend_enable_ring(fe, i, true);
}

static void expect_not_running(struct host *h, unsigned int ring)
{
        struct vql_ring_info info;

        assert_int_equal(vql_port_get_ring(h->vql, "p", ring, &info), 0);
        assert_string_not_equal(info.state, "running");
}

static struct fe_vring_addr right_addr(const struct guest *g, unsigned int i)
{
        struct fe_areas a = fe_driver_areas(g->fe->ring[i].driver);

        return (struct fe_vring_addr){
                .index = i,
                .desc = fe_memory_uva(g->fe->setup.mem, a.desc, 1),
                .avail = fe_memory_uva(g->fe->setup.mem, a.driver, 1),
                .used = fe_memory_uva(g->fe->setup.mem, a.device, 1),
        };
}

/* Refused, the ring stands still, and the same ring rightly placed runs on the same connection. */
static void expect_misplaced(struct host *h, struct guest *g, const struct fe_vring_addr *a,
                             const char *name)
{
        uint32_t num;

        expect_fe(g->fe, fe_get_vring_base(&g->fe->link, a->index, &num), 0);
        if (send_ring(g->fe, a->index, a) != -EREMOTEIO)
                fail_msg("%s: not refused: %s", name, fe_frontend_error(g->fe));
        expect_not_running(h, a->index);
        expect_fe(g->fe, fe_get_vring_base(&g->fe->link, a->index, &num), 0);
        expect_fe(g->fe, fe_frontend_start_ring(g->fe, a->index), 0);
        expect_fe(g->fe, fe_frontend_enable_ring(g->fe, a->index, true), 0);
        guest_traffic(g, 100);
}

static void test_misplaced_rings(void **state)
{
        struct host *h = *state;

        for (size_t i = 0; i < sizeof(misplaced) / sizeof(misplaced[0]); i++) {
                const struct fe_setup s = {
                        .features = misplaced[i].packed ? FE_FEATURES_PACKED : FE_FEATURES_MODERN,
                };
                struct fe_vring_addr a;
                struct guest g;

                host_add(h, "p", 1);
                guest_start(&g, h, "p", &s);
                a = right_addr(&g, 1);
                a.desc += (uint64_t)misplaced[i].desc;
                a.avail += (uint64_t)misplaced[i].avail;
                a.used += (uint64_t)misplaced[i].used;
                expect_misplaced(h, &g, &a, misplaced[i].name);
                guest_end(&g);
                host_del(h, "p");
        }
}

/* Areas whose last byte, with the event field, lies behind the region or in the next one. */
static void test_rings_over_the_edge(void **state)
{
        struct host *h = *state;
        struct fe_mem_region r;
        struct fe_vring_addr a;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &modern);
        r = fe_frontend_region(g.fe, 0);
        a = right_addr(&g, 1);
        a.desc = r.uva + r.size - 256 * 16 + 16;
        expect_misplaced(h, &g, &a, "descriptor table over the edge");
        a = right_addr(&g, 1);
        a.avail = r.uva + r.size - (4 + 256 * 2);
        expect_misplaced(h, &g, &a, "used_event over the edge");
        a = right_addr(&g, 1);
        a.used = r.uva + r.size - (4 + 256 * 8);
        expect_misplaced(h, &g, &a, "avail_event over the edge");
        a = right_addr(&g, 1);
        a.used = UINT64_MAX - 3;
        expect_misplaced(h, &g, &a, "used ring wraps");
        guest_end(&g);
        host_del(h, "p");
}

/* Positions of a packed ring that are not in the ring. */
static void test_packed_base(void **state)
{
        static const uint32_t bases[] = { 0x80008100, 0x81008000, 0xffffffff, 0x7fff7fff,
                                          0x00008100 };
        const struct fe_setup s = { .features = FE_FEATURES_PACKED };
        struct host *h = *state;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
                uint32_t num;
                int err;

                expect_fe(g.fe, fe_get_vring_base(&g.fe->link, 1, &num), 0);
                err = fe_set_state(&g.fe->link, FE_SET_VRING_BASE, 1, bases[i]);
                if (err == 0)
                        err = fe_set_vring_fd(&g.fe->link, FE_SET_VRING_KICK, 1,
                                              g.fe->ring[1].kick_fd);
                if (err != -EREMOTEIO)
                        fail_msg("base 0x%x: %d", bases[i], err);
                expect_not_running(h, 1);
                expect_fe(g.fe, fe_get_vring_base(&g.fe->link, 1, &num), 0);
                expect_fe(g.fe, fe_frontend_start_ring(g.fe, 1), 0);
                guest_traffic(&g, 100);
        }
        guest_end(&g);
        host_del(h, "p");
}

/* ---- changes under traffic ---- */

static void change_table(struct guest *g, unsigned int extra)
{
        const struct fe_mem_region bad = { 0, FE_PAGE, GIB(1), 0 };

        expect_fe(g->fe, fe_frontend_send_mem_table(g->fe), 0);
        expect_fe(g->fe, fe_frontend_remove_region(g->fe, extra), 0);
        expect_fe(g->fe, fe_add_mem_reg(&g->fe->link, &bad, g->mem->region[0].fd), -EREMOTEIO);
        expect_fe(g->fe, fe_frontend_add_region(g->fe, extra), 0);
}

static void table_under_traffic(struct host *h, uint64_t features, bool by_interrupt)
{
        const struct fe_region_spec spec = { .gpa = GIB(16), .size = MIB(1) };
        const struct fe_setup s = { .features = features, .guard = true };
        struct fe_flow_thread *thread;
        unsigned int extra;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        assert_int_equal(fe_memory_add(g.mem, &spec, &extra), 0);
        expect_fe(g.fe, fe_frontend_add_region(g.fe, extra), 0);
        g.flow.by_interrupt = by_interrupt;
        start_flow(&g, &thread);
        for (unsigned int i = 0; i < CHANGES; i++)
                change_table(&g, extra);
        stop_flow(&g, thread);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        host_del(h, "p");
}

static void test_table_under_traffic(void **state)
{
        table_under_traffic(*state, FE_FEATURES_MODERN, false);
        table_under_traffic(*state, FE_FEATURES_MODERN, true);
        table_under_traffic(*state, FE_FEATURES_PACKED, false);
        table_under_traffic(*state, FE_FEATURES_PACKED, true);
}

/* The rings' region goes away under them and comes back: they stop, and start again when told. */
static void test_table_without_rings(void **state)
{
        struct host *h = *state;
        struct fe_mem_region r;
        struct guest g;
        int err;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &modern);
        guest_traffic(&g, 100);
        r = fe_frontend_region(g.fe, 3);
        err = fe_set_mem_table(&g.fe->link, &r, &g.mem->region[3].fd, 1);
        assert_true(err == 0 || err == -EREMOTEIO);
        expect_not_running(h, 0);
        expect_not_running(h, 1);
        expect_fe(g.fe, fe_frontend_send_mem_table(g.fe), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_revive_ring(g.fe, i), 0);
        fe_net_reset(g.net);
        guest_traffic(&g, 100);
        guest_end(&g);
        host_del(h, "p");
}

/* The same guest memory at other front-end addresses: rings are found by their new ones. */
static void test_table_moves(void **state)
{
        struct host *h = *state;
        struct guest g;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &modern);
        guest_traffic(&g, 100);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_stop_ring(g.fe, i), 0);
        for (unsigned int i = 0; i < g.mem->n; i++)
                g.mem->region[i].spec.uva += GIB(1000);
        expect_fe(g.fe, fe_frontend_send_mem_table(g.fe), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_start_ring(g.fe, i), 0);
        guest_traffic(&g, 100);
        guest_end(&g);
        host_del(h, "p");
}

/* ---- the dirty log ---- */

static const struct {
        const char *name;
        uint64_t size, offset;
} bad_logs[] = {
        { "size 0", 0, 0 },
        { "shorter than memory", FE_PAGE, 0 },
        { "wraps", MIB(4), UINT64_MAX - FE_PAGE + 1 },
        { "longer than its file", GIB(1), 0 },
        { "offset behind its file", MIB(1), GIB(1) },
};

/* SET_LOG_BASE is always answered, and the answer has no room for "no": a log that cannot be is
 * told by the end of the connection. */
static void test_bad_logs(void **state)
{
        struct host *h = *state;
        int fd = memfd_create("log", MFD_CLOEXEC);

        assert_int_equal(ftruncate(fd, MIB(4)), 0);
        host_add(h, "p", 1);
        for (size_t i = 0; i < sizeof(bad_logs) / sizeof(bad_logs[0]); i++) {
                struct guest g;
                uint64_t ignored;
                int err;

                guest_start(&g, h, "p", &modern);
                err = fe_set_log_base(&g.fe->link, bad_logs[i].size, bad_logs[i].offset, fd);
                if (err == 0)
                        err = fe_get_u64(&g.fe->link, FE_GET_FEATURES, &ignored);
                if (err == 0)
                        fail_msg("log that is %s: accepted", bad_logs[i].name);
                assert_int_not_equal(err, -ETIMEDOUT);
                guest_end(&g);
        }
        close(fd);
        host_del(h, "p");
}

static uint64_t count_bits(const uint8_t *p, size_t n)
{
        uint64_t bits = 0;

        for (size_t i = 0; i < n; i++)
                bits += (uint64_t)__builtin_popcount(p[i]);
        return bits;
}

static bool logged(const uint8_t *bits, uint64_t gpa)
{
        return bits[gpa / FE_PAGE / 8] >> (gpa / FE_PAGE % 8) & 1;
}

/* With the log one page into its file: what was written is marked, what lies before it untouched.
 */
static void one_log(struct host *h, uint64_t features)
{
        const struct fe_setup s = { .features = features };
        int fd = memfd_create("log", MFD_CLOEXEC);
        struct fe_areas rx, tx;
        uint64_t bytes;
        struct guest g;
        uint8_t *map;

        host_add(h, "p", 1);
        guest_start(&g, h, "p", &s);
        bytes = (fe_memory_end(g.mem) / FE_PAGE + 7) / 8;
        bytes = (bytes + FE_PAGE - 1) / FE_PAGE * FE_PAGE;
        assert_int_equal(ftruncate(fd, (off_t)bytes + 2 * FE_PAGE), 0);
        map = mmap(NULL, bytes + 2 * FE_PAGE, PROT_READ, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(map, MAP_FAILED);
        guest_traffic(&g, 100);
        expect_fe(g.fe, fe_set_log_base(&g.fe->link, bytes, FE_PAGE, fd), 0);
        assert_int_equal(count_bits(map, bytes + 2 * FE_PAGE), 0);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g.fe, fe_frontend_send_addr(g.fe, i, true), 0);
        expect_fe(g.fe,
                  fe_set_u64(&g.fe->link, FE_SET_FEATURES, g.fe->features | FE_BIT(FE_F_LOG_ALL)),
                  0);
        guest_traffic(&g, 300);
        rx = fe_driver_areas(g.fe->ring[0].driver);
        tx = fe_driver_areas(g.fe->ring[1].driver);
        assert_true(logged(map + FE_PAGE,
                           features & FE_BIT(VIRTIO_F_RING_PACKED) ? rx.desc : rx.device));
        assert_true(logged(map + FE_PAGE,
                           features & FE_BIT(VIRTIO_F_RING_PACKED) ? tx.desc : tx.device));
        /* 128 receive buffers of 2048 bytes lie one behind the other: at least 64 pages. */
        assert_true(count_bits(map + FE_PAGE, bytes) >= 64);
        assert_int_equal(count_bits(map, FE_PAGE), 0);
        assert_int_equal(count_bits(map + FE_PAGE + bytes, FE_PAGE), 0);
        expect_fe(g.fe, fe_frontend_stop(g.fe), 0);
        guest_end(&g);
        munmap(map, bytes + 2 * FE_PAGE);
        close(fd);
        host_del(h, "p");
}

static void test_log(void **state)
{
        one_log(*state, FE_FEATURES_MODERN);
        one_log(*state, FE_FEATURES_PACKED);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_layouts),
                host_test(test_all_slots),
                host_test(test_overlaps),
                host_test(test_overlapping_table),
                host_test(test_misplaced_rings),
                host_test(test_rings_over_the_edge),
                host_test(test_packed_base),
                host_test(test_table_under_traffic),
                host_test(test_table_without_rings),
                host_test(test_table_moves),
                host_test(test_bad_logs),
                host_test(test_log),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
