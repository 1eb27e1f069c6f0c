/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_GUEST_MEMORY_H
#define TESTS_UNIT_GUEST_MEMORY_H

/* Guest memory made on the spot, of memfds. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, ROUNDS = 2000 };

#define GIB        (UINT64_C(1) << 30)
#define TIB        (UINT64_C(1) << 40)
#define MEMFD_NAME "vql-unit-memory"
#define UNTOUCHED  ((void *)0x55)
#define DESC(g, s) ((struct vql_region_desc){ (g), (s), (g) + TIB, 0 })

static inline int memory_file(uint64_t size)
{
        int fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        return fd;
}

/* A region with a file of its own, of just the right length. */
static inline struct vql_region *region_of(const struct vql_region_desc *d)
{
        struct vql_region *r = UNTOUCHED;
        struct vql_error e = { "" };
        int fd = memory_file(d->mmap_offset + d->size);

        if (vql_region_map(d, fd, -1, &r, &e) < 0)
                fail_msg("%s", e.text);
        close(fd);
        return r;
}

static inline struct vql_mem_table *table_of(const struct vql_region_desc *d, size_t n)
{
        struct vql_region *regions[VQL_MEM_MAX_REGIONS] = { NULL };
        struct vql_mem_table *t = UNTOUCHED;
        struct vql_error e = { "" };

        for (size_t i = 0; i < n; i++)
                regions[i] = region_of(&d[i]);
        if (vql_mem_table_new(regions, n, &t, &e) < 0)
                fail_msg("%s", e.text);
        for (size_t i = 0; i < n; i++)
                vql_region_put(regions[i]);
        return t;
}

static inline uint8_t *at(const struct vql_mem_table *t, uint64_t gpa, uint64_t len)
{
        struct vql_mem_span hit = { 0 };
        uint64_t got = len;
        uint8_t *va = vql_mem_at(t, &hit, gpa, &got);

        assert_non_null(va);
        assert_int_equal(got, len);
        return va;
}

#endif
