/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRIVERS_VIRTIO_PCI_ARGS_H
#define DRIVERS_VIRTIO_PCI_ARGS_H

#include <stdint.h>

#include "base/error.h"

enum {
        VPCI_TOKEN_BYTES = 37,     /* a UUID */
        VPCI_RESET_MS_MAX = 10000, /* driver.h's limit for reset() */
        VPCI_CTRL_MS = 10000,
};

/* Device arguments, "key=value,..."; README.md says what they are for. */
struct vql_vpci_args {
        uint32_t in_order;                 /* 0 or 1 */
        uint32_t allow_no_access_platform; /* 0 or 1 */
        uint32_t reset_timeout_ms;
        uint32_t ctrl_timeout_ms;
        char vf_token[VPCI_TOKEN_BYTES]; /* "" for none */
};

/* `text` may be NULL.  -EINVAL, naming the argument and what it may be. */
int vql_vpci_args_parse(const char *text, struct vql_vpci_args *ret_args, struct vql_error *e);

#endif
