/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device has beside its queues: memory, configuration, control commands, log, news. */
#include "port/device_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "port/device_check.h"

int vql_device_dma_update(struct vql_device *v, const struct vql_device_maps *m,
                          struct vql_error *e)
{
        int err = 0;

        for (size_t i = 0; !err && i < m->n_add; i++)
                err = vql_device_check_map(&v->caps, &m->add[i], e);
        if (err < 0)
                return vql_device_refuse(v, err);
        err = vql_device_result(
                v, v->dev.driver->ops.dma_update(&v->dev, m->del, m->n_del, m->add, m->n_add, e),
                "change its maps", e);
        if (err == -ENOTRECOVERABLE)
                v->life = VQL_DEVICE_BROKEN;
        if (!err)
                v->count.map_updates++;
        return err;
}

int vql_device_cfg_read(struct vql_device *v, uint32_t offset, void *ret_bytes, uint32_t n)
{
        return vql_device_result(v, v->dev.driver->ops.cfg_read(&v->dev, offset, ret_bytes, n),
                                 "read its configuration", NULL);
}

static int issue(struct vql_device *v, const struct vql_ctrl *c, struct vql_error *e)
{
        return vql_device_result(
                v, v->dev.driver->ops.ctrl(&v->dev, c->cls, c->command, c->data, c->n, e),
                "execute a command", e);
}

int vql_device_ctrl(struct vql_device *v, const struct vql_ctrl *c, struct vql_error *e)
{
        void *copy;
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_CTRL, e);

        if (err < 0)
                return err;
        if (!vql_device_can(v, VQL_DEV_CTRL))
                return vql_device_lacks(v, "execute control commands", e);
        /* Room first: what the device has done must not be forgotten. */
        err = vql_replay_reserve(&v->replay, c, &copy);
        if (err < 0)
                return vql_fail(e, ENOMEM, "%s: out of memory", v->dev.address);
        err = issue(v, c, e);
        if (err < 0) {
                free(copy);
                return err;
        }
        vql_replay_remember(&v->replay, c, copy);
        v->count.commands++;
        return 0;
}

int vql_device_replay(struct vql_device *v, struct vql_error *e)
{
        int err = vql_device_in_turn(v, VQL_DEVICE_CALL_CTRL, e);

        for (size_t i = 0; !err && i < v->replay.n; i++) {
                const struct vql_ctrl c = vql_replay_get(&v->replay, i);

                err = issue(v, &c, e);
                if (!err)
                        v->count.replays++;
        }
        return err;
}

void vql_device_forget(struct vql_device *v)
{
        vql_replay_clear(&v->replay);
}

int vql_device_log_set(struct vql_device *v, const struct vql_dev_log *log, struct vql_error *e)
{
        if (!vql_device_can(v, VQL_DEV_LOG))
                return log ? vql_device_lacks(v, "log what it writes", e) : 0;
        return vql_device_result(v, v->dev.driver->ops.log_set(&v->dev, log, e), "log", e);
}

int vql_device_log_sync(struct vql_device *v)
{
        if (!vql_device_can(v, VQL_DEV_LOG))
                return 0;
        return vql_device_result(v, v->dev.driver->ops.log_sync(&v->dev), "finish its log", NULL);
}

static bool is_event(const struct vql_device *v, const struct vql_event *event)
{
        return event->kind <= VQL_EVENT_GONE &&
               (event->queue == VQL_NO_QUEUE || event->queue < v->caps.queues);
}

size_t vql_device_events(struct vql_device *v, struct vql_event *ret_events, size_t n)
{
        size_t found, kept = 0;

        if (!v->dev.driver->ops.events)
                return 0;
        found = v->dev.driver->ops.events(&v->dev, ret_events, n);
        if (found > n) {
                v->count.faults++;
                found = n;
        }
        for (size_t i = 0; i < found; i++) {
                if (is_event(v, &ret_events[i]))
                        ret_events[kept++] = ret_events[i];
                else
                        v->count.faults++;
        }
        v->count.events += kept;
        return kept;
}

const char *const *vql_device_stat_names(struct vql_device *v)
{
        static const char *const none[] = { NULL };

        return v->dev.driver->ops.stat_names ? v->dev.driver->ops.stat_names(&v->dev) : none;
}

size_t vql_device_stats(struct vql_device *v, uint16_t q, uint64_t *ret_values, size_t n)
{
        size_t written;

        if (!v->dev.driver->ops.stats || (q != VQL_NO_QUEUE && q >= v->caps.queues))
                return 0;
        written = v->dev.driver->ops.stats(&v->dev, q, ret_values, n);
        return written < n ? written : n;
}
