/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_RELOAD_H
#define VQLIFT_TOOLS_RELOAD_H

#include "vqliftd/config.h"
#include "vqliftd/portset.h"

/* vql_config_load() with its problems logged. */
int vql_config_load_logged(const char *path, const struct vql_logger *log,
                           struct vql_config *ret_config);

/*
 * Read the file again and make its ports so.  A file with problems changes nothing; `running`, the
 * section daemon as at start, cannot change any more, and it is logged if the file disagrees.
 */
void vql_reload(const char *path, const json_t *running, struct vql_portset *ports,
                const struct vql_logger *log);

#endif
