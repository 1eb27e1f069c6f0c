/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_CONTENT_H
#define VQLIFT_BENCH_CONTENT_H

/*
 * What packets hold.  Each has a serial number in its first bytes, so that none passes for another,
 * and what a buffer still holds from the last time passes for none.  If asked for, all other bytes
 * depend on the serial number, too.
 */

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;

enum { CONTENT_STAMP = 4 }; /* bytes of the serial number */

/* Write the bytes from `at` on of packet `serial`. */
void content_write(uint8_t *to, uint32_t at, uint32_t n, uint32_t serial);
bool content_matches(const uint8_t *p, uint32_t at, uint32_t n, uint32_t serial);

/* The same for the stamp alone. */
void content_stamp(uint8_t *to, uint32_t serial);
bool content_stamp_matches(const uint8_t *p, uint32_t serial);

/* The same for a packet in buffers of DPDK, whole or the stamp alone. */
void content_write_mbuf(struct rte_mbuf *m, uint32_t serial, bool whole);
bool content_matches_mbuf(const struct rte_mbuf *m, uint32_t size, uint32_t serial, bool whole);

#endif
