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

/* The widest move of the instruction set: compilers pass wider types through memory. */
#if defined(__AVX512F__)
#define VQL_MOVE 64
#elif defined(__AVX__)
#define VQL_MOVE 32
#else
#define VQL_MOVE 16
#endif
typedef uint8_t vql_move __attribute__((vector_size(VQL_MOVE), aligned(1), may_alias));

/* A line, in as few moves as there are for it; all of it is read before any of it is written. */
static __rte_always_inline void vql_copy_64(uint8_t *to, const uint8_t *from)
{
        const vql_move *f = (const vql_move *)from;
        vql_move *t = (vql_move *)to;
#if VQL_MOVE == 64
        *t = *f;
#elif VQL_MOVE == 32
        const vql_move a = f[0], b = f[1];

        t[0] = a;
        t[1] = b;
#else
        const vql_move a = f[0], b = f[1], c = f[2], d = f[3];

        t[0] = a;
        t[1] = b;
        t[2] = c;
        t[3] = d;
#endif
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
        vql_copy_64(to, from);
        for (i = 64; i + 64 <= n; i += 64)
                vql_copy_64(to + i, from + i);
        if (i < n)
                vql_copy_64(to + n - 64, from + n - 64);
}

#endif
