/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a relay makes of its device: one that lies about what it returned, one that returns out of
 * order, one that does not read tables, and one that goes on without a relay at the wrap point.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/virtio_net.h>

#include <rte_common.h>

#include "base/bits.h"
#include "relay_rig.h"

enum { SIZE = 8, CHAINS = 4 };

static const uint32_t one_piece[] = { 60 };

/* A rig whose device has taken some chains. */
static struct rr_rig *start(const struct rr_setup *s, unsigned int chains)
{
        struct rr_rig *r = calloc(1, sizeof(*r));

        assert_non_null(r);
        rr_init(r, s);
        for (unsigned int i = 0; i < chains; i++)
                assert_true(rr_add_shape(r, one_piece, 1, false));
        fe_driver_publish(r->d);
        if (chains > 0) {
                assert_int_equal(rr_poll(r), 1);
                assert_int_equal(rr_take(r, UINT32_MAX), chains);
        }
        return r;
}

static void finish(struct rr_rig *r)
{
        rr_fini(r);
        free(r);
}

/* The rig does not know what the device said by tell(). */
static void abandon(struct rr_rig *r)
{
        vql_pending_free(vql_relay_settle(r->relay));
        vql_relay_close(r->relay);
        r->relay = NULL;
        finish(r);
}

/* ---- lies ---- */

/* All chains are still there after the device's lie, and the next device returns them. */
static void expect_fault(struct rr_rig *r, enum vql_relay_fault f, unsigned int returned)
{
        assert_int_equal(vql_relay_poll(r->relay), -EIO);
        assert_true(vql_relay_has_news(r->relay));
        assert_false(vql_relay_has_news(r->relay));
        assert_int_equal(rr_stats(r).fault, f);
        assert_int_equal(r->q.fault, VQL_FAULT_NONE);
        assert_int_equal(rr_stats(r).returned, returned);
        /* Nothing moves any more, whatever comes. */
        rr_add_shape(r, one_piece, 1, false);
        fe_driver_publish(r->d);
        assert_int_equal(vql_relay_poll(r->relay), -EIO);
        assert_int_equal(rr_stats(r).taken, CHAINS);
        assert_false(vql_relay_arm(r->relay));

        r->pending = vql_relay_settle(r->relay);
        assert_int_equal(vql_relay_outstanding(r->relay), CHAINS - returned);
        vql_relay_close(r->relay);
        r->relay = NULL;
        assert_null(r->pending);
        assert_int_equal(r->q.last_avail, r->q.last_used);
        r->packets = r->q.packets; /* what was returned here the rig did not see */
        r->bytes = r->q.bytes;
        rr_open(r);
        rr_run(r);
        assert_int_equal(r->got, CHAINS + 1);
        finish(r);
}

static void tell(struct rr_rig *r, uint16_t id, uint32_t len)
{
        ref_return(&r->dev, id, 1, len, 0);
}

static void play_lies(bool packed, bool rx)
{
        const struct rr_setup s = { .packed = packed, .rx = rx, .size = SIZE, .seed = 3 };
        struct rr_rig *r;

        r = start(&s, CHAINS);
        tell(r, SIZE, 0);
        expect_fault(r, VQL_RELAY_USED_ID, 0);

        r = start(&s, CHAINS);
        tell(r, UINT16_MAX, 0);
        expect_fault(r, VQL_RELAY_USED_ID, 0);

        /* Never offered. */
        r = start(&s, CHAINS);
        tell(r, SIZE - 1, 0);
        expect_fault(r, VQL_RELAY_USED_TWICE, 0);

        /* Behind good ones, which count. */
        r = start(&s, CHAINS);
        tell(r, r->held.item[0].id, 0);
        tell(r, r->held.item[1].id, 0);
        tell(r, r->held.item[1].id, 0);
        expect_fault(r, VQL_RELAY_USED_TWICE, 2);

        if (!packed) {
                r = start(&s, CHAINS);
                r->dev.at.used->idx = CHAINS + 1;
                expect_fault(r, VQL_RELAY_USED_INDEX, 0);
                r = start(&s, CHAINS);
                r->dev.at.used->idx = UINT16_MAX;
                expect_fault(r, VQL_RELAY_USED_INDEX, 0);
        }
        if (rx) {
                r = start(&s, CHAINS);
                tell(r, r->held.item[0].id, 61);
                expect_fault(r, VQL_RELAY_USED_LEN, 0);
                r = start(&s, CHAINS);
                tell(r, r->held.item[0].id, UINT32_MAX);
                expect_fault(r, VQL_RELAY_USED_LEN, 0);
        }
}

static void lies_cost_the_device(void **state)
{
        (void)state;
        for (int i = 0; i < 4; i++)
                play_lies(i & 1, i & 2);
}

/* A packed ring where more is marked as returned than was offered. */
static void returned_out_of_nothing(void **state)
{
        const struct rr_setup s = { .packed = true, .rx = true, .size = SIZE, .seed = 3 };
        struct rr_rig *r = start(&s, CHAINS);

        (void)state;
        rr_complete(r, CHAINS);
        assert_int_equal(rr_poll(r), 1);
        tell(r, 0, 0);
        assert_int_equal(vql_relay_poll(r->relay), -EIO);
        assert_int_equal(rr_stats(r).fault, VQL_RELAY_USED_TWICE);
        assert_int_equal(rr_get(r), CHAINS);
        finish(r);
}

/* Devices that read only have no length to tell, and some tell one: the driver gets 0. */
static void lengths_of_sent_chains_are_noise(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                const struct rr_setup s = { .packed = packed, .size = SIZE, .seed = 3 };
                struct rr_rig *r = start(&s, 1);

                tell(r, r->held.item[0].id, 1000);
                r->done.item[r->done.n++] = r->held.item[0];
                r->held.n = 0;
                assert_int_equal(rr_poll(r), 1);
                assert_int_equal(rr_get(r), 1);
                finish(r);
        }
}

/* ---- order ---- */

static void disorder_is_told_once(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                const struct rr_setup s = { .packed = packed, .rx = true, .size = SIZE, .seed = 3 };
                struct rr_rig *r = start(&s, CHAINS);

                rr_complete(r, 1);
                rr_poll(r);
                assert_false(rr_stats(r).out_of_order);
                assert_false(vql_relay_has_news(r->relay));
                r->s.disorder = true;
                tell(r, r->held.item[2].id, 5);
                assert_int_equal(vql_relay_poll(r->relay), 1);
                assert_true(rr_stats(r).out_of_order);
                assert_true(vql_relay_has_news(r->relay));
                tell(r, r->held.item[1].id, 5);
                assert_int_equal(vql_relay_poll(r->relay), 1);
                assert_true(rr_stats(r).out_of_order);
                assert_false(vql_relay_has_news(r->relay));

                /* The first one is neither in the ring behind the others, nor returned. */
                r->pending = vql_relay_settle(r->relay);
                assert_int_equal(vql_pending_count(r->pending), 1);
                assert_int_equal(vql_pending_slots(r->pending), 1);
                vql_relay_close(r->relay);
                r->relay = NULL;
                assert_int_equal(vql_pending_return(r->pending, &r->q), 1);
                r->pending = NULL;
                assert_int_equal(r->q.last_avail, r->q.last_used);
                assert_int_equal(r->q.avail_wrap, r->q.used_wrap);
                assert_int_equal(fe_driver_outstanding(r->d), CHAINS);
                for (unsigned int i = 0; i < CHAINS; i++) {
                        struct fe_done done;

                        assert_int_equal(fe_driver_get(r->d, &done), 1);
                }
                finish(r);
        }
}

/* Chains that were one entry each are several for the next device: all that is not offered again
 * stays pending, beside what is. */
static void pending_tables_become_buffers(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                const struct rr_setup s = { .packed = packed,
                                            .rx = true,
                                            .disorder = true,
                                            .indirect = true,
                                            .size = SIZE,
                                            .seed = 3 };
                struct rr_rig *r = start(&s, 0);

                for (unsigned int i = 0; i < SIZE; i++)
                        assert_true(rr_add_shape(r, (uint32_t[]){ 9, 9, 9, 9 }, 4, true));
                fe_driver_publish(r->d);
                rr_poll(r);
                assert_int_equal(rr_take(r, UINT32_MAX), SIZE);
                tell(r, r->held.item[SIZE - 1].id, 0);
                r->done.item[r->done.n++] = r->held.item[SIZE - 1];
                rr_stop(r);
                assert_int_equal(vql_pending_count(r->pending), SIZE - 1);

                r->s.indirect = false;
                rr_open(r);
                assert_int_equal(rr_poll(r), 1);
                assert_int_equal(rr_take(r, UINT32_MAX), 2);
                assert_int_equal(vql_relay_outstanding(r->relay), SIZE - 1);
                rr_stop(r);
                assert_int_equal(vql_pending_count(r->pending), SIZE - 1);
                rr_open(r);
                rr_run(r);
                assert_int_equal(r->got, SIZE);
                assert_int_equal(rr_stats(r).repeated, SIZE - 1);
                finish(r);
        }
}

/* A queue whose positions differ by something else than what is pending is refused. */
static void positions_must_fit(void **state)
{
        const struct rr_setup s = { .size = SIZE, .seed = 3 };
        struct rr_rig *r = start(&s, 0);
        struct vql_relay_params p = { .q = &r->q, .size = SIZE };
        struct vql_relay *relay;
        struct vql_error e;

        (void)state;
        r->q.last_avail++;
        assert_int_equal(vql_relay_open(&p, &relay, &e), -EINVAL);
        r->q.last_avail--;
        p.size = 6;
        assert_int_equal(vql_relay_open(&p, &relay, &e), -EINVAL);
        p.size = 0;
        assert_int_equal(vql_relay_open(&p, &relay, &e), -EINVAL);
        finish(r);
}

/* ---- room ---- */

static void chains_wait_for_room(void **state)
{
        static const uint32_t three[] = { 20, 20, 20 };

        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                const struct rr_setup s = {
                        .packed = packed, .rx = true, .size = 16, .shadow = 4, .seed = 3
                };
                struct rr_rig *r = start(&s, 2);

                assert_true(rr_add_shape(r, three, 3, false));
                fe_driver_publish(r->d);
                assert_int_equal(rr_poll(r), 0);
                rr_complete(r, 1);
                assert_int_equal(rr_poll(r), 1);
                assert_int_equal(rr_take(r, 9), 1);
                rr_run(r);
                assert_int_equal(r->got, 3);
                finish(r);
        }
}

static void chain_longer_than_the_shadow(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                struct rr_setup s = {
                        .packed = packed, .rx = true, .size = 16, .shadow = 2, .seed = 3
                };
                struct rr_rig *r = start(&s, 1);

                assert_true(rr_add_shape(r, (uint32_t[]){ 9, 9, 9 }, 3, false));
                fe_driver_publish(r->d);
                assert_int_equal(vql_relay_poll(r->relay), -E2BIG);
                assert_int_equal(vql_relay_poll(r->relay), -E2BIG);
                assert_int_equal(rr_stats(r).fault, VQL_RELAY_TOO_LONG);
                assert_int_equal(r->q.fault, VQL_FAULT_NONE);
                rr_stop(r);
                r->s.shadow = 4;
                rr_open(r);
                rr_run(r);
                assert_int_equal(r->got, 2);
                finish(r);
        }
}

/* ---- tables ---- */

static uint16_t shown_flags(struct rr_rig *r, unsigned int i)
{
        return r->s.packed ? r->dev.at.packed[i].flags : r->dev.at.desc[i].flags;
}

static void tables_go_as_they_are(void **state)
{
        (void)state;
        for (int i = 0; i < 4; i++) {
                const struct rr_setup s = {
                        .packed = i & 1, .indirect = i & 2, .rx = true, .size = SIZE, .seed = 3
                };
                struct rr_rig *r = start(&s, 0);

                assert_true(rr_add_shape(r, (uint32_t[]){ 30, 30, 30 }, 3, true));
                fe_driver_publish(r->d);
                assert_int_equal(rr_poll(r), 1);
                assert_int_equal(!!(shown_flags(r, 0) & VRING_DESC_F_INDIRECT), !!(i & 2));
                if (i & 2)
                        assert_int_equal(r->dev.at.desc[0].addr, r->buffer[r->n_buffers - 1].table);
                else
                        assert_true(shown_flags(r, 0) & VRING_DESC_F_NEXT);
                rr_run(r);
                assert_int_equal(r->got, 1);

                /* An empty entry is one that devices stumble over. */
                assert_true(rr_add_shape(r, (uint32_t[]){ 30, 0, 30 }, 3, true));
                fe_driver_publish(r->d);
                rr_run(r);
                assert_int_equal(r->got, 2);
                finish(r);
        }
}

/* ---- kicks ---- */

static void kicks_are_those_that_were_asked_for(void **state)
{
        (void)state;
        for (int i = 0; i < 4; i++) {
                const struct rr_setup s = {
                        .packed = i & 1, .event_idx = i & 2, .size = 64, .seed = 3
                };
                struct rr_rig *r = start(&s, 32);

                assert_int_equal(r->kicks, 1); /* a new ring asks for kicks, and it was one pass */
                ref_kicks_off(&r->dev);
                for (int k = 0; k < 20; k++) {
                        rr_add_shape(r, one_piece, 1, false);
                        fe_driver_publish(r->d);
                        rr_poll(r);
                        rr_take(r, 9);
                }
                assert_int_equal(r->kicks, 1);
                ref_kicks_on(&r->dev, i & 2 ? 3 : 0);
                for (int k = 0; k < 8; k++) {
                        rr_add_shape(r, one_piece, 1, false);
                        fe_driver_publish(r->d);
                        rr_poll(r);
                        assert_int_equal(r->kicks, 1 + (i & 2 ? k >= 3 : k + 1));
                }
                assert_int_equal(rr_stats(r).kicks, r->kicks);
                finish(r);
        }
}

/* ---- counters ---- */

/* One packet of three buffers, and one of one that fills it. */
static void mergeable_packets_count_once(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                const struct rr_setup s = { .packed = packed,
                                            .rx = true,
                                            .size = SIZE,
                                            .features = vql_bit(VIRTIO_NET_F_MRG_RXBUF),
                                            .seed = 3 };
                struct rr_rig *r = start(&s, CHAINS);
                const uint16_t three = 3, one = 1;

                fe_memory_write(r->mem, r->held.item[0].seg[0].gpa + 10, &three, 2);
                tell(r, r->held.item[0].id, 60);
                tell(r, r->held.item[1].id, 60);
                tell(r, r->held.item[2].id, 7);
                fe_memory_write(r->mem, r->held.item[3].seg[0].gpa + 10, &one, 2);
                tell(r, r->held.item[3].id, 60);
                assert_int_equal(vql_relay_poll(r->relay), 1);
                assert_int_equal(r->q.packets, 2);
                assert_int_equal(r->q.bytes, 60 + 60 + 7 - RR_HDR + 60 - RR_HDR);
                abandon(r);
        }
}

/* ---- the wrap point ---- */

static bool at_start(const struct rr_rig *r)
{
        return r->q.last_avail == 0 && r->q.last_used == 0 && r->q.avail_wrap == r->s.packed &&
               r->q.used_wrap == r->s.packed;
}

/* The guest's ring, from its initial position on, and no relay. */
static void go_direct(struct rr_rig *r)
{
        r->dev.at = fe_driver_pointers(r->d);
        r->dev.size = r->s.size;
        r->dev.avail = r->dev.used = r->dev.old_used = 0;
        r->dev.avail_wrap = r->dev.used_wrap = r->dev.old_used_wrap = true;
        r->held = (struct rr_list){ calloc(r->s.size, sizeof(struct rr_held)), 0 };
        r->done = (struct rr_list){ calloc(r->s.size, sizeof(struct rr_held)), 0 };
}

static void go_on_without_relay(struct rr_rig *r)
{
        rr_stop(r);
        free(r->held.item);
        free(r->done.item);
        go_direct(r);
        for (int i = 0; i < 50; i++) {
                rr_add(r, 5);
                rr_take(r, UINT32_MAX);
                r->done.n = 0;
                rr_complete(r, r->held.n);
                r->done.n = 0;
                rr_get(r);
        }
        assert_int_equal(r->got, r->offered);
}

static void play_wrap(const struct rr_setup *s)
{
        struct rr_rig *r = start(s, 0);
        unsigned int rounds = 0;

        vql_relay_stop_taking(r->relay, VQL_RELAY_STOP_AT_WRAP);
        while (vql_relay_phase(r->relay) != VQL_RELAY_DRAINED) {
                assert_true(rounds++ < 200000);
                rr_add(r, 1 + rr_random(r, 40));
                assert_true(rr_poll(r) >= 0);
                rr_take(r, 40);
                rr_complete(r, 1 + rr_random(r, 40));
                rr_get(r);
        }
        assert_true(vql_relay_has_news(r->relay));
        assert_true(at_start(r));
        /* The guest goes on, and it stays where it is. */
        rr_add(r, 3);
        for (int i = 0; i < 3; i++)
                assert_int_equal(rr_poll(r), 0);
        assert_true(at_start(r));
        assert_int_equal(vql_relay_outstanding(r->relay), 0);
        go_on_without_relay(r);
        finish(r);
}

static void stops_at_the_wrap_point(void **state)
{
        static const uint16_t sizes[] = { 1, 2, 7, 256, 32768 };

        (void)state;
        for (size_t i = 0; i < RTE_DIM(sizes); i++) {
                for (int k = 0; k < 4; k++) {
                        struct rr_setup s = { .packed = k & 1,
                                              .rx = k & 2,
                                              .size = sizes[i],
                                              .indirect = true,
                                              .whole = true,
                                              .seed = 5 };

                        if (!s.packed && (s.size & (s.size - 1) || s.size < 2))
                                continue;
                        s.start = s.packed ? (uint16_t)(s.size / 2) : 65000;
                        play_wrap(&s);
                }
        }
}

/* Four chains from there, and eight are available. */
static void takes_none_behind_the_wrap_point(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                const struct rr_setup s = { .packed = packed,
                                            .rx = true,
                                            .size = SIZE,
                                            .start = packed ? SIZE - 4 : UINT16_MAX - 3,
                                            .start_wrap_0 = packed,
                                            .seed = 3 };
                struct rr_rig *r = start(&s, 0);

                vql_relay_stop_taking(r->relay, VQL_RELAY_STOP_AT_WRAP);
                for (unsigned int i = 0; i < SIZE; i++)
                        assert_true(rr_add_shape(r, one_piece, 1, false));
                fe_driver_publish(r->d);
                assert_int_equal(rr_poll(r), 1);
                assert_int_equal(rr_take(r, UINT32_MAX), 4);
                assert_int_equal(vql_relay_phase(r->relay), VQL_RELAY_STOPPED);
                finish(r);
        }
}

/* Chains that are out take their part of the ring. */
static void more_available_than_the_ring_holds(void **state)
{
        const struct rr_setup s = { .rx = true, .size = SIZE, .seed = 3 };
        struct rr_rig *r = start(&s, CHAINS);

        (void)state;
        fe_driver_jump(r->d, SIZE - CHAINS + 1);
        assert_int_equal(vql_relay_poll(r->relay), -EBADMSG);
        assert_int_equal(r->q.fault, VQL_FAULT_AVAIL_INDEX);
        assert_int_equal(rr_stats(r).taken, CHAINS);
        abandon(r);
}

static void stops_at_once_and_goes_on(void **state)
{
        const struct rr_setup s = { .rx = true, .size = SIZE, .start = 100, .seed = 3 };
        struct rr_rig *r = start(&s, 2);

        (void)state;
        assert_int_equal(vql_relay_phase(r->relay), VQL_RELAY_TAKING);
        vql_relay_stop_taking(r->relay, VQL_RELAY_STOP);
        rr_add_shape(r, one_piece, 1, false);
        fe_driver_publish(r->d);
        assert_int_equal(rr_poll(r), 0);
        assert_int_equal(vql_relay_phase(r->relay), VQL_RELAY_STOPPED);
        assert_int_equal(vql_relay_outstanding(r->relay), 2);
        rr_complete(r, 2);
        assert_int_equal(rr_poll(r), 1);
        assert_int_equal(vql_relay_phase(r->relay), VQL_RELAY_DRAINED);
        vql_relay_stop_taking(r->relay, VQL_RELAY_TAKE);
        assert_int_equal(rr_poll(r), 1);
        assert_int_equal(vql_relay_phase(r->relay), VQL_RELAY_TAKING);
        rr_run(r);
        assert_int_equal(r->got, 3);
        finish(r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lies_cost_the_device),
                cmocka_unit_test(returned_out_of_nothing),
                cmocka_unit_test(lengths_of_sent_chains_are_noise),
                cmocka_unit_test(disorder_is_told_once),
                cmocka_unit_test(pending_tables_become_buffers),
                cmocka_unit_test(positions_must_fit),
                cmocka_unit_test(chains_wait_for_room),
                cmocka_unit_test(chain_longer_than_the_shadow),
                cmocka_unit_test(tables_go_as_they_are),
                cmocka_unit_test(kicks_are_those_that_were_asked_for),
                cmocka_unit_test(mergeable_packets_count_once),
                cmocka_unit_test(stops_at_the_wrap_point),
                cmocka_unit_test(takes_none_behind_the_wrap_point),
                cmocka_unit_test(more_available_than_the_ring_holds),
                cmocka_unit_test(stops_at_once_and_goes_on),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
