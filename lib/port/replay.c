/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <linux/virtio_net.h>

enum {
        CLASS_COALESCING = 6, /* virtio 1.3, 5.1.6.5.9 */
        COALESCING_TX = 0,
        COALESCING_RX = 1,
        COALESCING_QUEUE_SET = 2,
        COALESCING_QUEUE_GET = 3,
        NO_OBJECT = -1,
        LAST = 0xff, /* rank of what has no place of its own */
};

struct vql_replay_entry {
        uint8_t cls, command, rank;
        int object; /* VLAN or queue that the command is about, or NO_OBJECT */
        uint32_t n;
        void *data;
};

/* The order of issue: filters refer to the address, and packets must not spread over queues before
 * their number is set.  ANY matches all commands of the class. */
enum { ANY = 0x100 };

static const struct {
        uint8_t cls;
        uint16_t command;
} ranks[] = {
        { VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_ADDR_SET },
        { VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_TABLE_SET },
        { VIRTIO_NET_CTRL_MQ, ANY },
        { VIRTIO_NET_CTRL_GUEST_OFFLOADS, ANY },
        { VIRTIO_NET_CTRL_RX, ANY },
        { VIRTIO_NET_CTRL_VLAN, ANY },
        { CLASS_COALESCING, COALESCING_TX },
        { CLASS_COALESCING, COALESCING_RX },
        { CLASS_COALESCING, COALESCING_QUEUE_SET },
};

static uint8_t rank_of(const struct vql_ctrl *c)
{
        for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
                if (ranks[i].cls == c->cls &&
                    (ranks[i].command == ANY || ranks[i].command == c->command))
                        return (uint8_t)i;
        return LAST;
}

static bool is_queue_coalescing(const struct vql_ctrl *c)
{
        return c->cls == CLASS_COALESCING && c->command == COALESCING_QUEUE_SET;
}

/* Commands whose data begins with the number of what they are about. */
static int object_of(const struct vql_ctrl *c)
{
        uint8_t le[2];

        if ((c->cls != VIRTIO_NET_CTRL_VLAN && !is_queue_coalescing(c)) || c->n < sizeof(le))
                return NO_OBJECT;
        memcpy(le, c->data, sizeof(le));
        return le[0] | le[1] << 8;
}

/* Does the device keep anything from this command? */
static bool leaves_state(const struct vql_ctrl *c)
{
        if (c->cls == VIRTIO_NET_CTRL_ANNOUNCE)
                return false;
        if (c->cls == VIRTIO_NET_CTRL_VLAN)
                return c->command == VIRTIO_NET_CTRL_VLAN_ADD;
        return c->cls != CLASS_COALESCING || c->command != COALESCING_QUEUE_GET;
}

/* Queue pairs with automatic steering and RSS exclude each other: the later one holds. */
static bool is_steering(uint8_t cls, uint8_t command)
{
        return cls == VIRTIO_NET_CTRL_MQ && (command == VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET ||
                                             command == VIRTIO_NET_CTRL_MQ_RSS_CONFIG);
}

/* Coalescing for all queues of a direction overrides what a single one of them had. */
static bool overrides_queue(const struct vql_ctrl *c, const struct vql_replay_entry *old)
{
        const int transmits = c->command == COALESCING_TX;

        return c->cls == CLASS_COALESCING && c->command <= COALESCING_RX && old->cls == c->cls &&
               old->command == COALESCING_QUEUE_SET && (old->object & 1) == transmits;
}

static bool overrides(const struct vql_ctrl *c, const struct vql_replay_entry *old)
{
        if (overrides_queue(c, old))
                return true;
        if (is_steering(c->cls, c->command) && is_steering(old->cls, old->command))
                return true;
        if (c->cls == VIRTIO_NET_CTRL_VLAN)
                return old->cls == c->cls && old->object == object_of(c);
        return old->cls == c->cls && old->command == c->command && old->object == object_of(c);
}

static void drop_overridden(struct vql_replay *r, const struct vql_ctrl *c)
{
        size_t kept = 0;

        for (size_t i = 0; i < r->n; i++) {
                if (overrides(c, &r->entry[i]))
                        free(r->entry[i].data);
                else
                        r->entry[kept++] = r->entry[i];
        }
        r->n = kept;
}

static void insert(struct vql_replay *r, const struct vql_replay_entry *e)
{
        size_t at = r->n;

        while (at > 0 && r->entry[at - 1].rank > e->rank)
                at--;
        memmove(&r->entry[at + 1], &r->entry[at], (r->n - at) * sizeof(*e));
        r->entry[at] = *e;
        r->n++;
}

int vql_replay_reserve(struct vql_replay *r, const struct vql_ctrl *c, void **ret_copy)
{
        void *copy = malloc(c->n ? c->n : 1);

        if (!copy)
                return -ENOMEM;
        if (r->n == r->room) {
                const size_t room = r->room ? 2 * r->room : 16;
                struct vql_replay_entry *more = realloc(r->entry, room * sizeof(*more));

                if (!more) {
                        free(copy);
                        return -ENOMEM;
                }
                r->entry = more;
                r->room = room;
        }
        if (c->n)
                memcpy(copy, c->data, c->n);
        *ret_copy = copy;
        return 0;
}

void vql_replay_remember(struct vql_replay *r, const struct vql_ctrl *c, void *copy)
{
        drop_overridden(r, c);
        if (!leaves_state(c)) {
                free(copy);
                return;
        }
        insert(r, &(struct vql_replay_entry){
                          .cls = c->cls,
                          .command = c->command,
                          .rank = rank_of(c),
                          .object = object_of(c),
                          .n = c->n,
                          .data = copy,
                  });
}

struct vql_ctrl vql_replay_get(const struct vql_replay *r, size_t i)
{
        const struct vql_replay_entry *e = &r->entry[i];

        return (struct vql_ctrl){ e->cls, e->command, e->data, e->n };
}

void vql_replay_clear(struct vql_replay *r)
{
        for (size_t i = 0; i < r->n; i++)
                free(r->entry[i].data);
        free(r->entry);
        *r = (struct vql_replay){ 0 };
}
