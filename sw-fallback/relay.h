/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_RELAY_H
#define VQLIFT_SW_FALLBACK_RELAY_H

/*
 * A relay serves a guest's ring with a device that walks another ring, the shadow, which is ours:
 * it takes chains from the guest and offers copies of their descriptors to the device, which moves
 * the payload from and to guest memory itself (IOVA = guest address), and it returns to the guest
 * what the device returns.  So a device can go on where it cannot start, every write to guest
 * memory is known, and nothing of what the device says reaches the guest unchecked.
 *
 * Life of a relay, with what the caller does on the device's side:
 *
 *      vql_relay_open() on cleared memory; start the device's queue at the initial position, and
 *      kick it once;  vql_relay_poll(), arm, disarm;  optionally vql_relay_stop_taking() and wait
 *      until it is drained;  stop the device's queue;  vql_relay_settle();  vql_relay_close().
 *
 * Threads: poll, arm and disarm by the one that has the relay (a worker, through a lane); open,
 * settle and close by control while no worker has it; what says so by any thread at any time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sw-fallback/pending.h"
#include "virtqueue/queue.h"
#include "virtqueue/ring.h"

struct vql_relay;

/* Where the areas of a shadow ring lie in one piece of memory. */
struct vql_relay_layout {
        size_t bytes;
        size_t at[VQL_AREA_COUNT];
        size_t writable; /* from here on the device writes; before, it only reads: whole pages */
};

void vql_relay_layout(uint16_t size, bool packed, size_t page, struct vql_relay_layout *ret_layout);

struct vql_relay_params {
        struct vql_queue *q; /* borrowed; of the format that the shadow is to have, too */
        void *area[VQL_AREA_COUNT];
        uint16_t size;     /* of the shadow */
        uint64_t features; /* agreed with the device: EVENT_IDX, INDIRECT_DESC and IN_ORDER count */
        void (*kick)(void *arg); /* the device's queue, from the thread that polls */
        void *arg;
        struct vql_pending *pending; /* what the last owner left, or NULL; taken over on success */
};

/*
 * Begin to serve a queue where it stands, and clear the shadow.  -EINVAL: a size that no ring has,
 * or a queue whose position of taking is not ahead by what is pending; -ENOMEM.
 */
int vql_relay_open(const struct vql_relay_params *params, struct vql_relay **ret_relay,
                   struct vql_error *e);
/* The device's queue is quiet, and the relay settled if its chains matter.  NULL is fine. */
void vql_relay_close(struct vql_relay *r);

/*
 * One pass in both directions, of bounded length.  1: something moved; 0: nothing to do.  Errors
 * stay until the relay is closed, and nothing is done then: -EBADMSG the guest's ring is bad
 * (q->fault says how), -EIO the device broke its ring, -E2BIG a chain of the guest's has more
 * buffers than the shadow; vql_relay_read_stats() has which.
 */
int vql_relay_poll(struct vql_relay *r);

/* Before a sleep: ask the guest to kick and the device to interrupt, and look.  True: there is
 * work; also if no pass can do it now, for want of room in the shadow. */
bool vql_relay_arm(struct vql_relay *r);
void vql_relay_disarm(struct vql_relay *r);

/* ---- by any thread ---- */

enum vql_relay_take {
        VQL_RELAY_TAKE,
        VQL_RELAY_STOP,         /* take no more chains */
        VQL_RELAY_STOP_AT_WRAP, /* from where the guest's ring is as at its start: split index 0,
                                 * packed slot 0 with both wrap counters 1 */
};

/* How to go on, from the next pass on; wake the worker that has it. */
void vql_relay_stop_taking(struct vql_relay *r, enum vql_relay_take how);

enum vql_relay_phase {
        VQL_RELAY_TAKING,
        VQL_RELAY_STOPPED, /* takes no more */
        VQL_RELAY_DRAINED, /* and the device has returned all that it was offered */
};
enum vql_relay_phase vql_relay_phase(const struct vql_relay *r);

/* Chains that the device has, and those that are pending. */
uint32_t vql_relay_outstanding(const struct vql_relay *r);

/* What ended a relay.  Names in vql_relay_fault_name(). */
enum vql_relay_fault {
        VQL_RELAY_FINE,
        VQL_RELAY_USED_INDEX, /* the device returned more than it has */
        VQL_RELAY_USED_ID,    /* a chain whose number the ring does not have */
        VQL_RELAY_USED_TWICE, /* a chain that it does not have */
        VQL_RELAY_USED_LEN,   /* more bytes than it may write */
        VQL_RELAY_TOO_LONG,   /* not the device: a chain that the shadow is too small for */
        VQL_RELAY_FAULTS,
};
const char *vql_relay_fault_name(enum vql_relay_fault f);

struct vql_relay_stats {
        uint64_t taken, returned; /* chains */
        uint64_t repeated;        /* of those taken: pending ones, offered again */
        uint64_t kicks, kicks_saved;
        enum vql_relay_fault fault;
        bool out_of_order; /* chains have come back in another order than they were offered */
};
void vql_relay_read_stats(const struct vql_relay *r, struct vql_relay_stats *ret_stats);

/* ---- by the owner ---- */

/* Is there something new in phase, fault or order since the last call? */
bool vql_relay_has_news(struct vql_relay *r);

/*
 * The device's queue is quiet: return what it has returned, to the last, and interrupt the guest.
 * What it has not returned becomes available again: the queue's position of taking goes back over
 * it.  Chains that it passed over while it returned later ones are given back as pending (the
 * caller's), or NULL if there are none, and the position is canonical.
 */
struct vql_pending *vql_relay_settle(struct vql_relay *r);

#endif
