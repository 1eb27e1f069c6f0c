/* SPDX-License-Identifier: BSD-3-Clause */
/* Positions that outlive a process. */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/journal.h"

static char dir[] = "/tmp/vqlift-journal-XXXXXX";
static char path[64];

static const struct vql_cursor start = { 7, 7, 1, 1 };

static void record_survives_reopening(void **state)
{
        const struct vql_cursor later = { 5, 5, 0, 0 };
        struct vql_journal *j;
        struct vql_cursor c[2];
        uint64_t *word;

        (void)state;
        assert_int_equal(vql_journal_open(dir, "a", &j, NULL), 0);
        assert_int_equal(vql_journal_find(j, 3, 0x1000, 256, c), -ENODATA);
        word = vql_journal_begin(j, 3, 0x1000, 256, &start);
        assert_int_equal(vql_journal_find(j, 3, 0x1000, 256, c), 0);
        assert_int_equal(c[0].used, 7);
        assert_int_equal(c[1].used, 7);
        /* Cut down between the two stores: both are told. */
        *word = vql_position_word(later.used, later.used_wrap, start.used, start.used_wrap);
        vql_journal_close(j);

        assert_int_equal(vql_journal_open(dir, "a", &j, NULL), 0);
        assert_int_equal(vql_journal_find(j, 3, 0x1000, 256, c), 0);
        assert_int_equal(c[0].used, 5);
        assert_int_equal(c[0].used_wrap, 0);
        assert_int_equal(c[1].used, 7);
        assert_int_equal(c[1].used_wrap, 1);
        vql_journal_close(j);
}

static void record_is_of_one_ring(void **state)
{
        struct vql_journal *j;
        struct vql_cursor c[2];

        (void)state;
        assert_int_equal(vql_journal_open(dir, "b", &j, NULL), 0);
        vql_journal_begin(j, 1, 0x1000, 256, &start);
        assert_int_equal(vql_journal_find(j, 1, 0x2000, 256, c), -ENODATA);
        assert_int_equal(vql_journal_find(j, 1, 0x1000, 128, c), -ENODATA);
        assert_int_equal(vql_journal_find(j, 2, 0x1000, 256, c), -ENODATA);
        vql_journal_end(j, 1);
        assert_int_equal(vql_journal_find(j, 1, 0x1000, 256, c), -ENODATA);
        vql_journal_close(j);
}

/* What the file says is checked: a slot beyond the ring is no position. */
static void impossible_position_is_refused(void **state)
{
        struct vql_journal *j;
        struct vql_cursor c[2];

        (void)state;
        assert_int_equal(vql_journal_open(NULL, "c", &j, NULL), 0);
        *vql_journal_begin(j, 0, 0x1000, 8, &start) = 8;
        assert_int_equal(vql_journal_find(j, 0, 0x1000, 8, c), -ENODATA);
        vql_journal_close(j);
}

static void odd_file_begins_anew(void **state)
{
        struct vql_journal *j;
        struct vql_cursor c[2];
        int fd;

        (void)state;
        assert_int_equal(vql_journal_open(dir, "d", &j, NULL), 0);
        vql_journal_begin(j, 0, 0x1000, 8, &start);
        vql_journal_close(j);
        snprintf(path, sizeof(path), "%s/d.rings", dir);
        fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, 100), 0);
        close(fd);
        assert_int_equal(vql_journal_open(dir, "d", &j, NULL), 0);
        assert_int_equal(vql_journal_find(j, 0, 0x1000, 8, c), -ENODATA);
        vql_journal_forget(j);
        vql_journal_close(j);
        assert_int_equal(access(path, F_OK), -1);
}

static void missing_directory_is_named(void **state)
{
        struct vql_journal *j;
        struct vql_error e;

        (void)state;
        assert_int_equal(vql_journal_open("/nonexistent", "a", &j, &e), -ENOENT);
        assert_non_null(strstr(e.text, "/nonexistent/a.rings"));
}

static int make_dir(void **state)
{
        (void)state;
        return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
        const char *const names[] = { "a", "b", "c", "d" };

        (void)state;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s.rings", dir, names[i]);
                unlink(path);
        }
        return rmdir(dir);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(record_survives_reopening),
                cmocka_unit_test(record_is_of_one_ring),
                cmocka_unit_test(impossible_position_is_refused),
                cmocka_unit_test(odd_file_begins_anew),
                cmocka_unit_test(missing_directory_is_named),
        };

        return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
