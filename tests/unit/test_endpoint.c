/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "loop.h"
#include "process.h"
#include "vhost_user/endpoint.h"

/* Both roles, in directories of their own.  FAULTS A14, A16, A18, D7, F24, J4. */

/* The seam to the kernel: sd-event calls this one, which fails when it is told to. */
static bool no_inotify;

int inotify_init1(int flags)
{
        if (!no_inotify)
                return (int)syscall(SYS_inotify_init1, flags);
        errno = EMFILE;
        return -1;
}

struct place {
        sd_event *loop;
        struct vql_endpoint *endpoint;
        struct vql_endpoint_params params;
        struct vql_log log;
        struct vql_error error;
        char dir[64];
        char path[256];
        volatile int connected; /* how often */
        int fd;                 /* of the last connection */
        unsigned int lines;     /* logged */
        char last_line[512];
        size_t fds_before;
};

static void on_connected(void *arg, int fd)
{
        struct place *p = arg;

        p->connected++;
        p->fd = fd;
}

static void on_line(void *arg, int level, const char *name, const char *line)
{
        struct place *p = arg;

        (void)level;
        (void)name;
        p->lines++;
        snprintf(p->last_line, sizeof(p->last_line), "%s", line);
}

static struct place *place_new(enum vql_role role)
{
        struct place *p = calloc(1, sizeof(*p));

        p->fds_before = process_count_fds();
        p->loop = loop_new();
        p->fd = -1;
        p->log = (struct vql_log){ .write = on_line, .arg = p, .level = LOG_DEBUG };
        snprintf(p->dir, sizeof(p->dir), "/tmp/vql-unit-endpoint-XXXXXX");
        assert_non_null(mkdtemp(p->dir));
        snprintf(p->path, sizeof(p->path), "%s/sock", p->dir);
        p->params = (struct vql_endpoint_params){
                .loop = p->loop,
                .path = p->path,
                .role = role,
                .mode = 0640,
                .uid = (uid_t)-1,
                .gid = (gid_t)-1,
                .log = &p->log,
                .connected = on_connected,
                .arg = p,
        };
        return p;
}

static int place_open(struct place *p)
{
        return vql_endpoint_new(&p->params, &p->endpoint, &p->error);
}

static struct place *place_new_open(enum vql_role role)
{
        struct place *p = place_new(role);

        assert_int_equal(place_open(p), 0);
        return p;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

static void place_free(struct place *p)
{
        vql_endpoint_free(p->endpoint);
        if (p->fd >= 0)
                close(p->fd);
        sd_event_unref(p->loop);
        nftw(p->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        assert_int_equal(process_count_fds(), p->fds_before);
        free(p);
}

static size_t entries(const char *path)
{
        DIR *dir = opendir(path);
        size_t n = 0;

        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2; /* without . and .. */
}

static struct sockaddr_un address(const char *path)
{
        struct sockaddr_un sa = { .sun_family = AF_UNIX };

        snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
        return sa;
}

static int client(const char *path)
{
        const struct sockaddr_un sa = address(path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0)
                return fd;
        close(fd);
        return -errno;
}

static int bound(const char *path)
{
        const struct sockaddr_un sa = address(path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        assert_int_equal(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
        return fd;
}

static int server(const char *path)
{
        int fd = bound(path);

        assert_int_equal(listen(fd, 1), 0);
        return fd;
}

/* Has the other end closed? */
static bool is_closed(int fd)
{
        char byte;

        return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void assert_refused(struct place *p, int err, const char *sentence)
{
        assert_int_equal(place_open(p), -err);
        if (!strstr(p->error.text, sentence))
                fail_msg("\"%s\" does not say \"%s\"", p->error.text, sentence);
        assert_null(p->endpoint);
}

/* ---- server ---- */

static void server_takes_one_client_after_the_other(void **state)
{
        struct place *p = place_new_open(VQL_ROLE_SERVER);

        (void)state;
        for (int i = 1; i <= 3; i++) {
                int fd = client(p->path);

                assert_true(fd >= 0);
                loop_until(p->loop, &p->connected);
                assert_int_equal(p->connected, 1);
                assert_true(fcntl(p->fd, F_GETFL) & O_NONBLOCK);
                assert_true(fcntl(p->fd, F_GETFD) & FD_CLOEXEC);
                assert_int_equal(send(fd, "x", 1, 0), 1);
                assert_false(is_closed(p->fd));
                close(fd);
                close(p->fd);
                p->fd = -1;
                p->connected = 0;
                vql_endpoint_resume(p->endpoint);
        }
        place_free(p);
}

static void socket_has_mode_and_no_other_file_is_left(void **state)
{
        struct place *p = place_new(VQL_ROLE_SERVER);
        struct stat st;

        (void)state;
        p->params.mode = 0602;
        p->params.uid = getuid() ? getuid() : 12345;
        p->params.gid = getuid() ? getgid() : 54321;
        assert_int_equal(place_open(p), 0);
        assert_int_equal(stat(p->path, &st), 0);
        assert_true(S_ISSOCK(st.st_mode));
        assert_int_equal(st.st_mode & 07777, 0602);
        assert_int_equal(st.st_uid, p->params.uid);
        assert_int_equal(st.st_gid, p->params.gid);
        assert_int_equal(entries(p->dir), 1);
        vql_endpoint_free(p->endpoint);
        p->endpoint = NULL;
        assert_int_equal(entries(p->dir), 0);
        place_free(p);
}

static void stale_socket_is_replaced(void **state)
{
        struct place *p = place_new(VQL_ROLE_SERVER);
        int fd = server(p->path);

        (void)state;
        close(fd); /* its file stays, as after a crash */
        assert_int_equal(client(p->path), -ECONNREFUSED);
        assert_int_equal(place_open(p), 0);
        fd = client(p->path);
        loop_until(p->loop, &p->connected);
        close(fd);
        place_free(p);
}

static void busy_socket_is_left_alone(void **state)
{
        struct place *p = place_new(VQL_ROLE_SERVER);
        int fd = server(p->path), other;

        (void)state;
        assert_refused(p, EADDRINUSE, "somebody listens on it already");
        other = client(p->path);
        assert_true(other >= 0);
        close(other);
        close(fd);
        assert_int_equal(entries(p->dir), 1);
        place_free(p);
}

/* connect() to a full backlog says neither yes nor no. */
static void busy_socket_with_a_full_backlog(void **state)
{
        struct place *p = place_new(VQL_ROLE_SERVER);
        int fd = server(p->path), waiting[2] = { client(p->path), client(p->path) };

        (void)state;
        assert_refused(p, EADDRINUSE, "may be in use");
        close(waiting[0]);
        close(waiting[1]);
        close(fd);
        place_free(p);
}

static void other_files_are_left_alone(void **state)
{
        struct place *p = place_new(VQL_ROLE_SERVER);
        FILE *f = fopen(p->path, "we");

        (void)state;
        fputs("precious", f);
        fclose(f);
        assert_refused(p, EEXIST, "exists and is not a socket");
        assert_int_equal(unlink(p->path), 0);
        assert_int_equal(mkdir(p->path, 0700), 0);
        assert_refused(p, EEXIST, "exists and is not a socket");
        assert_int_equal(rmdir(p->path), 0);
        assert_int_equal(symlink("/dev/null", p->path), 0);
        assert_refused(p, EEXIST, "exists and is not a socket");
        place_free(p);
}

static void paths_are_checked(void **state)
{
        struct place *p = place_new(VQL_ROLE_SERVER);
        char longest[200];

        (void)state;
        snprintf(p->path, sizeof(p->path), "%s/none/sock", p->dir);
        assert_refused(p, ENOENT, "the directory: No such file");
        snprintf(p->path, sizeof(p->path), "%s/", p->dir);
        assert_refused(p, EINVAL, "is not the path of a socket");
        p->path[0] = '\0';
        assert_refused(p, EINVAL, "is not the path of a socket");
        memset(longest, 'n', sizeof(longest));
        snprintf(p->path, sizeof(p->path), "%s/%.*s", p->dir, (int)(107 - strlen(p->dir)), longest);
        assert_refused(p, ENAMETOOLONG, "108 bytes, expected at most 107");
        p->path[107] = '\0'; /* just fits, and the temporary name beside it, too */
        assert_int_equal(place_open(p), 0);
        assert_int_equal(entries(p->dir), 1);
        place_free(p);
}

static void second_client_is_refused_at_once(void **state)
{
        struct place *p = place_new_open(VQL_ROLE_SERVER);
        int first = client(p->path);

        (void)state;
        loop_until(p->loop, &p->connected);
        for (int i = 0; i < 100; i++) {
                int second = client(p->path);

                assert_true(second >= 0);
                loop_settle(p->loop);
                assert_true(is_closed(second));
                close(second);
        }
        assert_int_equal(p->connected, 1);
        assert_non_null(strstr(p->last_line, "one is connected already"));
        assert_int_equal(p->lines, 4); /* not a line for each */
        assert_int_equal(send(first, "x", 1, 0), 1);
        assert_false(is_closed(p->fd));
        assert_false(is_closed(first));
        close(first);
        place_free(p);
}

/* Someone else's socket that has taken the name's place is not removed. */
static void only_our_own_socket_is_removed(void **state)
{
        struct place *p = place_new_open(VQL_ROLE_SERVER);
        int fd;

        (void)state;
        assert_int_equal(unlink(p->path), 0);
        fd = server(p->path);
        vql_endpoint_free(p->endpoint);
        p->endpoint = NULL;
        assert_int_equal(entries(p->dir), 1);
        close(fd);
        place_free(p);
}

/* The client waits until there is one again; the process does not spin and does not die. */
static void no_free_descriptor_for_a_client(void **state)
{
        struct place *p = place_new_open(VQL_ROLE_SERVER);
        struct rlimit limit, none;
        int fd = client(p->path), turns = 0;

        (void)state;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        none = (struct rlimit){ .rlim_cur = 3, .rlim_max = limit.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        while (sd_event_run(p->loop, 0) > 0)
                turns++;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_true(turns < 10);
        assert_non_null(strstr(p->last_line, "accept: Too many open files"));
        loop_until(p->loop, &p->connected);
        close(fd);
        place_free(p);
}

/* ---- client ---- */

/* The endpoint has found the server: take its end, say hello, hang up. */
static void expect_connection(struct place *p, int listen_fd)
{
        int fd;

        loop_until(p->loop, &p->connected);
        assert_int_equal(p->connected, 1);
        assert_true(fcntl(p->fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(p->fd, F_GETFD) & FD_CLOEXEC);
        fd = accept(listen_fd, NULL, NULL);
        assert_true(fd >= 0);
        assert_int_equal(send(p->fd, "x", 1, 0), 1);
        assert_false(is_closed(fd));
        close(fd);
        close(p->fd);
        p->fd = -1;
        p->connected = 0;
}

static void client_finds_a_server_that_is_there(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        int fd = server(p->path);

        (void)state;
        assert_int_equal(place_open(p), 0);
        assert_int_equal(p->connected, 0); /* from the loop only */
        expect_connection(p, fd);
        vql_endpoint_resume(p->endpoint);
        assert_int_equal(p->connected, 0);
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

/* Nothing but events from here on: no timer may be left. */
static void assert_asleep(struct place *p)
{
        loop_settle(p->loop);
        assert_int_equal(sd_event_run(p->loop, 300000), 0);
        assert_int_equal(p->connected, 0);
}

static void client_waits_for_a_socket(void **state)
{
        struct place *p = place_new_open(VQL_ROLE_CLIENT);
        char other[300];
        int fd;

        (void)state;
        assert_asleep(p);
        assert_int_equal(p->lines, 1);
        assert_non_null(strstr(p->last_line, "waiting for"));
        snprintf(other, sizeof(other), "%s.other", p->path);
        close(bound(other)); /* not the one */
        assert_asleep(p);
        fd = server(p->path);
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

/* There is an event for bind() and none for listen(). */
static void client_waits_between_bind_and_listen(void **state)
{
        struct place *p = place_new_open(VQL_ROLE_CLIENT);
        int fd;

        (void)state;
        loop_settle(p->loop);
        fd = bound(p->path);
        for (int i = 0; i < 3; i++) {
                assert_true(sd_event_run(p->loop, 1000000) > 0);
                assert_int_equal(p->connected, 0);
        }
        assert_int_equal(listen(fd, 1), 0);
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

static void client_takes_a_renamed_socket(void **state)
{
        struct place *p = place_new_open(VQL_ROLE_CLIENT);
        char temp[300];
        int fd;

        (void)state;
        snprintf(temp, sizeof(temp), "%s.new", p->path);
        loop_settle(p->loop);
        fd = server(temp);
        assert_asleep(p);
        assert_int_equal(rename(temp, p->path), 0);
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

static void client_waits_for_directories(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        char dir[128];
        int fd;

        (void)state;
        snprintf(p->path, sizeof(p->path), "%s/a//b/c/sock", p->dir);
        assert_int_equal(place_open(p), 0);
        assert_asleep(p);
        for (const char *part = "a\0a/b\0a/b/c\0"; *part; part += strlen(part) + 1) {
                snprintf(dir, sizeof(dir), "%s/%s", p->dir, part);
                assert_int_equal(mkdir(dir, 0700), 0);
                assert_asleep(p);
        }
        fd = server(p->path);
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

/* All at once: what is already there when the watch moves on has no event. */
static void client_misses_no_directory(void **state)
{
        (void)state;
        for (int i = 0; i < 50; i++) {
                struct place *p = place_new(VQL_ROLE_CLIENT);
                char dir[128];
                int fd;

                snprintf(p->path, sizeof(p->path), "%s/a/b/sock", p->dir);
                assert_int_equal(place_open(p), 0);
                for (int turn = 0; turn < i % 3; turn++)
                        sd_event_run(p->loop, 0);
                snprintf(dir, sizeof(dir), "%s/a", p->dir);
                assert_int_equal(mkdir(dir, 0700), 0);
                if (i % 2)
                        sd_event_run(p->loop, 0);
                snprintf(dir, sizeof(dir), "%s/a/b", p->dir);
                assert_int_equal(mkdir(dir, 0700), 0);
                if (i % 5)
                        sd_event_run(p->loop, 0);
                fd = server(p->path);
                expect_connection(p, fd);
                close(fd);
                place_free(p);
        }
}

static void client_survives_removal_of_the_directory(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        char dir[128];
        int fd;

        (void)state;
        snprintf(p->path, sizeof(p->path), "%s/a/sock", p->dir);
        snprintf(dir, sizeof(dir), "%s/a", p->dir);
        assert_int_equal(mkdir(dir, 0700), 0);
        assert_int_equal(place_open(p), 0);
        assert_asleep(p);
        assert_int_equal(rmdir(dir), 0);
        assert_asleep(p);
        assert_int_equal(mkdir(dir, 0700), 0);
        assert_asleep(p);
        fd = server(p->path);
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

static void client_finds_a_relative_path(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        char before[512];
        int fd;

        (void)state;
        assert_non_null(getcwd(before, sizeof(before)));
        assert_int_equal(chdir(p->dir), 0);
        p->params.path = "sock";
        assert_int_equal(place_open(p), 0);
        assert_asleep(p);
        fd = server(p->path);
        expect_connection(p, fd);
        close(fd);
        assert_int_equal(chdir(before), 0);
        place_free(p);
}

/* A socket file that nobody listens on is looked at for a while and then left to the watch. */
static void client_meets_a_stale_socket(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        unsigned int attempts = 0;
        int fd = bound(p->path);

        (void)state;
        close(fd);
        assert_int_equal(place_open(p), 0);
        while (sd_event_run(p->loop, 6000000) > 0) /* until a wait longer than the longest step */
                attempts++;
        assert_in_range(attempts, 5, 60);
        assert_int_equal(p->connected, 0);
        assert_int_equal(p->lines, 1);
        assert_int_equal(unlink(p->path), 0); /* as its owner does when it starts again */
        fd = server(p->path);
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

/* A listener that is too busy gives no event when it has room again. */
static void client_waits_for_a_full_backlog(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        int fd = server(p->path), waiting[2] = { client(p->path), client(p->path) }, taken;

        (void)state;
        assert_int_equal(place_open(p), 0);
        for (int i = 0; i < 3; i++)
                assert_true(sd_event_run(p->loop, 1000000) > 0);
        assert_int_equal(p->connected, 0);
        for (int i = 0; i < 2; i++) {
                taken = accept(fd, NULL, NULL);
                close(taken);
                close(waiting[i]);
        }
        expect_connection(p, fd);
        close(fd);
        place_free(p);
}

/* A listener that hangs up at once must not be courted in a tight loop (FAULTS D7). */
static void client_does_not_chase_a_dying_listener(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        int fd = server(p->path), connections = 0;
        const uint64_t end = loop_now_us() + 500000;

        (void)state;
        assert_int_equal(place_open(p), 0);
        while (loop_now_us() < end) {
                sd_event_run(p->loop, 10000);
                if (!p->connected)
                        continue;
                connections++;
                close(accept(fd, NULL, NULL));
                close(p->fd);
                p->fd = -1;
                p->connected = 0;
                vql_endpoint_resume(p->endpoint);
        }
        assert_in_range(connections, 1, 12);
        /* The next one is found at once all the same. */
        close(fd);
        assert_int_equal(unlink(p->path), 0);
        fd = server(p->path);
        loop_until(p->loop, &p->connected);
        close(fd);
        place_free(p);
}

/* A user may have used up its inotify instances: slower then, but not blind. */
static void client_without_watch_looks_now_and_then(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);
        int fd;

        (void)state;
        no_inotify = true;
        assert_int_equal(place_open(p), 0);
        for (int i = 0; i < 3; i++)
                assert_true(sd_event_run(p->loop, 1000000) > 0);
        assert_int_equal(p->connected, 0);
        assert_int_equal(p->lines, 2); /* no watch, no socket; each once */
        fd = server(p->path);
        expect_connection(p, fd);
        no_inotify = false;
        close(fd);
        place_free(p);
}

static void client_checks_its_path(void **state)
{
        struct place *p = place_new(VQL_ROLE_CLIENT);

        (void)state;
        memset(p->path, 'n', 108);
        p->path[108] = '\0';
        assert_refused(p, ENAMETOOLONG, "108 bytes, expected at most 107");
        place_free(p);
        vql_endpoint_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(server_takes_one_client_after_the_other),
                cmocka_unit_test(socket_has_mode_and_no_other_file_is_left),
                cmocka_unit_test(stale_socket_is_replaced),
                cmocka_unit_test(busy_socket_is_left_alone),
                cmocka_unit_test(busy_socket_with_a_full_backlog),
                cmocka_unit_test(other_files_are_left_alone),
                cmocka_unit_test(paths_are_checked),
                cmocka_unit_test(second_client_is_refused_at_once),
                cmocka_unit_test(only_our_own_socket_is_removed),
                cmocka_unit_test(no_free_descriptor_for_a_client),
                cmocka_unit_test(client_finds_a_server_that_is_there),
                cmocka_unit_test(client_waits_for_a_socket),
                cmocka_unit_test(client_waits_between_bind_and_listen),
                cmocka_unit_test(client_takes_a_renamed_socket),
                cmocka_unit_test(client_waits_for_directories),
                cmocka_unit_test(client_misses_no_directory),
                cmocka_unit_test(client_survives_removal_of_the_directory),
                cmocka_unit_test(client_finds_a_relative_path),
                cmocka_unit_test(client_meets_a_stale_socket),
                cmocka_unit_test(client_waits_for_a_full_backlog),
                cmocka_unit_test(client_does_not_chase_a_dying_listener),
                cmocka_unit_test(client_without_watch_looks_now_and_then),
                cmocka_unit_test(client_checks_its_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
