/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_UPLINK_H
#define VQLIFT_SW_FALLBACK_UPLINK_H

/*
 * The far side of a port: a DPDK ethdev, or the built-in loopback.  It hides what the device cannot
 * do: packets handed to vql_uplink_send() may ask for segmentation and checksums; what the device
 * does not offer is done here with rte_gso and in software.
 *
 * Threads: open, close and info by a control thread; send and receive of one queue by the one
 * worker that has the lane of that queue.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

struct rte_mbuf;
struct rte_mempool;
struct vql_uplink;

struct vql_uplink_params {
        const char *name;                  /* of the port, for messages */
        const char *spec;                  /* see struct vql_port_params, uplink */
        uint16_t queues;                   /* wanted; fewer if the device has fewer */
        uint16_t mtu;                      /* 0: leave it */
        struct rte_mempool *pool;          /* for receive */
        struct rte_mempool *indirect_pool; /* mbufs without data room, for rte_gso */
        const struct vql_log *log;
};

/*
 * Attach or take over the device, configure queues and offloads, start it.
 * -ENODEV no such device or its arguments are refused; -EBUSY another port uses it; -ENOTSUP,
 * -EINVAL, -ENOMEM as the device says.  The sentence names the device and what it said.
 */
int vql_uplink_open(const struct vql_uplink_params *params, struct vql_uplink **ret_uplink,
                    struct vql_error *e);
/* Stop and detach (a device that was there before is left stopped).  NULL is fine. */
void vql_uplink_close(struct vql_uplink *u);

struct vql_uplink_info {
        char device[64], driver[64];
        uint16_t rx_queues, tx_queues;
        uint16_t mtu;
        bool link_up;
        uint32_t link_mbps;
        bool interrupts;
        uint8_t mac[6];
};
void vql_uplink_get_info(struct vql_uplink *u, struct vql_uplink_info *ret_info);
/* -ERANGE: larger than the device carries. */
int vql_uplink_check_mtu(struct vql_uplink *u, uint16_t mtu, struct vql_error *e);

/* Number of queue pairs in use: the smaller of receive and transmit queues. */
uint16_t vql_uplink_queues(const struct vql_uplink *u);

/*
 * Send n packets, n <= 32; all are consumed.  Returns how many the device did not take, in packets
 * as handed in.
 */
uint16_t vql_uplink_send(struct vql_uplink *u, uint16_t queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t vql_uplink_receive(struct vql_uplink *u, uint16_t queue, struct rte_mbuf **pkts,
                            uint16_t n);
/* Receive and drop what waited while nobody served the queue. */
void vql_uplink_drain(struct vql_uplink *u, uint16_t queue);

/*
 * Receive interrupts: the fd that becomes readable, or -1 if the device has none; arm before a
 * sleep (then poll once more before sleeping), disarm after.
 */
int vql_uplink_rx_fd(const struct vql_uplink *u, uint16_t queue);
/* True: nothing but polling finds out about packets. */
bool vql_uplink_needs_timer(const struct vql_uplink *u, uint16_t queue);
void vql_uplink_rx_arm(struct vql_uplink *u, uint16_t queue);
void vql_uplink_rx_disarm(struct vql_uplink *u, uint16_t queue);

#endif
