/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PVP_CHILD_H
#define VQLIFT_BENCH_PVP_CHILD_H

/*
 * A program that runs beside us on a terminal of its own: we type, it answers.  It ends when we
 * do, however we end.
 */

#include <stddef.h>
#include <sys/types.h>

/* Where a run lives: a folder that goes with it, and what tells it to end. */
struct pvp_place {
        char dir[80];
        int stop_fd; /* signalfd of SIGINT, SIGTERM and SIGHUP */
};

/* Block those signals, make the folder.  -errno, with a line on stderr. */
int pvp_place_init(struct pvp_place *p);
void pvp_place_fini(struct pvp_place *p);
/* Until the time is over: 0, or -EINTR if we are to end. */
int pvp_place_wait(const struct pvp_place *p, double seconds);

enum { PVP_TEXT = 1 << 16, PVP_ARGS = 32 };

struct pvp_child {
        const char *name;
        const struct pvp_place *place;
        pid_t pid;
        int terminal;
        char text[PVP_TEXT]; /* what it said since the last question, the beginning dropped if it
                              * said too much */
        size_t n;
};

/* argv ends with NULL.  -errno, with a line on stderr; -ENOENT: there is no such program. */
int pvp_child_start(const struct pvp_place *place, const char *name, const char *const *argv,
                    struct pvp_child **ret_child);
/* Until it says `word`.  -EINTR we are to end; -ECHILD it ended; -ETIMEDOUT; with a line on stderr
 * and the last it said. */
int pvp_child_wait(struct pvp_child *c, const char *word);
/* Type a line and wait for `word`; what it said is in text. */
int pvp_child_ask(struct pvp_child *c, const char *line, const char *word);
/* End it: SIGTERM, and SIGKILL if that does not help.  NULL is fine. */
void pvp_child_free(struct pvp_child *c);

#endif
