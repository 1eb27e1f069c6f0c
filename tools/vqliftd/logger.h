/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_LOGGER_H
#define VQLIFT_TOOLS_LOGGER_H

/*
 * Log lines to a file descriptor: with the priority prefixes of sd-daemon(3) where the journal
 * reads them, else with time and level for a person.  May be used from any thread.
 */

#include <stdbool.h>
#include <syslog.h>

struct vql_logger {
        int fd;
        int level;    /* lines above it are dropped */
        bool journal; /* the journal reads `fd` */
};

/* Log to standard error. */
void vql_logger_init(struct vql_logger *log, int level);

/* A vql_log_fn: `arg` is a struct vql_logger, `name` a port's or NULL. */
void vql_logger_write(void *arg, int level, const char *name, const char *line);

void vql_logger_print(const struct vql_logger *log, int level, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#endif
