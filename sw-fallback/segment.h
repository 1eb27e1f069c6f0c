/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_SEGMENT_H
#define VQLIFT_SW_FALLBACK_SEGMENT_H

/* One large TCP or UDP packet becomes many that fit the wire. */

#include <stdint.h>

struct rte_mbuf;
struct vql_offload_caps;

/*
 * Cut a packet that vql_offload_from_guest() marked with TX_TCP_SEG or TX_UDP_SEG into segments of
 * tso_segsz bytes of payload.  The payload is not copied: segments refer to it.  They carry their
 * own headers, pseudo-header sums, and the flags that ask for their checksums.
 * Consumes `m`; returns the number of segments, at most n, or -errno as vql_offload_finish().
 */
int vql_segment(const struct vql_offload_caps *caps, struct rte_mbuf *m, struct rte_mbuf **out,
                uint16_t n);

#endif
