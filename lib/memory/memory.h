/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_MEMORY_MEMORY_H
#define VQLIFT_MEMORY_MEMORY_H

/*
 * The guest's memory: regions that a front-end described and handed over as files, and tables of
 * regions in which addresses are looked up.
 *
 * A table is immutable once built.  A change (hot-plug, a new SET_MEM_TABLE) builds a new table,
 * the owner of the rings swaps it in while they are parked, and the old table is put.  Regions are
 * reference counted, so that a region that is in both tables stays mapped where it is.
 *
 * Threads: tables and regions are built and put by the port's control thread; look-ups may be made
 * by any thread that the owner keeps away from the swap (see sw-fallback/worker.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
        VQL_MEM_MAX_REGIONS = 509, /* what QEMU's libvhost-user offers, too */
        VQL_MEM_OFFSET_ALIGN = 4096,
};

/* One region as the front-end describes it (vhost-user: "memory region description"). */
struct vql_region_desc {
        uint64_t gpa;         /* guest physical address */
        uint64_t size;        /* bytes, not 0 */
        uint64_t uva;         /* the front-end's own address: rings are given in this space */
        uint64_t mmap_offset; /* where the region starts in its file; a multiple of 4096 */
};

struct vql_region; /* one mapping of one file, reference counted */

/*
 * Map a region.  Consumes nothing: the caller keeps `fd` and closes it; the mapping needs it no
 * longer.  The file must really hold mmap_offset + size bytes.  *ret_region owns one reference.
 * The mapping is under the SIGBUS guard (sigbus.h), which writes to the eventfd `broken_fd` (or -1)
 * when the front-end took pages away; it must stay open as long as the region lives.
 *
 * -EINVAL size 0, an address or offset that wraps, an offset that is not a multiple of 4096 (huge
 * pages do not ask for more), or something else than a regular file outside FUSE; -ENXIO the file
 * is shorter than the region; -ENOSPC too many mappings under the guard; -errno of fstat or mmap.
 */
int vql_region_map(const struct vql_region_desc *d, int fd, int broken_fd,
                   struct vql_region **ret_region, struct vql_error *e);
struct vql_region *vql_region_get(struct vql_region *r);
void vql_region_put(struct vql_region *r); /* NULL is fine; the last one unmaps */
const struct vql_region_desc *vql_region_desc(const struct vql_region *r);
/*
 * QEMU up to 7.2 announces each region once for every queue pair, and takes it back as often.
 * Repeat: if d and fd are the same part of the same file at the same addresses, count that and
 * return true.  Retract: take one announcement back; true if it is the last one, which stays.
 */
bool vql_region_repeat(struct vql_region *r, const struct vql_region_desc *d, int fd);
bool vql_region_retract(struct vql_region *r);

/* A span that is contiguous in the guest and in this process; kept by a reader as "last hit". */
struct vql_mem_span {
        uint64_t gpa;
        uint64_t size; /* 0: hits nothing */
        uint8_t *va;
};

struct vql_mem_table;

/*
 * Build a table of n regions (n may be 0; order does not matter) and take a reference on each.
 * -EINVAL if two regions overlap in guest physical or in front-end addresses, with both named;
 * -E2BIG if n > VQL_MEM_MAX_REGIONS; -ENOMEM.
 */
int vql_mem_table_new(struct vql_region *const regions[], size_t n,
                      struct vql_mem_table **ret_table, struct vql_error *e);
struct vql_mem_table *vql_mem_table_get(struct vql_mem_table *t);
void vql_mem_table_put(struct vql_mem_table *t); /* NULL is fine */
size_t vql_mem_table_count(const struct vql_mem_table *t);
/* Region i in order of guest address, i < count.  Borrowed. */
struct vql_region *vql_mem_table_region(const struct vql_mem_table *t, size_t i);
/* Did the front-end take pages of a region away (SIGBUS guard)? */
bool vql_mem_table_broken(const struct vql_mem_table *t);
/* Highest guest physical address + 1; 0 for an empty table.  A dirty log must reach there. */
uint64_t vql_mem_table_end(const struct vql_mem_table *t);

/*
 * Find the span that holds `gpa`.  Returns 0 and the whole span (write it to a last-hit cache), or
 * -EFAULT and leaves *ret_span alone.  O(log regions).  Adjacent regions that also happen to be
 * adjacent in this process are still separate spans: a caller crosses from one to the next itself.
 */
int vql_mem_find(const struct vql_mem_table *t, uint64_t gpa, struct vql_mem_span *ret_span);

/*
 * Translate with a last-hit cache: a pointer to `gpa`, with *len cut to what is contiguous there,
 * or NULL.  *len must not be 0.  The branch that is taken nearly always is two compares.
 */
static inline uint8_t *vql_mem_at(const struct vql_mem_table *t, struct vql_mem_span *hit,
                                  uint64_t gpa, uint64_t *len)
{
        uint64_t off = gpa - hit->gpa;

        if (__builtin_expect(off >= hit->size, 0)) {
                if (vql_mem_find(t, gpa, hit) < 0)
                        return NULL;
                off = gpa - hit->gpa;
        }
        if (__builtin_expect(*len > hit->size - off, 0))
                *len = hit->size - off;
        return hit->va + off;
}

/*
 * Translate a front-end address to a pointer valid for `len` bytes inside one region, for ring
 * areas; `ret_gpa` (may be NULL) gets the guest physical address.  NULL if any byte is outside.
 * The pointer is as aligned as the region's place in its file and uva - region's uva make it: check
 * the pointer, not uva.
 */
void *vql_mem_uva(const struct vql_mem_table *t, uint64_t uva, uint64_t len, uint64_t *ret_gpa);

#endif
