/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_DEVICE_IMPL_H
#define VQLIFT_VFIO_DEVICE_IMPL_H

/* The inside of a device and of its regions. */

#include <stdatomic.h>

#include <linux/vfio.h>

#include "memory/sigbus.h"
#include "vfio/container.h"
#include "vfio/device.h"
#include "vfio/sysfs.h"

enum { VQL_VFIO_REGION_WINDOWS = 8 };

/* A part of a region that is mapped: whole pages. */
struct vql_vfio_window {
        uint64_t at, len;
        uint8_t *va;
        struct vql_sigbus_range *guard;
};

struct vql_vfio_region {
        struct vql_vfio_device *device;
        uint64_t size, offset;
        size_t n_windows;
        struct vql_vfio_window windows[VQL_VFIO_REGION_WINDOWS];
};

struct vql_vfio_device {
        struct vql_vfio *vfio;
        struct vql_vfio_container *container;
        struct vql_vfio_device *next_in_container;
        char address[VQL_PCI_ADDRESS_BYTES];
        char *vf_token; /* or NULL */
        int group;
        int group_fd, fd;
        uint32_t flags; /* VFIO_DEVICE_FLAGS_... */
        int gone_fd;
        atomic_bool gone;
        uint32_t irqs[VFIO_PCI_NUM_IRQS]; /* vectors that are enabled */
        struct vql_vfio_region *regions[VFIO_PCI_NUM_REGIONS];
        struct vql_vfio_table maps; /* what it added; under container->mutex */
};

int vql_vfio_device_ioctl(const struct vql_vfio_device *d, unsigned long request, void *p);

/* The device's file from a group that is in a container, and what the kernel says of it. */
int vql_vfio_device_enter(struct vql_vfio_device *d, struct vql_error *e);
/* Regions unmapped and the file closed, so that the kernel resets the function; regions remain as
 * objects that vql_vfio_device_enter() opens again. */
void vql_vfio_device_leave(struct vql_vfio_device *d);

/* Who is in which container. */
void vql_vfio_device_link(struct vql_vfio_device *d, struct vql_vfio_container *c);
void vql_vfio_device_unlink(struct vql_vfio_device *d);

/* Learn where the region is and map of it what can be mapped. */
int vql_vfio_region_open(struct vql_vfio_region *r, uint32_t index, struct vql_error *e);
void vql_vfio_region_close(struct vql_vfio_region *r);

/* Take all maps of the device out of its container. */
void vql_vfio_dma_clear(struct vql_vfio_device *d);

#endif
