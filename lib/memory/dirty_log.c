/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/dirty_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "memory/file_map.h"

enum { PAGES_PER_BYTE = 8 };

struct mapped_log {
        struct vql_dirty_log log; /* first: callers know this part only */
        struct vql_file_map map;
};

static int check_cover(uint64_t size, uint64_t mem_end, struct vql_error *e)
{
        uint64_t pages = (mem_end >> VQL_LOG_PAGE_SHIFT) +
                         (mem_end % (UINT64_C(1) << VQL_LOG_PAGE_SHIFT) != 0);
        uint64_t need = pages / PAGES_PER_BYTE + (pages % PAGES_PER_BYTE != 0);

        if (size < need)
                return vql_fail(e, EINVAL,
                                "%" PRIu64 " bytes, expected at least %" PRIu64
                                " for memory up to %#" PRIx64,
                                size, need, mem_end);
        return 0;
}

/*
 * Nobody is told when the log's file shrinks: the guard keeps us alive, and a front-end that throws
 * its log away loses its own migration only.
 */
int vql_dirty_log_map(int fd, uint64_t size, uint64_t offset, uint64_t mem_end,
                      struct vql_dirty_log **ret_log, struct vql_error *e)
{
        struct mapped_log *m = calloc(1, sizeof(*m));
        struct vql_error why = { "out of memory" };
        int ret = -ENOMEM;

        if (!m)
                goto fail;
        ret = check_cover(size, mem_end, &why);
        if (ret < 0)
                goto fail;
        ret = vql_file_map_open(fd, offset, size, -1, &m->map, &why);
        if (ret < 0)
                goto fail;
        m->log.bits = m->map.at;
        m->log.size = size;
        *ret_log = &m->log;
        return 0;

fail:
        free(m);
        return vql_fail(e, -ret, "dirty log: %s", why.text);
}

void vql_dirty_log_unmap(struct vql_dirty_log *log)
{
        struct mapped_log *m = (struct mapped_log *)log;

        if (!m)
                return;
        vql_file_map_close(&m->map);
        free(m);
}

/*
 * Release, so that a front-end which sees the bit sees the data.  The OR is unconditional: to skip
 * it when the bit reads as set would need a full fence between the data and that read, lest the
 * front-end clears the bit and copies the page before our data is visible.
 */
static void mark_pages(uint8_t *bits, uint64_t first, uint64_t last)
{
        uint64_t from = first / PAGES_PER_BYTE, to = last / PAGES_PER_BYTE;

        for (uint64_t i = from; i <= to; i++) {
                unsigned int mask = 0xff;

                if (i == from)
                        mask &= 0xffU << first % PAGES_PER_BYTE;
                if (i == to)
                        mask &= 0xffU >> (PAGES_PER_BYTE - 1 - last % PAGES_PER_BYTE);
                __atomic_fetch_or(&bits[i], (uint8_t)mask, __ATOMIC_RELEASE);
        }
}

void vql_dirty_log_mark(struct vql_dirty_log *log, uint64_t gpa, uint64_t len)
{
        uint64_t pages = log->size * PAGES_PER_BYTE;
        uint64_t first = gpa >> VQL_LOG_PAGE_SHIFT;
        uint64_t last;

        if (!len)
                return;
        if (__builtin_add_overflow(gpa, len - 1, &last))
                last = UINT64_MAX;
        last >>= VQL_LOG_PAGE_SHIFT;
        if (last >= pages) {
                uint64_t beyond = first > pages ? first : pages;

                __atomic_fetch_add(&log->dropped, last - beyond + 1, __ATOMIC_RELAXED);
                if (first >= pages)
                        return;
                last = pages - 1;
        }
        mark_pages(log->bits, first, last);
}
