/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/timeline.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum phase { CONNECT, NEGOTIATE, FIRST_PACKET, LOG, STOP, HAND_OVER };

static const char *const names[VQL_PHASES] = {
        [CONNECT] = "connect", [NEGOTIATE] = "negotiate", [FIRST_PACKET] = "first-packet",
        [LOG] = "log",         [STOP] = "stop",           [HAND_OVER] = "hand-over",
};

uint64_t vql_timeline_clock(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static struct vql_timeline_session *current(struct vql_timeline *t)
{
        return &t->session[(t->connections - 1) % VQL_TIMELINE_SESSIONS];
}

static bool goes_on(const struct vql_span *s)
{
        return s->count > 0 && s->end == 0;
}

static void begin(struct vql_span *s, uint64_t at)
{
        *s = (struct vql_span){ .count = s->count + 1, .begin = at };
}

/* Clocks of two CPUs may be a microsecond apart. */
static void end(struct vql_span *s, uint64_t at)
{
        if (goes_on(s))
                s->end = at > s->begin ? at : s->begin;
}

void vql_timeline_begin(struct vql_timeline *t, uint64_t now, int64_t wall)
{
        struct vql_timeline_session *s;

        t->connections++;
        s = current(t);
        *s = (struct vql_timeline_session){
                .connection = t->connections,
                .begin = now,
                .wall = wall,
        };
        begin(&s->span[CONNECT], now);
}

static void look_at_rings(struct vql_timeline_session *s, const struct vql_timeline_look *l)
{
        struct vql_span *const stop = &s->span[STOP];

        if (l->running > s->running) {
                end(&s->span[NEGOTIATE], l->now);
                end(&s->span[HAND_OVER], l->now);
                if (s->span[FIRST_PACKET].count == 0)
                        begin(&s->span[FIRST_PACKET], l->now);
                /* Not all of them stopped: that was something else. */
                if (goes_on(stop))
                        *stop = (struct vql_span){ .count = stop->count - 1 };
        }
        if (l->running < s->running && !goes_on(stop))
                begin(stop, l->before);
        if (l->running == 0 && s->running > 0) {
                end(stop, l->now);
                begin(&s->span[HAND_OVER], l->now);
        }
        s->running = l->running;
}

void vql_timeline_look(struct vql_timeline *t, const struct vql_timeline_look *l)
{
        struct vql_timeline_session *s = current(t);

        if (l->first_message && s->span[NEGOTIATE].count == 0) {
                end(&s->span[CONNECT], l->first_message);
                begin(&s->span[NEGOTIATE], l->first_message);
        }
        if (l->logging && !goes_on(&s->span[LOG]))
                begin(&s->span[LOG], l->before);
        if (!l->logging)
                end(&s->span[LOG], l->now);
        look_at_rings(s, l);
}

void vql_timeline_packet(struct vql_timeline *t, uint64_t first_packet)
{
        if (first_packet)
                end(&current(t)->span[FIRST_PACKET], first_packet);
}

void vql_timeline_end(struct vql_timeline *t, uint64_t now, const char *reason)
{
        struct vql_timeline_session *s = current(t);

        /* What it was on the way to it did not come to: that stays without an end. */
        end(&s->span[LOG], now);
        end(&s->span[STOP], now);
        end(&s->span[HAND_OVER], now);
        s->end = now > s->begin ? now : s->begin;
        snprintf(s->reason, sizeof(s->reason), "%s", reason);
}

bool vql_timeline_get(const struct vql_timeline *t, unsigned int i,
                      struct vql_session_info *ret_info)
{
        const struct vql_timeline_session *s;

        if (i >= VQL_TIMELINE_SESSIONS || i >= t->connections)
                return false;
        s = &t->session[(t->connections - 1 - i) % VQL_TIMELINE_SESSIONS];
        *ret_info = (struct vql_session_info){
                .connection = s->connection,
                .began_us = s->wall,
                .lasted_us = s->end ? (int64_t)(s->end - s->begin) : -1,
        };
        memcpy(ret_info->reason, s->reason, sizeof(ret_info->reason));
        for (unsigned int p = 0; p < VQL_PHASES; p++) {
                const struct vql_span *span = &s->span[p];
                struct vql_phase_info *info = &ret_info->phase[p];

                snprintf(info->name, sizeof(info->name), "%s", names[p]);
                info->count = span->count;
                info->at_us = span->count ? (int64_t)(span->begin - s->begin) : -1;
                info->took_us = span->end ? (int64_t)(span->end - span->begin) : -1;
        }
        return true;
}
