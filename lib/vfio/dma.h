/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_DMA_H
#define VQLIFT_VFIO_DMA_H

/*
 * What a device can reach: maps from IOVAs to memory of this process.
 *
 * Devices of one guest share a container, and with it the maps of the guest's memory, which is
 * pinned and counted against RLIMIT_MEMLOCK once for all of them.  A guest is recognised by its
 * memory files: see vql_vfio_dma_settle().  In a shared container a map lives until every device
 * that has added it has deleted it, and an IOVA has one meaning: the devices' private memory
 * (rings of the relay) must lie at different ones.  Guest memory is what is mapped shared from a
 * file; private memory must be anonymous.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "vfio/device.h"

struct vql_vfio_map {
        uint64_t iova, len;
        void *va;
        bool writable; /* by the device */
};

enum { VQL_VFIO_MAX_RANGES = 16 };

struct vql_vfio_limits {
        uint64_t page_size; /* IOVAs, lengths and addresses are multiples of it */
        uint32_t entries;   /* maps that may exist at a time in all */
        uint32_t available; /* of them, not used yet */
        uint16_t n_ranges;
        struct {
                uint64_t first, last;  /* both inclusive */
        } ranges[VQL_VFIO_MAX_RANGES]; /* of valid IOVAs, ascending */
};

int vql_vfio_dma_limits(struct vql_vfio_device *d, struct vql_vfio_limits *ret_limits,
                        struct vql_error *e);

/*
 * Replace maps: all of `del`, each equal to one that this device added, go, and all of `add` come;
 * nothing else is touched for a moment.  Memory is pinned meanwhile, which takes up to seconds per
 * TiB with huge pages, and per 10 GiB without.  Maps that lie side by side in both address spaces
 * become one where the kernel has not enough entries otherwise.
 *
 * On an error nothing has changed, except after -ENOTRECOVERABLE: the kernel did less than it was
 * asked and cannot be brought back; only closing the device helps then.
 *
 * -EXDEV the device shares its container with others whose guest this memory is not of, or is the
 * first of a new guest: delete what the device has of the old one, vql_vfio_dma_settle() to move it
 * out, and add then.
 * -EINVAL empty, not aligned, wraps, or `del` is not a map of this device; -ERANGE outside the
 * valid IOVAs, with these named; -EEXIST overlap, with both named; -ENOSPC no entries left, with
 * the number; -ENOMEM RLIMIT_MEMLOCK, with the number, or out of memory; -EFAULT memory that is not
 * there or may not be pinned; -errno of the kernel.
 */
int vql_vfio_dma_update(struct vql_vfio_device *d, const struct vql_vfio_map *del, size_t n_del,
                        const struct vql_vfio_map *add, size_t n_add, struct vql_error *e);

/*
 * Go and live with the other devices of the same guest: if another container maps the same parts of
 * the same files at the same IOVAs, no more and no less, move the device there.  To be called when
 * the guest's memory is known and before anything is set up in the device, with its interrupts
 * disabled.  Less than all would not do: whoever shares one file with a guest, but not all, is not
 * that guest, and must not reach the rest.  A device that has none of the guest's memory any more
 * moves out.
 *
 * 0 the device stays where it is, also if the host cannot do it; 1 it has moved: it is as after
 * open, its fd is another, regions (the same objects) and maps are in force.
 * -EBUSY interrupts are enabled; -ENOMEM, -errno it should move out and there is no container to be
 * had: nothing has changed.  -ENODEV it was lost on the way: close it.
 */
int vql_vfio_dma_settle(struct vql_vfio_device *d, struct vql_error *e);

#endif
