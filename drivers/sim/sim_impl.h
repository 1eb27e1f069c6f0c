/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_DRIVERS_SIM_SIM_IMPL_H
#define VQLIFT_DRIVERS_SIM_SIM_IMPL_H

/*
 * What the files of the simulated NIC share.  The device's own thread and the caller's operations
 * exclude each other by one lock, which the thread gives up after each burst: whenever an operation
 * runs, no buffer is half done and nothing of the guest's memory is in use.
 */

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_net.h>

#include "base/bits.h"
#include "base/error.h"
#include "drivers/sim/sim.h"
#include "drivers/sim/sim_memory.h"
#include "drivers/sim/sim_ring.h"
#include "vqlift/driver.h"

enum {
        SIM_MAX_PAIRS = 128,
        SIM_PACKET_BYTES = 65536 + 64, /* the longest packet */
        SIM_BURST = 32,                /* buffers between two chances of an operation */
        SIM_HEADER_BYTES = 12,         /* virtio 1.2, 5.1.6: always so with VERSION_1 */
        SIM_MAC_BYTES = 6,
        SIM_MAC_TABLE = 64,
        SIM_VLANS = 4096,
};

/* ---- arguments (sim_args.c) ---- */

struct sim_args {
        uint16_t pairs, size, mtu;
        uint8_t mac[SIM_MAC_BYTES];
        uint64_t without_features;
        uint32_t without_flags;
        int32_t knob[VQL_SIM_KNOB_COUNT];
        char wire[128];
};

/* -EINVAL: unknown, out of range, not a number. */
int vql_sim_args_parse(const char *address, const char *text, struct sim_args *ret_args,
                       struct vql_error *e);

/* ---- what packets come in from and go out to (sim_wire.c) ---- */

struct sim_wire {
        int out, in; /* may be the same; each packet one message */
        /* A packet that came in and for which there is no buffer yet; 0: none. */
        size_t pending;
        uint8_t *packet;
};

/* Open the wires of all pairs, which are closed (-1).  -EINVAL, -errno. */
int vql_sim_wires_open(const struct sim_args *args, struct sim_wire *wire, struct vql_error *e);
void vql_sim_wires_close(struct sim_wire *wire, uint16_t pairs);
bool vql_sim_wire_send(const struct sim_wire *w, const void *packet, size_t n); /* false: lost */
bool vql_sim_wire_receive(struct sim_wire *w); /* into `packet` and `pending`; false: nothing */

/* ---- the device ---- */

#define SIM_STATS(X)        X(packets) X(bytes) X(interrupts) X(interrupts_lost) X(dropped) X(faults)
#define SIM_STAT_ENUM(name) SIM_STAT_##name,
enum sim_stat { SIM_STATS(SIM_STAT_ENUM) SIM_STAT_COUNT };
#undef SIM_STAT_ENUM

enum sim_queue_state {
        SIM_QUEUE_FRESH, /* not started since the last reset */
        SIM_QUEUE_STARTED,
        SIM_QUEUE_RUNNING,
        SIM_QUEUE_STUCK, /* its ring is impossible, or it shall stand still */
        SIM_QUEUE_STOPPED,
};

struct sim_queue {
        enum sim_queue_state state;
        uint16_t index;
        struct sim_ring ring;
        int irq_fd;
        _Atomic bool kicked;
        uint64_t moved; /* buffers, since a knob was turned */
        _Atomic uint64_t stat[SIM_STAT_COUNT];
};

/* What control commands have set up. */
struct sim_filter {
        uint8_t mac[SIM_MAC_BYTES];
        uint8_t modes; /* bit n: command n of class RX is on */
        uint16_t pairs;
        uint16_t n_unicast, n_multicast;
        uint8_t unicast[SIM_MAC_TABLE][SIM_MAC_BYTES], multicast[SIM_MAC_TABLE][SIM_MAC_BYTES];
        uint8_t vlans[SIM_VLANS / 8];
};

enum sim_life { SIM_RESET, SIM_READY, SIM_RUN, SIM_HELD, SIM_CLOSING };
enum sim_health { SIM_WELL, SIM_BROKEN, SIM_GONE };

struct sim {
        struct vql_dev *dev;
        struct sim_args args;
        struct vql_dev_caps caps;
        int claim_fd; /* holds the address */
        int wake_fd;  /* eventfd: there is something to do, or to end */

        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t turn;      /* operations waited, and none does any more */
        _Atomic unsigned waiting; /* operations: they come before the thread's next burst */

        /* All below is under the lock, but for atomics. */
        enum sim_life life;
        enum sim_health health;
        uint64_t features;
        bool link_up;
        int config_fd;
        uint64_t moved, interrupts; /* since a knob was turned */
        uint32_t random;
        struct sim_memory mem;
        struct sim_filter filter;
        struct vql_event event[VQL_DEV_MAX_EVENTS];
        size_t n_events;
        struct sim_wire wire[SIM_MAX_PAIRS];
        struct sim_queue queue[2 * SIM_MAX_PAIRS];
};

static inline bool sim_queue_is_tx(const struct sim_queue *q)
{
        return q->index & 1;
}

static inline void sim_count(struct sim_queue *q, enum sim_stat which, uint64_t n)
{
        atomic_fetch_add_explicit(&q->stat[which], n, memory_order_relaxed);
}

/* ---- the thread and the lock (vql_sim_thread.c) ---- */

void vql_sim_lock(struct sim *s);
void vql_sim_unlock(struct sim *s);
void vql_sim_wake(struct sim *s);
void *vql_sim_thread(void *sim);
/* Give the lock up for so long; the queues go on meanwhile. */
void vql_sim_wait(struct sim *s, uint32_t ms);

/* ---- news (sim_event.c) ---- */

void vql_sim_event_raise(struct sim *s, enum vql_event_kind kind, uint16_t queue);
void vql_sim_turn_bad(struct sim *s, enum sim_health health);
/* -EIO, -ENODEV: the device does nothing any more. */
int vql_sim_check_health(const struct sim *s, struct vql_error *e);
size_t vql_sim_events(struct vql_dev *d, struct vql_event *ret_events, size_t n);

/* ---- queues (sim_queue.c) ---- */

void vql_sim_queue_init(struct sim_queue *q, uint16_t index);
/* Quiet, with all that it had taken given back; not counting as started any more if `fresh`. */
void vql_sim_queue_quiet(struct sim_queue *q, enum sim_queue_state then);
/* One burst; false: there is nothing to do before the next kick or packet. */
bool vql_sim_queue_work(struct sim *s, struct sim_queue *q);
/* Its ring is out of order: it does nothing any more until it is stopped. */
void vql_sim_queue_fail(struct sim *s, struct sim_queue *q);
/* Interrupt the driver if it wants that. */
void vql_sim_queue_signal(struct sim *s, struct sim_queue *q);
int vql_sim_vq_start(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                     const struct vql_position *at, struct vql_error *e);
int vql_sim_vq_stop(struct vql_dev *d, uint16_t q, uint32_t timeout_ms, struct vql_stop *ret_stop,
                    struct vql_error *e);
int vql_sim_suspend(struct vql_dev *d, uint32_t timeout_ms, struct vql_stop *ret_stops,
                    struct vql_error *e);
void vql_sim_vq_kick(struct vql_dev *d, uint16_t q);
int vql_sim_vq_irq(struct vql_dev *d, uint16_t q, int fd, struct vql_error *e);

/* ---- packets (sim_transfer.c) ---- */

/* Move up to a burst; the number of buffers moved, or -errno: the ring is impossible. */
int vql_sim_transmit(struct sim *s, struct sim_queue *q, unsigned int most);
int vql_sim_receive(struct sim *s, struct sim_queue *q);
/* Send the packet of the next buffer and say nothing about it; false: there is none. */
bool vql_sim_transmit_untold(struct sim *s, struct sim_queue *q);

/* ---- control commands and configuration (sim_control.c) ---- */

void vql_sim_filter_reset(struct sim *s);
/* Is a packet that came in for the driver? */
bool vql_sim_filter_passes(const struct sim *s, const uint8_t *packet, size_t n);
int vql_sim_ctrl(struct vql_dev *d, uint8_t cls, uint8_t command, const void *data, uint32_t n,
                 struct vql_error *e);
int vql_sim_cfg_read(struct vql_dev *d, uint32_t offset, void *ret_bytes, uint32_t n);

#endif
