/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_HEADERS_H
#define VQLIFT_SW_FALLBACK_HEADERS_H

/* Where a packet's headers lie, read from the packet itself. */

#include <stdbool.h>
#include <stdint.h>

struct rte_mbuf;

/* A TCP or UDP packet over IP, not a fragment, with all of its headers present. */
struct vql_headers {
        uint16_t l2, l3, l4; /* lengths; l2 with VLAN tags, l3 with IPv6 extension headers */
        bool v6;
        uint8_t proto; /* IPPROTO_TCP or IPPROTO_UDP */
};

/* False, with nothing written, if the packet is anything else. */
bool vql_headers_read(const struct rte_mbuf *m, struct vql_headers *ret_headers);

/* Where the checksum field is within the layer 4 header. */
uint16_t vql_headers_checksum_offset(uint8_t proto);

/* A hash that is equal for all packets of a flow: addresses, and ports unless it is a fragment.
 * Packets that are not IP have 0. */
uint32_t vql_headers_flow_hash(const struct rte_mbuf *m);

#endif
