/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VIRTQUEUE_QUEUE_H
#define VQLIFT_VIRTQUEUE_QUEUE_H

/*
 * The queue as the software datapath sees it.  Layout is deliberate: what a burst reads is in the
 * first line, what it writes in the second, what it seldom needs in the third.  Control state
 * (front-end addresses, file descriptors to close, names) is not here but in the port's ring.
 *
 * Threads: owned by one worker while attached to it (sw-fallback/worker.h), by the port's control
 * thread otherwise.  Counters are written by the owner and may be read by anyone.
 */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_ring.h>

#include "memory/dirty_log.h"
#include "memory/memory.h"
#include "virtqueue/queue_state.h"
#include "virtqueue/ring.h"

enum { VQL_CACHE_LINE = 64 };

struct rte_mempool;
struct rte_mbuf;
struct vql_queue;

/* Why a ring was stopped; the first fault wins.  Names in vql_fault_name(). */
enum vql_fault {
        VQL_FAULT_NONE,
        VQL_FAULT_AVAIL_INDEX,    /* more buffers made available than the ring holds */
        VQL_FAULT_DESC_INDEX,     /* head or next outside the table */
        VQL_FAULT_DESC_LOOP,      /* chain longer than the ring or its indirect table */
        VQL_FAULT_DESC_ADDRESS,   /* buffer outside guest memory */
        VQL_FAULT_DESC_DIRECTION, /* device-writable where readable was due, or vice versa */
        VQL_FAULT_INDIRECT,       /* table of length 0, not of whole descriptors, or nested */
        VQL_FAULT_DEVICE,         /* a device was lost with buffers in it that only it knew of */
        VQL_FAULT_CALL_FD,        /* the interrupt's eventfd does not work */
        VQL_FAULT_COUNT,
};
const char *vql_fault_name(enum vql_fault f);

/* Events per queue.  X(name, what is counted). */
#define VQL_QUEUE_HOT_COUNTERS(X)                                 \
        X(packets, "packets moved")                               \
        X(bytes, "bytes of those packets, without virtio header") \
        X(signals, "interrupts sent to the guest")                \
        X(signals_saved, "interrupts that the guest did not want")
#define VQL_QUEUE_COLD_COUNTERS(X)                                                           \
        X(drop_no_buffer, "to the guest: no buffer available")                               \
        X(drop_too_big, "to the guest: larger than the buffers it may use")                  \
        X(drop_short, "from the guest: chain not longer than its header")                    \
        X(drop_too_long, "from the guest: longer than 64 KiB and headers")                   \
        X(drop_offload, "from the guest: offload request that the packet does not bear out") \
        X(drop_uplink, "from the guest: the uplink did not take it")                         \
        X(drop_disabled, "from the guest: ring disabled, buffer returned")                   \
        X(no_mbuf, "from the guest: out of packet buffers, tried again later")
#define VQL_QUEUE_COUNTERS(X)         VQL_QUEUE_HOT_COUNTERS(X) VQL_QUEUE_COLD_COUNTERS(X)
#define VQL_COUNTER_FIELD(name, what) uint64_t name;

/* A copy of all counters, as vql_queue_read_counters() fills it. */
struct vql_queue_counters {
        VQL_QUEUE_COUNTERS(VQL_COUNTER_FIELD)
};

typedef uint16_t vql_dequeue_fn(struct vql_queue *q, struct rte_mempool *pool,
                                struct rte_mbuf **pkts, uint16_t n);
typedef uint16_t vql_enqueue_fn(struct vql_queue *q, struct rte_mbuf **pkts, uint16_t n);

struct vql_queue {
        /* ---- line 0: read by every burst; written by control, and `hit` on a miss ---- */
        union {
                struct vring_desc *desc; /* split */
                struct vring_packed_desc *packed_ring;
        };
        union {
                struct vring_avail *avail;
                struct vring_packed_desc_event *driver_event;
        };
        union {
                struct vring_used *used;
                struct vring_packed_desc_event *device_event;
        };
        struct vql_mem_span hit;
        union {
                vql_dequeue_fn *dequeue;
                vql_enqueue_fn *enqueue;
        };
        uint16_t size;
        uint8_t hdr_len; /* 10 for a legacy guest without MRG_RXBUF, else 12 */
        uint8_t fault;   /* enum vql_fault; not VQL_FAULT_NONE: bursts do nothing */
        int call_fd;     /* -1: the guest polls */

        /* ---- line 1: written by every burst ---- */
        _Alignas(VQL_CACHE_LINE) uint16_t last_avail; /* split: free-running; packed: slot */
        uint16_t last_used;
        uint32_t unsignalled;          /* used elements, packed: slots, since the last signal */
        uint8_t avail_wrap, used_wrap; /* packed */
        bool signalled_valid;          /* false: the next publication signals unconditionally */
        bool event_idx;
        bool notify_off; /* the guest was told not to kick */
        VQL_QUEUE_HOT_COUNTERS(VQL_COUNTER_FIELD)
        uint64_t *position; /* packed: where publications are recorded (cursor.h), or NULL */

        /* ---- lines 2 and 3: seldom touched ---- */
        _Alignas(VQL_CACHE_LINE) const
                struct vql_mem_table *mem; /* borrowed: the port parks the queue to swap it */
        struct vql_dirty_log *log;         /* not NULL in logging instances only */
        uint64_t desc_gpa, device_gpa;     /* guest addresses of the areas we write, for the log */
        uint64_t features;                 /* as the driver acknowledged them */
        uint16_t index;                    /* ring index, for messages */
        bool packed;
        bool rx; /* we write packets to the guest */
        VQL_QUEUE_COLD_COUNTERS(VQL_COUNTER_FIELD)
};

static_assert(sizeof(struct vql_queue) == (size_t)4 * VQL_CACHE_LINE,
              "queue state outgrew four lines");
static_assert(offsetof(struct vql_queue, last_avail) == VQL_CACHE_LINE, "line 1 moved");
static_assert(offsetof(struct vql_queue, mem) == (size_t)2 * VQL_CACHE_LINE, "line 2 moved");

/* All that a queue needs to know about its ring; pointers are borrowed. */
struct vql_queue_params {
        void *area[VQL_AREA_COUNT]; /* translated and checked */
        uint64_t desc_gpa, device_gpa;
        const struct vql_mem_table *mem;
        uint64_t features;
        struct vql_queue_state state; /* checked: queue_state.h */
        uint16_t index;
        bool rx;
        int call_fd;
};

/*
 * Make a queue ready to run from params->state, keeping its counters.  The caller then selects the
 * burst instance (sw-fallback/burst.h).  The first publication signals whatever the guest wishes.
 */
void vql_queue_init(struct vql_queue *q, const struct vql_queue_params *params);

/* Where the next owner goes on; nothing is in flight between bursts. */
struct vql_queue_state vql_queue_state_of(const struct vql_queue *q);
/* The position in it. */
struct vql_cursor vql_queue_cursor(const struct vql_queue *q);

/* New table, same addresses: point to the areas again.  Only while no worker has the queue. */
void vql_queue_remap(struct vql_queue *q, const struct vql_mem_table *mem,
                     void *const area[VQL_AREA_COUNT]);

/* Add to a counter.  One writer, any number of readers: an atomic store, not an atomic addition. */
static inline void vql_count(uint64_t *counter, uint64_t n)
{
        __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

void vql_queue_read_counters(const struct vql_queue *q, struct vql_queue_counters *ret_counters);

/* Note a fault; the first one stays.  From then on bursts return 0. */
void vql_queue_fail(struct vql_queue *q, enum vql_fault f);

#endif
