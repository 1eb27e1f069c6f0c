/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_DRIVER_H
#define VQLIFT_DRIVER_H

/*
 * What a device driver of vqlift implements.  A driver is a const table; it knows nothing of paths,
 * guests or vhost-user: it starts a queue on some ring memory at some position, and stops it giving
 * back a position.  Drivers are in the tree; this interface may change with any release.
 *
 * Life of a device, and what may be called when:
 *
 *      CLOSED -open-> RESET -negotiate-> READY -start-> RUN -suspend-> HELD -start-> RUN
 *      reset leads from anywhere to RESET, close from anywhere to CLOSED.
 *
 *                                              RESET  READY  RUN             HELD
 *      caps, cfg_read, dma_update, vq_irq,
 *      log_set, log_sync, events, stats          x      x     x               x
 *      negotiate                                 x
 *      vq_start                                         x     LIVE or LATE    x
 *      vq_stop                                                LIVE
 *      start                                            x                     x
 *      suspend                                                x
 *      vq_kick, ctrl                                          x
 *      reset, close                              x      x     x               x
 *
 * A call out of turn never reaches a driver: lib/port/device.c keeps the state and refuses it with
 * -EINVAL (a kick is ignored).  It also has what an absent operation does.
 *
 * Results are 0 or a negative errno, never positive.  Common ones: -ENOTSUP not among the device's
 * abilities, nothing happened; -ENODEV the device is gone; -EIO the device is broken until reset;
 * -ETIMEDOUT; -ENOMEM; -ENOSPC.  An operation that takes a vql_error writes the sentence there.
 *
 * Threads: the caller serialises all operations of one device but vq_kick, which comes from any
 * thread for a queue that runs (the caller sees to it that the queue is not being stopped), and
 * stats.  Operations may take their documented time.  They never call back; news go through
 * vql_dev.event_fd and events().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vql_error; /* base/error.h */
struct vql_log;   /* base/log.h */
struct vql_driver;
struct vql_vfio; /* vfio/vfio.h */

enum {
        VQL_DEV_ADDRESS_BYTES = 64,
        VQL_DEV_MAX_QUEUES = 257, /* 128 pairs and a control queue */
        VQL_DEV_MAX_RANGES = 16,  /* of IOVAs */
        VQL_DEV_MAX_EVENTS = 32,  /* handed out by one call of events() */
        VQL_IRQ_CONFIG = 0xffff,  /* vq_irq: the queue number that means the configuration */
        VQL_NO_QUEUE = 0xffff,
};

/* What a device can do (vql_dev_caps.flags). */
enum vql_dev_flag {
        VQL_DEV_SEEK = 1 << 0,      /* a queue may start at any position, else at the initial one */
        VQL_DEV_TELL = 1 << 1,      /* the position at stop is the device's own, else from memory */
        VQL_DEV_IN_ORDER = 1 << 2,  /* buffers of a queue come back in the order offered */
        VQL_DEV_LIVE = 1 << 3,      /* one queue stops and starts while the others run */
        VQL_DEV_LATE = 1 << 4,      /* a queue that never started may start after the device did */
        VQL_DEV_LOG = 1 << 5,       /* log_set() works */
        VQL_DEV_PACKED = 1 << 6,    /* packed rings */
        VQL_DEV_ORDERLY = 1 << 7,   /* a stop lets buffers that are being worked on finish */
        VQL_DEV_DOORBELL = 1 << 8,  /* vq_doorbell() works */
        VQL_DEV_IRQ_ANYFD = 1 << 9, /* vq_irq() takes the guest's own eventfd */
        VQL_DEV_CTRL = 1 << 10,     /* ctrl() works */
        VQL_DEV_CPU_DMA = 1 << 11,  /* software: reaches memory by vql_map.va */
        VQL_DEV_HOLD_KEEPS = 1 << 12, /* suspend() keeps what ctrl() set up */
};

struct vql_range {
        uint64_t first, last; /* both inclusive */
};

struct vql_dev_caps {
        uint16_t queues;     /* data queues: twice the pairs */
        uint16_t queue_size; /* largest; a power of two */
        uint64_t features;   /* virtio bits that the device can honour on any ring */
        uint32_t flags;      /* enum vql_dev_flag */
        uint64_t page_size;  /* IOVAs, lengths and addresses of maps are multiples of it */
        uint32_t map_limit;  /* most maps at a time; 0: no limit */
        uint16_t n_ranges;   /* of `ranges`; 0: any IOVA */
        struct vql_range ranges[VQL_DEV_MAX_RANGES];
};

/* A position.  Split: free-running indices; packed: slots and wrap counters. */
struct vql_position {
        uint16_t avail, used;
        uint8_t avail_wrap, used_wrap;
};

/* A ring for a queue to work on. */
struct vql_dev_ring {
        uint64_t desc, driver, device; /* IOVAs of the three areas */
        const void *device_va;         /* the device area; packed: the descriptor ring */
        uint16_t size;
        bool packed;
};

enum vql_stop_quality {
        VQL_STOP_EXACT,   /* every buffer before the position is done, none behind it was used */
        VQL_STOP_REPEAT,  /* the same, but the packet of a buffer behind it may have been sent */
        VQL_STOP_UNKNOWN, /* buffers may be done out of order: the position is what memory shows,
                           * and the caller must look at what it knows of each buffer */
};

struct vql_stop {
        struct vql_position at; /* avail and used are equal */
        enum vql_stop_quality quality;
        bool stopped; /* suspend: the queue ran, and the rest has meaning */
};

struct vql_map {
        uint64_t iova, len;
        void *va;
        bool writable; /* by the device */
};

/* Where a write makes a queue look at its ring. */
struct vql_doorbell {
        int fd; /* borrowed; to be mapped at `offset` */
        uint64_t offset;
        uint64_t length; /* of the page that holds nothing else */
        uint32_t at;     /* of the register in that page */
        uint8_t width;   /* bytes to write */
        uint32_t value;
};

/* Dirty log: bit n of the bitmap is the page of 4096 bytes at IOVA n * 4096. */
struct vql_dev_log {
        uint8_t *bitmap; /* set bits by atomic OR: the bitmap is shared */
        uint64_t bytes;
};

enum vql_event_kind {
        VQL_EVENT_CONFIG, /* the configuration or the link changed: read it again */
        VQL_EVENT_QUEUE,  /* vql_event.queue is stuck or refused its ring */
        VQL_EVENT_BROKEN, /* the device needs a reset */
        VQL_EVENT_REMOVE, /* the host wants it back: stop and close soon */
        VQL_EVENT_GONE,   /* it is not there any more */
};

struct vql_event {
        enum vql_event_kind kind;
        uint16_t queue; /* or VQL_NO_QUEUE */
};

/* An open device, the caller's; `priv` is the driver's. */
struct vql_dev {
        const struct vql_driver *driver;
        char address[VQL_DEV_ADDRESS_BYTES];
        const struct vql_log *log;
        struct vql_vfio *vfio; /* what the PCI devices of one context share */
        void *priv;
        int event_fd; /* the driver's eventfd: readable when events() has news; -1: never */
};

struct vql_dev_ops {
        /*
         * Claim the device at d->address with the arguments "key=value,..." (NULL: none), reset it
         * and leave it in RESET.  Works after a predecessor that died.  Touches no guest memory.
         * -EINVAL arguments, -ENODEV no such device, -EBUSY it is in use, -EACCES.
         */
        int (*open)(struct vql_dev *d, const char *args, struct vql_error *e);
        /* Reset, remove all maps, free.  No access to any memory after it returns. */
        void (*close)(struct vql_dev *d);
        /* Constant from open to close. */
        void (*caps)(struct vql_dev *d, struct vql_dev_caps *ret_caps);

        /* All queues quiet; features, interrupts and what ctrl() set up are gone; maps stay.  At
         * most 10 s, then -EIO. */
        int (*reset)(struct vql_dev *d, struct vql_error *e);
        /* Agree on exactly these features (and what transport bits the driver itself needs).
         * -EINVAL: the device does not want them. */
        int (*negotiate)(struct vql_dev *d, uint64_t features, struct vql_error *e);
        /* All queues that were started begin to run.  On an error they are quiet. */
        int (*start)(struct vql_dev *d, struct vql_error *e);
        /*
         * Stop all queues as vq_stop does.  `ret_stops` has caps.queues entries.  May be built from
         * a reset; then, without HOLD_KEEPS, the caller replays ctrl() after the next start.
         */
        int (*suspend)(struct vql_dev *d, uint32_t timeout_ms, struct vql_stop *ret_stops,
                       struct vql_error *e);

        /*
         * Replace maps: all of `del`, each equal to one that was added, go, and all of `add` come.
         * Queues that use none of `del` run on.  On an error nothing changed, except after
         * -ENOTRECOVERABLE.  Afterwards the device cannot reach what is gone.  May take seconds.
         */
        int (*dma_update)(struct vql_dev *d, const struct vql_map *del, size_t n_del,
                          const struct vql_map *add, size_t n_add, struct vql_error *e);

        /*
         * Let queue q work on a ring from a position on (avail == used); without SEEK the initial
         * one (0, packed: slot 0 with both wrap counters 1), else -ENOTSUP.  -EINVAL: size, or a
         * split ring whose used index is not at->used.  Runs at once in RUN, else from start() on.
         * Does not kick.
         */
        int (*vq_start)(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                        const struct vql_position *at, struct vql_error *e);
        /*
         * Afterwards the queue is quiet: no access to ring or buffers, no interrupt, its doorbell
         * without effect, and what it wrote is visible.  -EIO, -ETIMEDOUT: nothing is certain
         * before reset().
         */
        int (*vq_stop)(struct vql_dev *d, uint16_t q, uint32_t timeout_ms,
                       struct vql_stop *ret_stop, struct vql_error *e);
        /* Never blocks; what was written to the ring before is seen.  May come too often. */
        void (*vq_kick)(struct vql_dev *d, uint16_t q);
        /* Signal `fd` (-1: nothing) for queue q, or VQL_IRQ_CONFIG, from now on, at any time.  The
         * fd is borrowed until it is replaced.  An edge may be lost meanwhile. */
        int (*vq_irq)(struct vql_dev *d, uint16_t q, int fd, struct vql_error *e);
        int (*vq_doorbell)(struct vql_dev *d, uint16_t q, struct vql_doorbell *ret_doorbell);

        /* Of the device's configuration space, little-endian; one consistent view. */
        int (*cfg_read)(struct vql_dev *d, uint32_t offset, void *ret_bytes, uint32_t n);
        /* One command of the control queue (virtio 1.2, 5.1.6.5): -EIO if the device says no. */
        int (*ctrl)(struct vql_dev *d, uint8_t cls, uint8_t command, const void *data, uint32_t n,
                    struct vql_error *e);

        /* Log what the device writes to buffers, from now on; NULL: no more.  The caller logs
         * writes to rings. */
        int (*log_set)(struct vql_dev *d, const struct vql_dev_log *log, struct vql_error *e);
        /* What was written before the call is in the log afterwards. */
        int (*log_sync)(struct vql_dev *d);
        /* Number of events fetched (at most `n`); they are gone then. */
        size_t (*events)(struct vql_dev *d, struct vql_event *ret_events, size_t n);
        /* Names, constant and ended by NULL, and the values of queue q (VQL_NO_QUEUE: of the
         * device); number of values written. */
        const char *const *(*stat_names)(struct vql_dev *d);
        size_t (*stats)(struct vql_dev *d, uint16_t q, uint64_t *ret_values, size_t n);
};

struct vql_driver {
        const char *name; /* "virtio_pci" */
        const char *what; /* one line for people */
        /* vq_doorbell, ctrl, log_set, log_sync, events, stat_names and stats may be NULL. */
        struct vql_dev_ops ops;
        /* Could this driver serve the device at this address? */
        bool (*match)(const char *address);
};

#ifdef __cplusplus
}
#endif

#endif
