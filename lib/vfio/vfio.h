/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_VFIO_H
#define VQLIFT_VFIO_VFIO_H

/*
 * VFIO for one context: which groups are open, and which containers (address spaces of an IOMMU)
 * they are in.  It is what all devices of a context share, and its locks make calls for different
 * devices free to come from different threads.  The kernel's group interface, type 1 IOMMU,
 * linux/vfio.h; never without an IOMMU.
 */

#include "base/error.h"
#include "base/log.h"
#include "vfio/sys.h"

/* Where the host's files are; all strings are borrowed for good. */
struct vql_vfio_place {
        const struct vql_vfio_sys *sys; /* &vql_vfio_linux */
        const char *dev;                /* "/dev/vfio" */
        const char *sysfs;              /* "/sys" */
        const struct vql_log *log;      /* or NULL */
};

extern const struct vql_vfio_place vql_vfio_host; /* this host, without log */

struct vql_vfio;

/* Opens nothing yet.  -ENOMEM. */
int vql_vfio_new(const struct vql_vfio_place *place, struct vql_vfio **ret_vfio,
                 struct vql_error *e);
/* After all its devices were closed; NULL is fine. */
void vql_vfio_free(struct vql_vfio *v);

#endif
