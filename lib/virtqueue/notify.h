/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VIRTQUEUE_NOTIFY_H
#define VQLIFT_VIRTQUEUE_NOTIFY_H

/*
 * Notification in both directions and its suppression: flags and EVENT_IDX for split rings (virtio
 * 1.2, 2.7.7 and 2.7.10), event suppression structures for packed ones (2.8.10).
 *
 * Threads: the owner of the queue.
 */

#include <stdbool.h>
#include <stdint.h>

#include "virtqueue/queue.h"

/* Are buffers available that we have not taken? */
bool vql_queue_has_avail(const struct vql_queue *q);

/* Ask the guest not to kick.  A hint: it may still do. */
void vql_notify_disable(struct vql_queue *q);

/*
 * Ask the guest to kick for the next buffer, then look: true means that buffers are there already
 * and no kick may come for them.
 */
bool vql_notify_enable(struct vql_queue *q);

/*
 * Interrupt the guest if it wants to know that the used position moved to where it is now.  Call
 * after each publication, with the used entries and index stored.
 */
void vql_signal_used(struct vql_queue *q);

/* Interrupt the guest whether or not it asked: after a start, a switch, a change of call fd. */
void vql_signal_always(struct vql_queue *q);

/* virtio 1.2, 2.7.10: does moving from `old` to `new_pos` pass `event`? */
static inline bool vql_event_passed(uint16_t event, uint16_t new_pos, uint16_t old)
{
        return (uint16_t)(new_pos - event - 1) < (uint16_t)(new_pos - old);
}

#endif
