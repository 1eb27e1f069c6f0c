/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include "guest_memory.h"
#include "memory/sigbus.h"
#include "process.h"

/*
 * The seam to the kernel: these two stand in front of libc's, so that a test can have a file in
 * FUSE, or a call that fails.
 */
static bool fake_fuse;
static int fail_advice = -1;

int fstatfs(int fd, struct statfs *fs)
{
        int ret = (int)syscall(SYS_fstatfs, fd, fs);

        if (fake_fuse)
                fs->f_type = FUSE_SUPER_MAGIC;
        return ret;
}

int madvise(void *va, size_t len, int advice)
{
        if (advice == fail_advice) {
                errno = ENOMEM;
                return -1;
        }
        return (int)syscall(SYS_madvise, va, len, advice);
}

static void test_maps_what_is_described(void **state)
{
        const struct vql_region_desc d = { 0x100000, 2 * PAGE, 0x7f0000000000, PAGE };
        int fd = memory_file(4 * PAGE);
        struct vql_region *r = UNTOUCHED;
        struct vql_mem_table *t;
        struct process_map m = { 0 };
        uint8_t *va;
        char c = 0;

        (void)state;
        assert_int_equal(vql_region_map(&d, fd, -1, &r, NULL), 0);
        assert_memory_equal(vql_region_desc(r), &d, sizeof(d));
        assert_int_equal(vql_mem_table_new(&r, 1, &t, NULL), 0);
        vql_region_put(r);

        va = at(t, d.gpa + 5, 1);
        assert_int_equal(pwrite(fd, "x", 1, PAGE + 5), 1);
        assert_int_equal(*va, 'x');
        *va = 'y';
        assert_int_equal(pread(fd, &c, 1, PAGE + 5), 1);
        assert_int_equal(c, 'y');

        assert_true(process_find_map(va, &m));
        assert_int_equal(m.end - m.start, 2 * PAGE);
        assert_non_null(strstr(m.flags, " sh "));
        assert_non_null(strstr(m.flags, " dd ")); /* MADV_DONTDUMP */
        assert_non_null(strstr(m.flags, " dc ")); /* MADV_DONTFORK */
        vql_mem_table_put(t);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        close(fd);
}

struct refusal {
        struct vql_region_desc desc;
        uint64_t file_size;
        int err;
        const char *text;
};

static const struct refusal refusals[] = {
        { { 0, 0, 0, 0 }, PAGE, EINVAL, "size 0" },
        { { UINT64_MAX - 100, PAGE, 0, 0 }, PAGE, EINVAL, "guest address + size wraps" },
        { { 0, PAGE, UINT64_MAX - 100, 0 }, PAGE, EINVAL, "front-end address" },
        { { 0, UINT64_MAX, 0, 0 }, PAGE, ENXIO, "4096 bytes" },
        { { 0, PAGE, 0, UINT64_MAX - PAGE + 1 }, PAGE, EINVAL, "wraps" },
        { { 0, 2 * PAGE, 0, UINT64_MAX - PAGE + 1 }, PAGE, EINVAL, "wraps" },
        { { 0, PAGE, 0, 1 }, 2 * PAGE, EINVAL, "mmap offset 0x1" },
        { { 0, PAGE, 0, PAGE / 2 }, 2 * PAGE, EINVAL, "multiple of 4096" },
        { { 0, PAGE + 1, 0, 0 }, PAGE, ENXIO, "4096 bytes" },
        { { 0, PAGE, 0, PAGE }, 2 * PAGE - 1, ENXIO, "8191 bytes" },
        { { 0, PAGE, 0, 0 }, 0, ENXIO, "0 bytes" },
        { { 0, GIB, 0, 0 }, PAGE, ENXIO, "size 0x40000000" },
        /* A sparse file may be larger than the address space: here mmap itself fails. */
        { { 0, INT64_MAX - PAGE + 1, 0, 0 }, INT64_MAX - PAGE + 1, ENOMEM, "mmap of" },
};

static void refuse(const struct refusal *c)
{
        struct vql_region *r = UNTOUCHED;
        struct vql_error e = { "" };
        int fd = memory_file(c->file_size);

        assert_int_equal(vql_region_map(&c->desc, fd, -1, &r, &e), -c->err);
        assert_ptr_equal(r, UNTOUCHED);
        if (!strstr(e.text, c->text))
                fail_msg("\"%s\" lacks \"%s\"", e.text, c->text);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        close(fd);
}

static void test_refuses_bad_descriptions(void **state)
{
        size_t fds = process_count_fds();

        (void)state;
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
                refuse(&refusals[i]);
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

static void refuse_file(int fd, int err, const char *text)
{
        const struct vql_region_desc d = DESC(0, PAGE);
        struct vql_region *r = UNTOUCHED;
        struct vql_error e = { "" };

        assert_int_equal(vql_region_map(&d, fd, -1, &r, &e), -err);
        assert_ptr_equal(r, UNTOUCHED);
        assert_non_null(strstr(e.text, text));
        if (fd >= 0)
                close(fd);
}

static void test_refuses_other_files(void **state)
{
        int pipe_fds[2], fd = memory_file(PAGE);
        char path[64];

        (void)state;
        assert_int_equal(pipe(pipe_fds), 0);
        refuse_file(pipe_fds[0], EINVAL, "no regular file");
        refuse_file(pipe_fds[1], EINVAL, "no regular file");
        refuse_file(eventfd(0, EFD_CLOEXEC), EINVAL, "no regular file");
        refuse_file(open("/dev/zero", O_RDWR | O_CLOEXEC), EINVAL, "no regular file");
        refuse_file(-1, EBADF, "fstat");
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        refuse_file(open(path, O_RDONLY | O_CLOEXEC), EACCES, "mmap");
        fake_fuse = true;
        refuse_file(fd, EINVAL, "FUSE");
        fake_fuse = false;
}

static void test_unmaps_when_advice_fails(void **state)
{
        static const int advice[] = { MADV_DONTDUMP, MADV_DONTFORK };

        (void)state;
        for (size_t i = 0; i < 2; i++) {
                fail_advice = advice[i];
                refuse_file(memory_file(PAGE), ENOMEM, "madvise");
                assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        }
        fail_advice = -1;
}

/* The guard does not look at what it guards before a fault: any address will do. */
static void test_refuses_beyond_the_guard_table(void **state)
{
        static struct vql_sigbus_range *ranges[VQL_SIGBUS_RANGES];
        struct vql_region *r;
        size_t n = 0;
        int fd;

        (void)state;
        while (vql_sigbus_guard((void *)(uintptr_t)PAGE, PAGE, PAGE, -1, &ranges[n]) == 0)
                n++;
        assert_int_equal(n, VQL_SIGBUS_RANGES);
        refuse_file(memory_file(PAGE), ENOSPC, "SIGBUS guard");
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        while (n)
                vql_sigbus_release(ranges[--n]);

        fd = memory_file(PAGE);
        assert_int_equal(vql_region_map(&DESC(0, PAGE), fd, -1, &r, NULL), 0);
        vql_region_put(r);
        close(fd);
}

static void leak_round(int round)
{
        const size_t n = sizeof(refusals) / sizeof(refusals[0]);

        refuse(&refusals[(size_t)round % n]);
        vql_region_put(region_of(&DESC(0, PAGE)));
}

static void test_no_leaks(void **state)
{
        size_t fds, maps;

        (void)state;
        leak_round(0);
        fds = process_count_fds();
        maps = process_count_maps("");
        for (int i = 0; i < ROUNDS; i++)
                leak_round(i);
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        /* The allocator of a sanitizer may map a little more; a leak would be a line a round. */
        assert_in_range(process_count_maps(""), 1, maps + ROUNDS / 20);
}

/* A region that begins and ends inside huge pages, the way a PC's memory below 1 MiB does. */
static void test_huge_pages(void **state)
{
        const struct vql_region_desc d = { 0xc0000, HUGE_PAGE, 0x7f00000c0000, 0xc0000 };
        int fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC | MFD_HUGETLB | PROCESS_HUGE_2MB);
        struct vql_region *r = UNTOUCHED;
        struct vql_error e = { "" };
        struct vql_mem_table *t;
        struct process_map m = { 0 };
        uint8_t *va;

        (void)state;
        if (fd < 0 || ftruncate(fd, 3 * HUGE_PAGE) < 0 ||
            vql_region_map(&d, fd, -1, &r, &e) == -ENOMEM) {
                print_message("skipped: no two free 2 MiB huge pages (%s)\n",
                              fd < 0 ? strerror(errno) : e.text);
                if (fd >= 0)
                        close(fd);
                skip();
        }
        close(fd);
        assert_string_equal(e.text, "");
        assert_int_equal(vql_mem_table_new(&r, 1, &t, NULL), 0);
        vql_region_put(r);
        va = at(t, d.gpa, d.size);
        va[0] = va[d.size - 1] = 1;
        assert_true(process_find_map(va, &m));
        assert_int_equal(m.end - m.start, 2 * HUGE_PAGE);
        assert_int_equal((uintptr_t)va - m.start, 0xc0000);
        assert_non_null(strstr(m.flags, " ht "));
        vql_mem_table_put(t);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_maps_what_is_described),
                cmocka_unit_test(test_refuses_bad_descriptions),
                cmocka_unit_test(test_refuses_other_files),
                cmocka_unit_test(test_unmaps_when_advice_fails),
                cmocka_unit_test(test_refuses_beyond_the_guard_table),
                cmocka_unit_test(test_no_leaks),
                cmocka_unit_test(test_huge_pages),
        };

        process_guard_sigbus();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
