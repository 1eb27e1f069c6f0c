/* SPDX-License-Identifier: BSD-3-Clause */

/* What a guest that runs on a port may have come to rely on. */

#include "port/context.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "port/offer.h"
#include "virtqueue/cursor.h"
#include "virtqueue/queue_state.h"

enum { MOST_PAIRS = VQL_MAX_RINGS / 2 };

static void fill_offer(const struct vql_offer *o, struct vql_compat_info *i)
{
        *i = (struct vql_compat_info){
                .features = o->features,
                .protocol_features = o->protocol_features,
                .queue_pairs = o->max_rings / 2u,
                .ring_size_split = VQL_QUEUE_MAX_SIZE,
                .ring_size_packed = VQL_QUEUE_MAX_SIZE,
                .mem_slots = o->max_mem_slots,
                .state_version = VQL_QUEUE_STATE_VERSION,
        };
}

static void fill_port(struct vql_port *p, void *arg)
{
        struct vql_compat_info *i = arg;
        struct vql_uplink_info u = { 0 };

        fill_offer(&p->offer, i);
        vql_uplink_get_info(p->uplink, &u);
        snprintf(i->uplink_device, sizeof(i->uplink_device), "%s", u.device);
        /* Some uplinks carry whatever they get. */
        i->mtu = vql_uplink_check_mtu(p->uplink, VQL_MTU_MAX, NULL) == 0 ? VQL_MTU_MAX : u.mtu;
}

int vql_port_get_compat(struct vql *v, const char *name, struct vql_compat_info *ret_info)
{
        struct vql_offer most;
        struct vql_port *p;
        int rc;

        if (!name) {
                rc = vql_offer_make(MOST_PAIRS, 0, 0, &most, &v->error);
                if (rc == 0)
                        fill_offer(&most, ret_info);
                return rc;
        }
        p = vql_context_port(v, name);
        if (!p)
                return -ENOENT;
        vql_port_run(p, fill_port, ret_info);
        return 0;
}
