/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "drivers/sim/sim_impl.h"

static bool is_pending(const struct sim *s, const struct vql_event *event)
{
        for (size_t i = 0; i < s->n_events; i++)
                if (s->event[i].kind == event->kind && s->event[i].queue == event->queue)
                        return true;
        return false;
}

/* News that nobody has fetched yet need no repetition. */
void vql_sim_event_raise(struct sim *s, enum vql_event_kind kind, uint16_t queue)
{
        const struct vql_event event = { kind, queue };
        const uint64_t one = 1;

        if (is_pending(s, &event) || s->n_events == VQL_DEV_MAX_EVENTS)
                return;
        s->event[s->n_events++] = event;
        /* An eventfd that is full is readable, too. */
        if (write(s->dev->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
                s->n_events--;
}

size_t vql_sim_events(struct vql_dev *d, struct vql_event *ret_events, size_t n)
{
        struct sim *s = d->priv;
        uint64_t count;

        vql_sim_lock(s);
        if (n >= s->n_events) {
                n = s->n_events;
                if (read(d->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
                        n = 0;
        }
        memcpy(ret_events, s->event, n * sizeof(*ret_events));
        s->n_events -= n;
        memmove(s->event, s->event + n, s->n_events * sizeof(*ret_events));
        vql_sim_unlock(s);
        return n;
}

/* Nothing moves any more; a device that is gone does not come back. */
void vql_sim_turn_bad(struct sim *s, enum sim_health health)
{
        if (s->health >= health)
                return;
        s->health = health;
        vql_sim_event_raise(s, health == SIM_GONE ? VQL_EVENT_GONE : VQL_EVENT_BROKEN,
                            VQL_NO_QUEUE);
}

int vql_sim_check_health(const struct sim *s, struct vql_error *e)
{
        if (s->health == SIM_GONE)
                return vql_fail(e, ENODEV, "%s: the device is gone", s->dev->address);
        if (s->health == SIM_BROKEN)
                return vql_fail(e, EIO, "%s: the device needs a reset", s->dev->address);
        return 0;
}
