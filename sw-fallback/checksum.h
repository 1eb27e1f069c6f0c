/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_CHECKSUM_H
#define VQLIFT_SW_FALLBACK_CHECKSUM_H

/*
 * The Internet checksum (RFC 1071) over packets in chained buffers.  DPDK's rte_raw_cksum_mbuf() is
 * no choice: up to 22.11 at least it loses carries when a buffer of the chain begins at an odd
 * offset.
 */

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;

/* Sum of len bytes from offset off, folded to 16 bits, not complemented.  They must be there. */
uint16_t vql_checksum_range(const struct rte_mbuf *m, uint32_t off, uint32_t len);

/*
 * What a virtio header asks for with NEEDS_CSUM (virtio 1.2, 5.1.6.2): sum everything from `start`,
 * the pseudo-header sum in the field included, and store the complement at start + offset.  A
 * result of 0 is stored as 0xffff, which UDP needs and which means the same to all others.
 */
void vql_checksum_finish(struct rte_mbuf *m, uint32_t start, uint16_t offset);

/* Sum of the pseudo header of `l4_bytes` of protocol `proto` behind the IP header at `l3`. */
uint16_t vql_checksum_pseudo(const void *l3, bool v6, uint8_t proto, uint32_t l4_bytes);

/* Write the header checksum of the IPv4 header at `l3`, which is l3_len bytes long. */
void vql_checksum_ipv4(void *l3, uint16_t l3_len);

#endif
