/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/uplink.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>

#include "sw-fallback/loopback.h"
#include "sw-fallback/uplink_impl.h"

/*
 * DPDK's hotplug, its drivers' probe and remove functions, and the signals that are held below are
 * matters of the process and not safe to use from two threads.  Contexts may have control threads
 * at the same time, so this one lock has to be the process's as well.
 */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

/*
 * net_tap asks the kernel for a real-time signal with each packet, to spare itself reads while
 * polling.  For us that is a loss: the signal interrupts threads of the application, may reach its
 * thread after the worker went to sleep, and turns into SIGIO, which ends a process that does not
 * know it, when too many are queued.  It does without if it finds no signal whose action is the
 * default one, so it gets to see none.
 */
struct held_signals {
        struct sigaction saved[_NSIG];
        bool held[_NSIG];
};

static void hold_signals(struct held_signals *h)
{
        const struct sigaction ignore = { .sa_handler = SIG_IGN };

        memset(h, 0, sizeof(*h));
        for (int s = SIGRTMIN; s < SIGRTMAX; s++)
                if (sigaction(s, NULL, &h->saved[s]) == 0 && h->saved[s].sa_handler == SIG_DFL)
                        h->held[s] = sigaction(s, &ignore, NULL) == 0;
}

static void release_signals(const struct held_signals *h)
{
        for (int s = SIGRTMIN; s < SIGRTMAX; s++)
                if (h->held[s])
                        sigaction(s, &h->saved[s], NULL);
}

static int open_ethdev_locked(struct vql_uplink *u, const struct vql_uplink_params *params,
                              struct vql_error *e)
{
        struct held_signals held;
        int rc;

        hold_signals(&held);
        rc = vql_uplink_attach(u, params, e);
        if (rc == 0)
                rc = vql_uplink_start(u, params, e);
        release_signals(&held);
        return rc;
}

static int open_ethdev(struct vql_uplink *u, const struct vql_uplink_params *params,
                       struct vql_error *e)
{
        int rc;

        pthread_mutex_lock(&control);
        rc = open_ethdev_locked(u, params, e);
        pthread_mutex_unlock(&control);
        return rc;
}

static int open_loopback(struct vql_uplink *u, const struct vql_uplink_params *params,
                         struct vql_error *e)
{
        u->queues = (uint16_t)RTE_MIN(params->queues, VQL_UPLINK_MAX_QUEUES);
        u->mtu = params->mtu ? params->mtu : UINT16_MAX;
        u->max_frame = UINT32_MAX;
        u->caps.multi_seg = true;
        u->quirk = vql_uplink_quirk_find("loopback");
        snprintf(u->device, sizeof(u->device), "loopback");
        memset(u->rx_fd, 0xff, sizeof(u->rx_fd));
        if (u->queues == 0)
                return vql_fail(e, EINVAL, "uplink loopback: 0 queues wanted, expected 1 or more");
        if (vql_loopback_new(u->queues, &u->loopback) < 0)
                return vql_fail(e, ENOMEM, "uplink loopback: no memory for %u queues", u->queues);
        return 0;
}

int vql_uplink_open(const struct vql_uplink_params *params, struct vql_uplink **ret_uplink,
                    struct vql_error *e)
{
        struct vql_uplink *u = calloc(1, sizeof(*u));
        int rc;

        if (!u)
                return vql_fail(e, ENOMEM, "uplink '%s': no memory", params->spec);
        u->log = params->log;
        u->caps.direct = params->pool;
        u->caps.indirect = params->indirect_pool;
        rc = strcmp(params->spec, "loopback") == 0 ? open_loopback(u, params, e)
                                                   : open_ethdev(u, params, e);
        if (rc < 0) {
                vql_uplink_close(u);
                return rc;
        }
        *ret_uplink = u;
        return 0;
}

void vql_uplink_close(struct vql_uplink *u)
{
        if (!u)
                return;
        pthread_mutex_lock(&control);
        vql_uplink_stop(u);
        vql_uplink_detach(u);
        pthread_mutex_unlock(&control);
        vql_loopback_free(u->loopback);
        free(u);
}

static void read_ethdev(struct vql_uplink *u, struct vql_uplink_info *info)
{
        struct rte_eth_dev_info dev;
        struct rte_ether_addr mac;
        struct rte_eth_link link;

        if (rte_eth_dev_info_get(u->port_id, &dev) == 0)
                snprintf(info->driver, sizeof(info->driver), "%s", dev.driver_name);
        if (rte_eth_macaddr_get(u->port_id, &mac) == 0)
                memcpy(info->mac, mac.addr_bytes, sizeof(info->mac));
        if (rte_eth_link_get_nowait(u->port_id, &link) < 0)
                return;
        info->link_up = link.link_status == RTE_ETH_LINK_UP;
        if (link.link_speed != RTE_ETH_SPEED_NUM_NONE &&
            link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
                info->link_mbps = link.link_speed;
}

void vql_uplink_get_info(struct vql_uplink *u, struct vql_uplink_info *ret_info)
{
        *ret_info = (struct vql_uplink_info){
                .rx_queues = u->queues,
                .tx_queues = u->queues,
                .mtu = u->mtu,
                .link_up = true,
                .interrupts = !vql_uplink_needs_timer(u, 0),
        };
        snprintf(ret_info->device, sizeof(ret_info->device), "%s", u->device);
        snprintf(ret_info->driver, sizeof(ret_info->driver), "%s", u->device);
        if (!u->loopback)
                read_ethdev(u, ret_info);
}

int vql_uplink_check_mtu(struct vql_uplink *u, uint16_t mtu, struct vql_error *e)
{
        if (u->max_frame != UINT32_MAX && mtu > u->mtu)
                return vql_fail(e, ERANGE, "MTU %u: uplink %s carries %u", mtu, u->device, u->mtu);
        return 0;
}

uint16_t vql_uplink_queues(const struct vql_uplink *u)
{
        return u->queues;
}

int vql_uplink_rx_fd(const struct vql_uplink *u, uint16_t queue)
{
        return u->rx_fd[queue];
}

bool vql_uplink_needs_timer(const struct vql_uplink *u, uint16_t queue)
{
        /* What comes back was sent by the same thread, which was awake for that. */
        return u->rx_fd[queue] < 0 && !u->loopback;
}

void vql_uplink_rx_arm(struct vql_uplink *u, uint16_t queue)
{
        if (u->rx_fd[queue] >= 0)
                rte_eth_dev_rx_intr_enable(u->port_id, queue);
}

void vql_uplink_rx_disarm(struct vql_uplink *u, uint16_t queue)
{
        if (u->rx_fd[queue] >= 0)
                rte_eth_dev_rx_intr_disable(u->port_id, queue);
}
