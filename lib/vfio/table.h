/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_TABLE_H
#define VQLIFT_VFIO_TABLE_H

/*
 * What is mapped in a container, or by one device of it, in order of IOVA.  Tables are plain
 * values: a change is made in a copy, which takes the place of the table once the kernel has
 * followed.
 *
 * Entries are what devices added.  Those that are `joined` to the entry before them are one map for
 * the kernel: a piece, which it takes back only whole.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "vfio/dma.h"

struct vql_vfio_entry {
        struct vql_vfio_map map;
        struct vql_vfio_file file; /* inode 0: private to one device */
        uint64_t id;               /* no two entries of a container ever have the same */
        uint32_t users;            /* devices that added it */
        bool joined;
};

/* All zero: empty. */
struct vql_vfio_table {
        struct vql_vfio_entry *entries;
        size_t n;
};

/* A copy with room for `more` entries.  -ENOMEM. */
int vql_vfio_table_copy(const struct vql_vfio_table *t, size_t more,
                        struct vql_vfio_table *ret_table);
void vql_vfio_table_free(struct vql_vfio_table *t);

/* The entry that begins at `iova`, or NULL. */
struct vql_vfio_entry *vql_vfio_table_find(const struct vql_vfio_table *t, uint64_t iova);
bool vql_vfio_entry_same_memory(const struct vql_vfio_entry *a, const struct vql_vfio_entry *b);

/* Into a table that has room.  -EEXIST it overlaps another, with both named. */
int vql_vfio_table_insert(struct vql_vfio_table *t, const struct vql_vfio_entry *entry,
                          struct vql_error *e);
void vql_vfio_table_remove(struct vql_vfio_table *t, struct vql_vfio_entry *entry);

/* Entries from `first` on that are one piece. */
size_t vql_vfio_table_piece(const struct vql_vfio_table *t, size_t first);
size_t vql_vfio_table_pieces(const struct vql_vfio_table *t);
/* Make one piece of entries side by side whose ids are `since` or later. */
void vql_vfio_table_join(struct vql_vfio_table *t, uint64_t since);

/* Does the second address directly follow the first, for device and CPU, with the same rights? */
bool vql_vfio_entry_follows(const struct vql_vfio_entry *a, const struct vql_vfio_entry *b);

/* Entries that are views of files, and whether b has all those of a. */
size_t vql_vfio_table_files(const struct vql_vfio_table *t);
bool vql_vfio_table_files_within(const struct vql_vfio_table *a, const struct vql_vfio_table *b);

#endif
