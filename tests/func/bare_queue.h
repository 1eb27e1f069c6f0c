/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_BARE_QUEUE_H
#define FUNC_BARE_QUEUE_H

/* A queue of the datapath on the memory of a guest that we play: no session, port or worker. */

#include <stdbool.h>
#include <stdint.h>

#include "frontend/driver.h"
#include "memory/memory.h"
#include "sw-fallback/burst.h"
#include "virtqueue/queue.h"

/* The guest's memory as the product maps it: second mappings of the same files. */
struct vql_mem_table *bare_table_new(const struct fe_memory *m);

struct bare_params {
        const struct fe_driver *d;
        const struct vql_mem_table *table;
        uint64_t features; /* beside those that the driver's parameters mean */
        bool rx;
        int call_fd;
        struct vql_dirty_log *log;          /* or NULL */
        const struct vql_instance_set *set; /* NULL: the best that runs here */
};

/* Make the queue ready where the driver begins, and choose its instance. */
void bare_queue_init(struct vql_queue *q, const struct bare_params *p);

#endif
