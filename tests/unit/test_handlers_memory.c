/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "process.h"
#include "session_peer.h"

/* Memory tables, the dirty log, the in-flight region.  FAULTS B1 to B18, F7. */

enum { PAGE = 4096 };

#define MIB  (UINT64_C(1) << 20)
#define MAPS "vql-unit-session"

static size_t regions(const struct peer *p)
{
        return p->session->mem ? vql_mem_table_count(p->session->mem) : 0;
}

static int add_region(struct peer *p, struct vql_wire_region r)
{
        return peer_mem_slot(p, VQL_REQ_ADD_MEM_REG, r, peer_memfd(r.mmap_offset + r.size));
}

static int remove_region(struct peer *p, struct vql_wire_region r)
{
        return peer_mem_slot(p, VQL_REQ_REM_MEM_REG, r, -1);
}

/* ---- tables ---- */

static void table_of_eight(void **state)
{
        struct peer *p = peer_new_acked();
        struct vql_wire_region r[8];
        size_t fds = process_count_fds();

        (void)state;
        for (uint32_t i = 0; i < 8; i++) {
                r[i] = peer_region((7 - i) * MIB, PAGE * (i + 1));
                r[i].mmap_offset = i * PAGE;
        }
        peer_mem_table(p, r, 8);
        assert_ack(p, true);
        assert_int_equal(p->host.changes, VQL_CHANGE_MEMORY);
        assert_int_equal(regions(p), 8);
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(process_count_maps(MAPS), 8);
        peer_mem_table(p, r, 1);
        assert_ack(p, true);
        assert_int_equal(regions(p), 1);
        assert_int_equal(process_count_maps(MAPS), 1);
        peer_free(p);
        assert_int_equal(process_count_maps(MAPS), 0);
}

/* Refused as a whole: the table in use stays, nothing of the refused one does. */
static void check_bad_table(const struct vql_wire_region *r, uint32_t n, uint64_t file_bytes)
{
        struct peer *p = peer_new_acked();
        struct vql_wire_mem_table body = { .n = n };
        size_t fds = process_count_fds();
        const struct vql_mem_table *before;
        int files[VQL_WIRE_TABLE_REGIONS];

        add_region(p, peer_region(0, PAGE));
        assert_ack(p, true);
        before = p->session->mem;
        for (int round = 0; round < 100; round++) {
                for (uint32_t i = 0; i < n; i++) {
                        body.region[i] = r[i];
                        files[i] = peer_memfd(file_bytes);
                }
                peer_send(p, VQL_REQ_SET_MEM_TABLE, &body, 8 + n * sizeof(r[0]), files, n);
                assert_ack(p, false);
                assert_int_equal(process_count_fds(), fds);
                assert_int_equal(process_count_maps(MAPS), 1);
        }
        assert_ptr_equal(p->session->mem, before);
        assert_int_equal(p->host.applied, 2); /* features and the good region */
        peer_free(p);
}

static void bad_tables(void **state)
{
        const struct vql_wire_region good = peer_region(0, MIB);
        struct vql_wire_region r[2] = { good, peer_region(MIB, MIB) };

        (void)state;
        r[1].size = 0;
        check_bad_table(r, 2, MIB);
        r[1] = peer_region(MIB, MIB);
        r[1].mmap_offset = UINT64_MAX - PAGE + 1;
        check_bad_table(r, 2, MIB);
        r[1] = peer_region(UINT64_MAX - PAGE + 1, 2 * PAGE);
        check_bad_table(r, 2, MIB);
        r[1] = peer_region(MIB, UINT64_C(1) << 62);
        check_bad_table(r, 2, MIB);
        r[1] = peer_region(MIB, MIB + PAGE); /* more than the file holds */
        check_bad_table(r, 2, MIB);
        r[1] = peer_region(MIB - PAGE, MIB); /* guest addresses overlap */
        r[1].uva += MIB;
        check_bad_table(r, 2, MIB);
        r[1] = peer_region(MIB, MIB); /* front-end addresses do */
        r[1].uva -= PAGE;
        check_bad_table(r, 2, MIB);
}

/* While apply() runs, rings may still be in the old memory. */
static uint8_t *old_byte;

static void old_memory_is_mapped(struct fake_host *h)
{
        assert_int_equal(*old_byte, 0x5a);
        h->look_arg = h;
}

static void old_memory_outlives_apply(void **state)
{
        struct vql_wire_region r = peer_region(0, PAGE);
        struct vql_mem_span span;
        struct process_map map;

        (void)state;
        for (int way = 0; way < 3; way++) {
                struct peer *p = peer_new_acked();

                peer_mem_table(p, &r, 1);
                assert_int_equal(vql_mem_find(p->session->mem, 0, &span), 0);
                old_byte = span.va;
                *old_byte = 0x5a;
                p->host.look = old_memory_is_mapped;
                p->host.fails = way == 2 ? EIO : 0; /* whatever it says */
                if (way == 0)
                        remove_region(p, r);
                else
                        peer_mem_table(p, &r, 1);
                assert_ack(p, way != 2);
                assert_non_null(p->host.look_arg);
                if (process_find_map(old_byte, &map))
                        assert_true(way != 0);
                assert_int_equal(process_count_maps(MAPS), way != 0);
                peer_free(p);
        }
}

static void slots_to_the_last_one(void **state)
{
        struct peer *p = peer_new_acked();
        size_t fds = process_count_fds();

        (void)state;
        for (uint64_t i = 0; i < 509; i++) {
                add_region(p, peer_region(i * MIB, PAGE));
                assert_ack(p, true);
        }
        assert_int_equal(regions(p), 509);
        assert_int_equal(process_count_fds(), fds);
        add_region(p, peer_region(600 * MIB, PAGE));
        assert_ack(p, false);
        assert_non_null(strstr(p->last_line, "all 509 memory slots are in use"));
        remove_region(p, peer_region(100 * MIB, PAGE));
        assert_ack(p, true);
        add_region(p, peer_region(600 * MIB, PAGE));
        assert_ack(p, true);
        assert_int_equal(process_count_fds(), fds);
        peer_free(p);
        assert_int_equal(process_count_maps(MAPS), 0);
}

/* By guest address, front-end address and size, and by nothing else. */
static void region_is_removed_by_three_keys(void **state)
{
        struct peer *p = peer_new_acked();
        struct vql_wire_region r = peer_region(MIB, 2 * PAGE), other;

        (void)state;
        r.mmap_offset = 3 * PAGE;
        add_region(p, r);
        add_region(p, peer_region(0, PAGE));
        assert_int_equal(regions(p), 2);
        other = r;
        other.gpa += PAGE;
        remove_region(p, other);
        assert_ack(p, false);
        other = r;
        other.uva += PAGE;
        remove_region(p, other);
        assert_ack(p, false);
        other = r;
        other.size -= PAGE;
        remove_region(p, other);
        assert_ack(p, false);
        assert_int_equal(regions(p), 2);
        other = r;
        other.mmap_offset = 0; /* as QEMU does it */
        remove_region(p, other);
        assert_ack(p, true);
        assert_int_equal(regions(p), 1);
        remove_region(p, r);
        assert_ack(p, false);
        remove_region(p, peer_region(0, PAGE));
        assert_ack(p, true);
        assert_int_equal(regions(p), 0);
        peer_free(p);
}

static void region_added_twice(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        add_region(p, peer_region(0, MIB));
        assert_ack(p, true);
        add_region(p, peer_region(0, MIB));
        assert_ack(p, false);
        add_region(p, peer_region(MIB - PAGE, MIB));
        assert_ack(p, false);
        assert_int_equal(regions(p), 1);
        assert_int_equal(process_count_maps(MAPS), 1);
        peer_free(p);
}

/* The same part of the same file: QEMU up to 7.2 does that for every queue pair. */
static void region_announced_for_every_pair(void **state)
{
        struct peer *p = peer_new_acked();
        struct vql_wire_region r = peer_region(0, MIB), moved = r;
        int fd = peer_memfd(MIB);
        size_t fds = process_count_fds();

        (void)state;
        for (int pair = 0; pair < 4; pair++) {
                peer_mem_slot(p, VQL_REQ_ADD_MEM_REG, r, dup(fd));
                assert_ack(p, true);
                assert_int_equal(regions(p), 1);
                assert_int_equal(process_count_maps(MAPS), 1);
        }
        assert_int_equal(p->host.applied, 2); /* features, and the region once */
        moved.uva += MIB;
        peer_mem_slot(p, VQL_REQ_ADD_MEM_REG, moved, dup(fd));
        assert_ack(p, false);
        for (int pair = 0; pair < 4; pair++) {
                assert_int_equal(regions(p), 1);
                remove_region(p, r);
                assert_ack(p, true);
        }
        assert_int_equal(regions(p), 0);
        remove_region(p, r);
        assert_ack(p, false);
        assert_int_equal(process_count_fds(), fds);
        close(fd);
        peer_free(p);
}

/* ---- dirty log ---- */

/* A log for that many bytes of guest memory. */
static uint64_t log_bytes(uint64_t memory)
{
        return memory / PAGE / 8;
}

static void log_reply_comes_whether_asked_for_or_not(void **state)
{
        struct peer *p = peer_new();

        (void)state;
        peer_negotiate(p, false);
        peer_log_base(p, PAGE, 0, peer_memfd(PAGE));
        assert_reply(p, 0);
        assert_int_equal(p->host.changes, VQL_CHANGE_LOG);
        p->flags |= VQL_WIRE_NEED_REPLY;
        peer_log_base(p, PAGE, 0, peer_memfd(PAGE));
        assert_ack(p, true);
        peer_log_base(p, 0, 0, peer_memfd(PAGE));
        assert_ack(p, false);
        p->flags = VQL_WIRE_VERSION;
        peer_log_base(p, 0, 0, peer_memfd(PAGE));
        assert_ends(p, "SET_LOG_BASE");
        peer_free(p);
}

static void bad_logs(void **state)
{
        struct peer *p = peer_new_acked();
        size_t fds = process_count_fds();
        const struct {
                uint64_t size, offset;
        } bad[] = {
                { 0, 0 },
                { PAGE, UINT64_MAX - PAGE + 1 },
                { UINT64_MAX, 1 },
                { UINT64_MAX - 10, PAGE },
                { 3 * PAGE, 0 },    /* the file has two */
                { 2 * PAGE, PAGE }, /* likewise */
                { log_bytes(256 * MIB) - 1, 0 },
        };

        (void)state;
        add_region(p, peer_region(0, PAGE));
        add_region(p, peer_region(256 * MIB - PAGE, PAGE));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                for (int round = 0; round < 20; round++) {
                        peer_log_base(p, bad[i].size, bad[i].offset, peer_memfd(2 * PAGE));
                        assert_ack(p, false);
                        assert_null(p->session->log);
                        assert_int_equal(process_count_fds(), fds);
                }
        }
        peer_log_base(p, log_bytes(256 * MIB), 0, peer_memfd(2 * PAGE));
        assert_ack(p, true);
        peer_free(p);
}

/* One convention for the offset: bit 0 is in the byte at `offset` of the file. */
static void log_starts_at_its_offset(void **state)
{
        struct peer *p = peer_new_acked();
        int fd = peer_memfd(2 * PAGE), keep = dup(fd);
        uint8_t byte = 0;

        (void)state;
        peer_log_base(p, PAGE, PAGE, fd);
        assert_ack(p, true);
        vql_dirty_log_mark(p->session->log, 3 * PAGE, 1);
        assert_int_equal(pread(keep, &byte, 1, PAGE), 1);
        assert_int_equal(byte, 1 << 3);
        assert_int_equal(pread(keep, &byte, 1, 0), 1);
        assert_int_equal(byte, 0);
        close(keep);
        peer_free(p);
}

static struct vql_dirty_log *old_log;

static void old_log_is_mapped(struct fake_host *h)
{
        vql_dirty_log_mark(old_log, 0, 1);
        h->look_arg = h;
}

static void log_goes_with_log_all_and_outlives_apply(void **state)
{
        struct peer *p = peer_new_acked();
        uint64_t features = p->session->features;

        (void)state;
        peer_log_base(p, PAGE, 0, peer_memfd(PAGE));
        assert_false(vql_session_logging(p->session));
        peer_u64(p, VQL_REQ_SET_FEATURES, features | vql_bit(VQL_F_LOG_ALL));
        assert_ack(p, true);
        assert_true(vql_session_logging(p->session));
        p->host.look = old_log_is_mapped;
        old_log = p->session->log;
        peer_log_base(p, 2 * PAGE, 0, peer_memfd(2 * PAGE)); /* memory grows */
        assert_ack(p, true);
        assert_non_null(p->host.look_arg);
        p->host.look_arg = NULL;
        old_log = p->session->log;
        assert_int_equal(process_count_maps(MAPS), 1);
        peer_u64(p, VQL_REQ_SET_FEATURES, features);
        assert_ack(p, true);
        assert_int_equal(p->host.changes, VQL_CHANGE_FEATURES | VQL_CHANGE_LOG);
        assert_non_null(p->host.look_arg);
        assert_null(p->session->log);
        assert_int_equal(process_count_maps(MAPS), 0);
        peer_free(p);
}

/* In the middle of a migration, memory beyond the log would be lost to it. */
static void memory_stays_within_the_log_in_use(void **state)
{
        struct peer *p = peer_new_acked();
        uint64_t reach = UINT64_C(1) * PAGE * 8 * PAGE;

        (void)state;
        peer_log_base(p, PAGE, 0, peer_memfd(PAGE));
        add_region(p, peer_region(reach, PAGE)); /* no migration yet */
        assert_ack(p, true);
        remove_region(p, peer_region(reach, PAGE));
        peer_u64(p, VQL_REQ_SET_FEATURES, p->session->features | vql_bit(VQL_F_LOG_ALL));
        assert_ack(p, true);
        add_region(p, peer_region(reach - PAGE, PAGE));
        assert_ack(p, true);
        add_region(p, peer_region(reach, PAGE));
        assert_ack(p, false);
        assert_non_null(strstr(p->last_line, "of the dirty log in use"));
        assert_int_equal(regions(p), 1);
        peer_free(p);
}

static void log_fd_is_taken_and_closed(void **state)
{
        struct peer *p = peer_new_acked();
        int fd = peer_eventfd();

        (void)state;
        peer_send(p, VQL_REQ_SET_LOG_FD, NULL, 0, &fd, 1);
        assert_ack(p, true);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        peer_free(p);
}

/* ---- in-flight region ---- */

static int get_inflight(struct peer *p, uint16_t queues, uint16_t size, size_t bytes)
{
        const struct vql_wire_inflight w = { .num_queues = queues, .queue_size = size };

        peer_send(p, VQL_REQ_GET_INFLIGHT_FD, &w, bytes, NULL, 0);
        assert_reply(p, bytes); /* as many as came: some count 20, some 24 */
        return p->out.fd;
}

static struct vql_wire_inflight reply_inflight(const struct peer *p)
{
        struct vql_wire_inflight w = { 0 };

        memcpy(&w, p->out.body, p->out.size);
        return w;
}

static void inflight_region_there_and_back(void **state)
{
        (void)state;
        for (size_t bytes = 20; bytes <= 24; bytes += 4) {
                struct peer *p = peer_new_acked();
                struct vql_wire_inflight w;
                size_t fds = process_count_fds();
                int fd = get_inflight(p, 8, 256, bytes);

                assert_true(fd >= 0);
                w = reply_inflight(p);
                assert_int_equal(w.mmap_size, vql_inflight_bytes(8, 256, false));
                assert_int_equal(w.mmap_offset, 0);
                assert_int_equal(w.num_queues, 8);
                assert_int_equal(w.queue_size, 256);
                assert_null(p->session->inflight);
                for (int i = 0; i < 100; i++) { /* handed back again and again */
                        int copy = dup(fd);

                        peer_send(p, VQL_REQ_SET_INFLIGHT_FD, &w, bytes, &copy, 1);
                        assert_ack(p, true);
                        assert_int_equal(p->host.changes, VQL_CHANGE_INFLIGHT);
                }
                assert_non_null(p->session->inflight);
                assert_int_equal(p->session->inflight_queues, 8);
                close(fd);
                assert_int_equal(process_count_fds(), fds);
                peer_free(p);
        }
}

static void inflight_region_follows_the_ring_format(void **state)
{
        struct peer *p = peer_new_acked();
        int fd;

        (void)state;
        peer_u64(p, VQL_REQ_SET_FEATURES, p->session->features | vql_bit(VIRTIO_F_RING_PACKED));
        fd = get_inflight(p, 2, 100, 24);
        assert_int_equal(reply_inflight(p).mmap_size, vql_inflight_bytes(2, 100, true));
        close(fd);
        peer_free(p);
}

/* 65535 queues of 65535 would be 68 GB. */
static void inflight_bounds(void **state)
{
        static const struct {
                uint16_t queues, size;
        } bad[] = {
                { 0, 256 }, { 9, 256 }, { 65535, 65535 }, { 2, 0 }, { 2, 32769 }, { 1, 65535 }
        };
        struct peer *p = peer_new_acked();
        size_t fds = process_count_fds();

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct vql_wire_inflight w = { 1 << 20, 0, bad[i].queues, bad[i].size, 0 };
                int fd = peer_memfd(1 << 20);

                assert_int_equal(get_inflight(p, bad[i].queues, bad[i].size, 24), -1);
                assert_int_equal(reply_inflight(p).mmap_size, 0);
                peer_send(p, VQL_REQ_SET_INFLIGHT_FD, &w, sizeof(w), &fd, 1);
                assert_ack(p, false);
                assert_int_equal(process_count_fds(), fds);
        }
        peer_free(p);
}

static void inflight_sizes_must_fit_the_file_and_each_other(void **state)
{
        const uint64_t need = vql_inflight_bytes(8, 256, false);
        const struct vql_wire_inflight bad[] = {
                { need - 64, 0, 8, 256, 0 },
                { 0, 0, 8, 256, 0 },
                { need, UINT64_MAX - 63, 8, 256, 0 },
                { UINT64_MAX, 0, 8, 256, 0 },
                { need, 1 << 20, 8, 256, 0 }, /* beyond the file's end */
                { need, 0, 8, 512, 0 },
        };
        struct peer *p = peer_new_acked();
        size_t fds = process_count_fds();

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                int fd = peer_memfd(need);

                peer_send(p, VQL_REQ_SET_INFLIGHT_FD, &bad[i], sizeof(bad[i]), &fd, 1);
                assert_ack(p, false);
                assert_null(p->session->inflight);
                assert_int_equal(process_count_fds(), fds);
                assert_int_equal(process_count_maps(MAPS), 0);
        }
        peer_free(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(table_of_eight),
                cmocka_unit_test(bad_tables),
                cmocka_unit_test(old_memory_outlives_apply),
                cmocka_unit_test(slots_to_the_last_one),
                cmocka_unit_test(region_is_removed_by_three_keys),
                cmocka_unit_test(region_added_twice),
                cmocka_unit_test(region_announced_for_every_pair),
                cmocka_unit_test(log_reply_comes_whether_asked_for_or_not),
                cmocka_unit_test(bad_logs),
                cmocka_unit_test(log_starts_at_its_offset),
                cmocka_unit_test(log_goes_with_log_all_and_outlives_apply),
                cmocka_unit_test(memory_stays_within_the_log_in_use),
                cmocka_unit_test(log_fd_is_taken_and_closed),
                cmocka_unit_test(inflight_region_there_and_back),
                cmocka_unit_test(inflight_region_follows_the_ring_format),
                cmocka_unit_test(inflight_bounds),
                cmocka_unit_test(inflight_sizes_must_fit_the_file_and_each_other),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
