/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_CONFORMANCE_CHECKS_H
#define FUNC_CONFORMANCE_CHECKS_H

/* The checks, in lists that end with a name of NULL.  Each gets an open device in state RESET. */

struct rig;

struct conf_check {
        const char *name;
        void (*check)(struct rig *r);
};

extern const struct conf_check conf_memory_checks[]; /* conformance_memory.c: maps and log */
extern const struct conf_check conf_event_checks[];  /* conformance_events.c: news, control */

#endif
