/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <unistd.h>

#include "conformance_rig.h"

static bool is_same(const struct vql_position *a, const struct vql_position *b)
{
        return a->avail == b->avail && a->used == b->used && a->avail_wrap == b->avail_wrap &&
               a->used_wrap == b->used_wrap;
}

void conf_check_stop(struct conf_line *l, const struct vql_stop *s)
{
        const struct vql_position right = conf_position(l);
        const bool in_order = vql_device_can(l->rig->dev, VQL_DEV_IN_ORDER);
        const bool orderly = vql_device_can(l->rig->dev, VQL_DEV_ORDERLY);

        conf_require(l->rig, s->stopped, "queue %u ran and was not stopped", l->index);
        conf_require(l->rig, is_same(&s->at, &right),
                     "queue %u stopped at %u (%u), its ring says %u (%u)", l->index, s->at.used,
                     s->at.used_wrap, right.used, right.used_wrap);
        conf_require(l->rig, !in_order || s->quality != VQL_STOP_UNKNOWN,
                     "a device that works in order does not know where it is");
        conf_require(l->rig, !orderly || s->quality != VQL_STOP_REPEAT,
                     "an orderly stop may repeat a packet");
        if (s->quality == VQL_STOP_REPEAT)
                l->rig->repeated = true;
}

void conf_stop(struct rig *r, struct vql_stop ret_stops[2])
{
        struct vql_stop all[VQL_DEV_MAX_QUEUES];
        struct vql_error e = { "" };
        const bool live = vql_device_can(r->dev, VQL_DEV_LIVE) && conf_random(r, 2);

        if (!live)
                conf_require(r, vql_device_suspend(r->dev, (uint32_t)r->patience_ms, all, &e) == 0,
                             "suspend: %s", e.text);
        for (uint16_t i = 0; i < 2; i++) {
                if (live)
                        conf_require(r,
                                     vql_device_vq_stop(r->dev, i, (uint32_t)r->patience_ms,
                                                        &all[i], &e) == 0,
                                     "queue %u: stop: %s", i, e.text);
                conf_check_stop(&r->line[i], &all[i]);
                ret_stops[i] = all[i];
        }
}

/* What was on the ring is lost with it; what had left it already still arrives. */
static void start_anew(struct conf_line *l)
{
        if (l->index == CONF_TX) {
                while (l->offered != l->arrived && conf_wire_take(l->rig, l->rig->quiet_ms))
                        ;
                l->offered = l->arrived;
                l->rig->repeated = false;
        }
        fe_driver_restart(l->d);
        for (int i = 0; i < CONF_BUFFERS; i++)
                l->buffer[i].busy = false;
}

void conf_resume(struct rig *r, const struct vql_stop stops[2])
{
        for (uint16_t i = 0; i < 2; i++)
                if (!vql_device_can(r->dev, VQL_DEV_SEEK) || stops[i].quality == VQL_STOP_UNKNOWN)
                        start_anew(&r->line[i]);
        conf_start(r);
}

void conf_resume_after_reset(struct rig *r)
{
        const struct vql_stop stop = {
                .stopped = true,
                .quality = vql_device_can(r->dev, VQL_DEV_IN_ORDER) ? VQL_STOP_EXACT
                                                                    : VQL_STOP_UNKNOWN,
        };

        conf_resume(r, (struct vql_stop[2]){ stop, stop });
}

static uint64_t take_calls(const struct conf_line *l)
{
        uint64_t n;

        return read(l->call_fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

void conf_expect_quiet(struct rig *r)
{
        struct pollfd p[2];

        for (int i = 0; i < 2; i++) {
                struct conf_line *l = &r->line[i];

                conf_reap(l);
                fe_driver_calls_on(l->d, 0);
                take_calls(l);
                conf_offer(l, 4);
                r->t->driver->ops.vq_kick(vql_device_dev(r->dev), l->index);
                p[i] = (struct pollfd){ .fd = l->call_fd, .events = POLLIN };
        }
        if (!r->t->lossy)
                conf_wire_put(r);
        conf_require(r, poll(p, 2, r->quiet_ms) == 0, "an interrupt of a queue that does not run");
        for (int i = 0; i < 2; i++)
                conf_require(r, !fe_driver_pending(r->line[i].d),
                             "queue %d does not run and returned a buffer", i);
}
