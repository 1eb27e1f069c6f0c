/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <linux/virtio_net.h>

#include "port/replay.h"

enum { COALESCE = 6, COALESCE_TX = 0, COALESCE_QUEUE = 2, COALESCE_GET = 3 };

static void add(struct vql_replay *r, uint8_t cls, uint8_t command, const void *data, uint32_t n)
{
        const struct vql_ctrl c = { cls, command, data, n };
        void *copy;

        assert_int_equal(vql_replay_reserve(r, &c, &copy), 0);
        vql_replay_remember(r, &c, copy);
}

static void expect(const struct vql_replay *r, size_t i, uint8_t cls, uint8_t command,
                   const void *data, uint32_t n)
{
        const struct vql_ctrl c = vql_replay_get(r, i);

        assert_int_equal(c.cls, cls);
        assert_int_equal(c.command, command);
        assert_int_equal(c.n, n);
        assert_memory_equal(c.data, data, n);
}

/* The order of the specification for setting up, whatever the order of the commands was. */
static void is_in_order(void **state)
{
        struct vql_replay r = { 0 };

        (void)state;
        add(&r, COALESCE, COALESCE_TX, "cccccccc", 8);
        add(&r, 9, 1, "?", 1);
        add(&r, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_ADD, "\x05\x00", 2);
        add(&r, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_PROMISC, "\x01", 1);
        add(&r, VIRTIO_NET_CTRL_GUEST_OFFLOADS, 0, "offloads", 8);
        add(&r, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, "\x02\x00", 2);
        add(&r, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_TABLE_SET, "\0\0\0\0\0\0\0\0", 8);
        add(&r, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_ADDR_SET, "macmac", 6);
        assert_int_equal(r.n, 8);
        expect(&r, 0, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_ADDR_SET, "macmac", 6);
        expect(&r, 1, VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_TABLE_SET, "\0\0\0\0\0\0\0\0", 8);
        expect(&r, 2, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, "\x02\x00", 2);
        expect(&r, 3, VIRTIO_NET_CTRL_GUEST_OFFLOADS, 0, "offloads", 8);
        expect(&r, 4, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_PROMISC, "\x01", 1);
        expect(&r, 5, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_ADD, "\x05\x00", 2);
        expect(&r, 6, COALESCE, COALESCE_TX, "cccccccc", 8);
        expect(&r, 7, 9, 1, "?", 1);
        vql_replay_clear(&r);
        assert_int_equal(r.n, 0);
}

static void last_one_holds(void **state)
{
        struct vql_replay r = { 0 };

        (void)state;
        add(&r, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_PROMISC, "\x01", 1);
        add(&r, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_ALLMULTI, "\x01", 1);
        add(&r, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_PROMISC, "\x00", 1);
        assert_int_equal(r.n, 2);
        expect(&r, 0, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_ALLMULTI, "\x01", 1);
        expect(&r, 1, VIRTIO_NET_CTRL_RX, VIRTIO_NET_CTRL_RX_PROMISC, "\x00", 1);
        vql_replay_clear(&r);
}

static void vlans_come_and_go(void **state)
{
        struct vql_replay r = { 0 };

        (void)state;
        for (int i = 0; i < 2; i++) {
                add(&r, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_ADD, "\x05\x00", 2);
                add(&r, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_ADD, "\x05\x01", 2);
        }
        assert_int_equal(r.n, 2);
        add(&r, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_DEL, "\x05\x00", 2);
        assert_int_equal(r.n, 1);
        expect(&r, 0, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_ADD, "\x05\x01", 2);
        vql_replay_clear(&r);
}

/* RSS ends automatic steering, and the other way round; a hash alone is neither. */
static void steering_is_one_thing(void **state)
{
        struct vql_replay r = { 0 };

        (void)state;
        add(&r, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, "\x02\x00", 2);
        add(&r, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_HASH_CONFIG, "hash", 4);
        add(&r, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_RSS_CONFIG, "rss", 3);
        assert_int_equal(r.n, 2);
        expect(&r, 0, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_HASH_CONFIG, "hash", 4);
        expect(&r, 1, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_RSS_CONFIG, "rss", 3);
        add(&r, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, "\x01\x00", 2);
        assert_int_equal(r.n, 2);
        expect(&r, 1, VIRTIO_NET_CTRL_MQ, VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET, "\x01\x00", 2);
        vql_replay_clear(&r);
}

static void coalescing_of_all_overrides_one(void **state)
{
        struct vql_replay r = { 0 };

        (void)state;
        add(&r, COALESCE, COALESCE_QUEUE, "\x01\x00\0\0one", 8);
        add(&r, COALESCE, COALESCE_QUEUE, "\x02\x00\0\0two", 8);
        add(&r, COALESCE, COALESCE_TX, "allthese", 8);
        assert_int_equal(r.n, 2);
        expect(&r, 0, COALESCE, COALESCE_TX, "allthese", 8);
        expect(&r, 1, COALESCE, COALESCE_QUEUE, "\x02\x00\0\0two", 8);
        vql_replay_clear(&r);
}

static void questions_leave_nothing(void **state)
{
        struct vql_replay r = { 0 };

        (void)state;
        add(&r, VIRTIO_NET_CTRL_ANNOUNCE, VIRTIO_NET_CTRL_ANNOUNCE_ACK, "", 0);
        add(&r, COALESCE, COALESCE_GET, "\x01\x00\0\0", 4);
        assert_int_equal(r.n, 0);
        vql_replay_clear(&r);
}

static void many_fit(void **state)
{
        struct vql_replay r = { 0 };

        (void)state;
        for (unsigned int i = 0; i < 4096; i++) {
                const uint8_t vlan[2] = { (uint8_t)i, (uint8_t)(i >> 8) };

                add(&r, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_ADD, vlan, 2);
        }
        assert_int_equal(r.n, 4096);
        expect(&r, 4095, VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_CTRL_VLAN_ADD, "\xff\x0f", 2);
        vql_replay_clear(&r);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(is_in_order),
                cmocka_unit_test(last_one_holds),
                cmocka_unit_test(vlans_come_and_go),
                cmocka_unit_test(steering_is_one_thing),
                cmocka_unit_test(coalescing_of_all_overrides_one),
                cmocka_unit_test(questions_leave_nothing),
                cmocka_unit_test(many_fit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
