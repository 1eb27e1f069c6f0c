/* SPDX-License-Identifier: BSD-3-Clause */

/* Relays: memory of the shadow, borders of regions, and lanes that carry relays. */

#include "test_lane.h"

#include "guest_memory.h"
#include "sw-fallback/lane.h"
#include "sw-fallback/relay.h"

enum { SIZE = 8, LATER = 1, RINGS = 0x1000, BORDER = 0x10000 };

/* Guest and device are both played by hand, on a split ring. */
struct hand {
        struct vql_mem_table *mem;
        struct vql_queue *q;
        struct vql_relay_layout layout;
        uint8_t *arena;
        struct vql_relay *relay;
        unsigned int kicks;
};

static void count_kick(void *arg)
{
        ++*(unsigned int *)arg;
}

static void init(struct hand *h, uint64_t features)
{
        const struct vql_region_desc d[] = { DESC(0, BORDER), DESC(BORDER, BORDER) };
        struct vql_queue_params qp = {
                .features = 1ull << VIRTIO_F_VERSION_1,
                .state.size = SIZE,
                .rx = true,
                .call_fd = -1,
        };
        struct vql_relay_params p = {
                .size = SIZE, .features = features, .kick = count_kick, .arg = &h->kicks
        };
        struct vql_error e;

        *h = (struct hand){ .mem = table_of(d, 2) };
        qp.mem = h->mem;
        qp.area[VQL_AREA_DESC] = at(h->mem, RINGS, PAGE);
        qp.area[VQL_AREA_DRIVER] = at(h->mem, RINGS + PAGE, PAGE);
        qp.area[VQL_AREA_DEVICE] = at(h->mem, RINGS + 2 * PAGE, PAGE);
        h->q = aligned_alloc(VQL_CACHE_LINE, sizeof(*h->q));
        assert_non_null(h->q);
        memset(h->q, 0, sizeof(*h->q));
        vql_queue_init(h->q, &qp);
        vql_relay_layout(SIZE, false, PAGE, &h->layout);
        h->arena = aligned_alloc(PAGE, h->layout.bytes);
        assert_non_null(h->arena);
        p.q = h->q;
        for (int i = 0; i < VQL_AREA_COUNT; i++)
                p.area[i] = h->arena + h->layout.at[i];
        assert_int_equal(vql_relay_open(&p, &h->relay, &e), 0);
}

static void fini(struct hand *h)
{
        vql_pending_free(vql_relay_settle(h->relay));
        vql_relay_close(h->relay);
        free(h->arena);
        free(h->q);
        vql_mem_table_put(h->mem);
}

static void offer(struct hand *h, struct vring_desc d)
{
        const uint16_t idx = h->q->avail->idx;

        h->q->desc[idx % SIZE] = d;
        h->q->avail->ring[idx % SIZE] = idx % SIZE;
        __atomic_store_n(&h->q->avail->idx, idx + 1, __ATOMIC_RELEASE);
}

static const struct vring_desc *shown(const struct hand *h, uint16_t i)
{
        const struct vring_avail *a = (const void *)(h->arena + h->layout.at[VQL_AREA_DRIVER]);
        const struct vring_desc *d = (const void *)(h->arena + h->layout.at[VQL_AREA_DESC]);

        assert_true(i < a->idx);
        return &d[a->ring[i]];
}

static struct vring_used *device_side(struct hand *h)
{
        return (struct vring_used *)(void *)(h->arena + h->layout.at[VQL_AREA_DEVICE]);
}

/* ---- memory ---- */

static void check_layout(uint16_t size, bool packed, size_t page)
{
        struct vql_relay_layout l;

        vql_relay_layout(size, packed, page, &l);
        assert_int_equal(l.bytes % page, 0);
        assert_int_equal(l.writable % page, 0);
        assert_true(l.writable > 0 && l.writable < l.bytes);
        for (int i = 0; i < VQL_AREA_COUNT; i++) {
                const enum vql_ring_area a = (enum vql_ring_area)i;
                const size_t end = l.at[i] + vql_area_bytes(a, size, packed);
                const bool writable = a == VQL_AREA_DEVICE || (packed && a == VQL_AREA_DESC);

                assert_int_equal(l.at[i] % vql_area_align(a, packed), 0);
                assert_true(end <= l.bytes);
                assert_true(writable ? l.at[i] >= l.writable : end <= l.writable);
                for (int k = 0; k < i; k++)
                        assert_true(l.at[k] >= end ||
                                    l.at[k] + vql_area_bytes((enum vql_ring_area)k, size, packed) <=
                                            l.at[i]);
        }
}

static void areas_are_apart(void **state)
{
        static const uint16_t sizes[] = { 1, 2, 7, 256, 32768 };

        (void)state;
        for (size_t i = 0; i < RTE_DIM(sizes); i++) {
                check_layout(sizes[i], true, 4096);
                check_layout(sizes[i], true, 65536);
                if (sizes[i] == 7)
                        continue;
                check_layout(sizes[i], false, 4096);
                check_layout(sizes[i], false, 65536);
        }
}

static void faults_have_names(void **state)
{
        (void)state;
        for (int i = 0; i < VQL_RELAY_FAULTS; i++)
                assert_string_not_equal(vql_relay_fault_name((enum vql_relay_fault)i), "unknown");
        assert_string_equal(vql_relay_fault_name(VQL_RELAY_FAULTS), "unknown");
}

/* ---- borders of regions ---- */

static void buffer_over_a_border(void **state)
{
        struct hand h;

        (void)state;
        init(&h, 0);
        offer(&h, (struct vring_desc){ BORDER - 10, 100, VRING_DESC_F_WRITE, 0 });
        assert_int_equal(vql_relay_poll(h.relay), 1);
        assert_int_equal(shown(&h, 0)->addr, BORDER - 10);
        assert_int_equal(shown(&h, 0)->len, 100);
        assert_int_equal(shown(&h, 0)->flags, VRING_DESC_F_WRITE);
        /* Over the end of all is something else. */
        offer(&h, (struct vring_desc){ 2 * BORDER - 10, 11, VRING_DESC_F_WRITE, 0 });
        assert_int_equal(vql_relay_poll(h.relay), -EBADMSG);
        assert_int_equal(h.q->fault, VQL_FAULT_DESC_ADDRESS);
        fini(&h);
}

static void put_table(struct hand *h, uint64_t gpa)
{
        const struct vring_desc entries[2] = {
                { 0x8000, 50, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT, 1 },
                { 0x9000, 60, VRING_DESC_F_WRITE, 0 },
        };

        for (int i = 0; i < 2; i++)
                memcpy(at(h->mem, gpa + 16u * (unsigned int)i, 16), &entries[i], 16);
}

static void table_over_a_border(void **state)
{
        struct hand h;

        (void)state;
        init(&h, 1ull << VIRTIO_RING_F_INDIRECT_DESC);
        put_table(&h, 0x7000);
        put_table(&h, BORDER - 16);
        offer(&h, (struct vring_desc){ 0x7000, 32, VRING_DESC_F_INDIRECT, 0 });
        offer(&h, (struct vring_desc){ BORDER - 16, 32, VRING_DESC_F_INDIRECT, 0 });
        assert_int_equal(vql_relay_poll(h.relay), 1);
        assert_int_equal(shown(&h, 0)->addr, 0x7000);
        assert_int_equal(shown(&h, 0)->len, 32);
        assert_int_equal(shown(&h, 0)->flags, VRING_DESC_F_INDIRECT);
        assert_int_equal(shown(&h, 1)->addr, 0x8000);
        assert_int_equal(shown(&h, 1)->len, 50);
        assert_int_equal(shown(&h, 1)->flags, VRING_DESC_F_WRITE | VRING_DESC_F_NEXT);
        fini(&h);
}

/* ---- lanes ---- */

static uint64_t told(const struct vql_lane *lane)
{
        uint64_t n = 0;

        return read(lane->fault_fd, &n, sizeof(n)) < 0 ? 0 : n;
}

static struct vql_lane *lane_of(struct hand *h)
{
        struct vql_lane *lane = lane_new(NULL);

        lane->n_relay = 1;
        lane->relay[0] = (struct vql_lane_relay){ .relay = h->relay, .kick_fd = 0, .device_fd = 0 };
        return lane;
}

static void lane_without_uplink(void **state)
{
        struct hand h;
        struct vql_lane *lane;
        struct vql_lane_state *s;

        (void)state;
        init(&h, 0);
        lane = lane_of(&h);
        assert_int_equal(vql_lane_open(lane, &s), 0);
        assert_false(vql_lane_needs_timer(s));
        assert_int_equal(h.q->used->flags, VRING_USED_F_NO_NOTIFY);
        assert_false(vql_lane_poll(s, LATER));
        offer(&h, (struct vring_desc){ 0x8000, 100, VRING_DESC_F_WRITE, 0 });
        assert_true(vql_lane_poll(s, LATER));
        assert_int_equal(h.kicks, 1);
        vql_lane_arm(s);
        assert_int_equal(h.q->used->flags, 0);
        vql_lane_disarm(s);
        assert_int_equal(h.q->used->flags, VRING_USED_F_NO_NOTIFY);

        /* Nobody takes it to the wire, and it is not lost either. */
        atomic_store(&lane->inject, rte_pktmbuf_alloc(pool));
        assert_true(vql_lane_poll(s, LATER));
        assert_int_equal(rte_mempool_in_use_count(pool), 0);
        vql_lane_close(s);
        lane_free(lane);
        fini(&h);
}

static void port_hears_of_news(void **state)
{
        struct hand h;
        struct vql_lane *lane;
        struct vql_lane_state *s;

        (void)state;
        init(&h, 0);
        lane = lane_of(&h);
        assert_int_equal(vql_lane_open(lane, &s), 0);
        offer(&h, (struct vring_desc){ 0x8000, 100, VRING_DESC_F_WRITE, 0 });
        vql_lane_poll(s, LATER);
        assert_int_equal(told(lane), 0);
        vql_relay_stop_taking(h.relay, VQL_RELAY_STOP);
        vql_lane_poll(s, LATER);
        assert_int_equal(told(lane), 1);
        assert_int_equal(vql_relay_phase(h.relay), VQL_RELAY_STOPPED);
        vql_lane_poll(s, LATER);
        assert_int_equal(told(lane), 0);

        /* A device that lies is told once, and is not asked again. */
        device_side(&h)->idx = 5;
        vql_lane_poll(s, LATER);
        assert_int_equal(told(lane), 1);
        assert_int_equal(s->relay_mode[0], VQL_LANE_RING_FAULTED);
        vql_lane_poll(s, LATER);
        assert_int_equal(told(lane), 0);
        vql_lane_close(s);
        lane_free(lane);
        fini(&h);
}

static void relays_without_fd_are_timed(void **state)
{
        struct hand h;
        struct vql_lane *lane;
        struct vql_lane_state *s;

        (void)state;
        init(&h, 0);
        lane = lane_of(&h);
        for (int i = 0; i < 2; i++) {
                lane->relay[0].kick_fd = i ? -1 : 0;
                lane->relay[0].device_fd = i ? 0 : -1;
                assert_int_equal(vql_lane_open(lane, &s), 0);
                assert_true(vql_lane_needs_timer(s));
                vql_lane_arm(s);
                offer(&h, (struct vring_desc){ 0x8000, 100, VRING_DESC_F_WRITE, 0 });
                assert_true(vql_lane_glance(s));
                vql_lane_close(s);
        }
        lane_free(lane);
        fini(&h);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(areas_are_apart),
                cmocka_unit_test(faults_have_names),
                cmocka_unit_test(buffer_over_a_border),
                cmocka_unit_test(table_over_a_border),
                cmocka_unit_test(lane_without_uplink),
                cmocka_unit_test(port_hears_of_news),
                cmocka_unit_test(relays_without_fd_are_timed),
        };

        return test_pools_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
