/* SPDX-License-Identifier: BSD-3-Clause */

/* Uplinks that need nothing of the machine: the loopback and DPDK's own virtual devices. */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_ring.h>
#include <rte_udp.h>

#include "process.h"
#include "test_uplink.h"

/* ---- loopback ---- */

static void loopback_gives_back(void **state)
{
        struct vql_uplink_params p = params_for("loopback");
        struct rte_mbuf *out[32], *in[32];
        struct vql_uplink_info info;
        struct vql_uplink *u;

        (void)state;
        p.queues = 4;
        u = open_params(&p);
        assert_int_equal(vql_uplink_queues(u), 4);
        vql_uplink_get_info(u, &info);
        assert_string_equal(info.device, "loopback");
        assert_string_equal(info.driver, "loopback");
        assert_true(info.link_up);
        assert_false(vql_uplink_needs_timer(u, 0));
        assert_int_equal(vql_uplink_rx_fd(u, 0), -1);
        for (int i = 0; i < 32; i++)
                out[i] = frame(60 + 300 * (uint32_t)i, (uint8_t)i);
        assert_int_equal(vql_uplink_send(u, 2, out, 32), 0);
        assert_int_equal(vql_uplink_receive(u, 1, in, 32), 0);
        assert_int_equal(vql_uplink_receive(u, 2, in, 32), 32);
        for (int i = 0; i < 32; i++) {
                assert_int_equal(in[i]->pkt_len, 60 + 300 * i);
                assert_int_equal(mark_of(in[i]), i);
        }
        rte_pktmbuf_free_bulk(in, 32);
        assert_int_equal(vql_uplink_check_mtu(u, 65535, NULL), 0);
        vql_uplink_close(u);
        check_pool_full();
}

static void loopback_drops_what_it_cannot_hold(void **state)
{
        struct vql_uplink *u = open_spec("loopback");
        struct rte_mbuf *out[32], *in[32];
        unsigned int lost = 0;

        (void)state;
        for (int k = 0; k < 40; k++) {
                for (int i = 0; i < 32; i++)
                        out[i] = frame(60, 1);
                lost += vql_uplink_send(u, 0, out, 32);
        }
        assert_in_range(lost, 1, 40 * 32 - 512);
        vql_uplink_drain(u, 0);
        assert_int_equal(vql_uplink_receive(u, 0, in, 32), 0);
        check_pool_full();
        out[0] = frame(60, 1);
        assert_int_equal(vql_uplink_send(u, 0, out, 1), 0);
        /* What is still inside goes with it. */
        vql_uplink_close(u);
        check_pool_full();
}

static void loopback_cuts_and_sums(void **state)
{
        struct vql_uplink *u = open_spec("loopback");
        struct rte_mbuf *out[2], *in[32];
        struct rte_ipv4_hdr *ip;
        struct rte_udp_hdr *udp;
        uint16_t got;

        (void)state;
        out[0] = frame(42 + 5 * 100, 7);
        memcpy(rte_pktmbuf_mtod_offset(out[0], uint8_t *, 12), "\x08\x00\x45", 3);
        ip = rte_pktmbuf_mtod_offset(out[0], void *, 14);
        ip->next_proto_id = IPPROTO_UDP;
        ip->fragment_offset = 0;
        udp = (struct rte_udp_hdr *)(ip + 1);
        out[0]->tx_offload = rte_mbuf_tx_offload(14, 20, 8, 100, 0, 0, 0);
        out[0]->ol_flags = RTE_MBUF_F_TX_UDP_SEG | RTE_MBUF_F_TX_UDP_CKSUM | RTE_MBUF_F_TX_IPV4 |
                           RTE_MBUF_F_TX_IP_CKSUM;
        udp->dgram_cksum = 0;
        out[1] = frame(60, 9);
        assert_int_equal(vql_uplink_send(u, 0, out, 2), 0);
        got = vql_uplink_receive(u, 0, in, 32);
        assert_int_equal(got, 6);
        for (int i = 0; i < 5; i++) {
                uint8_t flat[142];

                assert_int_equal(in[i]->pkt_len, 142);
                assert_int_equal(in[i]->ol_flags, 0);
                memcpy(flat, rte_pktmbuf_mtod(in[i], uint8_t *), 42);
                memset(flat + 42, 7, 100);
                check_udp_sum(flat, false);
        }
        assert_int_equal(mark_of(in[5]), 9);
        rte_pktmbuf_free_bulk(in, got);
        vql_uplink_close(u);
        check_pool_full();
}

/* More segments than one burst holds, and too many of them. */
static void loopback_sends_in_pieces(void **state)
{
        struct vql_uplink *u = open_spec("loopback");
        struct rte_mbuf *in[32], *m;
        unsigned int total = 0;
        uint16_t got;

        (void)state;
        for (int mss = 100; mss > 0; mss -= 90) {
                m = frame(42 + 10000, 7);
                memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, 12), "\x08\x00\x45", 3);
                m->tx_offload = rte_mbuf_tx_offload(14, 20, 8, (uint64_t)mss, 0, 0, 0);
                m->ol_flags = RTE_MBUF_F_TX_UDP_SEG | RTE_MBUF_F_TX_UDP_CKSUM | RTE_MBUF_F_TX_IPV4;
                assert_int_equal(vql_uplink_send(u, 0, &m, 1), mss == 10);
        }
        while ((got = vql_uplink_receive(u, 0, in, 32)) > 0) {
                total += got;
                rte_pktmbuf_free_bulk(in, got);
        }
        assert_int_equal(total, 100);
        vql_uplink_close(u);
        check_pool_full();
}

static void loopback_leaves_nothing_behind(void **state)
{
        const uint16_t before = rte_eth_dev_count_total();
        size_t fds = 0;

        (void)state;
        for (int i = 0; i < 100; i++) {
                struct vql_uplink *u = open_spec("loopback");

                assert_int_equal(rte_eth_dev_count_total(), before);

                vql_uplink_close(u);
                if (i == 0)
                        fds = process_count_fds();
        }
        assert_int_equal(process_count_fds(), fds);
}

/* ---- other devices ---- */

static void null_device(void **state)
{
        struct vql_uplink_params p = params_for("net_null0,no-rx=1");
        struct vql_uplink_info info;
        struct rte_mbuf *m[2];
        struct vql_uplink *u;

        (void)state;
        p.queues = 3;
        p.mtu = 9000;
        u = open_params(&p);
        vql_uplink_get_info(u, &info);
        assert_string_equal(info.device, "net_null0");
        assert_string_equal(info.driver, "net_null");
        assert_int_equal(info.rx_queues, 3);
        assert_int_equal(info.mtu, 9000);
        m[0] = frame(5000, 1);
        m[1] = frame(60, 1);
        assert_int_equal(vql_uplink_send(u, 2, m, 2), 0);
        vql_uplink_close(u);
        check_pool_full();
}

static void device_that_was_there(void **state)
{
        struct vql_uplink *u;
        struct rte_mbuf *m = frame(60, 5);
        struct rte_ring *ring;
        void *got = NULL;
        uint16_t id;

        (void)state;
        assert_int_equal(rte_dev_probe("net_ring5"), 0);
        ring = rte_ring_lookup("ETH_RXTX0_net_ring5"); /* as the driver names it */
        assert_non_null(ring);
        for (int round = 0; round < 3; round++) {
                u = open_spec("net_ring5");
                check_refused("net_ring5", -EBUSY, "uplink net_ring5: in use by 'port1'");
                check_refused("net_ring5,a=b", -EBUSY,
                              "uplink net_ring5: a device of this name is there already; choose "
                              "another number, or give no arguments to use it as it is");
                assert_int_equal(vql_uplink_send(u, 0, &m, 1), 0);
                assert_int_equal(rte_ring_dequeue(ring, &got), 0);
                assert_ptr_equal(got, m);
                assert_int_equal(rte_ring_enqueue(ring, m), 0);
                assert_int_equal(vql_uplink_receive(u, 0, &m, 1), 1);
                vql_uplink_close(u);
                /* It was not ours, so it stays. */
                assert_int_equal(rte_eth_dev_get_port_by_name("net_ring5", &id), 0);
        }
        rte_pktmbuf_free(m);
        rte_eth_dev_close(id);
}

static void what_is_no_uplink(void **state)
{
        char longest[200];

        (void)state;
        check_refused("", -EINVAL,
                      "uplink '': expected \"loopback\", or a device name of 1 to 63 characters, "
                      "with arguments after a comma");
        memset(longest, 'x', sizeof(longest));
        longest[64] = '\0';
        check_refused(longest, -EINVAL,
                      "uplink 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx': "
                      "expected \"loopback\", or a device name of 1 to 63 characters, with "
                      "arguments after a comma");
        check_refused("net_nosuch0", -ENODEV,
                      "uplink net_nosuch0: DPDK has no driver of this name; expected, for example, "
                      "net_tap0, net_af_packet0, net_null0 or a PCI address");
        check_refused("00:1f.7", -ENODEV,
                      "uplink 0000:00:1f.7: DPDK cannot use this PCI device: No such device (is it "
                      "there, bound to vfio-pci, and in the list of PCI addresses to use?)");
        check_refused("net_null7,frob=1", -ENODEV,
                      "uplink net_null7: its driver refused it, arguments 'frob=1' (no reason "
                      "given); DPDK's log says more");
        check_refused("net_af_packet0", -ENODEV,
                      "uplink net_af_packet0: which interface? expected iface=NAME");
        check_refused("net_af_packet0,iface=vqlnone", -ENODEV,
                      "uplink net_af_packet0: no network interface 'vqlnone'");
        check_refused("net_af_xdp0,iface=vqlnone", -ENODEV,
                      "uplink net_af_xdp0: no network interface 'vqlnone'");
        check_refused("crypto_null0", -ENODEV,
                      "uplink crypto_null0: DPDK took it, but it is no Ethernet device");
}

/* DPDK's table of devices is small. */
static void no_room_for_another(void **state)
{
        struct vql_uplink *u[RTE_MAX_ETHPORTS];
        char spec[64], sentence[128];
        int n = 0;

        (void)state;
        while (rte_eth_dev_count_total() < RTE_MAX_ETHPORTS) {
                snprintf(spec, sizeof(spec), "net_null%d,no-rx=1", 100 + n);
                u[n++] = open_spec(spec);
        }
        snprintf(sentence, sizeof(sentence),
                 "uplink net_null9: this DPDK has room for %d devices, and all are taken",
                 RTE_MAX_ETHPORTS);
        check_refused("net_null9", -ENODEV, sentence);
        vql_uplink_close(open_spec("loopback"));
        while (n > 0)
                vql_uplink_close(u[--n]);
}

/* A refusal leaves nothing that stands in the way of the next attempt. */
static void second_attempt(void **state)
{
        (void)state;
        for (int i = 0; i < 3; i++) {
                struct vql_uplink_params p = params_for("net_null8,frob=1");
                struct vql_uplink *u = NULL;

                assert_int_equal(vql_uplink_open(&p, &u, NULL), -ENODEV);
                vql_uplink_close(open_spec("net_null8,no-rx=1"));
        }
}

static void *open_and_close(void *spec)
{
        struct vql_uplink_params p = params_for(spec);
        struct vql_uplink *u;
        uintptr_t failed = 0;

        for (int i = 0; i < 50; i++) {
                if (vql_uplink_open(&p, &u, NULL) < 0)
                        failed++;
                else
                        vql_uplink_close(u);
        }
        return (void *)failed;
}

static void ports_open_and_close_at_once(void **state)
{
        char *specs[] = { "net_null1,no-rx=1", "net_null2,no-rx=1", "loopback" };
        pthread_t thread[3];

        (void)state;
        for (int i = 0; i < 3; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, specs[i]), 0);
        for (int i = 0; i < 3; i++) {
                void *failed = NULL;

                assert_int_equal(pthread_join(thread[i], &failed), 0);
                assert_null(failed);
        }
}

static void files_take_packets(void **state)
{
        char spec[128], path[] = "/tmp/vqlut-XXXXXX";
        struct vql_uplink *u;
        struct rte_mbuf *m = frame(3000, 1);
        int fd = mkstemp(path);

        (void)state;
        assert_true(fd >= 0);
        snprintf(spec, sizeof(spec), "net_pcap0,tx_pcap=%s", path);
        u = open_spec(spec);
        assert_int_equal(vql_uplink_send(u, 0, &m, 1), 0);
        vql_uplink_close(u);
        assert_int_equal(lseek(fd, 0, SEEK_END), 24 + 16 + 3000);
        close(fd);
        unlink(path);
        check_pool_full();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(loopback_gives_back),
                cmocka_unit_test(loopback_drops_what_it_cannot_hold),
                cmocka_unit_test(loopback_cuts_and_sums),
                cmocka_unit_test(loopback_sends_in_pieces),
                cmocka_unit_test(loopback_leaves_nothing_behind),
                cmocka_unit_test(null_device),
                cmocka_unit_test(device_that_was_there),
                cmocka_unit_test(what_is_no_uplink),
                cmocka_unit_test(no_room_for_another),
                cmocka_unit_test(second_attempt),
                cmocka_unit_test(ports_open_and_close_at_once),
                cmocka_unit_test(files_take_packets),
        };

        return test_pools_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
