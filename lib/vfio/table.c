/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int vql_vfio_table_copy(const struct vql_vfio_table *t, size_t more,
                        struct vql_vfio_table *ret_table)
{
        /* One more, since there may be none, and calloc(0) need not return anything. */
        struct vql_vfio_entry *entries = calloc(t->n + more + 1, sizeof(*entries));

        if (!entries)
                return -ENOMEM;
        if (t->n)
                memcpy(entries, t->entries, t->n * sizeof(*entries));
        ret_table->entries = entries;
        ret_table->n = t->n;
        return 0;
}

void vql_vfio_table_free(struct vql_vfio_table *t)
{
        free(t->entries);
        *t = (struct vql_vfio_table){ 0 };
}

/* Index of the first entry that begins at `iova` or behind. */
static size_t lower_bound(const struct vql_vfio_table *t, uint64_t iova)
{
        size_t low = 0, high = t->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (t->entries[middle].map.iova < iova)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct vql_vfio_entry *vql_vfio_table_find(const struct vql_vfio_table *t, uint64_t iova)
{
        size_t i = lower_bound(t, iova);

        return i < t->n && t->entries[i].map.iova == iova ? &t->entries[i] : NULL;
}

bool vql_vfio_entry_same_memory(const struct vql_vfio_entry *a, const struct vql_vfio_entry *b)
{
        return a->file.inode && a->file.inode == b->file.inode &&
               a->file.device == b->file.device && a->file.offset == b->file.offset &&
               a->map.iova == b->map.iova && a->map.len == b->map.len &&
               a->map.writable == b->map.writable;
}

static uint64_t last(const struct vql_vfio_map *m)
{
        return m->iova + (m->len - 1);
}

static int refuse_overlap(const struct vql_vfio_map *a, const struct vql_vfio_map *b,
                          struct vql_error *e)
{
        return vql_fail(e, EEXIST,
                        "map of IOVAs %#" PRIx64 "..%#" PRIx64 " overlaps that of %#" PRIx64
                        "..%#" PRIx64,
                        a->iova, last(a), b->iova, last(b));
}

int vql_vfio_table_insert(struct vql_vfio_table *t, const struct vql_vfio_entry *entry,
                          struct vql_error *e)
{
        size_t i = lower_bound(t, entry->map.iova);
        struct vql_vfio_entry *at = &t->entries[i];

        if (i && last(&at[-1].map) >= entry->map.iova)
                return refuse_overlap(&entry->map, &at[-1].map, e);
        if (i < t->n && last(&entry->map) >= at->map.iova)
                return refuse_overlap(&entry->map, &at->map, e);
        memmove(at + 1, at, (t->n - i) * sizeof(*at));
        *at = *entry;
        t->n++;
        return 0;
}

void vql_vfio_table_remove(struct vql_vfio_table *t, struct vql_vfio_entry *entry)
{
        size_t i = (size_t)(entry - t->entries);

        /* The rest of its piece begins one of its own. */
        if (i + 1 < t->n)
                entry[1].joined = false;
        memmove(entry, entry + 1, (t->n - i - 1) * sizeof(*entry));
        t->n--;
}

size_t vql_vfio_table_piece(const struct vql_vfio_table *t, size_t first)
{
        size_t n = 1;

        while (first + n < t->n && t->entries[first + n].joined)
                n++;
        return n;
}

size_t vql_vfio_table_pieces(const struct vql_vfio_table *t)
{
        size_t pieces = 0;

        for (size_t i = 0; i < t->n; i++)
                pieces += !t->entries[i].joined;
        return pieces;
}

bool vql_vfio_entry_follows(const struct vql_vfio_entry *a, const struct vql_vfio_entry *b)
{
        return a->map.iova + a->map.len == b->map.iova &&
               (uintptr_t)a->map.va + a->map.len == (uintptr_t)b->map.va &&
               a->map.writable == b->map.writable;
}

void vql_vfio_table_join(struct vql_vfio_table *t, uint64_t since)
{
        for (size_t i = 1; i < t->n; i++) {
                struct vql_vfio_entry *b = &t->entries[i], *a = b - 1;

                if (a->id >= since && b->id >= since && vql_vfio_entry_follows(a, b))
                        b->joined = true;
        }
}

size_t vql_vfio_table_files(const struct vql_vfio_table *t)
{
        size_t files = 0;

        for (size_t i = 0; i < t->n; i++)
                files += t->entries[i].file.inode != 0;
        return files;
}

bool vql_vfio_table_files_within(const struct vql_vfio_table *a, const struct vql_vfio_table *b)
{
        for (size_t i = 0; i < a->n; i++) {
                const struct vql_vfio_entry *mine = &a->entries[i], *other;

                if (!mine->file.inode)
                        continue;
                other = vql_vfio_table_find(b, mine->map.iova);
                if (!other || !vql_vfio_entry_same_memory(mine, other))
                        return false;
        }
        return true;
}
