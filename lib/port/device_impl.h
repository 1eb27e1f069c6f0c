/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_DEVICE_IMPL_H
#define VQLIFT_PORT_DEVICE_IMPL_H

/* What device.c (the device as a whole) and device_queue.c share; nobody else includes it. */

#include <stdatomic.h>

#include "port/device.h"

struct vql_device_slot {
        _Atomic uint8_t state; /* enum vql_device_queue; atomic: kicks come from any thread */
        struct vql_dev_ring ring;
};

struct vql_device {
        struct vql_dev dev;
        struct vql_dev_caps caps;
        enum vql_device_life life;
        uint64_t features;
        struct vql_replay replay;
        struct vql_device_counters count;
        struct vql_device_slot queue[VQL_DEV_MAX_QUEUES];
        struct vql_stop stops[VQL_DEV_MAX_QUEUES]; /* as the driver fills them */
};

enum vql_device_call {
        VQL_DEVICE_CALL_NEGOTIATE,
        VQL_DEVICE_CALL_VQ_START,
        VQL_DEVICE_CALL_VQ_STOP,
        VQL_DEVICE_CALL_START,
        VQL_DEVICE_CALL_SUSPEND,
        VQL_DEVICE_CALL_CTRL,
        VQL_DEVICE_CALL_RESET,
        VQL_DEVICE_CALLS,
};

/* -EINVAL: not in this state of the device. */
int vql_device_in_turn(struct vql_device *v, enum vql_device_call c, struct vql_error *e);
/* Count a refusal and return `err`. */
int vql_device_refuse(struct vql_device *v, int err);
/* -ENOTSUP, with the sentence. */
int vql_device_lacks(const struct vql_device *v, const char *what, struct vql_error *e);
/* A driver's result as the contract has it: a positive one is -EIO. */
int vql_device_result(struct vql_device *v, int rc, const char *what, struct vql_error *e);
/* After such an error, what the device does is anybody's guess. */
bool vql_device_is_severe(int err);
void vql_device_queue_move(struct vql_device *v, uint16_t q, enum vql_device_queue to);
/* What the driver says about a queue that it stopped.  -EIO: it stands nowhere, and is lost. */
int vql_device_stopped(struct vql_device *v, uint16_t q, const struct vql_stop *stop,
                       struct vql_error *e);

#endif
