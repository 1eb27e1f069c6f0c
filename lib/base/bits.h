/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BASE_BITS_H
#define VQLIFT_BASE_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* Feature sets are 64-bit masks and features are bit numbers; never mix the two by hand. */
static inline uint64_t vql_bit(unsigned int bit)
{
        return UINT64_C(1) << bit;
}

static inline bool vql_has(uint64_t set, unsigned int bit)
{
        return (set >> bit) & 1;
}

#endif
