/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_KEEPER_H
#define VQLIFT_TOOLS_KEEPER_H

/*
 * The keeper of two daemons ("standby: yes"): one serves, the other has its packet memory and
 * workers ready and takes over the moment the first one ends, however it does.
 *
 *      starting -READY-> ready -GO-> going -SERVES-> serving -ENDED or exit-> none
 *
 * SIGTERM and SIGINT end both.  SIGHUP is passed on.  SIGUSR2 starts the program file anew as the
 * standby and hands over to it.
 */

#include "vqliftd/daemon.h"

/* Runs until a signal ends it: 0.  -errno: the first daemon could not start, or one after the other
 * fails; logged. */
int vql_keeper_run(const struct vql_daemon_options *options, int log_level);

#endif
