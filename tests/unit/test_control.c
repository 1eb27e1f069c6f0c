/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_vql.h"
#include "vqliftd/client.h"
#include "vqliftd/control.h"
#include "vqliftd/control_socket.h"
#include "vqliftd/linebuf.h"

enum { SECOND_US = 1000000, SHORT_US = 200000, MANY_CLIENTS = 3000, MEBI = 1 << 20 };
/* Longer than anything here takes on a busy machine. */
enum { LONG_US = 600 * SECOND_US };

struct fixture {
        char folder[64], path[100];
        struct vql_logger log;
        struct vql_rpc rpc;
        sd_event *loop;
        struct vql_control_socket socket;
        struct vql_control *control;
};

static int set_up_with(void **state, uint64_t deadline_us)
{
        struct vql_params params = { .size = sizeof(params) };
        struct fixture *f = calloc(1, sizeof(*f));
        char error[64];

        *state = f;
        snprintf(f->folder, sizeof(f->folder), "/tmp/vqlift-test-control-XXXXXX");
        if (!mkdtemp(f->folder))
                return -1;
        snprintf(f->path, sizeof(f->path), "%s/run/control.sock", f->folder);
        f->log = (struct vql_logger){ .fd = memfd_create("log", 0), .level = LOG_NOTICE };
        f->rpc.log = &f->log;
        if (vql_create(&params, &f->rpc.vql, error, sizeof(error)) < 0 ||
            vql_portset_new(f->rpc.vql, &f->log, &f->rpc.ports) < 0 || sd_event_new(&f->loop) < 0 ||
            vql_control_socket_open(f->path, (gid_t)-1, &f->log, &f->socket) < 0)
                return -1;
        struct vql_control_params p = {
                .loop = f->loop, .rpc = &f->rpc, .fd = f->socket.fd, .deadline_us = deadline_us
        };
        return vql_control_new(&p, &f->control);
}

static int set_up(void **state)
{
        return set_up_with(state, LONG_US);
}

static int set_up_short(void **state)
{
        return set_up_with(state, SHORT_US);
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char path[128];

        vql_control_free(f->control);
        vql_control_socket_close(&f->socket);
        sd_event_unref(f->loop);
        vql_portset_free(f->rpc.ports);
        vql_destroy(f->rpc.vql);
        close(f->log.fd);
        snprintf(path, sizeof(path), "%s.lock", f->path);
        unlink(path);
        snprintf(path, sizeof(path), "%s/run", f->folder);
        rmdir(path);
        if (rmdir(f->folder) < 0)
                return -1; /* the socket's file is left */
        free(f);
        return 0;
}

static int dial(const struct fixture *f)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        return fd;
}

/* Let the daemon's side do all that it can do now. */
static void settle(struct fixture *f)
{
        while (sd_event_run(f->loop, 0) > 0) {
        }
}

/* Send all of it, the daemon's side reading along. */
static void say(struct fixture *f, int fd, const char *text, size_t n)
{
        ssize_t sent;

        while (n > 0) {
                sent = send(fd, text, n, MSG_NOSIGNAL);
                if (sent < 0) {
                        assert_int_equal(errno, EAGAIN);
                        assert_true(sd_event_run(f->loop, 10 * SECOND_US) > 0);
                        continue;
                }
                text += sent;
                n -= (size_t)sent;
        }
        settle(f);
}

/* Take what there is; false at the end of the connection. */
static bool hear(int fd, char *ret_text, size_t size)
{
        ssize_t n = recv(fd, ret_text, size - 1, 0);

        ret_text[n > 0 ? n : 0] = '\0';
        return n > 0 || (n < 0 && errno == EAGAIN);
}

static void expect(int fd, const char *expected)
{
        char text[65536];

        assert_true(hear(fd, text, sizeof(text)));
        assert_string_equal(text, expected);
}

#define VERSION      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}"
#define VERSION_IS   "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"version\":\"0.0.0-fake\"}}\n"
#define NOTIFICATION "{\"jsonrpc\":\"2.0\",\"method\":\"version\"}\n"

static void test_one_line(void **state)
{
        int fd = dial(*state);

        say(*state, fd, VERSION "\n", strlen(VERSION) + 1);
        expect(fd, VERSION_IS);
        say(*state, fd, VERSION "\r\n", strlen(VERSION) + 2);
        expect(fd, VERSION_IS);
        close(fd);
        settle(*state);
}

/* One byte at a time, several at once, empty lines, notifications. */
static void test_framing(void **state)
{
        static const char text[] = "\n \t\r\n" VERSION "\n" NOTIFICATION "\n" VERSION "\n";
        int fd = dial(*state);

        for (size_t i = 0; i < sizeof(text) - 1; i++)
                say(*state, fd, text + i, 1);
        expect(fd, VERSION_IS VERSION_IS);
        say(*state, fd, text, sizeof(text) - 1);
        expect(fd, VERSION_IS VERSION_IS);
        close(fd);
        settle(*state);
}

/* A client that has said all may close its half before it reads, and may omit the last newline. */
static void test_half_close(void **state)
{
        char text[512];
        int fd = dial(*state);

        say(*state, fd, VERSION "\n" VERSION, 2 * strlen(VERSION) + 1);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        settle(*state);
        expect(fd, VERSION_IS VERSION_IS);
        assert_false(hear(fd, text, sizeof(text)));
        close(fd);
}

static void test_nul_bytes(void **state)
{
        char text[512];
        int fd = dial(*state);

        say(*state, fd, "{}\0\n" VERSION "\n", strlen(VERSION) + 5);
        assert_true(hear(fd, text, sizeof(text)));
        assert_non_null(strstr(text, "-32700"));
        assert_non_null(strstr(text, VERSION_IS));
        close(fd);
        settle(*state);
}

static void test_long_lines(void **state)
{
        char *line = malloc(MEBI), text[512];
        int fd = dial(*state);

        memset(line, ' ', MEBI);
        line[snprintf(line, MEBI, "%s", VERSION)] = ' ';
        /* The greatest line, its end included. */
        line[MEBI - 1] = '\n';
        say(*state, fd, line, MEBI);
        expect(fd, VERSION_IS);
        /* A byte more is refused, and nothing after it is read. */
        line[MEBI - 1] = ' ';
        say(*state, fd, line, MEBI);
        assert_true(hear(fd, text, sizeof(text)));
        assert_non_null(strstr(text, "a line of more than 1048576 bytes"));
        assert_false(hear(fd, text, sizeof(text)));
        close(fd);
        free(line);
}

/* Run the loop until the connection ends. */
static void expect_cut(struct fixture *f, int fd)
{
        char *text = malloc(MEBI);
        bool open = true;

        for (int i = 0; i < 1000 && open; i++) {
                sd_event_run(f->loop, SHORT_US);
                /* To read is to make progress, which is what must not happen at first. */
                while (i > 2 && (open = hear(fd, text, MEBI)) && text[0]) {
                }
        }
        assert_false(open);
        free(text);
}

static void test_unfinished_line_is_cut(void **state)
{
        int fd = dial(*state);

        say(*state, fd, "{", 1);
        expect_cut(*state, fd);
        close(fd);
}

static void test_idle_client_is_not_cut(void **state)
{
        struct fixture *f = *state;
        int idle = dial(f), unfinished = dial(f);

        say(f, idle, VERSION "\n", strlen(VERSION) + 1);
        expect(idle, VERSION_IS);
        say(f, unfinished, "{", 1);
        expect_cut(f, unfinished);
        say(f, idle, VERSION "\n", strlen(VERSION) + 1);
        expect(idle, VERSION_IS);
        close(idle);
        close(unfinished);
        settle(f);
}

/* Requests without end and nothing read: the daemon stops reading, then cuts.  Beside it another
 * client is served. */
static void test_unread_answers(void **state)
{
        static const char help[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"rpc.help\"}\n";
        struct fixture *f = *state;
        int greedy = dial(f), other = dial(f);
        size_t sent = 0;

        for (int stalled = 0; stalled < 50;) {
                ssize_t n = send(greedy, help, sizeof(help) - 1, MSG_NOSIGNAL);

                if (n < 0 && errno != EAGAIN)
                        break; /* cut already: this machine is slow */
                stalled += n < 0;
                sent += n < 0 ? 0 : (size_t)n;
                assert_true(sent < 64 * (size_t)MEBI);

                sd_event_run(f->loop, 0);
        }
        say(f, other, VERSION "\n", strlen(VERSION) + 1);
        expect(other, VERSION_IS);
        expect_cut(f, greedy);
        close(greedy);
        close(other);
        settle(f);
}

/* A client with a great many lines at once does not keep others waiting for all of them. */
static void test_turns(void **state)
{
        struct fixture *f = *state;
        enum { LINES = 2000 };
        char *text = malloc(LINES * sizeof(NOTIFICATION)), answer[512];
        int busy = dial(f), other = dial(f);
        size_t n = 0;
        int rounds = 0;

        for (int i = 0; i < LINES; i++, n += strlen(NOTIFICATION))
                memcpy(text + n, NOTIFICATION, strlen(NOTIFICATION));
        settle(f);
        assert_true(send(busy, text, n, 0) > 0);
        assert_true(send(other, VERSION "\n", strlen(VERSION) + 1, 0) > 0);
        do {
                assert_true(sd_event_run(f->loop, SECOND_US) > 0);
                rounds++;
                hear(other, answer, sizeof(answer));
        } while (!answer[0]);
        assert_true(rounds < 10);
        settle(f);
        close(busy);
        close(other);
        settle(f);
        free(text);
}

static size_t count_fds(void)
{
        DIR *folder = opendir("/proc/self/fd");
        size_t n = 0;

        while (readdir(folder))
                n++;
        closedir(folder);
        return n;
}

static void test_many_clients_in_turn(void **state)
{
        static const char version[] = VERSION "\n";
        static const char *const words[] = { version, "{", "", "\xff\n", "[]\n" };
        size_t before;
        int fd;

        fd = dial(*state);
        close(fd);
        settle(*state);
        before = count_fds();
        for (int i = 0; i < MANY_CLIENTS; i++) {
                const char *word = words[i % 5];

                fd = dial(*state);
                say(*state, fd, word, strlen(word));
                close(fd);
                if (i % 7 == 0)
                        settle(*state);
        }
        settle(*state);
        assert_int_equal(count_fds(), before);
}

static void test_too_many_clients(void **state)
{
        int fds[VQL_CONTROL_MAX_CLIENTS], fd;
        char text[512];

        for (size_t i = 0; i < VQL_CONTROL_MAX_CLIENTS; i++)
                fds[i] = dial(*state);
        settle(*state);
        fd = dial(*state);
        settle(*state);
        assert_true(hear(fd, text, sizeof(text)));
        assert_non_null(strstr(text, "too many clients"));
        assert_false(hear(fd, text, sizeof(text)));
        close(fd);
        /* Those that are there are served, and one that leaves makes room. */
        say(*state, fds[5], VERSION "\n", strlen(VERSION) + 1);
        expect(fds[5], VERSION_IS);
        close(fds[0]);
        settle(*state);
        fds[0] = dial(*state);
        say(*state, fds[0], VERSION "\n", strlen(VERSION) + 1);
        expect(fds[0], VERSION_IS);
        for (size_t i = 0; i < VQL_CONTROL_MAX_CLIENTS; i++)
                close(fds[i]);
        settle(*state);
}

/* Without descriptors accept() fails and the socket stays readable: the loop must not spin. */
static void test_no_descriptors(void **state)
{
        struct fixture *f = *state;
        struct rlimit old, low;
        int fd = dial(f), turns = 0;
        char text[512];

        getrlimit(RLIMIT_NOFILE, &old);
        low = old;
        low.rlim_cur = (rlim_t)fd + 1;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        while (sd_event_run(f->loop, SECOND_US / 10) > 0)
                turns++;
        assert_true(turns < 5);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_true(send(fd, VERSION "\n", strlen(VERSION) + 1, 0) > 0);
        for (text[0] = '\0'; !text[0] && turns < 1000; turns++) {
                sd_event_run(f->loop, SECOND_US);
                hear(fd, text, sizeof(text));
        }
        assert_string_equal(text, VERSION_IS);

        close(fd);
        settle(f);
}

static void test_socket_file(void **state)
{
        struct fixture *f = *state;
        struct vql_control_socket other;
        struct stat st;
        char path[128];

        assert_int_equal(stat(f->path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0660);
        snprintf(path, sizeof(path), "%s/run", f->folder);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0755);
        /* One that is alive is refused, by its lock and, from another program, by connecting. */
        assert_int_equal(vql_control_socket_open(f->path, (gid_t)-1, &f->log, &other), -EADDRINUSE);
        snprintf(path, sizeof(path), "%s.lock", f->path);
        unlink(path);
        assert_int_equal(vql_control_socket_open(f->path, (gid_t)-1, &f->log, &other), -EADDRINUSE);
        assert_int_equal(stat(f->path, &st), 0);
}

static void test_stale_socket(void **state)
{
        struct fixture *f = *state;
        struct vql_control_socket stale, next;
        char path[120], lock[128];
        struct stat st;

        snprintf(path, sizeof(path), "%s/stale.sock", f->folder);
        snprintf(lock, sizeof(lock), "%s.lock", path);
        assert_int_equal(vql_control_socket_open(path, (gid_t)-1, &f->log, &stale), 0);
        /* Its daemon dies: the file stays. */
        close(stale.fd);
        close(stale.lock_fd);
        stale.fd = stale.lock_fd = -1;
        assert_int_equal(vql_control_socket_open(path, getgid(), &f->log, &next), 0);
        /* What is not ours any more stays. */
        vql_control_socket_close(&stale);
        assert_int_equal(stat(path, &st), 0);
        vql_control_socket_close(&next);
        assert_int_equal(stat(path, &st), -1);
        /* A file of another kind is left alone. */
        assert_int_equal(symlink("/nowhere", path), 0);
        assert_int_equal(vql_control_socket_open(path, (gid_t)-1, &f->log, &next), -EEXIST);
        assert_int_equal(lstat(path, &st), 0);
        unlink(path);
        unlink(lock);
        snprintf(path, sizeof(path), "%s/none/none/x.sock", f->folder);
        assert_int_equal(vql_control_socket_open(path, (gid_t)-1, &f->log, &next), -ENOENT);
}

/* Every cut of a stream into pieces gives the same lines. */
static void test_linebuf(void **state)
{
        static const char text[] = "one\n\ntwo\nthree is longer\nrest";
        struct vql_linebuf b;

        (void)state;
        for (size_t piece = 1; piece < sizeof(text); piece++) {
                char lines[64] = "";
                const char *line;
                size_t n, room;

                vql_linebuf_init(&b, 4096);
                for (size_t i = 0; i < sizeof(text) - 1; i += n) {
                        char *at = vql_linebuf_room(&b, &room);

                        n = sizeof(text) - 1 - i < piece ? sizeof(text) - 1 - i : piece;
                        assert_non_null(at);
                        memcpy(at, text + i, n);
                        vql_linebuf_added(&b, n);
                        for (size_t length; vql_linebuf_take(&b, &line, &length);)
                                snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines),
                                         "%.*s|", (int)length, line);
                }
                assert_string_equal(lines, "one||two|three is longer|");
                assert_true(vql_linebuf_is_partial(&b));
                assert_true(vql_linebuf_take_rest(&b, &line, &n));
                assert_memory_equal(line, "rest", 4);
                assert_false(vql_linebuf_is_partial(&b));
                assert_false(vql_linebuf_take_rest(&b, &line, &n));
                vql_linebuf_fini(&b);
        }
}

#define TEST(name)       cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_SHORT(name) cmocka_unit_test_setup_teardown(name, set_up_short, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_one_line),
                TEST(test_framing),
                TEST(test_half_close),
                TEST(test_nul_bytes),
                TEST(test_long_lines),
                TEST_SHORT(test_unfinished_line_is_cut),
                TEST_SHORT(test_idle_client_is_not_cut),
                TEST_SHORT(test_unread_answers),
                TEST(test_turns),
                TEST(test_many_clients_in_turn),
                TEST(test_too_many_clients),
                TEST(test_no_descriptors),
                TEST(test_socket_file),
                TEST(test_stale_socket),
                cmocka_unit_test(test_linebuf),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
