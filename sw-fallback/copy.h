/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_COPY_H
#define VQLIFT_SW_FALLBACK_COPY_H

/*
 * Copies between packet buffers and guest memory.  The blocks become the widest moves that the unit
 * is compiled for; the tail overlaps the block before it, so that no length takes a byte loop and
 * cost rises evenly with size.
 */

#include <stdint.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

static __rte_always_inline void vql_copy_64(uint8_t *to, const uint8_t *from)
{
        __builtin_memcpy(to, from, 64);
}

/* Fewer than 64 bytes: two overlapping moves of the largest power of two that fits. */
static __rte_always_inline void vql_copy_short(uint8_t *to, const uint8_t *from, uint32_t n)
{
        if (n >= 32) {
                __builtin_memcpy(to, from, 32);
                __builtin_memcpy(to + n - 32, from + n - 32, 32);
        } else if (n >= 16) {
                __builtin_memcpy(to, from, 16);
                __builtin_memcpy(to + n - 16, from + n - 16, 16);
        } else if (n >= 8) {
                __builtin_memcpy(to, from, 8);
                __builtin_memcpy(to + n - 8, from + n - 8, 8);
        } else if (n >= 4) {
                __builtin_memcpy(to, from, 4);
                __builtin_memcpy(to + n - 4, from + n - 4, 4);
        } else {
                for (uint32_t i = 0; i < n; i++)
                        to[i] = from[i];
        }
}

static __rte_always_inline void vql_copy(uint8_t *to, const uint8_t *from, uint32_t n)
{
        uint32_t i;

        if (unlikely(n < 64)) {
                vql_copy_short(to, from, n);
                return;
        }
        for (i = 0; i + 64 <= n; i += 64)
                vql_copy_64(to + i, from + i);
        if (i < n)
                vql_copy_64(to + n - 64, from + n - 64);
}

#endif
