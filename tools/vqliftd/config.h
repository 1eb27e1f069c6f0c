/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_CONFIG_H
#define VQLIFT_TOOLS_CONFIG_H

/* A configuration file: read, checked and with every default filled in, or refused with a list of
 * all that is wrong with it. */

#include <stddef.h>

#include <jansson.h>

#include "common/report.h"
#include "vqliftd/yaml_tree.h"

struct vql_config {
        struct vql_yaml yaml;
};

/* -EINVAL: `report` says why, problems in the order of the file.  -ENOMEM. */
int vql_config_parse(const char *text, size_t n, struct vql_report *report,
                     struct vql_config *ret_config);
/* The same for a file; one that cannot be read is a problem too. */
int vql_config_load(const char *path, struct vql_report *report, struct vql_config *ret_config);
void vql_config_fini(struct vql_config *c);

/* Borrowed from the configuration. */
const json_t *vql_config_daemon(const struct vql_config *c);
const json_t *vql_config_ports(const struct vql_config *c);
struct vql_place vql_config_place(const struct vql_config *c, const char *path);

#endif
