/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_NET_H
#define FRONTEND_NET_H

/*
 * Packets over a queue pair of a front-end: virtio-net header, buffers, mergeable receive; and a
 * checked flow of numbered packets for ports whose uplink sends everything back ("loopback").
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_net.h>

#include "frontend/frontend.h"

struct fe_net_params {
        struct fe_frontend *fe; /* borrowed, set up */
        unsigned int pair;      /* rings 2 * pair (to the guest) and 2 * pair + 1 */
        int region;             /* where the buffers lie */
        unsigned int buffers;   /* of each direction; 0: as the ring holds, at most 256 */
        uint32_t rx_bytes;      /* size of a receive buffer with header; 0: 2048 */
        uint32_t tx_bytes;      /* largest packet to send; 0: 2048 */
        bool indirect;          /* use tables if INDIRECT_DESC is negotiated */
        unsigned int tx_segs;   /* descriptors for the packet's bytes; 0: 1 */
        bool split_header;      /* header in a descriptor of its own */
        bool unused_ok;         /* receive buffers may come back with length 0 */
        /* 1 + the region over whose end the first buffer of a direction lies (fe_memory_cross());
         * 0: none does. */
        unsigned int cross_rx, cross_tx;
};

struct fe_net;

int fe_net_new(const struct fe_net_params *params, struct fe_net **ret_net);
void fe_net_free(struct fe_net *n); /* NULL is fine */
const char *fe_net_error(const struct fe_net *n);
size_t fe_net_header(const struct fe_net *n); /* 10 or 12 */

/* All buffers are ours again, as after fe_driver_restart() of both rings. */
void fe_net_reset(struct fe_net *n);

/* Post receive buffers until none is left; kick.  Number posted, or -errno. */
int fe_net_refill(struct fe_net *n);
/* Add one packet to the ring; `hdr` NULL for no offload.  -EAGAIN: no buffer free (fe_net_reap
 * first). */
int fe_net_put(struct fe_net *n, const struct virtio_net_hdr *hdr, const void *packet, size_t len);
/* Publish what was put, and kick if the device wants it. */
int fe_net_kick(struct fe_net *n);
/* Both. */
int fe_net_send(struct fe_net *n, const struct virtio_net_hdr *hdr, const void *packet, size_t len);
/* Take back what was sent: number, or -EBADMSG. */
int fe_net_reap(struct fe_net *n);
/* Packets sent and not reaped. */
unsigned int fe_net_unreaped(const struct fe_net *n);
/* Next received packet: 1 and its bytes without header, 0 none, -EBADMSG.  *len is the room and
 * then the length; `hdr` may be NULL.  The buffers go back at the next refill. */
int fe_net_receive(struct fe_net *n, struct virtio_net_hdr *hdr, void *packet, size_t *len);
/* Wait for a packet to receive or a packet to reap: 0, -ETIMEDOUT, or -ETIME: it was there and no
 * interrupt came. */
int fe_net_wait(struct fe_net *n, int timeout_ms);

/* ---- checked traffic over a loopback port ---- */

/* Ethernet types of a flow's packets, and of packets that flows pass over when they receive them.
 */
enum { FE_FLOW_TYPE = 0x88b5, FE_NOISE_TYPE = 0x88b6 };
/* How far a packet may fall behind in a flow without order. */
enum { FE_FLOW_SPAN = 1 << 16 };

struct fe_flow {
        struct fe_net *net;
        unsigned int window;         /* packets under way at most; 0: 32 */
        size_t min_bytes, max_bytes; /* packet sizes cycle in between; 0: 60 and 1514 */
        bool by_interrupt;           /* sleep on call fds; else look again and again */
        uint16_t tag;                /* tells this flow's packets from another's */
        bool may_lose;               /* count what is missing, do not fail */
        bool any_order;              /* there are two ways for packets, that wait on each */
        int stall_ms; /* without progress: give up, or with may_lose count as lost; 0: 20000 */
        /* Called between packets, each time that many more were sent, with some under way: what it
         * does happens under traffic.  Its error ends the flow. */
        int (*hook)(void *arg);
        void *hook_arg;
        unsigned int hook_every;
        /* results */
        uint64_t sent, received, lost;
        struct fe_text error;
        /* any_order: bit seq % FE_FLOW_SPAN, the packet is back; and how many were given up. */
        uint8_t back[FE_FLOW_SPAN / 8];
        uint64_t given_up;
};

/* Send n packets and take them all back: every one once, in order (unless any), every byte right.
 * 0; -EBADMSG wrong content, duplicate, order, a driver's complaint; -ETIMEDOUT something is lost
 * or stuck (both with a sentence). */
int fe_flow_run(struct fe_flow *f, uint64_t n);
/* The same without end in a thread of its own.  Stop drains the flow, abandon leaves it as it is;
 * both return its result. */
struct fe_flow_thread;
int fe_flow_start(struct fe_flow *f, struct fe_flow_thread **ret_thread);
int fe_flow_stop(struct fe_flow_thread *t);
int fe_flow_abandon(struct fe_flow_thread *t);
/* How many packets have come back so far; any thread. */
uint64_t fe_flow_progress(const struct fe_flow *f);

#endif
