/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_CONTAINER_H
#define VQLIFT_VFIO_CONTAINER_H

/*
 * The inside of lib/vfio: a context, and a container, that is an address space of the IOMMU and the
 * groups in it.  A group holds one device of ours: functions of one group cannot be kept apart from
 * each other, so a second one is refused by the kernel, which opens a group once.
 */

#include <pthread.h>

#include "vfio/dma.h"
#include "vfio/table.h"
#include "vfio/vfio.h"

struct vql_vfio {
        struct vql_vfio_place place;
        /* The list of containers and which device is in which.  Taken before a container's. */
        pthread_mutex_t mutex;
        struct vql_vfio_container *containers;
};

enum vql_vfio_container_state {
        VQL_CONTAINER_BARE,  /* no group in it, and so no IOMMU */
        VQL_CONTAINER_READY, /* the kernel has what the table says */
        VQL_CONTAINER_LOST,  /* it has not, and could not be brought back */
};

struct vql_vfio_container {
        struct vql_vfio *vfio;
        struct vql_vfio_container *next;
        int fd;
        pthread_mutex_t mutex; /* over all that follows */
        enum vql_vfio_container_state state;
        struct vql_vfio_table table;
        uint64_t next_id;
        struct vql_vfio_device *devices; /* in it, by next_in_container */
};

/* The caller holds v->mutex.  -ENOENT, -EACCES, -ENOTSUP, -ENOMEM, -errno. */
int vql_vfio_container_new(struct vql_vfio *v, struct vql_vfio_container **ret_container,
                           struct vql_error *e);
/* Without devices; the caller holds v->mutex.  NULL is fine. */
void vql_vfio_container_free(struct vql_vfio_container *c);

/* Put a group in, or take it out.  The caller holds c->mutex, or nobody else knows c. */
int vql_vfio_container_attach(struct vql_vfio_container *c, int group_fd, struct vql_error *e);
void vql_vfio_container_detach(struct vql_vfio_container *c, int group_fd);

int vql_vfio_container_limits(struct vql_vfio_container *c, struct vql_vfio_limits *ret_limits,
                              struct vql_error *e);

/* One map for the kernel; nothing is noted in the table. */
int vql_vfio_container_map(struct vql_vfio_container *c, const struct vql_vfio_map *m,
                           struct vql_error *e);
/* -EIO nothing was unmapped; -ENOTRECOVERABLE only a part of it. */
int vql_vfio_container_unmap(struct vql_vfio_container *c, uint64_t iova, uint64_t len,
                             struct vql_error *e);

#endif
