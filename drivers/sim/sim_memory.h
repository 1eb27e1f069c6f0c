/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_DRIVERS_SIM_SIM_MEMORY_H
#define VQLIFT_DRIVERS_SIM_SIM_MEMORY_H

/* The memory that the device may reach: what dma_update() gave it, and nothing else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "vqlift/driver.h"

struct sim_memory {
        struct vql_map *map; /* by IOVA */
        size_t n;
        struct vql_dev_log log; /* bitmap NULL: off */
};

struct sim_memory_change {
        const struct vql_map *del, *add;
        size_t n_del, n_add;
        size_t limit; /* most maps afterwards; 0: any number */
};

void vql_sim_memory_clear(struct sim_memory *m);
/* All or nothing.  -EINVAL no such map; -EEXIST maps overlap; -ENOSPC too many; -ENOMEM. */
int vql_sim_memory_update(struct sim_memory *m, const struct sim_memory_change *c,
                          struct vql_error *e);
/* The piece from an address on that lies in one map, of at most *io_len bytes, which becomes its
 * length; NULL: nothing is there, or it may not be written. */
void *vql_sim_memory_at(const struct sim_memory *m, uint64_t iova, bool write, size_t *io_len);
/* All of it in one map, or NULL. */
void *vql_sim_memory_area(const struct sim_memory *m, uint64_t iova, size_t len, bool write);
/* Copies.  -EFAULT: a part is not mapped, or is not for writing.  What is written is logged. */
int vql_sim_memory_read(const struct sim_memory *m, uint64_t iova, void *to, size_t len);
int vql_sim_memory_write(const struct sim_memory *m, uint64_t iova, const void *from, size_t len);

#endif
