/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtqueue/notify.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

enum { WRAP_SHIFT = 15, SLOT_MASK = 0x7fff };

/* Guest memory changes under us: one load, one store, never more. */
static uint16_t load16(const uint16_t *p)
{
        return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void store16(uint16_t *p, uint16_t v)
{
        __atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* The two event fields lie behind the rings that they do not belong to. */
static uint16_t *avail_event(const struct vql_queue *q)
{
        return (uint16_t *)(void *)&q->used->ring[q->size];
}

static uint16_t used_event(const struct vql_queue *q)
{
        return load16(&q->avail->ring[q->size]);
}

static void log_device_area(struct vql_queue *q, const void *field, size_t len)
{
        if (q->log)
                vql_dirty_log_mark(
                        q->log,
                        q->device_gpa + (size_t)((const uint8_t *)field - (uint8_t *)q->used), len);
}

static void write_device_field(struct vql_queue *q, uint16_t *field, uint16_t v)
{
        store16(field, v);
        log_device_area(q, field, sizeof(*field));
}

static bool packed_has_avail(const struct vql_queue *q)
{
        uint16_t flags = __atomic_load_n(&q->packed_ring[q->last_avail].flags, __ATOMIC_ACQUIRE);

        return vql_packed_is_avail(flags, q->avail_wrap);
}

bool vql_queue_has_avail(const struct vql_queue *q)
{
        if (q->packed)
                return packed_has_avail(q);
        return __atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) != q->last_avail;
}

void vql_notify_disable(struct vql_queue *q)
{
        q->notify_off = true;
        if (q->packed)
                write_device_field(q, &q->device_event->flags, VRING_PACKED_EVENT_FLAG_DISABLE);
        else if (!q->event_idx)
                write_device_field(q, &q->used->flags, VRING_USED_F_NO_NOTIFY);
        /* With EVENT_IDX on a split ring an avail_event that was passed is silence enough. */
}

static void enable_packed(struct vql_queue *q)
{
        uint16_t flags = VRING_PACKED_EVENT_FLAG_ENABLE;

        if (q->event_idx) {
                write_device_field(q, &q->device_event->off_wrap,
                                   (uint16_t)(q->last_avail | q->avail_wrap << WRAP_SHIFT));
                flags = VRING_PACKED_EVENT_FLAG_DESC;
                /* The driver must not pair the new flags with the old offset. */
                __atomic_thread_fence(__ATOMIC_RELEASE);
        }
        write_device_field(q, &q->device_event->flags, flags);
}

bool vql_notify_enable(struct vql_queue *q)
{
        q->notify_off = false;
        if (q->packed)
                enable_packed(q);
        else if (q->event_idx)
                write_device_field(q, avail_event(q), q->last_avail);
        else
                write_device_field(q, &q->used->flags, 0);
        /* Pairs with the driver's fence between making a buffer available and reading our wish. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        return vql_queue_has_avail(q);
}

/*
 * The positions that were passed are the last `unsignalled` ones.  They can be more than a lap of
 * the ring, if the driver offers buffers while a burst runs.
 */
static bool split_wants_signal(const struct vql_queue *q)
{
        if (!q->event_idx)
                return !(load16(&q->avail->flags) & VRING_AVAIL_F_NO_INTERRUPT);
        return !q->signalled_valid || q->unsignalled > UINT16_MAX ||
               vql_event_passed(used_event(q), q->last_used,
                                (uint16_t)(q->last_used - q->unsignalled));
}

static bool packed_wants_signal(const struct vql_queue *q)
{
        uint16_t flags = __atomic_load_n(&q->driver_event->flags, __ATOMIC_ACQUIRE);
        uint16_t off_wrap;
        int32_t behind;

        if (flags != VRING_PACKED_EVENT_FLAG_DESC || !q->event_idx)
                return flags != VRING_PACKED_EVENT_FLAG_DISABLE;
        if (!q->signalled_valid)
                return true;
        off_wrap = load16(&q->driver_event->off_wrap);
        /* How many slots ago the driver's slot was passed; positions repeat after two laps. */
        behind = q->last_used - (off_wrap & SLOT_MASK);
        if (off_wrap >> WRAP_SHIFT != q->used_wrap)
                behind += q->size;
        if (behind <= 0)
                behind += 2 * q->size;
        return (uint32_t)behind <= q->unsignalled;
}

void vql_signal_always(struct vql_queue *q)
{
        const uint64_t one = 1;

        vql_count(&q->signals, 1);
        if (q->call_fd < 0)
                return;
        /* EAGAIN: the counter is full, so the guest has an interrupt to come. */
        if (write(q->call_fd, &one, sizeof(one)) < 0 && errno != EAGAIN && errno != EINTR)
                vql_queue_fail(q, VQL_FAULT_CALL_FD);
}

void vql_signal_used(struct vql_queue *q)
{
        bool wanted;

        /* Pairs with the driver's fence between asking for interrupts and its last look. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        wanted = q->packed ? packed_wants_signal(q) : split_wants_signal(q);
        q->unsignalled = 0;
        q->signalled_valid = true;
        if (wanted)
                vql_signal_always(q);
        else
                vql_count(&q->signals_saved, 1);
}
