/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/inotify.h>
#include <sys/syscall.h>

#include "endpoint_place.h"

/* The client role.  FAULTS A18, D7, F24. */

/* The seam to the kernel: sd-event calls this one, which fails when it is told to. */
static bool no_inotify;

int inotify_init1(int flags)
{
        if (!no_inotify)
                return (int)syscall(SYS_inotify_init1, flags);
        errno = EMFILE;
        return -1;
}

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
