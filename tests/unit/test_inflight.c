/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "virtqueue/inflight.h"

enum { ROUNDS = 2000, AT_VERSION = 8 /* byte offset in a queue's part */ };

#define UNTOUCHED ((void *)0x55)

/* 4 split queues of 128. */
#define DESC(bytes, offset) (&(const struct vql_inflight_desc){ (bytes), (offset), 4, 128, false })

static void test_sizes(void **state)
{
        (void)state;
        assert_int_equal(vql_inflight_queue_bytes(1, false), 64);
        assert_int_equal(vql_inflight_queue_bytes(3, false), 64);
        assert_int_equal(vql_inflight_queue_bytes(4, false), 128);
        assert_int_equal(vql_inflight_queue_bytes(128, false), 2112);
        assert_int_equal(vql_inflight_queue_bytes(1, true), 64);
        assert_int_equal(vql_inflight_queue_bytes(128, true), 4160);
        assert_int_equal(vql_inflight_bytes(4, 128, false), 8448);
        assert_int_equal(vql_inflight_bytes(256, 32768, true), UINT64_C(256) * (32768 * 32 + 64));
}

static void test_create(void **state)
{
        struct stat st;
        uint64_t bytes = 0;
        uint8_t last = 1;
        int fd = -1;

        (void)state;
        assert_int_equal(vql_inflight_create(256, 32768, true, &fd, &bytes, NULL), 0);
        assert_int_equal(bytes, vql_inflight_bytes(256, 32768, true));
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_size, bytes);
        assert_int_equal(st.st_blocks, 0);
        assert_int_equal(pread(fd, &last, 1, (off_t)bytes - 1), 1);
        assert_int_equal(last, 0);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(ftruncate(fd, 0), -1);
        assert_int_equal(errno, EPERM);
        close(fd);
}

static void test_refuses_counts(void **state)
{
        static const uint16_t bad[][2] = { { 0, 128 },     { 257, 128 },     { 65535, 65535 },
                                           { 1, 0 },       { 1, 32769 },     { 0, 0 },
                                           { 65535, 128 }, { 1, UINT16_MAX } };
        struct vql_inflight *f = UNTOUCHED;
        struct vql_error e;
        uint64_t bytes = 7;
        int fd = -7;

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                const struct vql_inflight_desc d = { UINT64_MAX, 0, bad[i][0], bad[i][1], i & 1 };

                e.text[0] = 0;
                assert_int_equal(vql_inflight_create(bad[i][0], bad[i][1], i & 1, &fd, &bytes, &e),
                                 -EINVAL);
                assert_non_null(strstr(e.text, "expected 1 to"));
                assert_int_equal(vql_inflight_map(0, &d, &f, &e), -EINVAL);
        }
        assert_int_equal(fd, -7);
        assert_int_equal(bytes, 7);
        assert_ptr_equal(f, UNTOUCHED);
}

static void refuse_map(int fd, uint64_t bytes, uint64_t offset, int err, const char *text)
{
        struct vql_inflight *f = UNTOUCHED;
        struct vql_error e = { "" };

        assert_int_equal(vql_inflight_map(fd, DESC(bytes, offset), &f, &e), -err);
        assert_ptr_equal(f, UNTOUCHED);
        if (!strstr(e.text, text))
                fail_msg("\"%s\" lacks \"%s\"", e.text, text);
}

static void test_refuses_bad_regions(void **state)
{
        int fd = memfd_create("vqlift-inflight", MFD_CLOEXEC);

        (void)state;
        assert_int_equal(ftruncate(fd, 8448), 0);
        refuse_map(fd, 8447, 0, EINVAL, "at least 8448");
        refuse_map(fd, 0, 0, EINVAL, "at least 8448");
        refuse_map(fd, 8449, 0, ENXIO, "8448 bytes");
        refuse_map(fd, 8448, 64, ENXIO, "8448 bytes");
        refuse_map(fd, 8448, 8, EINVAL, "multiple of 64");
        refuse_map(fd, UINT64_MAX, 64, EINVAL, "wraps");
        refuse_map(fd, 8448, UINT64_MAX - 63, EINVAL, "wraps");
        refuse_map(-1, 8448, 0, EBADF, "fstat");
        assert_int_equal(process_count_maps("vqlift-inflight"), 0);
        close(fd);
}

static void test_region_at_an_offset(void **state)
{
        struct vql_inflight *f;
        int fd = memfd_create("vqlift-inflight", MFD_CLOEXEC);
        uint16_t version = 0, before = 1;

        (void)state;
        assert_int_equal(ftruncate(fd, 4096 + 64 + 8448), 0);
        assert_int_equal(vql_inflight_map(fd, DESC(8448, 4096 + 64), &f, NULL), 0);
        vql_inflight_settle(f, 0, &(struct vql_cursor){ 0 });
        assert_int_equal(pread(fd, &version, 2, 4096 + 64 + AT_VERSION), 2);
        assert_int_equal(version, 1);
        assert_int_equal(pread(fd, &before, 2, AT_VERSION), 2);
        assert_int_equal(before, 0);
        vql_inflight_unmap(f);
        close(fd);
}

static void test_survives_a_truncated_file(void **state)
{
        struct vql_inflight *f;
        struct vql_cursor c = { 4, 4, 0, 0 };
        int fd;

        (void)state;
        if (process_atomics_must_not_fault())
                skip();
        fd = memfd_create("vqlift-inflight", MFD_CLOEXEC);
        process_guard_sigbus();
        assert_int_equal(ftruncate(fd, 8448), 0);
        assert_int_equal(vql_inflight_map(fd, DESC(8448, 0), &f, NULL), 0);
        vql_inflight_settle(f, 0, &c);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(vql_inflight_read(f, 0, 128, &c), -ENODATA);
        vql_inflight_settle(f, 0, &c);
        assert_int_equal(vql_inflight_read(f, 0, 128, &c), 0);
        vql_inflight_unmap(f);
        close(fd);
        assert_int_equal(process_count_maps("vqlift-inflight"), 0);
}

static void test_no_leaks(void **state)
{
        size_t fds = process_count_fds(), maps = process_count_maps("");
        struct vql_inflight *f;
        uint64_t bytes;
        int fd;

        (void)state;
        for (int i = 0; i < ROUNDS; i++) {
                assert_int_equal(vql_inflight_create(4, 128, false, &fd, &bytes, NULL), 0);
                refuse_map(fd, bytes + 1, 0, ENXIO, "8448 bytes");
                refuse_map(fd, bytes - 1, 0, EINVAL, "at least 8448");
                assert_int_equal(vql_inflight_map(fd, DESC(bytes, 0), &f, NULL), 0);
                close(fd);
                vql_inflight_unmap(f);
        }
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(process_count_maps("vqlift-inflight"), 0);
        /* The allocator of a sanitizer may map a little more; a leak would be a line a round. */
        assert_in_range(process_count_maps(""), 1, maps + ROUNDS / 20);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_create),
                cmocka_unit_test(test_refuses_counts),
                cmocka_unit_test(test_refuses_bad_regions),
                cmocka_unit_test(test_region_at_an_offset),
                cmocka_unit_test(test_survives_a_truncated_file),
                cmocka_unit_test(test_no_leaks),
        };

        process_guard_sigbus();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
