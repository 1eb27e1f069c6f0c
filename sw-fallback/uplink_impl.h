/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_UPLINK_IMPL_H
#define VQLIFT_SW_FALLBACK_UPLINK_IMPL_H

/*
 * The parts of an uplink, for its own source files: uplink.c (life cycle), uplink_device.c (from a
 * specification to an ethdev of our own), uplink_config.c (queues, offloads, MTU), uplink_quirk.c
 * (what drivers say and do not do), uplink_io.c (packets).
 */

#include <stddef.h>

#include "sw-fallback/offload.h"
#include "sw-fallback/uplink.h"

enum { VQL_UPLINK_MAX_QUEUES = 128, VQL_UPLINK_NAME = 64 };

struct vql_loopback;

/* What is to be known of a driver beyond what it says in rte_eth_dev_info. */
struct vql_uplink_quirk {
        const char *driver;
        uint64_t tx_off, rx_off; /* offloads that it offers and that are not to be used */
        uint16_t rx_desc;        /* descriptors of a receive queue; 0: the usual number */
        bool takes_chains;       /* chained buffers are sent well without being offered */
        bool no_rx_interrupt;    /* do not even ask */
        bool no_rss;
        bool any_size;     /* there is no MTU: rings, files */
        bool host_mtu;     /* the interface of the host has the MTU, not the ethdev */
        bool host_packets; /* packets of the host's own stack come with unfinished checksums */
};

/* Never NULL: a driver that is not listed has no quirks. */
const struct vql_uplink_quirk *vql_uplink_quirk_find(const char *driver);

enum vql_uplink_state {
        VQL_UPLINK_NONE,     /* nothing to undo */
        VQL_UPLINK_ATTACHED, /* port_id is ours, by rte_eth_dev_owner_set() */
        VQL_UPLINK_STARTED,
};

struct vql_uplink {
        struct vql_loopback *loopback; /* NULL: the ethdev port_id */
        uint16_t port_id;
        uint16_t queues;
        uint32_t max_frame; /* longer packets are dropped; UINT32_MAX: the device does not mind */
        struct vql_offload_caps caps;
        const struct vql_uplink_quirk *quirk;

        enum vql_uplink_state state;
        bool created; /* by us: goes away with us */
        uint16_t mtu;
        uint64_t owner; /* rte_eth_dev_owner's id */
        char device[VQL_UPLINK_NAME];
        char interface[VQL_UPLINK_NAME]; /* of the host, or "" */
        int rx_fd[VQL_UPLINK_MAX_QUEUES];
        const struct vql_log *log;
};

/* Find or make the ethdev that params->spec means, and own it: NONE to ATTACHED. */
int vql_uplink_attach(struct vql_uplink *u, const struct vql_uplink_params *params,
                      struct vql_error *e);
/* ATTACHED to NONE. */
void vql_uplink_detach(struct vql_uplink *u);

/* ATTACHED to STARTED. */
int vql_uplink_start(struct vql_uplink *u, const struct vql_uplink_params *params,
                     struct vql_error *e);
void vql_uplink_stop(struct vql_uplink *u);

#endif
