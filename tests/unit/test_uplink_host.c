/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Uplinks on interfaces of the host: taps and packet sockets.  The process moves into a network
 * namespace of its own, so that interfaces made here are seen by nobody and vanish with it; where
 * that is not allowed, the tests are skipped and say so.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "test_uplink.h"

enum { WAIT_MS = 20000 };

static bool own_namespace;

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

static void run_ip(const char *const argv[])
{
        int status = 0;
        pid_t pid;

        assert_int_equal(posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
                fail_msg("ip %s %s %s ...: status %d", argv[1], argv[2], argv[3], status);
}

#define ip(...) run_ip((const char *const[]){ "ip", __VA_ARGS__, NULL })

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
        ip("link", "set", "vqlut0", "mtu", "9000");
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
        size_t fds = 0;

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
                        fds = process_count_fds();
        }
        assert_int_equal(process_count_fds(), fds);
        check_pool_full();
}

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
        ip("link", "add", "vqluv0", "type", "veth", "peer", "name", "vqluv1");
        ip("link", "set", "vqluv0", "up");
        ip("link", "set", "vqluv1", "up");
        ip("addr", "add", "192.0.2.1/24", "dev", "vqluv0");
        ip("addr", "add", "2001:db8::1/64", "dev", "vqluv0", "nodad");
        ip("neigh", "add", "192.0.2.2", "lladdr", "02:00:00:00:00:02", "dev", "vqluv0", "nud",
           "permanent");
        ip("neigh", "add", "2001:db8::2", "lladdr", "02:00:00:00:00:02", "dev", "vqluv0", "nud",
           "permanent");
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
        ip("link", "del", "vqluv0");
        check_pool_full();
}

static void packet_sockets_have_queues(void **state)
{
        struct vql_uplink_params p = params_for("net_af_packet0,iface=vqluv1");
        struct vql_uplink_info info;
        struct vql_uplink *u;
        struct rte_mbuf *m;
        size_t fds = 0;

        (void)state;
        need_namespace();
        ip("link", "add", "vqluv0", "type", "veth", "peer", "name", "vqluv1");
        ip("link", "set", "vqluv0", "up");
        ip("link", "set", "vqluv1", "mtu", "1400", "up");
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
                        fds = process_count_fds();
        }
        assert_int_equal(process_count_fds(), fds);
        p.spec = "net_af_packet0,iface=vqluv1,qpairs=2";
        u = open_params(&p);
        assert_int_equal(vql_uplink_queues(u), 2);
        vql_uplink_close(u);
        ip("link", "del", "vqluv0");
        check_pool_full();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tap_carries_both_ways),
                cmocka_unit_test(tap_has_an_mtu),
                cmocka_unit_test(tap_that_cannot_be),
                cmocka_unit_test(tap_sends_no_signals),
                cmocka_unit_test(taps_leave_nothing_behind),
                cmocka_unit_test(host_packets_get_their_checksum),
                cmocka_unit_test(packet_sockets_have_queues),
        };

        own_namespace = unshare(CLONE_NEWNET) == 0;
        return test_pools_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
