/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_PATH_CHOICE_H
#define VQLIFT_PORT_PATH_CHOICE_H

/*
 * Which path is to serve a ring?  A pure function of what is known about ring and device, so that
 * the reason for a path can be told, and tested.
 */

#include <stdbool.h>

enum vql_path {
        VQL_PATH_NONE,     /* the ring does not run */
        VQL_PATH_SOFTWARE, /* the CPU moves packets between the ring and the uplink */
        VQL_PATH_RELAY,    /* a device works on a shadow ring, and we pass on what it does */
        VQL_PATH_DIRECT,   /* a device works on the guest's ring */
        VQL_PATH_HELD,     /* nobody can: the ring keeps its content and waits */
        VQL_PATHS,
};

/* What an administrator asks for. */
enum vql_path_wish { VQL_WISH_AUTO, VQL_WISH_SOFTWARE, VQL_WISH_RELAY, VQL_WISH_DIRECT };

/* A sentence of why a device serves no ring at all, or NULL, and what stands against each path. */
struct vql_path_facts {
        enum vql_path_wish wish;
        bool uplink;           /* the port has one */
        const char *no_device; /* NULL: there is a device, it has the guest's memory and runs */
        /* of the queue and its device */
        bool refused_direct, refused_relay; /* it failed there since the last reset */
        bool live;                          /* one queue stops and starts while others run */
        bool signals_guest;                 /* takes the guest's own eventfd */
        bool in_order, seeks, logs;
        bool tells; /* where its queues stopped; else memory does, for split rings alone surely */
        bool fits;  /* the ring is not larger than the device can */
        /* of the ring */
        bool packed;
        bool enabled;
        bool initial; /* it is where it begins, with nothing in flight */
        bool pending; /* buffers that an earlier owner passed over wait to be dealt with */
        bool kicked;  /* by an eventfd */
        bool logging;
        bool inflight_region; /* that a front-end wants to be kept */
};

struct vql_path_answer {
        enum vql_path path;
        const char *why; /* not a better one; constant */
        bool at_wrap;    /* only the ring's position stands against the direct path */
};

struct vql_path_answer vql_path_choose(const struct vql_path_facts *f);

const char *vql_path_name(enum vql_path p);
/* -1: not the name of a wish ("auto", "direct", "relay", "software"). */
int vql_path_wish_from_name(const char *name);
const char *vql_path_wish_name(enum vql_path_wish w);

#endif
