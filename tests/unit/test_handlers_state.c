/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loop.h"
#include "process.h"
#include "session_peer.h"
#include "vhost_user/transfer.h"

/* SET_DEVICE_STATE_FD and CHECK_DEVICE_STATE: what is answered, and when. */

enum { NO_FD = 0x100, REFUSED = 0x101, BYTES = 100 };

struct rig {
        struct peer *p;
        sd_event *loop;
};

static struct rig rig_new(void)
{
        struct rig r = { peer_new(), loop_new() };

        peer_negotiate(r.p, false);
        r.p->session->loop = r.loop;
        r.p->host.state_bytes = BYTES;
        for (unsigned int i = 0; i < BYTES; i++)
                r.p->host.state[i] = (uint8_t)(i + 1);
        return r;
}

static void rig_free(struct rig *r)
{
        peer_free(r->p);
        sd_event_unref(r->loop);
}

/* The pipe's other end is *ret_peer. */
static int state_pipe(enum vql_direction d, int *ret_peer)
{
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
        *ret_peer = fds[d == VQL_SAVE ? 0 : 1];
        return fds[d == VQL_SAVE ? 1 : 0];
}

static void set_fd(struct rig *r, uint32_t direction, uint32_t phase, int fd)
{
        const struct vql_wire_device_state body = { direction, phase };

        peer_send(r->p, VQL_REQ_SET_DEVICE_STATE_FD, &body, sizeof(body), &fd, 1);
}

static void expect_set(struct rig *r, uint64_t reply)
{
        assert_reply(r->p, 8);
        assert_int_equal(r->p->out.fd, -1);
        assert_int_equal(peer_reply_u64(r->p), reply);
}

static void expect_checked(struct rig *r, bool good)
{
        peer_empty(r->p, VQL_REQ_CHECK_DEVICE_STATE);
        assert_reply(r->p, 8);
        assert_int_equal(peer_reply_u64(r->p) == 0, good);
}

static void save_and_check(void **state)
{
        struct rig r = rig_new();
        uint8_t got[BYTES + 1];
        int peer, fd = state_pipe(VQL_SAVE, &peer);

        (void)state;
        set_fd(&r, VQL_SAVE, 0, fd);
        expect_set(&r, NO_FD);
        assert_int_equal(read(peer, got, sizeof(got)), BYTES);
        assert_memory_equal(got, r.p->host.state, BYTES);
        assert_int_equal(read(peer, got, 1), 0);
        expect_checked(&r, true);
        expect_checked(&r, true);
        /* What was saved must still be so. */
        r.p->host.state[7]++;
        expect_checked(&r, false);
        r.p->host.state[7]--;
        r.p->host.state_bytes--;
        expect_checked(&r, false);
        close(peer);
        rig_free(&r);
}

static void save_is_refused(void **state)
{
        struct rig r = rig_new();
        int peer, fd = state_pipe(VQL_SAVE, &peer);

        (void)state;
        r.p->host.fails = EBUSY;
        set_fd(&r, VQL_SAVE, 0, fd);
        expect_set(&r, REFUSED);
        assert_int_equal(read(peer, &fd, 1), 0);
        expect_checked(&r, false);
        close(peer);
        rig_free(&r);
}

static void load_and_check(void **state)
{
        struct rig r = rig_new();
        int peer, fd = state_pipe(VQL_LOAD, &peer);

        (void)state;
        set_fd(&r, VQL_LOAD, 0, fd);
        expect_set(&r, NO_FD);
        expect_checked(&r, false);
        assert_int_equal(write(peer, "state", 5), 5);
        loop_settle(r.loop);
        expect_checked(&r, false);
        assert_int_equal(r.p->host.loads, 0);
        close(peer);
        /* The loop has not seen the end yet. */
        expect_checked(&r, true);
        expect_checked(&r, true);
        assert_int_equal(r.p->host.loads, 1);
        assert_int_equal(r.p->host.state_bytes, 5);
        assert_memory_equal(r.p->host.state, "state", 5);
        rig_free(&r);
}

/* The front-end may also never ask. */
static void loaded_without_a_check(void **state)
{
        struct rig r = rig_new();
        int peer, fd = state_pipe(VQL_LOAD, &peer);

        (void)state;
        set_fd(&r, VQL_LOAD, 0, fd);
        close(peer);
        loop_settle(r.loop);
        assert_int_equal(r.p->host.loads, 1);
        rig_free(&r);
}

static void load_is_refused(void **state)
{
        struct rig r = rig_new();
        int peer, fd = state_pipe(VQL_LOAD, &peer);

        (void)state;
        set_fd(&r, VQL_LOAD, 0, fd);
        r.p->host.fails = EINVAL;
        close(peer);
        expect_checked(&r, false);
        assert_non_null(strstr(r.p->last_line, "CHECK_DEVICE_STATE: the host does not want to"));
        r.p->host.fails = 0;
        expect_checked(&r, false);
        rig_free(&r);
}

static void what_is_not_in_the_specification(void **state)
{
        struct rig r = rig_new();
        const size_t fds = process_count_fds();
        int peer;

        (void)state;
        expect_checked(&r, false);
        set_fd(&r, 2, 0, state_pipe(VQL_LOAD, &peer));
        close(peer);
        expect_set(&r, REFUSED);
        assert_non_null(strstr(r.p->last_line, "direction 2, expected 0 (save) or 1 (load)"));
        set_fd(&r, VQL_SAVE, 1, state_pipe(VQL_SAVE, &peer));
        close(peer);
        expect_set(&r, REFUSED);
        assert_non_null(strstr(r.p->last_line, "phase 1, expected 0 (stopped)"));
        set_fd(&r, VQL_LOAD, 0, peer_eventfd());
        expect_set(&r, REFUSED);
        set_fd(&r, VQL_SAVE, 0, peer_memfd(4096));
        expect_set(&r, REFUSED);
        expect_checked(&r, false);
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(r.p->host.loads, 0);
        rig_free(&r);
}

static void needs_a_descriptor(void **state)
{
        static const uint8_t body[8];
        struct rig r = rig_new();

        (void)state;
        peer_send(r.p, VQL_REQ_SET_DEVICE_STATE_FD, body, sizeof(body), NULL, 0);
        assert_ends(r.p, "number of descriptors 0, expected 1");
        rig_free(&r);
}

static void second_one_replaces_the_first(void **state)
{
        struct rig r = rig_new();
        int first, second;
        size_t fds;

        (void)state;
        set_fd(&r, VQL_LOAD, 0, state_pipe(VQL_LOAD, &first));
        expect_set(&r, NO_FD);
        fds = process_count_fds(); /* with both ends, and a timer that stays with the loop */
        /* One that is refused leaves the first in peace. */
        set_fd(&r, VQL_LOAD, 0, peer_eventfd());
        expect_set(&r, REFUSED);
        assert_int_equal(write(first, "old", 3), 3);
        set_fd(&r, VQL_LOAD, 0, state_pipe(VQL_LOAD, &second));
        expect_set(&r, NO_FD);
        signal(SIGPIPE, SIG_IGN);
        assert_int_equal(write(first, "old", 3), -1);
        close(first);
        expect_checked(&r, false);
        assert_int_equal(write(second, "new", 3), 3);
        close(second);
        expect_checked(&r, true);
        assert_int_equal(r.p->host.loads, 1);
        assert_memory_equal(r.p->host.state, "new", 3);
        assert_int_equal(process_count_fds(), fds - 2);
        rig_free(&r);
}

static void session_ends_in_the_middle(void **state)
{
        const size_t fds = process_count_fds();

        (void)state;
        for (enum vql_direction d = VQL_SAVE; d <= VQL_LOAD; d++) {
                struct rig r = rig_new();
                int peer;

                r.p->host.state_bytes = VQL_STATE_MAX_BYTES;
                set_fd(&r, d, 0, state_pipe(d, &peer));
                expect_set(&r, NO_FD);
                rig_free(&r);
                close(peer);
        }
        assert_int_equal(process_count_fds(), fds);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(save_and_check),
                cmocka_unit_test(save_is_refused),
                cmocka_unit_test(load_and_check),
                cmocka_unit_test(loaded_without_a_check),
                cmocka_unit_test(load_is_refused),
                cmocka_unit_test(what_is_not_in_the_specification),
                cmocka_unit_test(needs_a_descriptor),
                cmocka_unit_test(second_one_replaces_the_first),
                cmocka_unit_test(session_ends_in_the_middle),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
