/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_MEMORY_REGION_H
#define VQLIFT_MEMORY_REGION_H

/* The inside of a region, for the table and for userfault.c. */

#include <sys/types.h>

#include "memory/file_map.h"
#include "memory/memory.h"

struct vql_region {
        struct vql_region_desc desc;
        struct vql_file_map map;
        dev_t device; /* with inode: which file */
        ino_t inode;
        unsigned int announced; /* times, less those that were taken back */
        unsigned int refs;      /* control thread only */
};

#endif
