/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_BLOCKS_H
#define VQLIFT_TOOLS_BLOCKS_H

/* The parts of the documents that are made from the tables of the programs. */

#include <stddef.h>
#include <stdio.h>

struct gen_block {
        const char *name;
        void (*write)(FILE *to);
};

/* NULL past the end. */
const struct gen_block *gen_block_at(size_t i);

#endif
