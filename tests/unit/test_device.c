/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "fake_driver.h"
#include "port/device.h"
#include "port/registry.h"
#include "virtqueue/features.h"

static const struct vql_position initial = { 0, 0, 0, 0 };
static const struct vql_dev_ring ring = { .desc = 4096, .device_va = &fake, .size = SIZE };

static struct vql_device *device_new(const struct vql_driver *driver)
{
        struct vql_device *v;

        assert_int_equal(vql_device_open(driver, "fake0", NULL, NULL, &v, NULL), 0);
        return v;
}

/* Running, with queue 0 running and queue 1 never started. */
static struct vql_device *device_running(const struct vql_driver *driver)
{
        struct vql_device *v = device_new(driver);

        assert_int_equal(vql_device_negotiate(v, vql_bit(VIRTIO_F_VERSION_1), NULL), 0);
        assert_int_equal(vql_device_vq_start(v, 0, &ring, &initial, NULL), 0);
        assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_STARTED);
        assert_int_equal(vql_device_start(v, NULL), 0);
        assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_RUNNING);
        return v;
}

static int setup(void **state)
{
        (void)state;
        fake_reset();
        return 0;
}

/* ---- turns ---- */

enum call { NEGOTIATE, VQ_START, VQ_STOP, START, SUSPEND, CTRL, CALLS };

static int call(struct vql_device *v, enum call c)
{
        struct vql_stop stops[QUEUES];
        const struct vql_ctrl ctrl = { 0, 0, "\x01", 1 };

        switch (c) {
        case NEGOTIATE:
                return vql_device_negotiate(v, vql_bit(VIRTIO_F_VERSION_1), NULL);
        case VQ_START:
                return vql_device_vq_start(v, 1, &ring, &initial, NULL);
        case VQ_STOP:
                return vql_device_vq_stop(v, 0, 0, stops, NULL);
        case START:
                return vql_device_start(v, NULL);
        case SUSPEND:
                return vql_device_suspend(v, 0, stops, NULL);
        default:
                return vql_device_ctrl(v, &ctrl, NULL);
        }
}

static void to_life(struct vql_device *v, enum vql_device_life l)
{
        struct vql_stop stops[QUEUES];

        assert_int_equal(vql_device_reset(v, NULL), 0);
        if (l == VQL_DEVICE_RESET)
                return;
        assert_int_equal(call(v, NEGOTIATE), 0);
        assert_int_equal(vql_device_vq_start(v, 0, &ring, &initial, NULL), 0);
        if (l == VQL_DEVICE_READY)
                return;
        assert_int_equal(call(v, START), 0);
        fake.stop[0].stopped = true;
        if (l == VQL_DEVICE_BROKEN) {
                fake.result = -EIO;
                assert_int_equal(call(v, SUSPEND), -EIO);
        } else if (l == VQL_DEVICE_HELD) {
                assert_int_equal(vql_device_suspend(v, 0, stops, NULL), 0);
        }
}

static void calls_out_of_turn_reach_nobody(void **state)
{
        /* The table of driver.h. */
        static const bool allowed[VQL_DEVICE_LIVES][CALLS] = {
                [VQL_DEVICE_RESET] = { [NEGOTIATE] = true },
                [VQL_DEVICE_READY] = { [VQ_START] = true, [START] = true },
                [VQL_DEVICE_RUN] = { [VQ_START] = true,
                                     [VQ_STOP] = true,
                                     [SUSPEND] = true,
                                     [CTRL] = true },
                [VQL_DEVICE_HELD] = { [VQ_START] = true, [START] = true },
        };
        struct vql_device *v;

        (void)state;
        fake.caps.flags |= VQL_DEV_CTRL;
        v = device_new(&full);
        for (enum vql_device_life l = VQL_DEVICE_RESET; l < VQL_DEVICE_LIVES; l++) {
                for (enum call c = 0; c < CALLS; c++) {
                        uint64_t refused;
                        unsigned int calls;
                        int err;

                        to_life(v, l);
                        assert_int_equal(vql_device_life(v), l);
                        calls = fake.calls;
                        refused = vql_device_counters(v)->refused;
                        err = call(v, c);
                        assert_int_equal(err, allowed[l][c] ? 0 : -EINVAL);
                        assert_int_equal(fake.calls - calls, allowed[l][c]);
                        assert_int_equal(vql_device_counters(v)->refused - refused, !allowed[l][c]);
                }
        }
        vql_device_close(v);
        assert_int_equal(fake.closes, 1);
}

static void queues_start_and_stop_in_turn(void **state)
{
        struct vql_stop stop;
        struct vql_device *v = device_running(&bare);

        (void)state;
        assert_int_equal(vql_device_vq_start(v, 0, &ring, &initial, NULL), -EINVAL);
        assert_int_equal(vql_device_vq_start(v, QUEUES, &ring, &initial, NULL), -EINVAL);
        assert_int_equal(vql_device_vq_stop(v, 1, 0, &stop, NULL), -EINVAL);
        assert_int_equal(vql_device_vq_start(v, 1, &ring, &initial, NULL), 0);
        assert_int_equal(vql_device_queue(v, 1), VQL_DEVICE_QUEUE_RUNNING);
        assert_int_equal(vql_device_vq_stop(v, 0, 0, &stop, NULL), 0);
        assert_true(stop.stopped);
        assert_int_equal(vql_device_vq_stop(v, 0, 0, &stop, NULL), -EINVAL);
        vql_device_vq_kick(v, 0);
        vql_device_vq_kick(v, 2);
        vql_device_vq_kick(v, QUEUES);
        assert_int_equal(fake.kicks, 0);
        vql_device_vq_kick(v, 1);
        assert_int_equal(fake.kicks, 1);
        vql_device_close(v);
}

static void abilities_decide(void **state)
{
        struct vql_device *v;
        struct vql_stop stop;

        (void)state;
        fake.caps.flags &= ~(uint32_t)(VQL_DEV_LIVE | VQL_DEV_LATE);
        v = device_running(&bare);
        assert_int_equal(vql_device_vq_start(v, 1, &ring, &initial, NULL), -ENOTSUP);
        assert_int_equal(vql_device_vq_stop(v, 0, 0, &stop, NULL), -ENOTSUP);
        assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_RUNNING);
        vql_device_close(v);
}

/* ---- values ---- */

static void impossible_rings_reach_nobody(void **state)
{
        static const struct {
                struct vql_dev_ring ring;
                struct vql_position at;
        } bad[] = {
                { { .device_va = &fake, .size = 0 }, { 0, 0, 0, 0 } },
                { { .device_va = &fake, .size = 3 }, { 0, 0, 0, 0 } },
                { { .device_va = &fake, .size = 2 * SIZE }, { 0, 0, 0, 0 } },
                { { .size = SIZE }, { 0, 0, 0, 0 } },
                { { .device_va = &fake, .size = SIZE }, { 1, 0, 0, 0 } },
                { { .device_va = &fake, .size = SIZE }, { 0, 0, 1, 1 } },
                { { .device_va = &fake, .size = SIZE, .packed = true }, { 0, 0, 1, 1 } },
        };
        struct vql_device *v = device_running(&bare);
        const unsigned int calls = fake.calls;

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(vql_device_vq_start(v, 1, &bad[i].ring, &bad[i].at, NULL),
                                 -EINVAL);
        assert_int_equal(fake.calls, calls);
        vql_device_close(v);
}

static void maps_are_checked(void **state)
{
        static const struct vql_map bad[] = {
                { .iova = 4096, .len = 0 },
                { .iova = 4096, .len = 100 },
                { .iova = 100, .len = 4096 },
                { .iova = 4096, .len = 4096, .va = (void *)100 },
                { .iova = UINT64_MAX - 4095, .len = 8192 },
                { .iova = 1 << 20, .len = 4096 },
                { .iova = 0xf000, .len = 0x2000 },
        };
        const struct vql_map good = { .iova = 0xf000, .len = 4096 };
        struct vql_device *v;

        (void)state;
        fake.caps.n_ranges = 1;
        fake.caps.ranges[0] = (struct vql_range){ 0, 0xffff };
        v = device_new(&bare);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                const struct vql_device_maps m = { .add = &bad[i], .n_add = 1 };

                assert_int_equal(vql_device_dma_update(v, &m, NULL), -EINVAL);
        }
        assert_int_equal(vql_device_counters(v)->map_updates, 0);
        assert_int_equal(vql_device_dma_update(
                                 v, &(struct vql_device_maps){ .add = &good, .n_add = 1 }, NULL),
                         0);
        fake.result = -ENOTRECOVERABLE;
        assert_int_equal(vql_device_dma_update(
                                 v, &(struct vql_device_maps){ .del = &good, .n_del = 1 }, NULL),
                         -ENOTRECOVERABLE);
        assert_int_equal(vql_device_life(v), VQL_DEVICE_BROKEN);
        vql_device_close(v);
}

static void impossible_abilities_are_not_believed(void **state)
{
        struct vql_device *v;

        (void)state;
#define REFUSED(assignment)                                                                    \
        do {                                                                                   \
                fake_reset();                                                                  \
                fake.caps.assignment;                                                          \
                assert_int_equal(vql_device_open(&bare, "fake0", NULL, NULL, &v, NULL), -EIO); \
                assert_int_equal(fake.closes, 1);                                              \
        } while (0)
        REFUSED(queues = 0);
        REFUSED(queues = 3);
        REFUSED(queues = 258);
        REFUSED(queue_size = 100);
        REFUSED(page_size = 0);
        REFUSED(page_size = 5000);
        REFUSED(flags |= 1u << 30);
        REFUSED(flags |= VQL_DEV_CTRL);
        REFUSED(flags |= VQL_DEV_LOG);
        REFUSED(flags |= VQL_DEV_DOORBELL);
        REFUSED(flags &= ~(uint32_t)VQL_DEV_PACKED);
        REFUSED(n_ranges = VQL_DEV_MAX_RANGES + 1);
        REFUSED(ranges[0].first = (fake.caps.n_ranges = 1));
#undef REFUSED
}

/* ---- a driver that breaks the contract ---- */

static void positive_results_are_errors(void **state)
{
        struct vql_device *v = device_running(&bare);
        struct vql_error e;
        uint8_t byte;

        (void)state;
        fake.result = 1;
        assert_int_equal(vql_device_vq_irq(v, 0, -1, &e), -EIO);
        assert_non_null(strstr(e.text, "bare"));
        fake.result = 5;
        assert_int_equal(vql_device_cfg_read(v, 0, &byte, 1), -EIO);
        assert_int_equal(vql_device_counters(v)->faults, 2);
        vql_device_close(v);
}

static void impossible_positions_lose_the_queue(void **state)
{
        static const struct vql_stop bad[] = {
                { .at = { 1, 2, 0, 0 } },
                { .at = { 1, 1, 1, 1 } },
                { .quality = 7 },
        };
        struct vql_stop stop = { .quality = VQL_STOP_REPEAT };

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct vql_device *v = device_running(&bare);

                fake.stop[0] = bad[i];
                assert_int_equal(vql_device_vq_stop(v, 0, 0, &stop, NULL), -EIO);
                assert_int_equal(stop.quality, VQL_STOP_REPEAT);
                assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_LOST);
                assert_int_equal(vql_device_vq_start(v, 0, &ring, &initial, NULL), -EINVAL);
                assert_int_equal(vql_device_reset(v, NULL), 0);
                assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_FRESH);
                vql_device_close(v);
        }
}

static void suspend_names_those_that_ran(void **state)
{
        struct vql_stop stops[QUEUES];
        struct vql_device *v = device_running(&bare);

        (void)state;
        assert_int_equal(vql_device_suspend(v, 0, stops, NULL), -EIO);
        assert_int_equal(vql_device_life(v), VQL_DEVICE_BROKEN);
        assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_LOST);
        vql_device_close(v);

        v = device_running(&bare);
        fake.stop[0].stopped = fake.stop[1].stopped = true;
        assert_int_equal(vql_device_suspend(v, 0, stops, NULL), -EIO);
        vql_device_close(v);

        v = device_running(&bare);
        fake.stop[1].stopped = false;
        fake.stop[0].at = (struct vql_position){ 7, 7, 0, 0 };
        assert_int_equal(vql_device_suspend(v, 0, stops, NULL), 0);
        assert_int_equal(stops[0].at.used, 7);
        assert_false(stops[1].stopped);
        assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_STOPPED);
        assert_int_equal(vql_device_queue(v, 1), VQL_DEVICE_QUEUE_FRESH);
        assert_int_equal(vql_device_counters(v)->stops_exact, 1);
        vql_device_close(v);
}

static void strange_events_are_dropped(void **state)
{
        struct vql_event events[2];
        struct vql_device *v = device_new(&full);

        (void)state;
        fake.event = (struct vql_event){ VQL_EVENT_QUEUE, QUEUES };
        fake.events = 1;
        assert_int_equal(vql_device_events(v, events, 2), 0);
        fake.event.queue = 1;
        assert_int_equal(vql_device_events(v, events, 2), 1);
        fake.event.kind = 17;
        assert_int_equal(vql_device_events(v, events, 2), 0);
        fake.event.kind = VQL_EVENT_GONE;
        fake.events = 9;
        assert_int_equal(vql_device_events(v, events, 1), 1);
        assert_int_equal(vql_device_counters(v)->faults, 3);
        assert_int_equal(vql_device_counters(v)->events, 2);
        vql_device_close(v);
}

/* ---- errors ---- */

static void failures_leave_a_known_state(void **state)
{
        struct vql_stop stop;
        struct vql_device *v = device_new(&bare);

        (void)state;
        fake.result = -EINVAL;
        assert_int_equal(call(v, NEGOTIATE), -EINVAL);
        assert_int_equal(vql_device_life(v), VQL_DEVICE_RESET);
        assert_int_equal(call(v, NEGOTIATE), 0);
        fake.result = -ENOSPC;
        assert_int_equal(call(v, START), -ENOSPC);
        assert_int_equal(vql_device_life(v), VQL_DEVICE_READY);
        fake.result = -EIO;
        assert_int_equal(call(v, START), -EIO);
        assert_int_equal(vql_device_life(v), VQL_DEVICE_BROKEN);
        fake.result = -ETIMEDOUT;
        assert_int_equal(vql_device_reset(v, NULL), -ETIMEDOUT);
        assert_int_equal(vql_device_life(v), VQL_DEVICE_BROKEN);
        vql_device_close(v);

        v = device_running(&bare);
        fake.result = -ETIMEDOUT;
        assert_int_equal(vql_device_vq_stop(v, 0, 0, &stop, NULL), -ETIMEDOUT);
        assert_int_equal(vql_device_queue(v, 0), VQL_DEVICE_QUEUE_LOST);
        assert_int_equal(vql_device_counters(v)->stops_failed, 1);
        vql_device_close(v);
}

static void open_refuses(void **state)
{
        struct vql_device *v = NULL;
        char address[VQL_DEV_ADDRESS_BYTES + 1];

        (void)state;
        memset(address, 'a', sizeof(address) - 1);
        address[sizeof(address) - 1] = '\0';
        assert_int_equal(vql_device_open(&bare, address, NULL, NULL, &v, NULL), -EINVAL);
        assert_int_equal(fake.opens, 0);
        fake.result = -EBUSY;
        assert_int_equal(vql_device_open(&bare, "fake0", NULL, NULL, &v, NULL), -EBUSY);
        assert_int_equal(fake.closes, 0);
        assert_null(v);
        vql_device_close(NULL);
}

/* ---- what is absent, and commands ---- */

static void absent_operations_have_a_substitute(void **state)
{
        uint8_t bits[8];
        const struct vql_dev_log log = { bits, sizeof(bits) };
        const struct vql_ctrl c = { 0, 0, "\x01", 1 };
        struct vql_doorbell doorbell;
        struct vql_event event;
        uint64_t value;
        struct vql_device *v = device_running(&bare);

        (void)state;
        assert_int_equal(vql_device_ctrl(v, &c, NULL), -ENOTSUP);
        assert_int_equal(vql_device_vq_doorbell(v, 0, &doorbell), -ENOTSUP);
        assert_int_equal(vql_device_log_set(v, &log, NULL), -ENOTSUP);
        assert_int_equal(vql_device_log_set(v, NULL, NULL), 0);
        assert_int_equal(vql_device_log_sync(v), 0);
        assert_int_equal(vql_device_events(v, &event, 1), 0);
        assert_null(vql_device_stat_names(v)[0]);
        assert_int_equal(vql_device_stats(v, 0, &value, 1), 0);
        vql_device_close(v);
}

static void commands_are_issued_again(void **state)
{
        const struct vql_ctrl mq = { 4, 0, "\x02\x00", 2 }, mac = { 1, 1, "macmac", 6 };
        const struct vql_ctrl refused = { 0, 0, "\x01", 1 };
        struct vql_device *v;

        (void)state;
        fake.caps.flags |= VQL_DEV_CTRL;
        v = device_running(&full);
        assert_int_equal(vql_device_ctrl(v, &mq, NULL), 0);
        assert_int_equal(vql_device_ctrl(v, &mac, NULL), 0);
        fake.result = -EIO;
        assert_int_equal(vql_device_ctrl(v, &refused, NULL), -EIO);
        assert_int_equal(vql_device_reset(v, NULL), 0);
        assert_int_equal(vql_device_replay(v, NULL), -EINVAL);
        to_life(v, VQL_DEVICE_RUN);
        fake.ctrls = 0;
        assert_int_equal(vql_device_replay(v, NULL), 0);
        assert_int_equal(fake.ctrls, 2);
        assert_int_equal(fake.last_class, 4);
        assert_int_equal(vql_device_counters(v)->replays, 2);
        fake.result = -EIO;
        assert_int_equal(vql_device_replay(v, NULL), -EIO);
        assert_int_equal(fake.ctrls, 3);
        vql_device_forget(v);
        assert_int_equal(vql_device_replay(v, NULL), 0);
        assert_int_equal(fake.ctrls, 3);
        vql_device_close(v);
}

static void drivers_are_found(void **state)
{
        (void)state;
        assert_non_null(vql_registry_find("sim"));
        assert_null(vql_registry_find("simulated"));
        assert_ptr_equal(vql_registry_match("sim0"), vql_registry_find("sim"));
        assert_null(vql_registry_match("/dev/nothing"));
        for (size_t i = 0; vql_registry_at(i); i++)
                assert_ptr_equal(vql_registry_find(vql_registry_at(i)->name), vql_registry_at(i));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(calls_out_of_turn_reach_nobody, setup),
                cmocka_unit_test_setup(queues_start_and_stop_in_turn, setup),
                cmocka_unit_test_setup(abilities_decide, setup),
                cmocka_unit_test_setup(impossible_rings_reach_nobody, setup),
                cmocka_unit_test_setup(maps_are_checked, setup),
                cmocka_unit_test_setup(impossible_abilities_are_not_believed, setup),
                cmocka_unit_test_setup(positive_results_are_errors, setup),
                cmocka_unit_test_setup(impossible_positions_lose_the_queue, setup),
                cmocka_unit_test_setup(suspend_names_those_that_ran, setup),
                cmocka_unit_test_setup(strange_events_are_dropped, setup),
                cmocka_unit_test_setup(failures_leave_a_known_state, setup),
                cmocka_unit_test_setup(open_refuses, setup),
                cmocka_unit_test_setup(absent_operations_have_a_substitute, setup),
                cmocka_unit_test_setup(commands_are_issued_again, setup),
                cmocka_unit_test(drivers_are_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
