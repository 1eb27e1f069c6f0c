/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VIRTQUEUE_RING_H
#define VQLIFT_VIRTQUEUE_RING_H

/*
 * The three areas of a ring, split and packed: names, sizes, alignments (virtio 1.2, 2.7 and 2.8).
 * The structs themselves come from <linux/virtio_ring.h>.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_ring.h>

enum vql_ring_area {
        VQL_AREA_DESC,   /* descriptor table; packed: the descriptor ring */
        VQL_AREA_DRIVER, /* available ring; packed: driver event suppression */
        VQL_AREA_DEVICE, /* used ring; packed: device event suppression */
        VQL_AREA_COUNT,
};

/* Bytes of an area, with the event field of EVENT_IDX included. */
static inline size_t vql_area_bytes(enum vql_ring_area a, uint16_t size, bool packed)
{
        switch (a) {
        case VQL_AREA_DESC:
                return (size_t)size * 16;
        case VQL_AREA_DRIVER:
                return packed ? 4 : 6 + (size_t)size * 2;
        default:
                return packed ? 4 : 6 + (size_t)size * 8;
        }
}

static inline size_t vql_area_align(enum vql_ring_area a, bool packed)
{
        static const uint8_t split_align[] = { 16, 2, 4 }, packed_align[] = { 16, 4, 4 };

        return packed ? packed_align[a] : split_align[a];
}

enum {
        VQL_PACKED_AVAIL = 1 << VRING_PACKED_DESC_F_AVAIL,
        VQL_PACKED_USED = 1 << VRING_PACKED_DESC_F_USED,
};

/* In a lap with this wrap counter: was the descriptor made available and not yet returned? */
static inline bool vql_packed_is_avail(uint16_t flags, uint8_t wrap)
{
        return !!(flags & VQL_PACKED_AVAIL) == wrap && !!(flags & VQL_PACKED_USED) != wrap;
}

/* In a lap with this wrap counter: was it returned? */
static inline bool vql_packed_is_used(uint16_t flags, uint8_t wrap)
{
        return !!(flags & VQL_PACKED_AVAIL) == wrap && !!(flags & VQL_PACKED_USED) == wrap;
}

#endif
