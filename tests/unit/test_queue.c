/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/bits.h"
#include "virtqueue/features.h"
#include "virtqueue/queue.h"

static struct vql_queue_params params(uint64_t features)
{
        static _Alignas(16) uint8_t desc[64], driver[64], device[64];

        return (struct vql_queue_params){
                .area = { desc, driver, device },
                .desc_gpa = 0x1000,
                .device_gpa = 0x3000,
                .mem = (const struct vql_mem_table *)(const void *)desc, /* never looked into */
                .features = features,
                .state.at = { 11, 10, 1, 0 },
                .index = 3,
                .state.size = 256,
                .rx = true,
                .call_fd = 42,
        };
}

static void test_init(void **state)
{
        const struct vql_queue_params p =
                params(vql_bit(VIRTIO_F_RING_PACKED) | vql_bit(VIRTIO_RING_F_EVENT_IDX));
        struct vql_queue q;

        (void)state;
        memset(&q, 0x5a, sizeof(q));
        vql_queue_init(&q, &p);
        assert_ptr_equal(q.desc, p.area[VQL_AREA_DESC]);
        assert_ptr_equal(q.driver_event, p.area[VQL_AREA_DRIVER]);
        assert_ptr_equal(q.device_event, p.area[VQL_AREA_DEVICE]);
        assert_ptr_equal(q.mem, p.mem);
        assert_int_equal(q.hit.size, 0);
        assert_int_equal(q.size, 256);
        assert_int_equal(q.call_fd, 42);
        assert_int_equal(q.fault, VQL_FAULT_NONE);
        assert_int_equal(q.index, 3);
        assert_true(q.packed && q.event_idx && q.rx);
        assert_false(q.signalled_valid);
        assert_false(q.notify_off);
        assert_null(q.position);
        assert_null(q.log);
        assert_int_equal(q.desc_gpa, 0x1000);
        assert_int_equal(q.device_gpa, 0x3000);
        assert_int_equal(q.features, p.features);
}

static void test_position(void **state)
{
        const struct vql_queue_params p = params(0);
        struct vql_queue q = { 0 };
        struct vql_cursor c;

        (void)state;
        vql_queue_init(&q, &p);
        c = vql_queue_cursor(&q);
        assert_int_equal(c.avail, 11);
        assert_int_equal(c.used, 10);
        assert_int_equal(c.avail_wrap, 1);
        assert_int_equal(c.used_wrap, 0);
        assert_int_equal(q.unsignalled, 0);
}

/* The header's length (virtio 1.2, 5.1.6.1 and its legacy note). */
static void test_header_length(void **state)
{
        const uint64_t v1 = vql_bit(VIRTIO_F_VERSION_1), mrg = vql_bit(VIRTIO_NET_F_MRG_RXBUF);
        const struct {
                uint64_t features;
                uint8_t len;
        } rows[] = { { 0, 10 }, { mrg, 12 }, { v1, 12 }, { v1 | mrg, 12 }, { ~(v1 | mrg), 10 } };
        struct vql_queue q = { 0 };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct vql_queue_params p = params(rows[i].features);

                vql_queue_init(&q, &p);
                assert_int_equal(q.hdr_len, rows[i].len);
        }
}

static void test_counters_survive(void **state)
{
        const struct vql_queue_params p = params(0);
        struct vql_queue q = { 0 };
        struct vql_queue_counters c;
        uint64_t n = 0;

        (void)state;
#define ADD(name, what) vql_count(&q.name, ++n);
        VQL_QUEUE_COUNTERS(ADD)
        vql_queue_init(&q, &p);
        vql_queue_read_counters(&q, &c);
        n = 0;
#define SAME(name, what) assert_int_equal(c.name, ++n);
        VQL_QUEUE_COUNTERS(SAME)
        assert_int_equal(sizeof(c), n * sizeof(uint64_t));
}

static void test_first_fault_wins(void **state)
{
        const struct vql_queue_params p = params(0);
        struct vql_queue q = { 0 };

        (void)state;
        vql_queue_init(&q, &p);
        vql_queue_fail(&q, VQL_FAULT_DESC_LOOP);
        vql_queue_fail(&q, VQL_FAULT_CALL_FD);
        assert_int_equal(q.fault, VQL_FAULT_DESC_LOOP);
        vql_queue_init(&q, &p);
        assert_int_equal(q.fault, VQL_FAULT_NONE);
}

static void test_fault_names(void **state)
{
        (void)state;
        for (int i = 0; i < VQL_FAULT_COUNT; i++) {
                assert_true(strlen(vql_fault_name((enum vql_fault)i)) > 0);
                assert_string_not_equal(vql_fault_name((enum vql_fault)i), "unknown");
                for (int k = 0; k < i; k++)
                        assert_string_not_equal(vql_fault_name((enum vql_fault)i),
                                                vql_fault_name((enum vql_fault)k));
        }
        assert_string_equal(vql_fault_name(VQL_FAULT_COUNT), "unknown");
}

/* Nothing of the old table may be used after a change. */
static void test_remap(void **state)
{
        const struct vql_queue_params p = params(0);
        static _Alignas(16) uint8_t other[64];
        void *const area[VQL_AREA_COUNT] = { other, other + 16, other + 32 };
        const struct vql_mem_table *mem = (const void *)other;
        struct vql_queue q = { 0 };

        (void)state;
        vql_queue_init(&q, &p);
        q.hit = (struct vql_mem_span){ 0, 4096, p.area[0] };
        q.last_avail = 77;
        vql_queue_remap(&q, mem, area);
        assert_ptr_equal(q.mem, mem);
        assert_int_equal(q.hit.size, 0);
        assert_ptr_equal(q.desc, other);
        assert_ptr_equal(q.avail, other + 16);
        assert_ptr_equal(q.used, other + 32);
        assert_int_equal(q.last_avail, 77);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_init),
                cmocka_unit_test(test_position),
                cmocka_unit_test(test_header_length),
                cmocka_unit_test(test_counters_survive),
                cmocka_unit_test(test_first_fault_wins),
                cmocka_unit_test(test_fault_names),
                cmocka_unit_test(test_remap),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
