/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_PORT_TIMELINE_H
#define VQLIFT_PORT_TIMELINE_H

/*
 * When the last sessions of a port came to what, and how long it took.  Times are microseconds of
 * the monotonic clock; they are read where the control thread changes something, never in a burst.
 */

#include <stdbool.h>
#include <stdint.h>

#include "vqlift/vqlift.h"

struct vql_span {
        unsigned int count;  /* how often it has begun; 0: never */
        uint64_t begin, end; /* of the last time; end 0: it goes on */
};

struct vql_timeline_session {
        uint64_t connection; /* counted from 1 */
        uint64_t begin, end; /* end 0: it goes on */
        int64_t wall;        /* its begin, since 1970 */
        char reason[VQL_TEXT_BYTES];
        struct vql_span span[VQL_PHASES];
        unsigned int running; /* rings at the last look */
};

struct vql_timeline {
        uint64_t connections; /* so far; the last ones are in `session` */
        struct vql_timeline_session session[VQL_TIMELINE_SESSIONS];
};

/* What there is to see after a change that took from `before` to `now`. */
struct vql_timeline_look {
        uint64_t before, now;
        uint64_t first_message; /* 0: none yet */
        unsigned int running;   /* rings */
        bool logging;
};

uint64_t vql_timeline_clock(void);

void vql_timeline_begin(struct vql_timeline *t, uint64_t now, int64_t wall);
/* Only between begin and end. */
void vql_timeline_look(struct vql_timeline *t, const struct vql_timeline_look *look);
/* `first_packet`: when it was, or 0 if there was none yet.  May be told again and again. */
void vql_timeline_packet(struct vql_timeline *t, uint64_t first_packet);
void vql_timeline_end(struct vql_timeline *t, uint64_t now, const char *reason);

/* Session i, 0 is the newest; false past the oldest that is kept. */
bool vql_timeline_get(const struct vql_timeline *t, unsigned int i,
                      struct vql_session_info *ret_info);

#endif
