/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VFIO_REGION_H
#define VQLIFT_VFIO_REGION_H

/*
 * Registers of a device: a BAR, or the configuration space.  What the kernel lets us map is
 * accessed through the mapping, everything else by pread and pwrite; both are one access of
 * natural width, little-endian on the bus and of the CPU's order here.
 *
 * An offset that is not a multiple of the width, or not inside the region, reads as ones and is not
 * written: offsets come from the device and must be checked where they are read, this is the net.
 *
 * Threads: any, also at the same time.  A write is not ordered after earlier stores to memory: a
 * doorbell needs its barrier in front (virtio 1.2, 2.7.13.3).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vql_vfio_region;

uint8_t vql_vfio_read8(struct vql_vfio_region *r, uint64_t at);
uint16_t vql_vfio_read16(struct vql_vfio_region *r, uint64_t at);
uint32_t vql_vfio_read32(struct vql_vfio_region *r, uint64_t at);
void vql_vfio_write8(struct vql_vfio_region *r, uint64_t at, uint8_t value);
void vql_vfio_write16(struct vql_vfio_region *r, uint64_t at, uint16_t value);
void vql_vfio_write32(struct vql_vfio_region *r, uint64_t at, uint32_t value);

uint64_t vql_vfio_region_size(const struct vql_vfio_region *r);
/* Where the region's first byte is in the device's file, for mmap(). */
uint64_t vql_vfio_region_offset(const struct vql_vfio_region *r);
/* Are the bytes [at, at + len) mapped here, so that another process can map them, too? */
bool vql_vfio_region_mapped(const struct vql_vfio_region *r, uint64_t at, uint64_t len);

#endif
