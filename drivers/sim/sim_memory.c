/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/sim/sim_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_PAGE_SHIFT = 12 };

void vql_sim_memory_clear(struct sim_memory *m)
{
        free(m->map);
        *m = (struct sim_memory){ 0 };
}

static int by_iova(const void *a, const void *b)
{
        const struct vql_map *x = a, *y = b;

        return (x->iova > y->iova) - (x->iova < y->iova);
}

static bool same(const struct vql_map *a, const struct vql_map *b)
{
        return a->iova == b->iova && a->len == b->len && a->va == b->va &&
               a->writable == b->writable;
}

/* Take one map out of a list.  -EINVAL: it is not in there. */
static int take_out(struct vql_map *list, size_t *io_n, const struct vql_map *gone,
                    struct vql_error *e)
{
        for (size_t i = 0; i < *io_n; i++) {
                if (!same(&list[i], gone))
                        continue;
                list[i] = list[--*io_n];
                return 0;
        }
        return vql_fail(e, EINVAL, "no map of %#" PRIx64 " bytes at %#" PRIx64 " to remove",
                        gone->len, gone->iova);
}

static int check_apart(const struct vql_map *list, size_t n, struct vql_error *e)
{
        for (size_t i = 0; i < n; i++)
                if (!list[i].len || list[i].iova + list[i].len - 1 < list[i].iova)
                        return vql_fail(e, EINVAL, "map of %#" PRIx64 " bytes at %#" PRIx64,
                                        list[i].len, list[i].iova);
        for (size_t i = 1; i < n; i++)
                if (list[i].iova - list[i - 1].iova < list[i - 1].len)
                        return vql_fail(e, EEXIST, "maps at %#" PRIx64 " and %#" PRIx64 " overlap",
                                        list[i - 1].iova, list[i].iova);
        return 0;
}

static int fill(struct vql_map *list, size_t *io_n, const struct sim_memory_change *c,
                struct vql_error *e)
{
        int err = 0;

        for (size_t i = 0; !err && i < c->n_del; i++)
                err = take_out(list, io_n, &c->del[i], e);
        if (err < 0)
                return err;
        if (c->n_add)
                memcpy(&list[*io_n], c->add, c->n_add * sizeof(*list));
        *io_n += c->n_add;
        if (c->limit && *io_n > c->limit)
                return vql_fail(e, ENOSPC, "%zu maps, the device holds %zu", *io_n, c->limit);
        qsort(list, *io_n, sizeof(*list), by_iova);
        return check_apart(list, *io_n, e);
}

int vql_sim_memory_update(struct sim_memory *m, const struct sim_memory_change *c,
                          struct vql_error *e)
{
        struct vql_map *list = calloc(m->n + c->n_add + 1, sizeof(*list));
        size_t n = m->n;
        int err;

        if (!list)
                return vql_fail(e, ENOMEM, "out of memory for %zu maps", m->n + c->n_add);
        if (n)
                memcpy(list, m->map, n * sizeof(*list));
        err = fill(list, &n, c, e);
        if (err < 0) {
                free(list);
                return err;
        }
        free(m->map);
        m->map = list;
        m->n = n;
        return 0;
}

static const struct vql_map *find(const struct sim_memory *m, uint64_t iova)
{
        size_t low = 0, high = m->n;

        while (low < high) {
                const size_t mid = (low + high) / 2;

                if (iova < m->map[mid].iova)
                        high = mid;
                else if (iova - m->map[mid].iova >= m->map[mid].len)
                        low = mid + 1;
                else
                        return &m->map[mid];
        }
        return NULL;
}

void *vql_sim_memory_at(const struct sim_memory *m, uint64_t iova, bool write, size_t *io_len)
{
        const struct vql_map *map = find(m, iova);
        uint64_t offset;

        if (!map || (write && !map->writable))
                return NULL;
        offset = iova - map->iova;
        if (*io_len > map->len - offset)
                *io_len = map->len - offset;
        return (uint8_t *)map->va + offset;
}

void *vql_sim_memory_area(const struct sim_memory *m, uint64_t iova, size_t len, bool write)
{
        size_t there = len;
        void *at = vql_sim_memory_at(m, iova, write, &there);

        return there == len ? at : NULL;
}

int vql_sim_memory_read(const struct sim_memory *m, uint64_t iova, void *to, size_t len)
{
        for (size_t done = 0; done < len;) {
                size_t n = len - done;
                const void *from = vql_sim_memory_at(m, iova + done, false, &n);

                if (!from)
                        return -EFAULT;
                memcpy((uint8_t *)to + done, from, n);
                done += n;
        }
        return 0;
}

static void log_pages(const struct sim_memory *m, uint64_t iova, size_t len)
{
        const uint64_t last = (iova + len - 1) >> LOG_PAGE_SHIFT;

        if (!m->log.bitmap)
                return;
        for (uint64_t page = iova >> LOG_PAGE_SHIFT; page <= last; page++)
                if (page / 8 < m->log.bytes)
                        __atomic_fetch_or(&m->log.bitmap[page / 8], (uint8_t)(1u << page % 8),
                                          __ATOMIC_RELAXED);
}

int vql_sim_memory_write(const struct sim_memory *m, uint64_t iova, const void *from, size_t len)
{
        for (size_t done = 0; done < len;) {
                size_t n = len - done;
                void *to = vql_sim_memory_at(m, iova + done, true, &n);

                if (!to)
                        return -EFAULT;
                memcpy(to, (const uint8_t *)from + done, n);
                log_pages(m, iova + done, n);
                done += n;
        }
        return 0;
}
