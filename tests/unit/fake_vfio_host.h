/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_FAKE_VFIO_HOST_H
#define TESTS_UNIT_FAKE_VFIO_HOST_H

/* Between the parts of the fake. */

#include "fake_vfio.h"

/* The kernel's answers to ioctls, by what the file is. */
int fake_vfio_container_ioctl(struct fake_vfio *f, int index, unsigned long request, void *p);
int fake_vfio_group_ioctl(struct fake_vfio *f, struct fake_vfio_device *d, unsigned long request,
                          void *p);
int fake_vfio_device_ioctl(struct fake_vfio_device *d, unsigned long request, void *p);
void fake_vfio_leave(struct fake_vfio *f, struct fake_vfio_device *d);
void fake_vfio_wrong(struct fake_vfio *f, const char *what);

/* Numbers that no real descriptor has. */
enum {
        FAKE_FD_CONTAINER = 1000000,
        FAKE_FD_GROUP = 2000000,
        FAKE_FD_DEVICE = 3000000,
        FAKE_FD_SPAN = 1000000,
};

#endif
