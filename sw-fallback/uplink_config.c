/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_ether.h>

#include "sw-fallback/uplink_impl.h"

#define RX_WANTED \
        (RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_RSS_HASH)
#define TX_WANTED                                                       \
        (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | \
         RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_TSO |    \
         RTE_ETH_TX_OFFLOAD_MULTI_SEGS)

enum {
        RX_DESC = 512,
        TX_DESC = 512,
        /* Ethernet header and two VLAN tags: what a frame has beside its MTU. */
        FRAME_OVERHEAD = RTE_ETHER_HDR_LEN + 2 * RTE_VLAN_HLEN,
};

static int refuse(struct vql_uplink *u, int rc, const char *what, struct vql_error *e)
{
        return vql_fail(e, -rc, "uplink %s: the device refuses %s: %s", u->device, what,
                        strerror(-rc));
}

static void choose(struct vql_uplink *u, const struct rte_eth_dev_info *info, bool interrupts,
                   struct rte_eth_conf *conf)
{
        uint64_t tx = TX_WANTED & info->tx_offload_capa & ~u->quirk->tx_off;
        bool rss = u->queues > 1 && !u->quirk->no_rss;

        *conf = (struct rte_eth_conf){
                .rxmode.offloads = RX_WANTED & info->rx_offload_capa & ~u->quirk->rx_off,
                .txmode.offloads = tx,
                .intr_conf.rxq = interrupts,
        };
        conf->rx_adv_conf.rss_conf.rss_hf =
                (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) & info->flow_type_rss_offloads;
        if (rss && conf->rx_adv_conf.rss_conf.rss_hf)
                conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        else
                conf->rx_adv_conf.rss_conf.rss_hf = 0;
        u->caps.tx_offloads = tx;
        u->caps.multi_seg = (tx & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) || u->quirk->takes_chains;
}

static int set_up_queues(struct vql_uplink *u, const struct rte_eth_dev_info *info,
                         const struct rte_eth_conf *conf, struct rte_mempool *pool,
                         struct vql_error *e)
{
        uint16_t rx_desc = u->quirk->rx_desc ? u->quirk->rx_desc : RX_DESC, tx_desc = TX_DESC;
        int node = rte_eth_dev_socket_id(u->port_id);
        unsigned int socket = node < 0 ? (unsigned int)SOCKET_ID_ANY : (unsigned int)node;
        struct rte_eth_rxconf rx = info->default_rxconf;
        struct rte_eth_txconf tx = info->default_txconf;
        int rc = rte_eth_dev_adjust_nb_rx_tx_desc(u->port_id, &rx_desc, &tx_desc);

        if (rc < 0)
                return refuse(u, rc, "any number of descriptors", e);
        rx.offloads = conf->rxmode.offloads;
        tx.offloads = conf->txmode.offloads;
        for (uint16_t q = 0; q < u->queues; q++) {
                rc = rte_eth_rx_queue_setup(u->port_id, q, rx_desc, socket, &rx, pool);
                if (rc < 0)
                        return refuse(u, rc, "a receive queue", e);
                rc = rte_eth_tx_queue_setup(u->port_id, q, tx_desc, socket, &tx);
                if (rc < 0)
                        return refuse(u, rc, "a transmit queue", e);
        }
        return 0;
}

static uint16_t host_mtu(const struct vql_uplink *u)
{
        struct ifreq req = { 0 };
        int mtu = RTE_ETHER_MTU, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        memcpy(req.ifr_name, u->interface, strnlen(u->interface, IFNAMSIZ - 1));
        if (fd >= 0 && ioctl(fd, SIOCGIFMTU, &req) == 0)
                mtu = req.ifr_mtu;
        if (fd >= 0)
                close(fd);
        return (uint16_t)RTE_MIN(mtu, UINT16_MAX);
}

/* DPDK's limit is on the frame, whose overhead it takes as the header and the CRC (ethdev). */
static unsigned int largest_mtu(const struct rte_eth_dev_info *info)
{
        const uint32_t overhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

        if (info->max_mtu == UINT16_MAX && info->max_rx_pktlen - overhead < UINT16_MAX)
                return info->max_rx_pktlen - overhead;
        return info->max_mtu;
}

static int set_mtu(struct vql_uplink *u, const struct rte_eth_dev_info *info, uint16_t wanted,
                   struct vql_error *e)
{
        int rc = wanted ? rte_eth_dev_set_mtu(u->port_id, wanted) : 0;

        if (rc < 0 && rc != -ENOTSUP)
                return vql_fail(e, -rc,
                                "uplink %s: the device refuses an MTU of %u: %s (driver %s carries "
                                "%u to %u)",
                                u->device, wanted, strerror(-rc), info->driver_name, info->min_mtu,
                                largest_mtu(info));
        if (u->quirk->host_mtu)
                u->mtu = host_mtu(u);
        else if (wanted)
                u->mtu = wanted;
        else if (u->quirk->any_size || rte_eth_dev_get_mtu(u->port_id, &u->mtu) < 0)
                u->mtu = UINT16_MAX;
        u->max_frame = u->quirk->any_size ? UINT32_MAX : (uint32_t)u->mtu + FRAME_OVERHEAD;
        return 0;
}

static int configure(struct vql_uplink *u, const struct vql_uplink_params *params,
                     const struct rte_eth_dev_info *info, bool interrupts, struct vql_error *e)
{
        struct rte_eth_conf conf;
        int rc;

        choose(u, info, interrupts, &conf);
        rc = rte_eth_dev_configure(u->port_id, u->queues, u->queues, &conf);
        if (rc < 0)
                return refuse(u, rc, "its configuration", e);
        rc = set_mtu(u, info, params->mtu, e);
        if (rc == 0)
                rc = set_up_queues(u, info, &conf, params->pool, e);
        if (rc < 0)
                return rc;
        rc = rte_eth_dev_start(u->port_id);
        return rc < 0 ? refuse(u, rc, "to start", e) : 0;
}

/* The guest's MAC address is not the device's, so it must see everything. */
static void see_everything(struct vql_uplink *u)
{
        int rc = rte_eth_promiscuous_enable(u->port_id);

        if (rc < 0 && rc != -ENOTSUP)
                vql_log(u->log, LOG_WARNING,
                        "uplink %s: no promiscuous mode (%s): guests may not be reached", u->device,
                        strerror(-rc));
        rte_eth_allmulticast_enable(u->port_id);
}

/* A driver without an enable function (net_tap) has fds that need no enabling. */
static void find_interrupts(struct vql_uplink *u, bool interrupts)
{
        for (uint16_t q = 0; q < u->queues; q++) {
                int fd = interrupts ? rte_eth_dev_rx_intr_ctl_q_get_fd(u->port_id, q) : -1;
                int rc = fd >= 0 ? rte_eth_dev_rx_intr_disable(u->port_id, q) : 0;

                u->rx_fd[q] = rc == 0 || rc == -ENOTSUP ? fd : -1;
        }
}

static uint16_t count_queues(uint16_t wanted, const struct rte_eth_dev_info *info)
{
        uint16_t has = (uint16_t)RTE_MIN(info->max_rx_queues, info->max_tx_queues);

        return (uint16_t)RTE_MIN(RTE_MIN(wanted, has), VQL_UPLINK_MAX_QUEUES);
}

int vql_uplink_start(struct vql_uplink *u, const struct vql_uplink_params *params,
                     struct vql_error *e)
{
        struct rte_eth_dev_info info;
        bool interrupts;
        int rc = rte_eth_dev_info_get(u->port_id, &info);

        if (rc < 0)
                return refuse(u, rc, "to tell about itself", e);
        u->quirk = vql_uplink_quirk_find(info.driver_name);
        u->queues = count_queues(params->queues, &info);
        if (u->queues == 0)
                return vql_fail(e, EINVAL, "uplink %s: %u queues wanted, the device has %u",
                                u->device, params->queues, info.max_rx_queues);
        if (info.if_index && !u->interface[0])
                if_indextoname(info.if_index, u->interface);
        interrupts = !u->quirk->no_rx_interrupt;
        rc = configure(u, params, &info, interrupts, e);
        if (rc < 0 && interrupts) {
                /* Some devices refuse receive interrupts only when they are started. */
                interrupts = false;
                rc = configure(u, params, &info, interrupts, e);
        }
        if (rc < 0)
                return rc;
        u->state = VQL_UPLINK_STARTED;
        see_everything(u);
        find_interrupts(u, interrupts);
        return 0;
}

void vql_uplink_stop(struct vql_uplink *u)
{
        int rc;

        if (u->state != VQL_UPLINK_STARTED)
                return;
        rc = rte_eth_dev_stop(u->port_id);
        if (rc < 0)
                vql_log(u->log, LOG_WARNING, "uplink %s: did not stop: %s", u->device,
                        strerror(-rc));
        u->state = VQL_UPLINK_ATTACHED;
}
