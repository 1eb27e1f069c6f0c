/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BASE_LOG_H
#define VQLIFT_BASE_LOG_H

/*
 * Logging hangs off an object, never off a global: whoever creates a context supplies the sink,
 * and each port logs under its own name.  The layer that gives up on something logs it, once;
 * layers below return an error and fill a struct vql_error.
 */

#include <syslog.h> /* LOG_ERR ... LOG_DEBUG are the levels */

struct vql_log {
        /* Receives one finished line without newline.  Called from any thread. */
        void (*write)(void *arg, int level, const char *name, const char *line);
        void *arg;
        const char *name; /* prefix: a port's name, or NULL */
        int level;        /* lines above this level are dropped */
};

/* Format one line and hand it to the sink.  `log` may be NULL: then nothing happens. */
void vql_log(const struct vql_log *log, int level, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#endif
