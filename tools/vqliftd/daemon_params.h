/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_DAEMON_PARAMS_H
#define VQLIFT_TOOLS_DAEMON_PARAMS_H

/* The section "daemon" of a configuration, turned into what the library takes. */

#include <jansson.h>

#include <vqlift/vqlift.h>

enum { VQL_DAEMON_MAX_WORKERS = 128 };

struct vql_daemon_params {
        struct vql_params params; /* log and log_arg are left to the caller */
        unsigned int cpus[VQL_DAEMON_MAX_WORKERS];
        const char **pci;
};

/*
 * `daemon` passed the check and has its defaults filled in; it is borrowed.
 * -EINVAL: more workers than CPUs, with the sentence in `ret_error`; -ENOMEM without one.
 */
int vql_daemon_params_init(struct vql_daemon_params *ret_p, const json_t *daemon, char *ret_error,
                           size_t n);
void vql_daemon_params_fini(struct vql_daemon_params *p);

/* How many workers the section asks for, 1 if that cannot be told. */
unsigned int vql_daemon_params_workers(const json_t *daemon);

/* syslog's number of a level's name in the configuration, or -1. */
int vql_log_level_from_name(const char *name);

#endif
