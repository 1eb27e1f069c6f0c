/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_REPLAY_H
#define VQLIFT_PORT_REPLAY_H

/*
 * What the commands of a control queue (virtio 1.2, 5.1.6.5) have set up in a device, to be set up
 * again in the same device after a reset, or in another one.  A command replaces the one that it
 * overrides; commands that leave nothing behind are not kept.
 *
 * Threads: the owner's.
 */

#include <stddef.h>
#include <stdint.h>

struct vql_ctrl {
        uint8_t cls, command;
        const void *data;
        uint32_t n; /* bytes of it */
};

struct vql_replay {
        struct vql_replay_entry *entry; /* in the order in which they are to be issued */
        size_t n, room;
};

/* Make sure that one more command can be remembered.  -ENOMEM. */
int vql_replay_reserve(struct vql_replay *r, const struct vql_ctrl *c, void **ret_copy);
/* Remember a command that the device has acknowledged; takes `copy` from vql_replay_reserve(). */
void vql_replay_remember(struct vql_replay *r, const struct vql_ctrl *c, void *copy);
/* Command i in the order of issue: MAC address, MAC table, queue pairs or RSS, offloads, receive
 * modes, VLANs, coalescing, whatever else.  Valid until the list is changed. */
struct vql_ctrl vql_replay_get(const struct vql_replay *r, size_t i);
void vql_replay_clear(struct vql_replay *r);

#endif
