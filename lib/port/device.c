/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "port/device_check.h"
#include "port/device_impl.h"
#include "virtqueue/features.h"

static const char *const life_names[VQL_DEVICE_LIVES] = { "closed",  "reset", "ready",
                                                          "running", "held",  "broken" };
static const char *const queue_names[VQL_DEVICE_QUEUE_STATES] = { "fresh", "started", "running",
                                                                  "stopped", "lost" };

/* When a call may be made, and where it leads.  What is not here may be called at any time. */
#define IN(life) (1u << VQL_DEVICE_##life)

static const struct {
        const char *name;
        unsigned int when;
        enum vql_device_life then; /* CLOSED: it leads nowhere */
} calls[VQL_DEVICE_CALLS] = {
        [VQL_DEVICE_CALL_NEGOTIATE] = { "negotiate", IN(RESET), VQL_DEVICE_READY },
        [VQL_DEVICE_CALL_VQ_START] = { "start a queue", IN(READY) | IN(RUN) | IN(HELD), 0 },
        [VQL_DEVICE_CALL_VQ_STOP] = { "stop a queue", IN(RUN), 0 },
        [VQL_DEVICE_CALL_START] = { "start", IN(READY) | IN(HELD), VQL_DEVICE_RUN },
        [VQL_DEVICE_CALL_SUSPEND] = { "suspend", IN(RUN), VQL_DEVICE_HELD },
        [VQL_DEVICE_CALL_CTRL] = { "execute a command", IN(RUN), 0 },
        [VQL_DEVICE_CALL_RESET] = { "reset",
                                    IN(RESET) | IN(READY) | IN(RUN) | IN(HELD) | IN(BROKEN),
                                    VQL_DEVICE_RESET },
};

int vql_device_in_turn(struct vql_device *v, enum vql_device_call c, struct vql_error *e)
{
        if (vql_has(calls[c].when, v->life))
                return 0;
        v->count.refused++;
        return vql_fail(e, EINVAL, "%s: the device cannot %s while it is %s", v->dev.address,
                        calls[c].name, life_names[v->life]);
}

int vql_device_refuse(struct vql_device *v, int err)
{
        v->count.refused++;
        return err;
}

int vql_device_lacks(const struct vql_device *v, const char *what, struct vql_error *e)
{
        return vql_fail(e, ENOTSUP, "%s: the device cannot %s", v->dev.address, what);
}

int vql_device_result(struct vql_device *v, int rc, const char *what, struct vql_error *e)
{
        if (rc <= 0)
                return rc;
        v->count.faults++;
        return vql_fail(e, EIO, "%s: the driver %s answered %d to %s, expected 0 or an error",
                        v->dev.address, v->dev.driver->name, rc, what);
}

bool vql_device_is_severe(int err)
{
        return err == -EIO || err == -ENODEV || err == -ETIMEDOUT || err == -ENOTRECOVERABLE;
}

/* The end of a call that leads to another state. */
static int finish(struct vql_device *v, enum vql_device_call c, int rc, struct vql_error *e)
{
        const int err = vql_device_result(v, rc, calls[c].name, e);

        if (vql_device_is_severe(err))
                v->life = VQL_DEVICE_BROKEN;
        else if (!err)
                v->life = calls[c].then;
        return err;
}

void vql_device_queue_move(struct vql_device *v, uint16_t q, enum vql_device_queue to)
{
        atomic_store_explicit(&v->queue[q].state, (uint8_t)to, memory_order_release);
}

static void queues_move(struct vql_device *v, enum vql_device_queue from, enum vql_device_queue to)
{
        for (uint16_t q = 0; q < v->caps.queues; q++)
                if (vql_device_queue(v, q) == from)
                        vql_device_queue_move(v, q, to);
}

int vql_device_open(const struct vql_driver *driver, const char *address, const char *args,
                    const struct vql_device_env *env, struct vql_device **ret_device,
                    struct vql_error *e)
{
        const struct vql_device_env lent = env ? *env : (struct vql_device_env){ NULL, NULL };
        struct vql_device *v = calloc(1, sizeof(*v));
        int err;

        if (!v)
                return vql_fail(e, ENOMEM, "%s: out of memory", address);
        v->dev = (struct vql_dev){
                .driver = driver, .log = lent.log, .vfio = lent.vfio, .event_fd = -1
        };
        err = snprintf(v->dev.address, sizeof(v->dev.address), "%s", address);
        if (err < 0 || (size_t)err >= sizeof(v->dev.address)) {
                err = vql_fail(e, EINVAL, "device address of %zu bytes, expected fewer than %zu",
                               strlen(address), sizeof(v->dev.address));
                goto fail;
        }
        err = vql_device_result(v, driver->ops.open(&v->dev, args, e), "open", e);
        if (err < 0)
                goto fail;
        v->life = VQL_DEVICE_RESET;
        driver->ops.caps(&v->dev, &v->caps);
        err = vql_device_check_caps(driver, &v->caps, e);
        if (err < 0)
                goto fail;
        *ret_device = v;
        return 0;

fail:
        vql_device_close(v);
        return err;
}

void vql_device_close(struct vql_device *v)
{
        if (!v)
                return;
        if (v->life != VQL_DEVICE_CLOSED)
                v->dev.driver->ops.close(&v->dev);
        vql_replay_clear(&v->replay);
        free(v);
}

struct vql_dev *vql_device_dev(struct vql_device *v)
{
        return &v->dev;
}

const struct vql_driver *vql_device_driver(const struct vql_device *v)
{
        return v->dev.driver;
}

const char *vql_device_address(const struct vql_device *v)
{
        return v->dev.address;
}

const struct vql_dev_caps *vql_device_caps(const struct vql_device *v)
{
        return &v->caps;
}

bool vql_device_can(const struct vql_device *v, enum vql_dev_flag flag)
{
        return v->caps.flags & flag;
}

int vql_device_event_fd(const struct vql_device *v)
{
        return v->dev.event_fd;
}

enum vql_device_life vql_device_life(const struct vql_device *v)
{
        return v->life;
}

const char *vql_device_life_name(enum vql_device_life l)
{
        return life_names[l];
}

enum vql_device_queue vql_device_queue(const struct vql_device *v, uint16_t q)
{
        return atomic_load_explicit(&v->queue[q].state, memory_order_acquire);
}

const char *vql_device_queue_name(enum vql_device_queue s)
{
        return queue_names[s];
}

uint64_t vql_device_features(const struct vql_device *v)
{
        return v->features;
}

const struct vql_device_counters *vql_device_counters(const struct vql_device *v)
{
        return &v->count;
}

int vql_device_reset(struct vql_device *v, struct vql_error *e)
{
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_RESET, e);

        if (err < 0)
                return err;
        err = finish(v, VQL_DEVICE_CALL_RESET, v->dev.driver->ops.reset(&v->dev, e), e);
        if (err < 0) {
                v->life = VQL_DEVICE_BROKEN;
                return err;
        }
        for (uint16_t q = 0; q < v->caps.queues; q++)
                vql_device_queue_move(v, q, VQL_DEVICE_QUEUE_FRESH);
        v->features = 0;
        v->count.resets++;
        return 0;
}

int vql_device_negotiate(struct vql_device *v, uint64_t features, struct vql_error *e)
{
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_NEGOTIATE, e);

        if (err < 0)
                return err;
        if (features & ~v->caps.features)
                return vql_device_refuse(v, vql_fail(e, EINVAL,
                                                     "%s: features %#llx, the device has %#llx",
                                                     v->dev.address, (unsigned long long)features,
                                                     (unsigned long long)v->caps.features));
        err = finish(v, VQL_DEVICE_CALL_NEGOTIATE,
                     v->dev.driver->ops.negotiate(&v->dev, features, e), e);
        if (!err)
                v->features = features;
        return err;
}

int vql_device_start(struct vql_device *v, struct vql_error *e)
{
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_START, e);

        if (err < 0)
                return err;
        err = finish(v, VQL_DEVICE_CALL_START, v->dev.driver->ops.start(&v->dev, e), e);
        if (!err)
                queues_move(v, VQL_DEVICE_QUEUE_STARTED, VQL_DEVICE_QUEUE_RUNNING);
        return err;
}

static void count_stop(struct vql_device *v, enum vql_stop_quality quality)
{
        if (quality == VQL_STOP_EXACT)
                v->count.stops_exact++;
        else if (quality == VQL_STOP_REPEAT)
                v->count.stops_repeat++;
        else
                v->count.stops_unknown++;
}

int vql_device_stopped(struct vql_device *v, uint16_t q, const struct vql_stop *stop,
                       struct vql_error *e)
{
        int err = vql_device_check_stop(&v->queue[q].ring, stop, e);

        if (err < 0) {
                v->count.faults++;
                v->count.stops_failed++;
                vql_device_queue_move(v, q, VQL_DEVICE_QUEUE_LOST);
                return err;
        }
        count_stop(v, stop->quality);
        vql_device_queue_move(v, q, VQL_DEVICE_QUEUE_STOPPED);
        return 0;
}

/* Each queue that ran has to be among those that were stopped, and no other. */
static int check_suspended(struct vql_device *v, uint16_t q, struct vql_error *e)
{
        const bool ran = vql_device_queue(v, q) == VQL_DEVICE_QUEUE_RUNNING;

        if (v->stops[q].stopped == ran)
                return ran ? vql_device_stopped(v, q, &v->stops[q], e) : 0;
        v->count.faults++;
        if (ran)
                vql_device_queue_move(v, q, VQL_DEVICE_QUEUE_LOST);
        return vql_fail(e, EIO, "%s: queue %u %s, the driver %s says otherwise", v->dev.address, q,
                        ran ? "ran and was to be stopped" : "did not run", v->dev.driver->name);
}

int vql_device_suspend(struct vql_device *v, uint32_t timeout_ms, struct vql_stop *ret_stops,
                       struct vql_error *e)
{
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_SUSPEND, e);

        if (err < 0)
                return err;
        memset(v->stops, 0, sizeof(v->stops));
        err = finish(v, VQL_DEVICE_CALL_SUSPEND,
                     v->dev.driver->ops.suspend(&v->dev, timeout_ms, v->stops, e), e);
        for (uint16_t q = 0; !err && q < v->caps.queues; q++)
                err = check_suspended(v, q, e);
        if (vql_device_is_severe(err)) {
                queues_move(v, VQL_DEVICE_QUEUE_RUNNING, VQL_DEVICE_QUEUE_LOST);
                v->life = VQL_DEVICE_BROKEN;
        }
        if (err < 0)
                return err;
        v->count.suspends++;
        memcpy(ret_stops, v->stops, v->caps.queues * sizeof(*ret_stops));
        return 0;
}
