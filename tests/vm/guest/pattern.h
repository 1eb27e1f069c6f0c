/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQPEER_PATTERN_H
#define VQPEER_PATTERN_H

/*
 * Content that both ends can work out: byte `at` of the endless stream `seed`.  Every position
 * and every seed gives other bytes, so that a byte from elsewhere, an old one or one that was
 * never written is seen for what it is.
 */

#include <stddef.h>
#include <stdint.h>

void pattern_fill(uint8_t *buf, size_t n, uint64_t seed, uint64_t at);
/* Index of the first byte that is not the pattern's, or n if there is none. */
size_t pattern_check(const uint8_t *buf, size_t n, uint64_t seed, uint64_t at);

#endif
