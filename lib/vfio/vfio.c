/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/vfio.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "vfio/container.h"

const struct vql_vfio_place vql_vfio_host = {
        .sys = &vql_vfio_linux,
        .dev = "/dev/vfio",
        .sysfs = "/sys",
};

int vql_vfio_new(const struct vql_vfio_place *place, struct vql_vfio **ret_vfio,
                 struct vql_error *e)
{
        struct vql_vfio *v = calloc(1, sizeof(*v));

        if (!v)
                return vql_fail(e, ENOMEM, "out of memory");
        v->place = *place;
        pthread_mutex_init(&v->mutex, NULL);
        *ret_vfio = v;
        return 0;
}

void vql_vfio_free(struct vql_vfio *v)
{
        if (!v)
                return;
        pthread_mutex_destroy(&v->mutex);
        free(v);
}
