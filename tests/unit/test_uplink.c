/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Uplinks over real DPDK devices.  The process moves into a network namespace of its own, so that
 * interfaces made here are seen by nobody and vanish with it; where that is not allowed, the tests
 * that need interfaces are skipped and say so.
 */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_ring.h>
#include <rte_udp.h>

#include "eal.h"
#include "sw-fallback/uplink.h"

enum { ROOM = 2048, WAIT_MS = 20000 };

static struct rte_mempool *pool, *indirect;
static bool own_namespace;

static struct vql_uplink_params params_for(const char *spec)
{
        return (struct vql_uplink_params){
                .name = "port1",
                .spec = spec,
                .queues = 1,
                .pool = pool,
                .indirect_pool = indirect,
        };
}

static struct vql_uplink *open_params(const struct vql_uplink_params *p)
{
        struct vql_uplink *u = NULL;
        struct vql_error e = { "" };

        if (vql_uplink_open(p, &u, &e) < 0)
                fail_msg("%s", e.text);
        return u;
}

static struct vql_uplink *open_spec(const char *spec)
{
        struct vql_uplink_params p = params_for(spec);

        return open_params(&p);
}

static void check_refused(const char *spec, int rc, const char *sentence)
{
        struct vql_uplink_params p = params_for(spec);
        struct vql_uplink *u = NULL;
        struct vql_error e = { "" };

        assert_int_equal(vql_uplink_open(&p, &u, &e), rc);
        assert_null(u);
        assert_string_equal(e.text, sentence);
}

static unsigned int count_fds(void)
{
        DIR *d = opendir("/proc/self/fd");
        unsigned int n = 0;

        assert_non_null(d);
        while (readdir(d))
                n++;
        closedir(d);
        return n;
}

/* A frame from a locally administered address to all, of an ether type that nobody speaks. */
static struct rte_mbuf *frame(uint32_t len, uint8_t mark)
{
        static const uint8_t head[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,
                                        0,    0,    0,    0,    1,    0x88, 0xb5 };
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool), *last = m;

        assert_non_null(m);
        memcpy(rte_pktmbuf_append(m, sizeof(head)), head, sizeof(head));
        while (m->pkt_len < len) {
                uint16_t n = (uint16_t)RTE_MIN(len - m->pkt_len, rte_pktmbuf_tailroom(last));

                if (n == 0) {
                        struct rte_mbuf *more = rte_pktmbuf_alloc(pool);

                        assert_non_null(more);
                        last->next = more;
                        last = more;
                        m->nb_segs++;
                        continue;
                }
                memset(rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len), mark, n);
                last->data_len = (uint16_t)(last->data_len + n);
                m->pkt_len += n;
        }
        return m;
}

static uint8_t mark_of(const struct rte_mbuf *m)
{
        return *rte_pktmbuf_mtod_offset(m, uint8_t *, 14);
}

/* A good checksum makes the sum over pseudo header and datagram all ones. */
static void check_udp_sum(const uint8_t *packet, bool v6)
{
        const uint8_t *ip = packet + 14, *udp = ip + (v6 ? 40 : 20);
        size_t len = (size_t)udp[4] << 8 | udp[5];
        uint64_t sum = len + IPPROTO_UDP;

        for (const uint8_t *p = ip + (v6 ? 8 : 12); p < udp; p += 2)
                sum += (uint64_t)p[0] << 8 | p[1];
        for (size_t i = 0; i < len; i++)
                sum += i & 1 ? udp[i] : (uint64_t)udp[i] << 8;
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        assert_int_equal(sum, 0xffff);
}

static void check_pool_full(void)
{
        assert_int_equal(rte_mempool_in_use_count(pool), 0);
        assert_int_equal(rte_mempool_in_use_count(indirect), 0);
}

static void need_namespace(void)
{
        if (own_namespace)
                return;
        print_message("skipped: no network namespace of our own (are we root?)\n");
        skip();
}

static void need_tap(void)
{
        need_namespace();
        if (access("/dev/net/tun", R_OK | W_OK) == 0)
                return;
        print_message("skipped: /dev/net/tun: %s\n", strerror(errno));
        skip();
}

static void run(const char *command)
{
        if (system(command) != 0)
                fail_msg("failed: %s", command);
}

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
        unsigned int fds = 0, before = rte_eth_dev_count_total();

        (void)state;
        for (int i = 0; i < 100; i++) {
                struct vql_uplink *u = open_spec("loopback");

                assert_int_equal(rte_eth_dev_count_total(), before);

                vql_uplink_close(u);
                if (i == 0)
                        fds = count_fds();
        }
        assert_int_equal(count_fds(), fds);
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
        char *specs[] = { (char *)"net_null1,no-rx=1", (char *)"net_null2,no-rx=1",
                          (char *)"loopback" };
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

/* ---- taps ---- */

static int packet_socket(const char *interface)
{
        struct sockaddr_ll to = {
                .sll_family = AF_PACKET,
                .sll_protocol = htons(0x88b5),
                .sll_ifindex = (int)if_nametoindex(interface),
        };
        int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(0x88b5));

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        return fd;
}

static int interface_mtu(const char *interface)
{
        struct ifreq req = { 0 };
        int fd = socket(AF_INET, SOCK_DGRAM, 0);

        snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", interface);
        assert_int_equal(ioctl(fd, SIOCGIFMTU, &req), 0);
        close(fd);
        return req.ifr_mtu;
}

static void wait_readable(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

/* Receive the next packet of ours, after the interrupt said that there is something. */
static struct rte_mbuf *wait_packet(struct vql_uplink *u)
{
        for (;;) {
                struct rte_mbuf *m;

                if (vql_uplink_receive(u, 0, &m, 1) == 0) {
                        wait_readable(vql_uplink_rx_fd(u, 0));
                        continue;
                }
                /* The kernel greets a new interface with IPv6 packets of its own. */
                if (memcmp(rte_pktmbuf_mtod_offset(m, uint8_t *, 12), "\x88\xb5", 2) == 0)
                        return m;
                rte_pktmbuf_free(m);
        }
}

static void tap_carries_both_ways(void **state)
{
        uint8_t bytes[2048], large[3000];
        struct vql_uplink_info info;
        struct vql_uplink *u;
        struct rte_mbuf *m[3];
        int fd;

        (void)state;
        need_tap();
        u = open_spec("net_tap0,iface=vqlut0");
        vql_uplink_get_info(u, &info);
        assert_string_equal(info.driver, "net_tap");
        assert_true(info.link_up);
        assert_true(info.interrupts);
        assert_int_equal(info.mtu, 1500);
        fd = packet_socket("vqlut0");

        /* The second is too long for the interface; those around it are not held up. */
        m[0] = frame(60, 1);
        m[1] = frame(4000, 2);
        m[2] = frame(1514, 3);
        assert_int_equal(vql_uplink_send(u, 0, m, 3), 1);
        wait_readable(fd);
        assert_int_equal(recv(fd, bytes, sizeof(bytes), 0), 60);
        assert_int_equal(bytes[14], 1);
        wait_readable(fd);
        assert_int_equal(recv(fd, bytes, sizeof(bytes), 0), 1514);
        assert_int_equal(bytes[14], 3);

        bytes[14] = 4;
        vql_uplink_rx_arm(u, 0);
        assert_int_equal(send(fd, bytes, 1514, 0), 1514);
        m[0] = wait_packet(u);
        assert_int_equal(m[0]->pkt_len, 1514);
        assert_int_equal(mark_of(m[0]), 4);
        rte_pktmbuf_free(m[0]);
        vql_uplink_rx_disarm(u, 0);

        /* Somebody makes the interface's MTU larger: such packets still arrive whole. */
        run("ip link set vqlut0 mtu 9000");
        memset(large, 0, sizeof(large));
        memcpy(large, bytes, 14);
        large[14] = 5;
        assert_int_equal(send(fd, large, sizeof(large), 0), sizeof(large));
        m[0] = wait_packet(u);
        assert_int_equal(m[0]->pkt_len, sizeof(large));
        assert_int_equal(mark_of(m[0]), 5);
        rte_pktmbuf_free(m[0]);
        close(fd);
        vql_uplink_close(u);
        assert_int_equal(if_nametoindex("vqlut0"), 0);
        check_pool_full();
}

static void tap_has_an_mtu(void **state)
{
        struct vql_uplink_params p = params_for("net_tap0,iface=vqlut0");
        struct vql_error e = { "" };
        struct vql_uplink *u = NULL;

        (void)state;
        need_tap();
        p.mtu = 1400;
        u = open_params(&p);
        assert_int_equal(interface_mtu("vqlut0"), 1400);
        assert_int_equal(vql_uplink_check_mtu(u, 1400, &e), 0);
        assert_int_equal(vql_uplink_check_mtu(u, 1401, &e), -ERANGE);
        assert_string_equal(e.text, "MTU 1401: uplink net_tap0 carries 1400");
        vql_uplink_close(u);
        p.mtu = 60000;
        u = NULL;
        if (vql_uplink_open(&p, &u, &e) < 0)
                assert_non_null(strstr(e.text, "the device refuses an MTU of 60000: "));
        vql_uplink_close(u);
        assert_int_equal(if_nametoindex("vqlut0"), 0);
}

static void tap_that_cannot_be(void **state)
{
        (void)state;
        need_tap();
        check_refused("net_tap0,iface=lo", -ENODEV,
                      "uplink net_tap0: interface 'lo' is there already and is not a tap with "
                      "queues to spare");
        check_refused("net_tap0,iface=a234567890123456", -ENODEV,
                      "uplink net_tap0: interface name 'a234567890123456' is longer than 15 "
                      "letters");
        check_refused("net_tap0,iface=vqlut0,frob=1", -ENODEV,
                      "uplink net_tap0: its driver did not understand the arguments "
                      "'iface=vqlut0,frob=1' (it made interface 'dtap0')");
        assert_int_equal(if_nametoindex("dtap0"), 0);
        vql_uplink_close(open_spec("net_tap0,iface=vqlut0"));
}

static void tap_sends_no_signals(void **state)
{
        struct vql_uplink *u;

        (void)state;
        need_tap();
        u = open_spec("net_tap0,iface=vqlut0");
        assert_false(fcntl(vql_uplink_rx_fd(u, 0), F_GETFL) & O_ASYNC);
        for (int s = SIGRTMIN; s <= SIGRTMAX; s++) {
                struct sigaction sa;

                assert_int_equal(sigaction(s, NULL, &sa), 0);
                assert_true(sa.sa_handler == SIG_DFL);
        }
        vql_uplink_close(u);
}

static void taps_leave_nothing_behind(void **state)
{
        struct vql_uplink_params p = params_for("net_tap0,iface=vqlut0");
        unsigned int fds = 0;

        (void)state;
        need_tap();
        p.queues = 2;
        for (int i = 0; i < 200; i++) {
                struct vql_uplink *u = open_params(&p);

                assert_int_equal(vql_uplink_queues(u), 2);
                assert_int_not_equal(if_nametoindex("vqlut0"), 0);
                vql_uplink_close(u);
                assert_int_equal(if_nametoindex("vqlut0"), 0);
                if (i == 0)
                        fds = count_fds();
        }
        assert_int_equal(count_fds(), fds);
        check_pool_full();
}

/* ---- af_packet ---- */

static void receive_udp(struct vql_uplink *u, bool v6, uint8_t *ret_packet, uint32_t *ret_len)
{
        for (;;) {
                struct rte_mbuf *m;
                uint8_t *p;
                bool found;

                for (int ms = 0; vql_uplink_receive(u, 0, &m, 1) == 0; ms++) {
                        assert_true(ms < WAIT_MS);
                        usleep(1000);
                }
                p = rte_pktmbuf_mtod(m, uint8_t *);
                found = v6 ? p[12] == 0x86 && p[20] == IPPROTO_UDP
                           : p[12] == 0x08 && p[23] == IPPROTO_UDP;
                memcpy(ret_packet, p, m->data_len);
                *ret_len = m->pkt_len;
                rte_pktmbuf_free(m);
                if (found)
                        return;
        }
}

/* Packets of this host's sockets come without checksum over a veth; a guest would drop them. */
static void host_packets_get_their_checksum(void **state)
{
        struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(9) };
        struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
        int fd4 = socket(AF_INET, SOCK_DGRAM, 0), fd6 = socket(AF_INET6, SOCK_DGRAM, 0);
        uint8_t packet[ROOM];
        struct vql_uplink *u;
        uint32_t len = 0;

        (void)state;
        need_namespace();
        run("ip link add vqluv0 type veth peer name vqluv1");
        run("ip link set vqluv0 up && ip link set vqluv1 up");
        run("ip addr add 192.0.2.1/24 dev vqluv0 && ip addr add 2001:db8::1/64 dev vqluv0 nodad");
        run("ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev vqluv0 nud permanent");
        run("ip neigh add 2001:db8::2 lladdr 02:00:00:00:00:02 dev vqluv0 nud permanent");
        u = open_spec("net_af_packet0,iface=vqluv1");
        inet_pton(AF_INET, "192.0.2.2", &to4.sin_addr);
        inet_pton(AF_INET6, "2001:db8::2", &to6.sin6_addr);
        assert_int_equal(sendto(fd4, "hello", 5, 0, (struct sockaddr *)&to4, sizeof(to4)), 5);
        receive_udp(u, false, packet, &len);
        assert_int_equal(len, 14 + 20 + 8 + 5);
        check_udp_sum(packet, false);
        assert_int_equal(sendto(fd6, "hello", 5, 0, (struct sockaddr *)&to6, sizeof(to6)), 5);
        receive_udp(u, true, packet, &len);
        assert_int_equal(len, 14 + 40 + 8 + 5);
        check_udp_sum(packet, true);
        vql_uplink_close(u);
        close(fd4);
        close(fd6);
        run("ip link del vqluv0");
        check_pool_full();
}

static void packet_sockets_have_queues(void **state)
{
        struct vql_uplink_params p = params_for("net_af_packet0,iface=vqluv1");
        struct vql_uplink_info info;
        struct vql_uplink *u;
        struct rte_mbuf *m;
        unsigned int fds = 0;

        (void)state;
        need_namespace();
        run("ip link add vqluv0 type veth peer name vqluv1");
        run("ip link set vqluv0 up && ip link set vqluv1 mtu 1400 up");
        p.queues = 4;
        for (int i = 0; i < 20; i++) {
                u = open_params(&p);
                assert_int_equal(vql_uplink_queues(u), 4);
                vql_uplink_get_info(u, &info);
                assert_int_equal(info.mtu, 1400); /* the interface's own */
                m = frame(1414, 1);
                assert_int_equal(vql_uplink_send(u, 3, &m, 1), 0);
                m = frame(1500, 1);
                assert_int_equal(vql_uplink_send(u, 3, &m, 1), 1);
                vql_uplink_close(u);
                if (i == 0)
                        fds = count_fds();
        }
        assert_int_equal(count_fds(), fds);
        p.spec = "net_af_packet0,iface=vqluv1,qpairs=2";
        u = open_params(&p);
        assert_int_equal(vql_uplink_queues(u), 2);
        vql_uplink_close(u);
        run("ip link del vqluv0");
        check_pool_full();
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
                cmocka_unit_test(tap_carries_both_ways),
                cmocka_unit_test(tap_has_an_mtu),
                cmocka_unit_test(tap_that_cannot_be),
                cmocka_unit_test(tap_sends_no_signals),
                cmocka_unit_test(taps_leave_nothing_behind),
                cmocka_unit_test(host_packets_get_their_checksum),
                cmocka_unit_test(packet_sockets_have_queues),
                cmocka_unit_test(files_take_packets),
        };

        own_namespace = unshare(CLONE_NEWNET) == 0;
        if (test_eal_start() < 0)
                return 1;
        pool = test_pool("pool", 4096, ROOM);
        indirect = test_pool("indirect", 4096, 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
