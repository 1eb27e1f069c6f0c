/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"
#include "session_peer.h"

/* Requests that concern one ring.  FAULTS A2, A9 to A11, A28, A29, C29, E1, F14, F16. */

enum { SEED = 20240613 };

/* The seam to the kernel: these two fail when they are told to. */
static int readlink_fails, fcntl_fails;

ssize_t readlink(const char *path, char *buf, size_t size)
{
        if (!readlink_fails)
                return syscall(SYS_readlinkat, AT_FDCWD, path, buf, size);
        errno = readlink_fails;
        return -1;
}

int fcntl(int fd, int cmd, ...)
{
        va_list ap;
        long arg;

        va_start(ap, cmd);
        arg = va_arg(ap, long);
        va_end(ap);
        if (cmd != F_SETFL || !fcntl_fails)
                return (int)syscall(SYS_fcntl, fd, cmd, arg);
        errno = fcntl_fails;
        return -1;
}

/* Send one ring request for that index, otherwise right. */
static void send_for_ring(struct peer *p, uint32_t request, uint32_t index)
{
        switch (request) {
        case VQL_REQ_SET_VRING_ADDR:
                peer_addr(p, index, 0, 0x10000);
                break;
        case VQL_REQ_SET_VRING_KICK:
        case VQL_REQ_SET_VRING_CALL:
        case VQL_REQ_SET_VRING_ERR:
                peer_vring_fd(p, request, index, peer_eventfd());
                break;
        default:
                peer_state(p, request, index, 1);
                break;
        }
}

static const uint32_t ring_requests[] = {
        VQL_REQ_SET_VRING_NUM,  VQL_REQ_SET_VRING_ADDR,   VQL_REQ_SET_VRING_BASE,
        VQL_REQ_GET_VRING_BASE, VQL_REQ_SET_VRING_KICK,   VQL_REQ_SET_VRING_CALL,
        VQL_REQ_SET_VRING_ERR,  VQL_REQ_SET_VRING_ENABLE,
};

enum { N_REQUESTS = sizeof(ring_requests) / sizeof(ring_requests[0]) };

/* Checked at full width, by each of them. */
static void ring_index_is_checked(void **state)
{
        static const uint32_t bad[] = { 8, 9, 255, 256, 0x10000, 0x10003, 0x80000000, UINT32_MAX };
        struct peer *p = peer_new_acked();
        size_t fds = process_count_fds();

        (void)state;
        for (size_t r = 0; r < N_REQUESTS; r++) {
                for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                        send_for_ring(p, ring_requests[r], bad[i]);
                        if (ring_requests[r] == VQL_REQ_GET_VRING_BASE)
                                assert_ends(p, "GET_VRING_BASE: ring");
                        else
                                assert_ack(p, false);
                        assert_int_equal(process_count_fds(), fds);
                }
                send_for_ring(p, ring_requests[r], 7);
                assert_int_equal(p->result, 0);
                assert_int_equal(p->host.ring, 7);
                fds = process_count_fds();
        }
        assert_int_equal(p->host.applied, 1 + N_REQUESTS);
        peer_free(p);
}

/* As many rings as 8 bits can name. */
static void last_ring_of_the_largest_port(void **state)
{
        struct vql_offer offer = fake_offer;
        struct peer *p;

        (void)state;
        offer.max_rings = VQL_MAX_RINGS;
        p = peer_new_offered(&offer);
        peer_negotiate(p, true);
        peer_empty(p, VQL_REQ_GET_QUEUE_NUM);
        assert_int_equal(peer_reply_u64(p), 128);
        peer_start_ring(p, 255);
        assert_true(p->session->vring[255].kick_set);
        peer_state(p, VQL_REQ_SET_VRING_NUM, 256, 256);
        assert_ack(p, false);
        peer_free(p);
}

static void ring_size_is_checked(void **state)
{
        static const uint32_t bad[] = { 0, 32769, 65536, 0x10000 + 256, UINT32_MAX };
        static const uint32_t good[] = { 1, 2, 255, 256, 32767, 32768 };
        struct peer *p = peer_new_acked();

        (void)state;
        peer_state(p, VQL_REQ_SET_VRING_NUM, 3, 128);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                peer_state(p, VQL_REQ_SET_VRING_NUM, 3, bad[i]);
                assert_ack(p, false);
                assert_int_equal(p->session->vring[3].num, 128);
        }
        /* What is not a power of two may be right: the features may come later. */
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                peer_state(p, VQL_REQ_SET_VRING_NUM, 3, good[i]);
                assert_ack(p, true);
                assert_int_equal(p->session->vring[3].num, good[i]);
        }
        peer_free(p);
}

static void addresses_are_kept_as_they_come(void **state)
{
        struct peer *p = peer_new_acked();
        const struct vql_vring *v = &p->session->vring[6];

        (void)state;
        peer_addr(p, 6, VQL_WIRE_ADDR_LOG, 0xfffffffffffff000);
        assert_ack(p, true);
        assert_int_equal(p->host.changes, VQL_CHANGE_RING);
        assert_true(v->addr_set && v->log);
        assert_true(v->desc_uva == 0xfffffffffffff000);
        assert_true(v->avail_uva == 0x0);
        assert_true(v->used_uva == 0x1000);
        assert_true(v->log_gpa == 0x2000);
        peer_addr(p, 6, 0, 0x10000);
        assert_false(v->log);
        peer_free(p);
}

static void base_is_kept_raw(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        assert_false(p->session->vring[0].base_set);
        peer_state(p, VQL_REQ_SET_VRING_BASE, 0, 0x80008000);
        assert_ack(p, true);
        assert_int_equal(p->session->vring[0].base, 0x80008000);
        assert_true(p->session->vring[0].base_set);
        peer_free(p);
}

static void enable_is_0_or_1(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        peer_state(p, VQL_REQ_SET_VRING_ENABLE, 2, 1);
        assert_ack(p, true);
        assert_true(p->session->vring[2].enabled);
        peer_state(p, VQL_REQ_SET_VRING_ENABLE, 2, 2);
        assert_ack(p, false);
        assert_true(p->session->vring[2].enabled);
        peer_state(p, VQL_REQ_SET_VRING_ENABLE, 2, 0);
        assert_ack(p, true);
        assert_false(p->session->vring[2].enabled);
        peer_free(p);
}

/* One ring stops; nothing happens to the others, and this one can come back. */
static void get_vring_base_stops_one_ring(void **state)
{
        struct peer *p = peer_new_acked();
        struct vql_vring *v = &p->session->vring[1];
        int kick, call;

        (void)state;
        peer_start_ring(p, 0);
        peer_start_ring(p, 1);
        kick = v->kick_fd;
        call = v->call_fd;
        p->host.final_base = 0xabcd;
        peer_state(p, VQL_REQ_GET_VRING_BASE, 1, 0xffff);
        assert_reply(p, 8);
        assert_int_equal(p->host.changes, VQL_CHANGE_RING_STOP);
        assert_int_equal(p->host.ring, 1);
        assert_true(peer_reply_u64(p) == 0x0000abcd00000001);
        assert_int_equal(v->kick_fd, -1);
        assert_int_equal(fcntl(kick, F_GETFD), -1);
        assert_false(v->kick_set);
        assert_int_equal(v->call_fd, call);
        assert_true(fcntl(call, F_GETFD) >= 0);
        assert_true(v->enabled && v->addr_set);
        assert_true(p->session->vring[0].kick_set && p->session->vring[0].kick_fd >= 0);
        peer_start_ring(p, 1);
        assert_true(v->kick_set && v->base_set);
        peer_free(p);
}

/* ---- descriptors ---- */

static int not_an_eventfd(unsigned int kind)
{
        int fds[2];

        switch (kind) {
        case 0:
                return peer_memfd(4096);
        case 1:
                assert_int_equal(pipe(fds), 0);
                close(fds[0]);
                return fds[1];
        case 2:
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
                close(fds[0]);
                return fds[1];
        default:
                return open("/dev/null", O_RDWR | O_CLOEXEC);
        }
}

static void only_eventfds_are_taken(void **state)
{
        static const uint32_t requests[] = { VQL_REQ_SET_VRING_KICK, VQL_REQ_SET_VRING_CALL,
                                             VQL_REQ_SET_VRING_ERR };
        struct peer *p = peer_new_acked();
        size_t fds = process_count_fds();

        (void)state;
        for (size_t r = 0; r < 3; r++) {
                for (unsigned int kind = 0; kind < 4; kind++) {
                        peer_vring_fd(p, requests[r], 0, not_an_eventfd(kind));
                        assert_ack(p, false);
                        assert_non_null(strstr(p->last_line, ", expected an eventfd"));
                        assert_int_equal(process_count_fds(), fds);
                }
        }
        assert_false(p->session->vring[0].kick_set);
        assert_int_equal(p->session->vring[0].call_fd, -1);
        peer_free(p);
}

/* A full counter, or an empty one, must never make a worker wait. */
static void descriptors_are_made_non_blocking(void **state)
{
        struct peer *p = peer_new_acked();
        const struct vql_vring *v = &p->session->vring[0];

        (void)state;
        peer_vring_fd(p, VQL_REQ_SET_VRING_KICK, 0, peer_eventfd());
        peer_vring_fd(p, VQL_REQ_SET_VRING_CALL, 0, peer_eventfd());
        peer_vring_fd(p, VQL_REQ_SET_VRING_ERR, 0, peer_eventfd());
        assert_true(fcntl(v->kick_fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(v->call_fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(v->err_fd, F_GETFL) & O_NONBLOCK);
        peer_free(p);
}

/* What cannot be checked, or not be made safe, is not taken (FAULTS B6). */
static void descriptor_that_cannot_be_prepared(void **state)
{
        struct peer *p = peer_new_acked();
        size_t fds = process_count_fds();

        (void)state;
        readlink_fails = EACCES;
        peer_vring_fd(p, VQL_REQ_SET_VRING_KICK, 0, peer_eventfd());
        readlink_fails = 0;
        assert_ack(p, false);
        assert_non_null(strstr(p->last_line, "cannot read /proc/self/fd/"));
        fcntl_fails = EPERM;
        peer_vring_fd(p, VQL_REQ_SET_VRING_KICK, 0, peer_eventfd());
        fcntl_fails = 0;
        assert_ack(p, false);
        assert_non_null(strstr(p->last_line, "cannot make the descriptor non-blocking"));
        assert_false(p->session->vring[0].kick_set);
        assert_int_equal(process_count_fds(), fds);
        peer_free(p);
}

static int old_fd;

static void old_fd_is_open(struct fake_host *h)
{
        assert_true(fcntl(old_fd, F_GETFD) >= 0);
        h->look_arg = h;
}

/* Until the host has let go of it; then it is closed. */
static void replaced_descriptor_outlives_apply(void **state)
{
        static const struct {
                uint32_t request;
                unsigned int change;
        } sets[] = {
                { VQL_REQ_SET_VRING_KICK, VQL_CHANGE_RING },
                { VQL_REQ_SET_VRING_CALL, VQL_CHANGE_CALL },
                { VQL_REQ_SET_VRING_ERR, VQL_CHANGE_RING },
        };

        (void)state;
        for (size_t i = 0; i < 3; i++) {
                struct peer *p = peer_new_acked();

                old_fd = peer_eventfd();
                peer_vring_fd(p, sets[i].request, 0, old_fd);
                assert_ack(p, true);
                assert_int_equal(p->host.changes, sets[i].change);
                p->host.look = old_fd_is_open;
                p->host.fails = i == 2 ? EIO : 0; /* whatever it says */
                peer_vring_fd(p, sets[i].request, 0, peer_eventfd());
                assert_ack(p, i != 2);
                assert_non_null(p->host.look_arg);
                assert_int_equal(fcntl(old_fd, F_GETFD), -1);
                peer_free(p);
        }
}

static void sets_repeated_hold_one_descriptor_each(void **state)
{
        struct peer *p = peer_new_acked();
        size_t fds;

        (void)state;
        peer_start_ring(p, 4);
        fds = process_count_fds();
        for (int i = 0; i < 1000; i++)
                peer_start_ring(p, 4);
        assert_int_equal(process_count_fds(), fds);
        peer_free(p);
}

/* The form without descriptor: the front-end polls, or wants us to. */
static void no_descriptor_is_legal(void **state)
{
        struct peer *p = peer_new_acked();
        const struct vql_vring *v = &p->session->vring[3];
        size_t fds = process_count_fds();

        (void)state;
        peer_start_ring(p, 3);
        peer_vring_fd(p, VQL_REQ_SET_VRING_ERR, 3, peer_eventfd());
        peer_vring_fd(p, VQL_REQ_SET_VRING_KICK, 3 | VQL_WIRE_VRING_NO_FD, -1);
        assert_ack(p, true);
        assert_true(v->kick_set);
        assert_int_equal(v->kick_fd, -1);
        peer_vring_fd(p, VQL_REQ_SET_VRING_CALL, 3 | VQL_WIRE_VRING_NO_FD, -1);
        assert_ack(p, true);
        assert_int_equal(v->call_fd, -1);
        peer_vring_fd(p, VQL_REQ_SET_VRING_ERR, 3 | VQL_WIRE_VRING_NO_FD, -1);
        assert_ack(p, true);
        assert_int_equal(v->err_fd, -1);
        assert_int_equal(process_count_fds(), fds);
        peer_free(p);
}

/* ---- order ---- */

/* Rings may be configured with holes, and before or after anything else. */
static void any_order_leads_to_the_same_state(void **state)
{
        (void)state;
        srand(SEED);
        for (int round = 0; round < 200; round++) {
                struct peer *p = peer_new_acked();
                uint32_t todo[3 * N_REQUESTS], left = 0;

                for (uint32_t i = 0; i < 3 * N_REQUESTS; i++)
                        if (ring_requests[i % N_REQUESTS] != VQL_REQ_GET_VRING_BASE)
                                todo[left++] = i;
                while (left) {
                        uint32_t pick = (uint32_t)rand() % left, what = todo[pick];

                        todo[pick] = todo[--left];
                        send_for_ring(p, ring_requests[what % N_REQUESTS],
                                      6 - 2 * (what / N_REQUESTS));
                        assert_ack(p, true);
                }
                for (uint32_t i = 0; i < 8; i++) {
                        const struct vql_vring *v = &p->session->vring[i];
                        bool set = i == 2 || i == 4 || i == 6;

                        assert_int_equal(v->num, set);
                        assert_true(v->addr_set == set && v->base_set == set);
                        assert_true(v->kick_set == set && v->enabled == set);
                        assert_true((v->kick_fd >= 0) == set && (v->call_fd >= 0) == set);
                }
                peer_free(p);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ring_index_is_checked),
                cmocka_unit_test(last_ring_of_the_largest_port),
                cmocka_unit_test(ring_size_is_checked),
                cmocka_unit_test(addresses_are_kept_as_they_come),
                cmocka_unit_test(base_is_kept_raw),
                cmocka_unit_test(enable_is_0_or_1),
                cmocka_unit_test(get_vring_base_stops_one_ring),
                cmocka_unit_test(only_eventfds_are_taken),
                cmocka_unit_test(descriptors_are_made_non_blocking),
                cmocka_unit_test(descriptor_that_cannot_be_prepared),
                cmocka_unit_test(replaced_descriptor_outlives_apply),
                cmocka_unit_test(sets_repeated_hold_one_descriptor_each),
                cmocka_unit_test(no_descriptor_is_legal),
                cmocka_unit_test(any_order_leads_to_the_same_state),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
