/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include <rte_ethdev.h>

#include "sw-fallback/uplink_impl.h"

#define TX_CHECKSUMS                                                    \
        (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | \
         RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define RX_CHECKSUMS RTE_ETH_RX_OFFLOAD_CHECKSUM

/* Seen with DPDK 22.11; each holds with later ones or does no harm there. */
static const struct vql_uplink_quirk quirks[] = {
        {
                /*
                 * Its checksums are made in software as ours are, but wrongly behind a chained
                 * buffer of odd length.  Its TSO refuses segments that fill the MTU, and sends what
                 * is not TCP over IPv4 uncut.  Each receive passes one iovec per descriptor to the
                 * kernel: 64 hold the largest packet and cost little.  The kernel itself spreads
                 * flows over the queues.
                 */
                .driver = "net_tap",
                .tx_off = TX_CHECKSUMS | RTE_ETH_TX_OFFLOAD_TCP_TSO,
                .rx_off = RX_CHECKSUMS,
                .rx_desc = 64,
                .no_rss = true,
        },
        {
                /* A packet that a socket of this host sent has no checksum yet when it is seen on a
                 * veth or a bridge. */
                .driver = "net_af_packet",
                .no_rx_interrupt = true,
                .host_mtu = true,
                .host_packets = true,
        },
        { .driver = "net_af_xdp", .no_rx_interrupt = true, .host_mtu = true },
        { .driver = "net_null", .takes_chains = true, .no_rx_interrupt = true, .any_size = true },
        { .driver = "net_pcap", .takes_chains = true, .no_rx_interrupt = true, .any_size = true },
        { .driver = "net_ring", .no_rx_interrupt = true, .any_size = true },
        { .driver = "" },
};

const struct vql_uplink_quirk *vql_uplink_quirk_find(const char *driver)
{
        size_t i = 0;

        while (quirks[i].driver[0] && strcmp(quirks[i].driver, driver) != 0)
                i++;
        return &quirks[i];
}
