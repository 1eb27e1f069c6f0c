/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/shadow.h"

#include <string.h>

#include "virtqueue/notify.h"

enum { WRAP_SHIFT = 15, SLOT_MASK = 0x7fff };

/* The device reads and writes at any time: one load, one store. */
static uint16_t load16(const uint16_t *p)
{
        return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void store16(uint16_t *p, uint16_t v)
{
        __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* The two event fields lie behind the rings that they do not belong to (virtio 1.2, 2.7). */
static uint16_t *used_event(const struct vql_shadow *s)
{
        return &s->avail->ring[s->size];
}

static const uint16_t *avail_event(const struct vql_shadow *s)
{
        return (const uint16_t *)(const void *)&s->used->ring[s->size];
}

void vql_shadow_init(struct vql_shadow *s, void *const area[VQL_AREA_COUNT])
{
        for (int a = 0; a < VQL_AREA_COUNT; a++)
                memset(area[a], 0, vql_area_bytes((enum vql_ring_area)a, s->size, s->packed));
        s->desc = area[VQL_AREA_DESC];
        s->avail = area[VQL_AREA_DRIVER];
        s->used = area[VQL_AREA_DEVICE];
        s->next_avail = 0;
        s->next_used = 0;
        s->avail_wrap = s->packed;
        s->used_wrap = s->packed;
        s->hidden = 0;
        vql_shadow_calls_off(s);
}

void vql_shadow_calls_off(struct vql_shadow *s)
{
        if (s->packed)
                store16(&s->driver_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE);
        else if (s->event_idx) /* an index just passed is as far away as can be */
                store16(used_event(s), (uint16_t)(s->next_used - 1));
        else
                store16(&s->avail->flags, VRING_AVAIL_F_NO_INTERRUPT);
}

static bool has_used(const struct vql_shadow *s)
{
        struct vql_shadow_used u;

        return s->packed ? vql_shadow_read_packed(s, &u) : vql_shadow_returned(s) != 0;
}

static void calls_on_packed(struct vql_shadow *s)
{
        uint16_t flags = VRING_PACKED_EVENT_FLAG_ENABLE;

        if (s->event_idx) {
                store16(&s->driver_event->off_wrap,
                        (uint16_t)(s->next_used | s->used_wrap << WRAP_SHIFT));
                flags = VRING_PACKED_EVENT_FLAG_DESC;
        }
        /* The device must not pair the new flags with the old offset. */
        rte_io_wmb();
        __atomic_store_n(&s->driver_event->flags, flags, __ATOMIC_RELEASE);
}

bool vql_shadow_calls_on(struct vql_shadow *s)
{
        if (s->packed)
                calls_on_packed(s);
        else if (s->event_idx)
                store16(used_event(s), s->next_used);
        else
                store16(&s->avail->flags, 0);
        /* Pairs with the device's fence between returning a chain and reading our wish. */
        rte_mb();
        return has_used(s);
}

static bool packed_wants_kick(const struct vql_shadow *s, uint32_t n)
{
        const uint16_t flags = __atomic_load_n(&s->device_event->flags, __ATOMIC_ACQUIRE);
        uint16_t off_wrap;
        int32_t behind;

        if (flags != VRING_PACKED_EVENT_FLAG_DESC || !s->event_idx)
                return flags != VRING_PACKED_EVENT_FLAG_DISABLE;
        off_wrap = load16(&s->device_event->off_wrap);
        /* How many slots ago the device's slot was passed; positions repeat after two laps. */
        behind = s->next_avail - (off_wrap & SLOT_MASK);
        if (off_wrap >> WRAP_SHIFT != s->avail_wrap)
                behind += s->size;
        if (behind <= 0)
                behind += 2 * s->size;
        return (uint32_t)behind <= n;
}

bool vql_shadow_wants_kick(const struct vql_shadow *s, uint32_t n)
{
        /* Pairs with the device's fence between asking for kicks and its last look. */
        rte_mb();
        if (s->packed)
                return packed_wants_kick(s, n);
        if (!s->event_idx)
                return !(load16(&s->used->flags) & VRING_USED_F_NO_NOTIFY);
        return vql_event_passed(load16(avail_event(s)), s->next_avail,
                                (uint16_t)(s->next_avail - n));
}
