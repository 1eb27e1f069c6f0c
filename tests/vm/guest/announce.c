/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes in at an interface to tell the network where a station is. */
#include "commands.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/if_ether.h>
#include <stdio.h>
#include <string.h>

#include "net.h"

enum { REVERSE_REQUEST = 3 }; /* RFC 903 */

static int open_tap(const char *dev)
{
        struct sockaddr_ll at = {
                .sll_family = AF_PACKET,
                .sll_protocol = htons(ETH_P_ALL),
                .sll_ifindex = (int)if_nametoindex(dev),
        };
        int s = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

        if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof(at)) < 0)
                net_die("%s: %s", dev, strerror(errno));
        return s;
}

/* "rarp", "arp" for one about oneself, or NULL. */
static const char *kind_of(const uint8_t *frame, size_t n)
{
        struct ether_header eth;
        struct ether_arp arp;

        if (n < sizeof(eth) + sizeof(arp))
                return NULL;
        memcpy(&eth, frame, sizeof(eth));
        memcpy(&arp, frame + sizeof(eth), sizeof(arp));
        if (ntohs(eth.ether_type) == ETHERTYPE_REVARP && ntohs(arp.arp_op) == REVERSE_REQUEST)
                return "rarp";
        if (ntohs(eth.ether_type) == ETHERTYPE_ARP &&
            memcmp(arp.arp_spa, arp.arp_tpa, sizeof(arp.arp_spa)) == 0)
                return "arp";
        return NULL;
}

int announce_watch(char **args)
{
        uint8_t frame[2048];
        int s = open_tap(args[0]);

        setlinebuf(stdout);
        printf("watching %s\n", args[0]);
        while (!net_stopped) {
                struct sockaddr_ll from;
                socklen_t from_bytes = sizeof(from);
                ssize_t n =
                        recvfrom(s, frame, sizeof(frame), 0, (struct sockaddr *)&from, &from_bytes);
                const char *kind = n > 0 ? kind_of(frame, (size_t)n) : NULL;
                const uint8_t *mac = frame + ETH_ALEN;

                if (kind && from.sll_pkttype != PACKET_OUTGOING)
                        printf("%s %02x:%02x:%02x:%02x:%02x:%02x\n", kind, mac[0], mac[1], mac[2],
                               mac[3], mac[4], mac[5]);
        }
        return 0;
}
