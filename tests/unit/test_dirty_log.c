/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/dirty_log.h"
#include "process.h"

enum { PAGE = 1 << VQL_LOG_PAGE_SHIFT, LOG_BYTES = 64, LOG_PAGES = LOG_BYTES * 8, ROUNDS = 2000 };

#define MEMFD_NAME "vql-unit-log"
#define UNTOUCHED  ((void *)0x55)

static int log_file(uint64_t size)
{
        int fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        return fd;
}

static struct vql_dirty_log *log_of(uint64_t size)
{
        struct vql_dirty_log *log = UNTOUCHED;
        int fd = log_file(size);

        assert_int_equal(vql_dirty_log_map(fd, size, 0, 0, &log, NULL), 0);
        close(fd);
        return log;
}

static bool is_marked(const struct vql_dirty_log *log, uint64_t page)
{
        return log->bits[page / 8] >> (page % 8) & 1;
}

static void test_log_at_an_offset(void **state)
{
        struct vql_dirty_log *log = UNTOUCHED;
        int fd = log_file(2 * PAGE + LOG_BYTES);
        uint8_t file[2 * PAGE + LOG_BYTES] = { 0 }, want[sizeof(file)] = { 0 };
        static const unsigned int offsets[] = { 0, PAGE, 2 * PAGE, 24 };

        (void)state;
        for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
                assert_int_equal(
                        vql_dirty_log_map(fd, LOG_BYTES, offsets[i], LOG_PAGES * PAGE, &log, NULL),
                        0);
                vql_dirty_log_mark(log, 10 * PAGE, 1);
                vql_dirty_log_mark(log, (LOG_PAGES - 1) * PAGE, PAGE);
                want[offsets[i] + 1] |= 1 << 2;
                want[offsets[i] + LOG_BYTES - 1] |= 1 << 7;
                vql_dirty_log_unmap(log);
                assert_int_equal(pread(fd, file, sizeof(file), 0), sizeof(file));
                assert_memory_equal(file, want, sizeof(file));
        }
        close(fd);
}

static void refuse(uint64_t file_size, uint64_t size, uint64_t offset, uint64_t mem_end, int err,
                   const char *text)
{
        struct vql_dirty_log *log = UNTOUCHED;
        struct vql_error e = { "" };
        int fd = log_file(file_size);

        assert_int_equal(vql_dirty_log_map(fd, size, offset, mem_end, &log, &e), -err);
        assert_ptr_equal(log, UNTOUCHED);
        if (!strstr(e.text, text))
                fail_msg("\"%s\" lacks \"%s\"", e.text, text);
        close(fd);
}

static void test_refuses_bad_logs(void **state)
{
        (void)state;
        refuse(PAGE, 0, 0, 0, EINVAL, "size 0");
        refuse(PAGE, 0, 0, PAGE, EINVAL, "at least 1");
        refuse(PAGE, PAGE, UINT64_MAX - PAGE + 1, 0, EINVAL, "wraps");
        refuse(PAGE, UINT64_MAX, PAGE, 0, EINVAL, "wraps");
        refuse(PAGE, PAGE + 1, 0, 0, ENXIO, "4096 bytes");
        refuse(PAGE, PAGE, 1, 0, ENXIO, "4096 bytes");
        refuse(INT64_MAX - PAGE + 1, INT64_MAX - PAGE + 1, 0, 0, ENOMEM, "mmap");
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

/* One bit too few for the last page of memory is too short; just enough is fine. */
static void test_log_covers_memory(void **state)
{
        struct vql_dirty_log *log = UNTOUCHED;
        int fd = log_file(LOG_BYTES);

        (void)state;
        refuse(LOG_BYTES, LOG_BYTES, 0, (uint64_t)LOG_PAGES * PAGE + 1, EINVAL,
               "64 bytes, expected at least 65");
        refuse(LOG_BYTES, LOG_BYTES - 1, 0, (uint64_t)(LOG_PAGES - 8) * PAGE + 1, EINVAL,
               "63 bytes, expected at least 64");
        refuse(LOG_BYTES, LOG_BYTES, 0, UINT64_MAX, EINVAL, "expected at least 562949953421312");
        assert_int_equal(
                vql_dirty_log_map(fd, LOG_BYTES, 0, (uint64_t)LOG_PAGES * PAGE, &log, NULL), 0);
        assert_int_equal(log->size, LOG_BYTES);
        vql_dirty_log_unmap(log);
        close(fd);
}

/* Every span that begins or ends near a border of pages or bytes, against a plain reference. */
static void test_marks_exactly_the_pages_touched(void **state)
{
        static const unsigned int near[] = { 0, 1, PAGE - 1 };
        struct vql_dirty_log *log = log_of(8);

        (void)state;
        for (unsigned int i = 0; i < 20 * 20 * 9; i++) {
                uint64_t from = (uint64_t)(i % 20) * PAGE + near[i / 400 % 3];
                uint64_t to = (uint64_t)(i / 20 % 20) * PAGE + near[i / 1200 % 3];

                if (to < from)
                        continue;
                memset(log->bits, 0, log->size);
                vql_dirty_log_mark(log, from, to - from + 1);
                for (uint64_t page = 0; page < 64; page++)
                        assert_int_equal(is_marked(log, page),
                                         page >= from / PAGE && page <= to / PAGE);
        }
        assert_int_equal(log->dropped, 0);
        vql_dirty_log_unmap(log);
}

static void test_length_0_marks_nothing(void **state)
{
        static const uint8_t zero[LOG_BYTES];
        struct vql_dirty_log *log = log_of(LOG_BYTES);

        (void)state;
        vql_dirty_log_mark(log, 0, 0);
        vql_dirty_log_mark(log, 5 * PAGE, 0);
        vql_dirty_log_mark(log, UINT64_MAX, 0);
        assert_memory_equal(log->bits, zero, LOG_BYTES);
        assert_int_equal(log->dropped, 0);
        vql_dirty_log_unmap(log);
}

static void test_keeps_other_marks(void **state)
{
        struct vql_dirty_log *log = log_of(LOG_BYTES);

        (void)state;
        memset(log->bits, 0xa5, LOG_BYTES);
        vql_dirty_log_mark(log, 9 * PAGE, PAGE);
        assert_int_equal(log->bits[0], 0xa5);
        assert_int_equal(log->bits[1], 0xa7);
        assert_int_equal(log->bits[2], 0xa5);
        vql_dirty_log_unmap(log);
}

struct beyond {
        uint64_t gpa, len;
        uint64_t dropped;   /* pages */
        unsigned int first; /* page marked from here to the end of the log; LOG_PAGES: none */
};

static void test_drops_and_counts_beyond_the_end(void **state)
{
        const uint64_t end = (uint64_t)LOG_PAGES * PAGE, last = UINT64_MAX / PAGE;
        const struct beyond cases[] = {
                { end - 1, 1, 0, LOG_PAGES - 1 },
                { end, 1, 1, LOG_PAGES },
                { end - 1, 2, 1, LOG_PAGES - 1 },
                { end - 3 * PAGE, 5 * PAGE, 2, LOG_PAGES - 3 },
                { 0, UINT64_MAX, last - LOG_PAGES + 1, 0 },
                { UINT64_MAX, 1, 1, LOG_PAGES },
                { UINT64_MAX, UINT64_MAX, 1, LOG_PAGES },
                { end - 1, UINT64_MAX, last - LOG_PAGES + 1, LOG_PAGES - 1 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct vql_dirty_log *log = log_of(LOG_BYTES);

                vql_dirty_log_mark(log, cases[i].gpa, cases[i].len);
                assert_int_equal(log->dropped, cases[i].dropped);
                for (unsigned int page = 0; page < LOG_PAGES; page++)
                        assert_int_equal(is_marked(log, page), page >= cases[i].first);
                vql_dirty_log_unmap(log);
        }
}

struct marker {
        struct vql_dirty_log *log;
        pthread_barrier_t *barrier;
        uint64_t first;
};

/* Every other page of the log, and as many beyond its end. */
static void *mark_every_other_page(void *arg)
{
        const struct marker *m = arg;
        uint64_t pages = m->log->size * 8;

        pthread_barrier_wait(m->barrier);
        for (uint64_t page = m->first; page < pages; page += 2) {
                vql_dirty_log_mark(m->log, page * PAGE, 1);
                vql_dirty_log_mark(m->log, (pages + page) * PAGE, 1);
        }
        return NULL;
}

/* Two threads share every byte: an OR, or a count, that is not atomic loses some. */
static void test_two_threads_lose_nothing(void **state)
{
        struct vql_dirty_log *log = log_of(1 << 18);
        pthread_barrier_t barrier;
        struct marker m[2] = { { log, &barrier, 0 }, { log, &barrier, 1 } };
        pthread_t thread[2];

        (void)state;
        pthread_barrier_init(&barrier, NULL, 2);
        for (int i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, mark_every_other_page, &m[i]), 0);
        for (int i = 0; i < 2; i++)
                pthread_join(thread[i], NULL);
        for (uint64_t i = 0; i < log->size; i++)
                if (log->bits[i] != 0xff)
                        fail_msg("byte %ju is %#x", (uintmax_t)i, log->bits[i]);
        assert_int_equal(log->dropped, log->size * 8);
        pthread_barrier_destroy(&barrier);
        vql_dirty_log_unmap(log);
}

/* 1 TiB of memory has a log of 32 MiB. */
static void test_log_of_a_large_guest(void **state)
{
        struct vql_dirty_log *log = UNTOUCHED;
        const uint64_t mem_end = UINT64_C(1) << 40, size = mem_end / PAGE / 8;
        int fd = log_file(size);

        (void)state;
        assert_int_equal(vql_dirty_log_map(fd, size, 0, mem_end, &log, NULL), 0);
        vql_dirty_log_mark(log, mem_end - 1, 1);
        assert_int_equal(log->bits[size - 1], 0x80);
        assert_int_equal(log->dropped, 0);
        vql_dirty_log_unmap(log);
        close(fd);
}

static void test_survives_a_truncated_log(void **state)
{
        struct vql_dirty_log *log = UNTOUCHED;
        int fd;

        (void)state;
        if (process_atomics_must_not_fault())
                skip();
        fd = log_file(2 * PAGE);
        process_guard_sigbus();
        assert_int_equal(vql_dirty_log_map(fd, 2 * PAGE, 0, 0, &log, NULL), 0);
        assert_int_equal(ftruncate(fd, 0), 0);
        vql_dirty_log_mark(log, 0, (uint64_t)2 * PAGE * 8 * PAGE);
        assert_int_equal(log->bits[0], 0xff);
        vql_dirty_log_unmap(log);
        vql_dirty_log_unmap(NULL);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        close(fd);
}

static void test_no_leaks(void **state)
{
        size_t fds = process_count_fds(), maps = process_count_maps("");

        (void)state;
        for (int i = 0; i < ROUNDS; i++) {
                vql_dirty_log_unmap(log_of(PAGE));
                refuse(PAGE, PAGE + 1, 0, 0, ENXIO, "4096 bytes");
                refuse(INT64_MAX - PAGE + 1, INT64_MAX - PAGE + 1, 0, 0, ENOMEM, "mmap");
        }
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        /* The allocator of a sanitizer may map a little more; a leak would be a line a round. */
        assert_in_range(process_count_maps(""), 1, maps + ROUNDS / 20);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_log_at_an_offset),
                cmocka_unit_test(test_refuses_bad_logs),
                cmocka_unit_test(test_log_covers_memory),
                cmocka_unit_test(test_marks_exactly_the_pages_touched),
                cmocka_unit_test(test_length_0_marks_nothing),
                cmocka_unit_test(test_keeps_other_marks),
                cmocka_unit_test(test_drops_and_counts_beyond_the_end),
                cmocka_unit_test(test_two_threads_lose_nothing),
                cmocka_unit_test(test_log_of_a_large_guest),
                cmocka_unit_test(test_survives_a_truncated_log),
                cmocka_unit_test(test_no_leaks),
        };

        process_guard_sigbus();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
