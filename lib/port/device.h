/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_DEVICE_H
#define VQLIFT_PORT_DEVICE_H

/*
 * An open device, between the port that wants queues served and the driver that serves them
 * (include/vqlift/driver.h, whose words hold here, too).  It keeps the state of the device and of
 * each queue and refuses what is out of turn, it has what an absent operation does, it believes no
 * driver that breaks the contract, it knows which control commands to issue again, and it counts.
 *
 * Errors beyond those of the driver: -EINVAL out of turn or no sense in it; -ENOTSUP not among the
 * device's abilities; -EIO the driver broke the contract.
 *
 * Threads: as driver.h has it, one caller at a time but for vql_device_vq_kick() and
 * vql_device_stats().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "port/replay.h"
#include "vqlift/driver.h"

enum vql_device_life {
        VQL_DEVICE_CLOSED,
        VQL_DEVICE_RESET,
        VQL_DEVICE_READY,
        VQL_DEVICE_RUN,
        VQL_DEVICE_HELD,
        VQL_DEVICE_BROKEN, /* stopping or resetting it failed: nothing is certain before a reset */
        VQL_DEVICE_LIVES,
};

enum vql_device_queue {
        VQL_DEVICE_QUEUE_FRESH,   /* not started since the last reset */
        VQL_DEVICE_QUEUE_STARTED, /* runs as soon as the device does */
        VQL_DEVICE_QUEUE_RUNNING,
        VQL_DEVICE_QUEUE_STOPPED,
        VQL_DEVICE_QUEUE_LOST, /* stopping it failed: nothing is certain before a reset */
        VQL_DEVICE_QUEUE_STATES,
};

/* X(name, what is counted) */
#define VQL_DEVICE_COUNTERS(X)                                               \
        X(refused, "calls out of turn, or without sense")                    \
        X(faults, "answers of the driver that break its contract")           \
        X(resets, "resets of the device")                                    \
        X(starts, "queues started")                                          \
        X(stops_exact, "queues stopped with every buffer accounted for")     \
        X(stops_repeat, "queues stopped such that a packet may be repeated") \
        X(stops_unknown, "queues stopped with buffers done out of order")    \
        X(stops_failed, "queues that could not be stopped without a reset")  \
        X(suspends, "times that all queues were stopped together")           \
        X(map_updates, "changes of what the device may reach")               \
        X(commands, "control commands that the device has acknowledged")     \
        X(replays, "control commands that were issued again")                \
        X(events, "events")
#define VQL_DEVICE_COUNTER_FIELD(name, what) uint64_t name;

struct vql_device_counters {
        VQL_DEVICE_COUNTERS(VQL_DEVICE_COUNTER_FIELD)
};

struct vql_device;

/* What is lent to a device; both outlive it. */
struct vql_device_env {
        const struct vql_log *log; /* or NULL */
        struct vql_vfio *vfio;     /* of the context (vfio/vfio.h); NULL: no PCI devices */
};

/* `env` NULL: nothing is lent.  -errno of the driver; -EINVAL an address of VQL_DEV_ADDRESS_BYTES
 * and more; -EIO the abilities that the driver names are impossible; -ENOMEM. */
int vql_device_open(const struct vql_driver *driver, const char *address, const char *args,
                    const struct vql_device_env *env, struct vql_device **ret_device,
                    struct vql_error *e);
void vql_device_close(struct vql_device *v); /* NULL is fine */

/* As the driver knows it, for what a driver has beside the table. */
struct vql_dev *vql_device_dev(struct vql_device *v);
const struct vql_driver *vql_device_driver(const struct vql_device *v);
const char *vql_device_address(const struct vql_device *v);
const struct vql_dev_caps *vql_device_caps(const struct vql_device *v);
bool vql_device_can(const struct vql_device *v, enum vql_dev_flag flag);
int vql_device_event_fd(const struct vql_device *v); /* -1: there will be no events */

enum vql_device_life vql_device_life(const struct vql_device *v);
const char *vql_device_life_name(enum vql_device_life l);
enum vql_device_queue vql_device_queue(const struct vql_device *v, uint16_t q);
const char *vql_device_queue_name(enum vql_device_queue s);
uint64_t vql_device_features(const struct vql_device *v); /* negotiated */
const struct vql_device_counters *vql_device_counters(const struct vql_device *v);

int vql_device_reset(struct vql_device *v, struct vql_error *e);
int vql_device_negotiate(struct vql_device *v, uint64_t features, struct vql_error *e);
int vql_device_start(struct vql_device *v, struct vql_error *e);
/* `ret_stops` has an entry for each of the caps' queues. */
int vql_device_suspend(struct vql_device *v, uint32_t timeout_ms, struct vql_stop *ret_stops,
                       struct vql_error *e);

/* An update of maps. */
struct vql_device_maps {
        const struct vql_map *del, *add;
        size_t n_del, n_add;
};
/* -EINVAL: not of whole pages, or outside the ranges that the device can address. */
int vql_device_dma_update(struct vql_device *v, const struct vql_device_maps *m,
                          struct vql_error *e);

int vql_device_vq_start(struct vql_device *v, uint16_t q, const struct vql_dev_ring *ring,
                        const struct vql_position *at, struct vql_error *e);
int vql_device_vq_stop(struct vql_device *v, uint16_t q, uint32_t timeout_ms,
                       struct vql_stop *ret_stop, struct vql_error *e);
/* From any thread, while the queue is not being stopped.  Ignored unless the queue runs. */
void vql_device_vq_kick(struct vql_device *v, uint16_t q);
int vql_device_vq_irq(struct vql_device *v, uint16_t q, int fd, struct vql_error *e);
int vql_device_vq_doorbell(struct vql_device *v, uint16_t q, struct vql_doorbell *ret_doorbell);

int vql_device_cfg_read(struct vql_device *v, uint32_t offset, void *ret_bytes, uint32_t n);
int vql_device_ctrl(struct vql_device *v, const struct vql_ctrl *c, struct vql_error *e);
/* Issue again what the control commands so far have set up, in the order that devices want
 * (port/replay.h).  The first command that fails ends it. */
int vql_device_replay(struct vql_device *v, struct vql_error *e);
/* The guest reset its device: nothing is to be issued again. */
void vql_device_forget(struct vql_device *v);

/* Without the ability to log, NULL is fine and anything else -ENOTSUP. */
int vql_device_log_set(struct vql_device *v, const struct vql_dev_log *log, struct vql_error *e);
int vql_device_log_sync(struct vql_device *v);
size_t vql_device_events(struct vql_device *v, struct vql_event *ret_events, size_t n);
const char *const *vql_device_stat_names(struct vql_device *v); /* ended by NULL, never NULL */
size_t vql_device_stats(struct vql_device *v, uint16_t q, uint64_t *ret_values, size_t n);

#endif
