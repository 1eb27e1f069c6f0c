/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "vhost_user/listener.h"
#include "vhost_user/seeker.h"

struct vql_endpoint {
        struct vql_endpoint_params p;
        char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
        struct vql_listener *listener; /* server */
        struct vql_seeker *seeker;     /* client */
};

static int check_path(const char *path, struct vql_error *e)
{
        const size_t max = sizeof(((struct vql_endpoint *)NULL)->path) - 1;
        size_t len = strlen(path);

        if (len > max)
                return vql_fail(e, ENAMETOOLONG, "%s: %zu bytes, expected at most %zu", path, len,
                                max);
        if (len == 0 || path[len - 1] == '/')
                return vql_fail(e, EINVAL, "\"%s\" is not the path of a socket", path);
        return 0;
}

int vql_endpoint_new(const struct vql_endpoint_params *params, struct vql_endpoint **ret_endpoint,
                     struct vql_error *e)
{
        struct vql_endpoint *ep;
        int err = check_path(params->path, e);

        if (err < 0)
                return err;
        ep = calloc(1, sizeof(*ep));
        if (!ep)
                return vql_fail(e, ENOMEM, "%s: out of memory", params->path);
        ep->p = *params;
        ep->p.path = memcpy(ep->path, params->path, strlen(params->path) + 1);
        sd_event_ref(ep->p.loop);
        if (params->role == VQL_ROLE_SERVER)
                err = vql_listener_new(&ep->p, &ep->listener, e);
        else
                err = vql_seeker_new(&ep->p, &ep->seeker, e);
        if (err < 0) {
                vql_endpoint_free(ep);
                return err;
        }
        *ret_endpoint = ep;
        return 0;
}

void vql_endpoint_resume(struct vql_endpoint *ep)
{
        if (ep->listener)
                vql_listener_resume(ep->listener);
        else
                vql_seeker_resume(ep->seeker);
}

void vql_endpoint_free(struct vql_endpoint *ep)
{
        if (!ep)
                return;
        vql_listener_free(ep->listener);
        vql_seeker_free(ep->seeker);
        sd_event_unref(ep->p.loop);
        free(ep);
}
