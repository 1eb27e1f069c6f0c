/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "process.h"
#include "vhost_user/transfer.h"

/* A state's way through pipes and sockets, whatever is at the other end. */

enum { BYTES = 8000, PATIENCE_US = 60 * 1000 * 1000, SHORT_US = 20 * 1000, SMALL_PIPE = 4096 };

struct line {
        sd_event *loop;
        struct vql_transfer *t;
        int peer; /* the other end */
        uint8_t bytes[BYTES];
        uint8_t got[BYTES];
        size_t n_got;
        unsigned int arrivals;
        int refuses; /* errno that arrived() fails with, or 0 */
        struct vql_error e;
};

enum link { PIPE, SOCKET };

static int arrived(void *arg, const uint8_t *bytes, size_t n, struct vql_error *e)
{
        struct line *l = arg;

        l->arrivals++;
        l->n_got = n;
        memcpy(l->got, bytes, n);
        return l->refuses ? vql_fail(e, l->refuses, "not to my taste") : 0;
}

static struct line *line_new(void)
{
        struct line *l = calloc(1, sizeof(*l));

        l->loop = loop_new();
        l->peer = -1;
        for (unsigned int i = 0; i < BYTES; i++)
                l->bytes[i] = (uint8_t)(i * 7 + i / 256);
        return l;
}

static int begin(struct line *l, int fd, enum vql_direction direction, uint64_t deadline_us)
{
        const struct vql_transfer_params p = {
                .loop = l->loop,
                .fd = fd,
                .direction = direction,
                .bytes = l->bytes,
                .n = BYTES,
                .deadline_us = deadline_us,
                .arrived = arrived,
                .arg = l,
        };

        return vql_transfer_new(&p, &l->t, &l->e);
}

/* Ours is the end that the direction needs. */
static int connect_line(struct line *l, enum link link, enum vql_direction direction)
{
        int fds[2];

        if (link == SOCKET) {
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
                l->peer = fds[0];
                return fds[1];
        }
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_true(fcntl(fds[1], F_SETPIPE_SZ, SMALL_PIPE) > 0);
        l->peer = fds[direction == VQL_SAVE ? 0 : 1];
        return fds[direction == VQL_SAVE ? 1 : 0];
}

static void line_free(struct line *l)
{
        vql_transfer_free(l->t);
        sd_event_unref(l->loop);
        if (l->peer >= 0)
                close(l->peer);
        free(l);
}

static int check(struct line *l)
{
        l->e.text[0] = '\0';
        return vql_transfer_check(l->t, &l->e);
}

/* Read what there is, turning the loop when there is nothing; up to the end or `most` bytes. */
static size_t drain(struct line *l, size_t most)
{
        size_t n = 0;

        assert_int_equal(fcntl(l->peer, F_SETFL, O_NONBLOCK), 0);
        for (;;) {
                ssize_t rc = n < most ? read(l->peer, l->got + n, most - n) : 0;

                if (rc == 0)
                        return n;
                if (rc < 0)
                        assert_int_equal(errno, EAGAIN);
                else
                        n += (size_t)rc;
                assert_true(sd_event_run(l->loop, 0) >= 0);
        }
}

static void save(enum link link)
{
        struct line *l = line_new();
        const int fd = connect_line(l, link, VQL_SAVE);

        assert_int_equal(begin(l, fd, VQL_SAVE, PATIENCE_US), 0);
        assert_int_equal(check(l), link == PIPE ? -EAGAIN : 0);
        assert_int_equal(drain(l, BYTES), BYTES);
        assert_memory_equal(l->got, l->bytes, BYTES);
        assert_int_equal(check(l), 0);
        assert_int_equal(drain(l, 1), 0); /* the end, and not: nothing yet */
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        line_free(l);
}

static void save_through_a_small_pipe(void **state)
{
        (void)state;
        save(PIPE);
}

static void save_through_a_socket(void **state)
{
        (void)state;
        save(SOCKET);
}

/* A socket whose other end is kept twice ends all the same. */
static void socket_end_is_told(void **state)
{
        struct line *l = line_new();
        const int fd = connect_line(l, SOCKET, VQL_SAVE), twin = dup(fd);

        (void)state;
        assert_int_equal(begin(l, fd, VQL_SAVE, PATIENCE_US), 0);
        assert_int_equal(drain(l, BYTES), BYTES);
        assert_int_equal(read(l->peer, l->got, 1), 0);
        close(twin);
        line_free(l);
}

static void load(enum link link)
{
        struct line *l = line_new();
        size_t sent = 0;

        assert_int_equal(begin(l, connect_line(l, link, VQL_LOAD), VQL_LOAD, PATIENCE_US), 0);
        while (sent < BYTES) {
                const size_t piece = BYTES - sent < 999 ? BYTES - sent : 999;

                assert_int_equal(check(l), -EAGAIN);
                assert_int_equal(write(l->peer, l->bytes + sent, piece), piece);
                sent += piece;
                loop_settle(l->loop);
        }
        assert_int_equal(check(l), -EAGAIN);
        assert_int_equal(l->arrivals, 0);
        close(l->peer);
        l->peer = -1;
        assert_int_equal(check(l), 0);
        assert_int_equal(check(l), 0);
        loop_settle(l->loop);
        assert_int_equal(l->arrivals, 1);
        assert_int_equal(l->n_got, BYTES);
        assert_memory_equal(l->got, l->bytes, BYTES);
        line_free(l);
}

static void load_through_a_pipe(void **state)
{
        (void)state;
        load(PIPE);
}

static void load_through_a_socket(void **state)
{
        (void)state;
        load(SOCKET);
}

static void nothing_at_all_arrives(void **state)
{
        struct line *l = line_new();

        (void)state;
        l->refuses = EBADMSG;
        assert_int_equal(begin(l, connect_line(l, PIPE, VQL_LOAD), VQL_LOAD, PATIENCE_US), 0);
        close(l->peer);
        l->peer = -1;
        loop_settle(l->loop);
        assert_int_equal(l->arrivals, 1);
        assert_int_equal(l->n_got, 0);
        assert_int_equal(check(l), -EBADMSG);
        assert_string_equal(l->e.text, "not to my taste");
        line_free(l);
}

static void endless_stream(void **state)
{
        struct line *l = line_new();
        const int fd = connect_line(l, SOCKET, VQL_LOAD);

        (void)state;
        assert_int_equal(begin(l, fd, VQL_LOAD, PATIENCE_US), 0);
        assert_int_equal(write(l->peer, l->bytes, BYTES), BYTES);
        assert_int_equal(check(l), -EAGAIN);
        assert_int_equal(write(l->peer, l->bytes, BYTES), BYTES);
        assert_int_equal(check(l), -EFBIG);
        assert_int_equal(l->arrivals, 0);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        line_free(l);
}

/* SIGPIPE would end this program. */
static void nobody_reads_any_more(void **state)
{
        (void)state;
        assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
        for (enum link k = PIPE; k <= SOCKET; k++) {
                struct line *l = line_new();
                const int fd = connect_line(l, k, VQL_SAVE);

                close(l->peer);
                l->peer = -1;
                assert_int_equal(begin(l, fd, VQL_SAVE, PATIENCE_US), 0);
                assert_int_equal(check(l), -EPIPE);
                assert_int_equal(fcntl(fd, F_GETFD), -1);
                line_free(l);
        }
}

static void cut_while_saving(void **state)
{
        struct line *l = line_new();

        (void)state;
        assert_int_equal(begin(l, connect_line(l, PIPE, VQL_SAVE), VQL_SAVE, PATIENCE_US), 0);
        assert_int_equal(drain(l, 10), 10);
        close(l->peer);
        l->peer = -1;
        loop_settle(l->loop);
        assert_int_equal(check(l), -EPIPE);
        line_free(l);
}

/* The flag belongs to the front-end, too: that it is off must not make us wait. */
static void peer_wants_us_to_block(void **state)
{
        (void)state;
        for (enum vql_direction d = VQL_SAVE; d <= VQL_LOAD; d++) {
                struct line *l = line_new();
                const int fd = connect_line(l, PIPE, d), twin = dup(fd);

                assert_int_equal(fcntl(twin, F_SETFL, 0), 0);
                assert_int_equal(begin(l, fd, d, PATIENCE_US), 0);
                assert_int_equal(fcntl(twin, F_SETFL, 0), 0);
                assert_int_equal(check(l), -EAGAIN);
                close(twin);
                line_free(l);
        }
}

static void silence_has_a_deadline(void **state)
{
        (void)state;
        for (enum vql_direction d = VQL_SAVE; d <= VQL_LOAD; d++) {
                struct line *l = line_new();
                int rc = -EAGAIN;

                assert_int_equal(begin(l, connect_line(l, PIPE, d), d, SHORT_US), 0);
                for (int i = 0; i < 1000 && rc == -EAGAIN; i++) {
                        assert_true(sd_event_run(l->loop, 100000) >= 0);
                        rc = check(l);
                }
                assert_int_equal(rc, -ETIMEDOUT);
                assert_non_null(strstr(l->e.text, "none moved for 20 ms"));
                line_free(l);
        }
}

static int wrong_fd(unsigned int kind, enum vql_direction d)
{
        int fds[2];

        switch (kind) {
        case 0:
                return memfd_create("vql-unit-transfer", MFD_CLOEXEC);
        case 1:
                return eventfd(0, EFD_CLOEXEC);
        case 2:
                return open("/dev/null", O_RDWR | O_CLOEXEC);
        case 3:
                return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        default: /* the other end of a pipe */
                assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
                close(fds[d == VQL_SAVE ? 1 : 0]);
                return fds[d == VQL_SAVE ? 0 : 1];
        }
}

static void descriptors_of_other_kinds(void **state)
{
        struct line *l = line_new();
        const size_t fds = process_count_fds();

        (void)state;
        for (unsigned int kind = 0; kind < 5; kind++) {
                for (enum vql_direction d = VQL_SAVE; d <= VQL_LOAD; d++) {
                        assert_int_equal(begin(l, wrong_fd(kind, d), d, PATIENCE_US), -EINVAL);
                        assert_non_null(strstr(l->e.text, "the descriptor is"));
                        assert_int_equal(process_count_fds(), fds);
                }
        }
        line_free(l);
}

/* It can be opened, and never says anything. */
static void listening_socket(void **state)
{
        struct line *l = line_new();
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        (void)state;
        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(begin(l, fd, VQL_LOAD, PATIENCE_US), 0);
        assert_true(check(l) < 0);
        assert_int_equal(l->arrivals, 0);
        line_free(l);
}

static void freed_in_the_middle(void **state)
{
        const size_t fds = process_count_fds();

        (void)state;
        for (enum vql_direction d = VQL_SAVE; d <= VQL_LOAD; d++) {
                struct line *l = line_new();

                assert_int_equal(begin(l, connect_line(l, PIPE, d), d, PATIENCE_US), 0);
                line_free(l);
        }
        assert_int_equal(process_count_fds(), fds);
}

/* A pipe keeps what it was given, also when the transfer and its memory are gone. */
static void pipe_outlives_the_transfer(void **state)
{
        struct line *l = line_new();
        void *filler;

        (void)state;
        assert_int_equal(begin(l, connect_line(l, PIPE, VQL_SAVE), VQL_SAVE, PATIENCE_US), 0);
        vql_transfer_free(l->t);
        l->t = NULL;
        filler = mmap(NULL, 64 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(filler != MAP_FAILED);
        memset(filler, 0xee, (size_t)64 * BYTES);
        assert_int_equal(drain(l, SMALL_PIPE), SMALL_PIPE);
        assert_memory_equal(l->got, l->bytes, SMALL_PIPE);
        munmap(filler, (size_t)64 * BYTES);
        line_free(l);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(save_through_a_small_pipe),
                cmocka_unit_test(save_through_a_socket),
                cmocka_unit_test(socket_end_is_told),
                cmocka_unit_test(load_through_a_pipe),
                cmocka_unit_test(load_through_a_socket),
                cmocka_unit_test(nothing_at_all_arrives),
                cmocka_unit_test(endless_stream),
                cmocka_unit_test(nobody_reads_any_more),
                cmocka_unit_test(cut_while_saving),
                cmocka_unit_test(peer_wants_us_to_block),
                cmocka_unit_test(silence_has_a_deadline),
                cmocka_unit_test(descriptors_of_other_kinds),
                cmocka_unit_test(listening_socket),
                cmocka_unit_test(freed_in_the_middle),
                cmocka_unit_test(pipe_outlives_the_transfer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
