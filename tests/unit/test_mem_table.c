/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "guest_memory.h"
#include "process.h"

enum { SEED = 20240611 };

/* The thread sanitizer leaves a program 1.5 TiB in all. */
#define LARGE (PROCESS_THREAD_SANITIZER ? 256 * GIB : TIB)

/* Sparse files: their size costs address space only. */
static void test_regions_beyond_4_gib(void **state)
{
        const struct vql_region_desc d[] = {
                { 0, 3 * GIB, 0x600000000000, 0 },
                { 4 * GIB, 5 * GIB, 0x610000000000, 7 * GIB },
                { LARGE, LARGE, 0x620000000000, 0 },
        };
        struct vql_mem_table *t = table_of(d, 3);
        uint64_t gpa, last = 2 * LARGE - 1;
        void *va;

        (void)state;
        assert_int_equal(vql_mem_table_end(t), 2 * LARGE);
        *at(t, last, 1) = 0x5a;
        va = vql_mem_uva(t, 0x620000000000 + LARGE - 1, 1, &gpa);
        assert_non_null(va);
        assert_int_equal(gpa, last);
        assert_int_equal(*(uint8_t *)va, 0x5a);
        *at(t, 9 * GIB - 1, 1) = 0x5b;
        assert_int_equal(*at(t, 9 * GIB - 1, 1), 0x5b);
        assert_null(vql_mem_uva(t, 0x620000000000 + LARGE - 1, 2, NULL));
        assert_null(vql_mem_uva(t, 0x620000000000, LARGE + 1, NULL));
        assert_non_null(vql_mem_uva(t, 0x620000000000, LARGE, NULL));
        vql_mem_table_put(t);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

static void refuse_pair(const struct vql_region_desc d[2], const char *const names[2])
{
        struct vql_region *regions[2] = { region_of(&d[0]), region_of(&d[1]) };
        struct vql_mem_table *t = UNTOUCHED;
        struct vql_error e = { "" };

        assert_int_equal(vql_mem_table_new(regions, 2, &t, &e), -EINVAL);
        assert_ptr_equal(t, UNTOUCHED);
        assert_non_null(strstr(e.text, names[0]));
        assert_non_null(strstr(e.text, names[1]));
        vql_region_put(regions[0]);
        vql_region_put(regions[1]);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

static void test_refuses_overlap(void **state)
{
        const struct vql_region_desc by_gpa[][2] = {
                { { 0x10000, 2 * PAGE, 0x100000, 0 }, { 0x11000, PAGE, 0x200000, 0 } },
                { { 0x11000, PAGE, 0x200000, 0 }, { 0x10000, 0x1001, 0x100000, 0 } },
                { { 0x10000, 0x8000, 0x100000, 0 }, { 0x11000, PAGE, 0x200000, 0 } },
                { { 0x10000, PAGE, 0x100000, 0 }, { 0x10000, PAGE, 0x200000, 0 } },
        };
        const struct vql_region_desc by_uva[2] = { { 0x10000, 2 * PAGE, 0x201000, 0 },
                                                   { 0x90000, 2 * PAGE, 0x200000, 0 } };

        (void)state;
        for (size_t i = 0; i < sizeof(by_gpa) / sizeof(by_gpa[0]); i++) {
                char name[2][32];

                for (int k = 0; k < 2; k++)
                        snprintf(name[k], sizeof(name[k]), "%#jx size %#jx",
                                 (uintmax_t)by_gpa[i][k].gpa, (uintmax_t)by_gpa[i][k].size);
                refuse_pair(by_gpa[i], (const char *const[]){ name[0], name[1] });
        }
        refuse_pair(by_uva, (const char *const[]){ "0x201000 size 0x2000", "0x10000" });
        refuse_pair(by_uva, (const char *const[]){ "0x200000 size 0x2000", "0x90000" });
}

static void test_refuses_the_same_region_twice(void **state)
{
        struct vql_region *r = region_of(&DESC(0, PAGE));
        struct vql_mem_table *t = UNTOUCHED;

        (void)state;
        assert_int_equal(vql_mem_table_new((struct vql_region *[]){ r, r }, 2, &t, NULL), -EINVAL);
        vql_region_put(r);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

static void test_empty_table(void **state)
{
        struct vql_mem_table *t;
        struct vql_mem_span span = { 1, 2, UNTOUCHED }, hit = { 0 };
        uint64_t len = 1;

        (void)state;
        assert_int_equal(vql_mem_table_new(NULL, 0, &t, NULL), 0);
        assert_int_equal(vql_mem_table_count(t), 0);
        assert_int_equal(vql_mem_table_end(t), 0);
        assert_false(vql_mem_table_broken(t));
        assert_int_equal(vql_mem_find(t, 0, &span), -EFAULT);
        assert_ptr_equal(span.va, UNTOUCHED);
        assert_null(vql_mem_at(t, &hit, 0, &len));
        assert_null(vql_mem_uva(t, 0, 0, NULL));
        vql_mem_table_put(t);
        vql_mem_table_put(NULL);
        vql_region_put(NULL);
}

static void test_most_regions(void **state)
{
        struct vql_region *regions[VQL_MEM_MAX_REGIONS + 1];
        struct vql_mem_table *t = UNTOUCHED, *none = UNTOUCHED;
        const size_t n = VQL_MEM_MAX_REGIONS;
        struct vql_error e = { "" };

        (void)state;
        /* From the top down, so that sorting has something to do. */
        for (size_t i = 0; i <= n; i++)
                regions[i] = region_of(&DESC((n - i) * 2 * PAGE, PAGE));
        assert_int_equal(vql_mem_table_new(regions, n + 1, &none, &e), -E2BIG);
        assert_ptr_equal(none, UNTOUCHED);
        assert_non_null(strstr(e.text, "510"));
        assert_int_equal(vql_mem_table_new(regions, n, &t, &e), 0);
        assert_int_equal(vql_mem_table_count(t), n);
        for (size_t i = 0; i < n; i++) {
                struct vql_region *r = vql_mem_table_region(t, i);

                assert_int_equal(vql_region_desc(r)->gpa, (i + 1) * 2 * PAGE);
                assert_non_null(at(t, (i + 1) * 2 * PAGE, PAGE));
        }
        for (size_t i = 0; i <= n; i++)
                vql_region_put(regions[i]);
        assert_int_equal(process_count_maps(MEMFD_NAME), n);
        vql_mem_table_put(t);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

/* Disjoint regions with random gaps, some of none, in random order in front-end addresses. */
static size_t random_regions(struct vql_region_desc *d)
{
        size_t n = 1 + (size_t)rand() % 40;
        uint64_t gpa = (uint64_t)(rand() % 3) * PAGE;

        for (size_t i = 0; i < n; i++) {
                uint64_t size = 1 + (uint64_t)rand() % (4 * PAGE);

                d[i] = (struct vql_region_desc){ gpa, size, TIB + i * 8 * PAGE, 0 };
                gpa += size + (uint64_t)(rand() % 3) * PAGE;
        }
        for (size_t i = n; i-- > 1;) {
                size_t k = (size_t)rand() % (i + 1);
                uint64_t uva = d[i].uva;

                d[i].uva = d[k].uva;
                d[k].uva = uva;
        }
        return n;
}

/* The plain reference: the first region that holds `addr`, by whichever field `base` is. */
static const struct vql_region_desc *reference(const struct vql_region_desc *d, size_t n,
                                               size_t base, uint64_t addr)
{
        for (size_t i = 0; i < n; i++) {
                uint64_t start;

                memcpy(&start, (const char *)&d[i] + base, sizeof(start));
                if (addr >= start && addr - start < d[i].size)
                        return &d[i];
        }
        return NULL;
}

static void compare_gpa(const struct vql_mem_table *t, struct vql_mem_span *hit,
                        const struct vql_region_desc *d, size_t n, uint64_t gpa)
{
        const struct vql_region_desc *want =
                reference(d, n, offsetof(struct vql_region_desc, gpa), gpa);
        uint64_t asked = 1 + (uint64_t)rand() % (5 * PAGE), len = asked;
        uint8_t *va = vql_mem_at(t, hit, gpa, &len);
        uint64_t rest;

        if (!want) {
                assert_null(va);
                return;
        }
        rest = want->gpa + want->size - gpa;
        assert_int_equal(len, asked < rest ? asked : rest);
        assert_int_equal(hit->gpa, want->gpa);
        assert_ptr_equal(va, hit->va + (gpa - want->gpa));
        assert_ptr_equal(va, vql_mem_uva(t, want->uva + (gpa - want->gpa), 1, NULL));
}

static void compare_uva(const struct vql_mem_table *t, const struct vql_region_desc *d, size_t n,
                        uint64_t uva)
{
        const struct vql_region_desc *want =
                reference(d, n, offsetof(struct vql_region_desc, uva), uva);
        uint64_t len = (uint64_t)rand() % (5 * PAGE), gpa = 1;
        void *va = vql_mem_uva(t, uva, len, &gpa);

        if (!want || len > want->uva + want->size - uva) {
                assert_null(va);
                assert_int_equal(gpa, 1);
                return;
        }
        assert_non_null(va);
        assert_int_equal(gpa, want->gpa + (uva - want->uva));
        assert_ptr_equal(va, at(t, gpa, 1));
}

static void test_look_up_equals_reference(void **state)
{
        struct vql_region_desc d[40];

        (void)state;
        srand(SEED);
        for (int round = 0; round < 60; round++) {
                size_t n = random_regions(d);
                struct vql_mem_table *t = table_of(d, n);
                uint64_t end = vql_mem_table_end(t);
                struct vql_mem_span hit = { 0 };

                for (int i = 0; i < 500; i++) {
                        compare_gpa(t, &hit, d, n, (uint64_t)rand() % (end + PAGE));
                        compare_uva(t, d, n, TIB - PAGE + (uint64_t)rand() % (42 * 8 * PAGE));
                }
                for (size_t i = 0; i < n; i++) {
                        compare_gpa(t, &hit, d, n, d[i].gpa);
                        compare_gpa(t, &hit, d, n, d[i].gpa - 1);
                        compare_gpa(t, &hit, d, n, d[i].gpa + d[i].size - 1);
                        compare_gpa(t, &hit, d, n, d[i].gpa + d[i].size);
                }
                compare_gpa(t, &hit, d, n, UINT64_MAX);
                vql_mem_table_put(t);
        }
}

/* A buffer over two regions that follow one another in the guest, but not in this process. */
static void test_buffer_crosses_regions(void **state)
{
        const struct vql_region_desc d[] = { { PAGE, PAGE, 0x900000, 0 },
                                             { 2 * PAGE, PAGE, 0x100000, 0 } };
        struct vql_mem_table *t = table_of(d, 2);
        struct vql_mem_span hit = { 0 };
        uint64_t gpa = 2 * PAGE - 3, left = 10;
        uint8_t *part[2];
        int n = 0;

        (void)state;
        while (left) {
                uint64_t len = left;

                part[n] = vql_mem_at(t, &hit, gpa, &len);
                assert_non_null(part[n]);
                assert_int_equal(len, n ? 7 : 3);
                memset(part[n], 'a' + n, len);
                n++;
                gpa += len;
                left -= len;
        }
        assert_int_equal(n, 2);
        assert_memory_equal(vql_mem_uva(t, 0x900000 + PAGE - 3, 3, NULL), "aaa", 3);
        assert_memory_equal(vql_mem_uva(t, 0x100000, 7, NULL), "bbbbbbb", 7);
        /* Ring areas must not cross. */
        assert_null(vql_mem_uva(t, 0x900000 + PAGE - 3, 4, NULL));
        vql_mem_table_put(t);
}

static void test_region_outlives_a_table(void **state)
{
        struct vql_region *r[2] = { region_of(&DESC(0, PAGE)), region_of(&DESC(PAGE, PAGE)) };
        struct vql_mem_table *old, *new;
        uint8_t *va;

        (void)state;
        assert_int_equal(vql_mem_table_new(r, 2, &old, NULL), 0);
        assert_int_equal(vql_mem_table_new(&r[1], 1, &new, NULL), 0);
        assert_ptr_equal(vql_mem_table_get(new), new);
        vql_region_put(r[0]);
        vql_region_put(r[1]);
        va = at(old, PAGE, PAGE);
        *va = 7;
        vql_mem_table_put(old);
        assert_int_equal(process_count_maps(MEMFD_NAME), 1);
        vql_mem_table_put(new);
        assert_ptr_equal(at(new, PAGE, PAGE), va);
        assert_int_equal(*va, 7);
        vql_mem_table_put(new);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
}

static void leak_round(void)
{
        const struct vql_region_desc good[] = { DESC(0, PAGE), DESC(PAGE, 3) };
        const struct vql_region_desc overlap[] = { DESC(0, PAGE), DESC(1, PAGE) };

        refuse_pair(overlap, (const char *const[]){ "0 size", "0x1 size" });
        vql_mem_table_put(table_of(good, 2));
}

static void test_no_leaks(void **state)
{
        size_t fds, maps;

        (void)state;
        leak_round();
        fds = process_count_fds();
        maps = process_count_maps("");
        for (int i = 0; i < ROUNDS; i++)
                leak_round();
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        /* The allocator of a sanitizer may map a little more; a leak would be a line a round. */
        assert_in_range(process_count_maps(""), 1, maps + ROUNDS / 20);
}

static void test_truncation_breaks_one_table(void **state)
{
        const struct vql_region_desc d = DESC(0, 4 * PAGE);
        struct vql_mem_table *good = table_of(&d, 1), *bad;
        int notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int fd = memory_file(4 * PAGE);
        struct vql_region *r;
        uint64_t count = 0;

        (void)state;
        process_guard_sigbus();
        assert_int_equal(vql_region_map(&d, fd, notify, &r, NULL), 0);
        assert_int_equal(vql_mem_table_new(&r, 1, &bad, NULL), 0);
        vql_region_put(r);
        *at(bad, 3 * PAGE, 1) = 1;
        assert_int_equal(ftruncate(fd, PAGE), 0);
        assert_false(vql_mem_table_broken(bad));
        assert_int_equal(read(notify, &count, sizeof(count)), -1);

        assert_int_equal(*(volatile uint8_t *)at(bad, 3 * PAGE, 1), 0);
        assert_true(vql_mem_table_broken(bad));
        assert_int_equal(read(notify, &count, sizeof(count)), sizeof(count));
        assert_int_equal(count, 1);
        assert_false(vql_mem_table_broken(good));
        *at(good, 3 * PAGE, 1) = 9;
        vql_mem_table_put(bad);
        vql_mem_table_put(good);
        assert_int_equal(process_count_maps(MEMFD_NAME), 0);
        close(fd);
        close(notify);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_regions_beyond_4_gib),
                cmocka_unit_test(test_refuses_overlap),
                cmocka_unit_test(test_refuses_the_same_region_twice),
                cmocka_unit_test(test_empty_table),
                cmocka_unit_test(test_most_regions),
                cmocka_unit_test(test_look_up_equals_reference),
                cmocka_unit_test(test_buffer_crosses_regions),
                cmocka_unit_test(test_region_outlives_a_table),
                cmocka_unit_test(test_no_leaks),
                cmocka_unit_test(test_truncation_breaks_one_table),
        };

        process_guard_sigbus();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
