/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Notification and its suppression, all positions against a model that walks step by step: an
 * index is passed if one of the steps from the old position to the new one begins at it.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "memory/dirty_log.h"
#include "virtqueue/features.h"
#include "virtqueue/notify.h"

enum { MAX = 32768, PAGE = 4096 };

/* A queue on plain memory. */
struct ring {
        struct vql_queue q;
        uint8_t *area[VQL_AREA_COUNT];
        uint64_t sent; /* signals before the last one looked at */
};

static struct ring *ring_new(uint64_t features, uint16_t size)
{
        struct ring *r = aligned_alloc(
                VQL_CACHE_LINE, sizeof(*r) / VQL_CACHE_LINE * VQL_CACHE_LINE + VQL_CACHE_LINE);
        struct vql_queue_params p = {
                .features = features,
                .state.size = size,
                .call_fd = -1,
                .device_gpa = 5 * PAGE - 2, /* its fields lie on both sides of a page's end */
        };

        assert_non_null(r);
        memset(r, 0, sizeof(*r));
        for (int i = 0; i < VQL_AREA_COUNT; i++) {
                r->area[i] = calloc(1, vql_area_bytes((enum vql_ring_area)i, MAX, false));
                assert_non_null(r->area[i]);
                p.area[i] = r->area[i];
        }
        p.state.at.avail_wrap = p.state.at.used_wrap = vql_has(features, VIRTIO_F_RING_PACKED);
        vql_queue_init(&r->q, &p);
        return r;
}

static void ring_free(struct ring *r)
{
        for (int i = 0; i < VQL_AREA_COUNT; i++)
                free(r->area[i]);
        free(r);
}

static const uint64_t event_idx = UINT64_C(1) << VIRTIO_RING_F_EVENT_IDX;
static const uint64_t packed = UINT64_C(1) << VIRTIO_F_RING_PACKED;

/* Was there a signal since the last time? */
static bool signalled(struct ring *r)
{
        uint64_t before = r->sent;

        r->sent = r->q.signals;
        assert_in_range(r->sent - before, 0, 1);
        return r->sent != before;
}

/* As a publication does. */
static void use(struct ring *r, uint16_t n)
{
        r->q.last_used = (uint16_t)(r->q.last_used + n);
        r->q.unsignalled += n;
}

/* Two bytes of an area, wherever they lie. */
static void put16(uint8_t *at, uint16_t v)
{
        memcpy(at, &v, sizeof(v));
}

/* ---- the comparison of 2.7.10 ---- */

static bool passed_by_steps(uint16_t event, uint16_t to, uint16_t from)
{
        for (uint16_t at = from; at != to; at++)
                if (at == event)
                        return true;
        return false;
}

static void test_event_passed(void **state)
{
        static const uint16_t starts[] = { 0, 1, 100, 32767, 32768, 65533, 65534, 65535 };

        (void)state;
        for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
                for (uint16_t moved = 1; moved < 40; moved++)
                        for (int off = -50; off < 90; off++) {
                                uint16_t from = starts[i], to = (uint16_t)(from + moved);
                                uint16_t event = (uint16_t)(from + off);

                                assert_int_equal(vql_event_passed(event, to, from),
                                                 passed_by_steps(event, to, from));
                        }
        /* A whole ring of the largest size at once, seen from both ends. */
        assert_true(vql_event_passed(10, (uint16_t)(10 + MAX), 10));
        assert_true(vql_event_passed((uint16_t)(9 + MAX), (uint16_t)(10 + MAX), 10));
        assert_false(vql_event_passed((uint16_t)(10 + MAX), (uint16_t)(10 + MAX), 10));
        assert_false(vql_event_passed(9, (uint16_t)(10 + MAX), 10));
}

/* ---- to the driver, split ---- */

static uint8_t *used_event_at(struct ring *r)
{
        return r->area[VQL_AREA_DRIVER] + 4 + 2 * (size_t)r->q.size;
}

static void test_split_event(void **state)
{
        struct ring *r = ring_new(event_idx, 256);

        (void)state;
        for (uint32_t start = 65000; start < 66000; start += 7)
                for (uint16_t moved = 1; moved <= 256; moved = (uint16_t)(moved * 2 + 1))
                        for (int off = -5; off < moved + 5; off++) {
                                uint16_t from = (uint16_t)start, to = (uint16_t)(from + moved);
                                uint16_t event = (uint16_t)(from + off);

                                r->q.unsignalled = moved;
                                r->q.signalled_valid = true;
                                r->q.last_used = to;
                                put16(used_event_at(r), event);
                                vql_signal_used(&r->q);
                                assert_int_equal(signalled(r), passed_by_steps(event, to, from));
                                assert_int_equal(r->q.unsignalled, 0);
                        }
        ring_free(r);
}

/* All indices were passed since the last look. */
static void test_split_event_far(void **state)
{
        struct ring *r = ring_new(event_idx, 256);

        (void)state;
        r->q.signalled_valid = true;
        for (uint32_t moved = UINT16_MAX; moved < UINT16_MAX + 3u; moved++) {
                r->q.unsignalled = moved;
                r->q.last_used = 5;
                put16(used_event_at(r), 5);
                vql_signal_used(&r->q);
                assert_int_equal(signalled(r), moved > UINT16_MAX);
        }
        ring_free(r);
}

/* Without EVENT_IDX the flag decides, with it the flag means nothing. */
static void test_split_flag(void **state)
{
        struct ring *r = ring_new(0, 256);

        (void)state;
        for (uint16_t flag = 0; flag < 2; flag++) {
                use(r, 1);
                put16(r->area[VQL_AREA_DRIVER], flag);
                vql_signal_used(&r->q);
                assert_int_equal(signalled(r), !flag);
        }
        assert_int_equal(r->q.signals_saved, 1);
        ring_free(r);
        r = ring_new(event_idx, 256);
        put16(r->area[VQL_AREA_DRIVER], VRING_AVAIL_F_NO_INTERRUPT);
        r->q.signalled_valid = true;
        put16(used_event_at(r), 0);
        use(r, 1);
        vql_signal_used(&r->q);
        assert_true(signalled(r));
        ring_free(r);
}

/* What we signalled before a start is not known: the first publication speaks up. */
static void first_publication(uint64_t features)
{
        struct ring *r = ring_new(features | event_idx, 256);
        const struct vring_packed_desc_event never = { 200 | 1 << 15,
                                                       VRING_PACKED_EVENT_FLAG_DESC };

        put16(used_event_at(r), 200);
        if (features)
                memcpy(r->area[VQL_AREA_DRIVER], &never, sizeof(never));
        use(r, 1);
        vql_signal_used(&r->q);
        assert_true(signalled(r));
        use(r, 1);
        vql_signal_used(&r->q);
        assert_false(signalled(r));
        assert_int_equal(r->q.signals_saved, 1);
        ring_free(r);
}

static void test_first_publication(void **state)
{
        (void)state;
        first_publication(0);
        first_publication(packed);
}

/* ---- to the driver, packed ---- */

/* A slot and the wrap counter of its lap, as one number below twice the size. */
static uint16_t off_wrap(uint32_t at, uint16_t size)
{
        return (uint16_t)(at % size | (at / size % 2 ? 0u : 1u << 15));
}

/* From position `from` on by `moved` slots, more than a lap perhaps, past `event` or not. */
static void packed_move(struct ring *r, uint32_t from, uint32_t moved, uint32_t event)
{
        const uint16_t size = r->q.size;
        const struct vring_packed_desc_event e = { off_wrap(event, size),
                                                   VRING_PACKED_EVENT_FLAG_DESC };
        bool want = false;

        for (uint32_t at = from; at != from + moved; at++)
                want |= off_wrap(at, size) == e.off_wrap;
        memcpy(r->area[VQL_AREA_DRIVER], &e, sizeof(e));
        r->q.signalled_valid = true;
        r->q.unsignalled = moved;
        r->q.last_used = (uint16_t)((from + moved) % size);
        r->q.used_wrap = off_wrap(from + moved, size) >> 15;
        vql_signal_used(&r->q);
        if (signalled(r) != want)
                fail_msg("size %u, from %u by %u, event %u: signal %d", size, from, moved, event,
                         !want);
}

static void test_packed_event_small(void **state)
{
        (void)state;
        for (uint16_t size = 1; size <= 9; size++) {
                struct ring *r = ring_new(packed | event_idx, size);

                for (uint32_t from = 0; from < 2u * size; from++)
                        for (uint32_t moved = 1; moved <= 5u * size; moved++)
                                for (uint32_t event = 0; event < 2u * size; event++)
                                        packed_move(r, from, moved, event);
                ring_free(r);
        }
}

/* Of larger rings the neighbourhood of everything that matters. */
static void packed_event_large(uint16_t size)
{
        struct ring *r = ring_new(packed | event_idx, size);
        const uint32_t starts[] = { 0, 1, size - 2u, size - 1u, size, size + 1u, 2u * size - 1 };
        const uint32_t moves[] = { 1, 2, size / 2u, size, size + 1u, 2u * size - 1, 2u * size };

        for (int i = 0; i < 7; i++)
                for (int k = 0; k < 7; k++)
                        for (int off = -3; off <= 3; off++) {
                                uint32_t lap = 2u * size;

                                packed_move(r, starts[i], moves[k],
                                            starts[i] + lap + (uint32_t)off);
                                packed_move(r, starts[i], moves[k],
                                            starts[i] + moves[k] + lap + (uint32_t)off);
                                packed_move(r, starts[i], moves[k],
                                            starts[i] + size + lap + (uint32_t)off);
                        }
        ring_free(r);
}

static void test_packed_event_large(void **state)
{
        (void)state;
        packed_event_large(256);
        packed_event_large(1000);
        packed_event_large(32767);
        packed_event_large(32768);
}

static void test_packed_flags(void **state)
{
        static const struct {
                uint64_t features;
                uint16_t flags;
                bool signal;
        } rows[] = {
                { 0, VRING_PACKED_EVENT_FLAG_ENABLE, true },
                { 0, VRING_PACKED_EVENT_FLAG_DISABLE, false },
                { 0, VRING_PACKED_EVENT_FLAG_DESC, true }, /* not negotiated: rather too often */
                { UINT64_C(1) << VIRTIO_RING_F_EVENT_IDX, VRING_PACKED_EVENT_FLAG_ENABLE, true },
                { UINT64_C(1) << VIRTIO_RING_F_EVENT_IDX, VRING_PACKED_EVENT_FLAG_DISABLE, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct ring *r = ring_new(packed | rows[i].features, 8);
                const struct vring_packed_desc_event e = { 5 | 1 << 15, rows[i].flags };

                memcpy(r->area[VQL_AREA_DRIVER], &e, sizeof(e));
                use(r, 1);
                vql_signal_used(&r->q);
                assert_int_equal(signalled(r), rows[i].signal);
                ring_free(r);
        }
}

/* ---- the eventfd ---- */

static void test_call_fd(void **state)
{
        struct ring *r = ring_new(0, 8);
        uint64_t count = UINT64_MAX - 1;

        (void)state;
        r->q.call_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        vql_signal_used(&r->q);
        vql_signal_always(&r->q);
        assert_int_equal(read(r->q.call_fd, &count, sizeof(count)), sizeof(count));
        assert_int_equal(count, 2);
        /* A full counter: the guest has not looked, and will. */
        count = UINT64_MAX - 1;
        assert_int_equal(write(r->q.call_fd, &count, sizeof(count)), sizeof(count));
        vql_signal_always(&r->q);
        assert_int_equal(r->q.fault, VQL_FAULT_NONE);
        assert_int_equal(r->q.signals, 3);
        close(r->q.call_fd);
        ring_free(r);
}

static void test_bad_call_fd(void **state)
{
        struct ring *r = ring_new(0, 8);

        (void)state;
        vql_signal_always(&r->q); /* none: the guest polls */
        assert_int_equal(r->q.fault, VQL_FAULT_NONE);
        r->q.call_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        vql_signal_always(&r->q);
        assert_int_equal(r->q.fault, VQL_FAULT_CALL_FD);
        close(r->q.call_fd);
        ring_free(r);
}

/* ---- from the driver ---- */

static void test_split_has_avail(void **state)
{
        struct ring *r = ring_new(0, 8);

        (void)state;
        for (uint32_t at = 65530; at < 65545; at++) {
                r->q.last_avail = (uint16_t)at;
                put16(r->area[VQL_AREA_DRIVER] + 2, (uint16_t)at);
                assert_false(vql_queue_has_avail(&r->q));
                put16(r->area[VQL_AREA_DRIVER] + 2, (uint16_t)(at + 1));
                assert_true(vql_queue_has_avail(&r->q));
        }
        ring_free(r);
}

static void test_packed_has_avail(void **state)
{
        struct ring *r = ring_new(packed, 4);
        struct vring_packed_desc *d = (void *)r->area[VQL_AREA_DESC];

        (void)state;
        r->q.last_avail = 2;
        for (uint8_t wrap = 0; wrap < 2; wrap++)
                for (int bits = 0; bits < 4; bits++) {
                        bool avail = bits & 1, used = bits & 2;

                        r->q.avail_wrap = wrap;
                        d[2].flags = (uint16_t)((avail ? VQL_PACKED_AVAIL : 0) |
                                                (used ? VQL_PACKED_USED : 0) | VRING_DESC_F_NEXT);
                        assert_int_equal(vql_queue_has_avail(&r->q), avail == wrap && used != wrap);
                }
        ring_free(r);
}

/* Which bytes of the device area changed since they were all 0xee? */
static void expect_device_area(struct ring *r, size_t off, const void *bytes, size_t len)
{
        size_t all = vql_area_bytes(VQL_AREA_DEVICE, r->q.size, r->q.packed);

        for (size_t i = 0; i < all; i++) {
                uint8_t want = i >= off && i < off + len ? ((const uint8_t *)bytes)[i - off] : 0xee;

                if (r->area[VQL_AREA_DEVICE][i] != want)
                        fail_msg("byte %zu of the device area is %02x, expected %02x", i,
                                 r->area[VQL_AREA_DEVICE][i], want);
        }
}

static void blank(struct ring *r)
{
        memset(r->area[VQL_AREA_DEVICE], 0xee, vql_area_bytes(VQL_AREA_DEVICE, MAX, false));
}

static void test_split_wish_by_flag(void **state)
{
        struct ring *r = ring_new(0, 8);
        const uint16_t off = VRING_USED_F_NO_NOTIFY, on = 0;

        (void)state;
        blank(r);
        vql_notify_disable(&r->q);
        assert_true(r->q.notify_off);
        expect_device_area(r, 0, &off, sizeof(off));
        blank(r);
        assert_false(vql_notify_enable(&r->q));
        assert_false(r->q.notify_off);
        expect_device_area(r, 0, &on, sizeof(on));
        put16(r->area[VQL_AREA_DRIVER] + 2, 1);
        assert_true(vql_notify_enable(&r->q));
        ring_free(r);
}

static void test_split_wish_by_index(void **state)
{
        struct ring *r = ring_new(event_idx, 8);
        const uint16_t want = 65535;

        (void)state;
        r->q.last_avail = want;
        put16(r->area[VQL_AREA_DRIVER] + 2, want);
        blank(r);
        vql_notify_disable(&r->q);
        expect_device_area(r, 0, NULL, 0);
        assert_false(vql_notify_enable(&r->q));
        expect_device_area(r, 4 + 8 * 8, &want, sizeof(want));
        put16(r->area[VQL_AREA_DRIVER] + 2, 0);
        assert_true(vql_notify_enable(&r->q));
        ring_free(r);
}

static void packed_wish(uint64_t features, uint8_t wrap)
{
        struct ring *r = ring_new(packed | features, 8);
        uint16_t off = VRING_PACKED_EVENT_FLAG_DISABLE, on = VRING_PACKED_EVENT_FLAG_ENABLE;
        struct vring_packed_desc_event at = { (uint16_t)(5 | wrap << 15),
                                              VRING_PACKED_EVENT_FLAG_DESC };
        struct vring_packed_desc *d = (void *)r->area[VQL_AREA_DESC];

        r->q.last_avail = 5;
        r->q.avail_wrap = wrap;
        d[5].flags = wrap ? 0 : VQL_PACKED_AVAIL;
        blank(r);
        vql_notify_disable(&r->q);
        expect_device_area(r, 2, &off, sizeof(off));
        blank(r);
        assert_false(vql_notify_enable(&r->q));
        if (features)
                expect_device_area(r, 0, &at, sizeof(at));
        else
                expect_device_area(r, 2, &on, sizeof(on));
        d[5].flags = wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED;
        assert_true(vql_notify_enable(&r->q));
        ring_free(r);
}

static void test_packed_wish(void **state)
{
        (void)state;
        for (uint8_t wrap = 0; wrap < 2; wrap++) {
                packed_wish(0, wrap);
                packed_wish(event_idx, wrap);
        }
}

/* Pages of the log, which begins at page 0; the device area begins 2 bytes before page 5. */
static void expect_pages(uint64_t features, bool on, uint8_t want)
{
        struct ring *r = ring_new(features, 8);
        uint8_t bits[4] = { 0 };
        struct vql_dirty_log log = { bits, sizeof(bits), 0 };

        r->q.log = &log;
        if (on)
                vql_notify_enable(&r->q);
        else
                vql_notify_disable(&r->q);
        assert_int_equal(bits[0], want);
        assert_int_equal(bits[1] | bits[2] | bits[3], 0);
        ring_free(r);
}

static void test_log(void **state)
{
        const uint8_t flags = 1 << 4, behind = 1 << 5;

        (void)state;
        expect_pages(0, true, flags);
        expect_pages(0, false, flags);
        expect_pages(event_idx, true, behind);
        expect_pages(event_idx, false, 0);
        expect_pages(packed, true, behind);
        expect_pages(packed, false, behind);
        expect_pages(packed | event_idx, true, flags | behind);
        expect_pages(packed | event_idx, false, behind);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_event_passed),
                cmocka_unit_test(test_split_event),
                cmocka_unit_test(test_split_event_far),
                cmocka_unit_test(test_split_flag),
                cmocka_unit_test(test_first_publication),
                cmocka_unit_test(test_packed_event_small),
                cmocka_unit_test(test_packed_event_large),
                cmocka_unit_test(test_packed_flags),
                cmocka_unit_test(test_call_fd),
                cmocka_unit_test(test_bad_call_fd),
                cmocka_unit_test(test_split_has_avail),
                cmocka_unit_test(test_packed_has_avail),
                cmocka_unit_test(test_split_wish_by_flag),
                cmocka_unit_test(test_split_wish_by_index),
                cmocka_unit_test(test_packed_wish),
                cmocka_unit_test(test_log),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
