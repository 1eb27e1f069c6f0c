/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_LISTENER_H
#define VQLIFT_VHOST_USER_LISTENER_H

/* The server role of an endpoint (endpoint.h). */

#include "vhost_user/endpoint.h"

struct vql_listener;

/* `params` is borrowed until free; its path is a copy that lives as long. */
int vql_listener_new(const struct vql_endpoint_params *params, struct vql_listener **ret_listener,
                     struct vql_error *e);
/* The connection is over: take the next one. */
void vql_listener_resume(struct vql_listener *l);
void vql_listener_free(struct vql_listener *l); /* NULL is fine */

#endif
