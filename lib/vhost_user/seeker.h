/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_SEEKER_H
#define VQLIFT_VHOST_USER_SEEKER_H

/* The client role of an endpoint (endpoint.h). */

#include "vhost_user/endpoint.h"

struct vql_seeker;

/* `params` is borrowed until free; its path is a copy that lives as long. */
int vql_seeker_new(const struct vql_endpoint_params *params, struct vql_seeker **ret_seeker,
                   struct vql_error *e);
/* The connection is over: look for the next one. */
void vql_seeker_resume(struct vql_seeker *s);
void vql_seeker_free(struct vql_seeker *s); /* NULL is fine */

#endif
