/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_MEMORY_H
#define FRONTEND_MEMORY_H

/*
 * The memory of a guest that we play: regions of shared files at chosen guest physical addresses
 * (GPA) and chosen front-end addresses (UVA, the space that ring addresses are given in).  Our own
 * pointers (VA) are a third space, unequal to both, so that a back-end that mixes them up is found.
 *
 * One thread at a time changes a memory; any thread may translate while nobody changes it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/text.h"

enum {
        FE_MAX_REGIONS = 512,
        FE_PAGE = 4096,
        FE_CANARY = 32, /* bytes before and after a guarded buffer */
};

enum fe_backing {
        FE_MEMFD,
        FE_HUGETLB, /* memfd of 2 MiB pages: -ENOMEM where there are none */
        FE_SHM,     /* an unlinked file in /dev/shm */
        FE_FILE,    /* an unlinked file in /tmp */
};

struct fe_region_spec {
        uint64_t gpa, size;
        uint64_t uva;    /* 0: chosen for you */
        uint64_t offset; /* where the region starts in its file */
        enum fe_backing backing;
        unsigned int same_file; /* 1 + slot of an earlier region whose file this one shares; 0 */
        uint64_t border; /* bytes at both ends that the allocator leaves to fe_memory_cross() */
};

struct fe_region {
        struct fe_region_spec spec;
        int fd;       /* -1: no such region (any more) */
        uint8_t *va;  /* of the region's first byte */
        uint64_t top; /* allocator: first free byte */
};

struct fe_memory {
        unsigned int n; /* slots in use of region[], removed ones included */
        uint64_t next_uva;
        struct fe_region region[FE_MAX_REGIONS];
        struct fe_text error;
};

/* Ready-made layouts.  Each holds at least 32 MiB of allocatable memory. */
enum fe_layout {
        FE_ONE_REGION, /* 64 MiB at 0 */
        FE_PC,         /* below and above the hole under 4 GiB, as QEMU's pc machines */
        FE_MOSAIC,     /* adjacent in GPA but apart in UVA, one region a single page, one gap, one
                        * region that starts inside its file */
};

/* Make a memory.  -ENOMEM; -errno of the system call that failed.  Regions may overlap in GPA or
 * UVA if the specs say so: the back-end is to refuse that. */
int fe_memory_new(const struct fe_region_spec *specs, unsigned int n, struct fe_memory **ret_mem);
int fe_memory_new_layout(enum fe_layout layout, struct fe_memory **ret_mem);
void fe_memory_free(struct fe_memory *m); /* NULL is fine */

/* Hot-plug: a further region; *ret_index is its slot.  -ENOSPC, -errno. */
int fe_memory_add(struct fe_memory *m, const struct fe_region_spec *spec, unsigned int *ret_index);
/* Unmap and close one region; its slot stays empty. */
void fe_memory_remove(struct fe_memory *m, unsigned int index);
/* Wrong-doing: make the region's file end `bytes` after the region's start. */
int fe_memory_truncate(struct fe_memory *m, unsigned int index, uint64_t bytes);

/* Translation.  NULL, or 0 for UVA, if [gpa, gpa + len) is not inside one region. */
void *fe_memory_at(const struct fe_memory *m, uint64_t gpa, uint64_t len);
uint64_t fe_memory_uva(const struct fe_memory *m, uint64_t gpa, uint64_t len);
/* The same byte in a mapping of its own, as a second CPU sees it: what is stored there is, for
 * sanitizers too, not a store of ours.  NULL if it cannot be mapped.  Not for huge pages. */
void *fe_memory_alias(const struct fe_memory *m, uint64_t gpa);
void fe_memory_unalias(void *alias); /* NULL is fine */
/* First GPA behind all regions. */
uint64_t fe_memory_end(const struct fe_memory *m);

/* Copies that may cross regions adjacent in GPA.  -EFAULT if any byte is outside. */
int fe_memory_write(const struct fe_memory *m, uint64_t gpa, const void *from, uint64_t len);
int fe_memory_read(const struct fe_memory *m, uint64_t gpa, void *to, uint64_t len);

/*
 * Allocation: memory is handed out once and all of it comes back with fe_memory_free_all(); tests
 * allocate what they need and use it over and over.  `region` may be FE_ANY_REGION.  -ENOSPC.
 */
enum { FE_ANY_REGION = -1 };
int fe_memory_alloc(struct fe_memory *m, int region, uint64_t len, uint64_t align,
                    uint64_t *ret_gpa);
void fe_memory_free_all(struct fe_memory *m);
/* A place whose first `before` bytes are the last of `region`; that the next bytes exist is up to
 * the layout, that nobody else has them is up to `border`. */
uint64_t fe_memory_cross(const struct fe_memory *m, unsigned int region, uint64_t before);

/*
 * Patterns: a byte that depends on its address, so that a store to the wrong place shows.
 * fe_memory_untouched returns the number of bytes from gpa on that still bear the pattern.
 */
void fe_memory_paint(const struct fe_memory *m, uint64_t gpa, uint64_t len);
uint64_t fe_memory_untouched(const struct fe_memory *m, uint64_t gpa, uint64_t len);

#endif
