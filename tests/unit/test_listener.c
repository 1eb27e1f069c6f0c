/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "endpoint_place.h"

/* The server role.  FAULTS A14, A16, D7, J4. */

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
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
