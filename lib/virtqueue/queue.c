/* SPDX-License-Identifier: BSD-3-Clause */
#include "virtqueue/queue.h"

#include "base/bits.h"
#include "virtqueue/features.h"
#include "virtqueue/notify.h"

enum { HDR_LEGACY = 10, HDR_MODERN = 12 };

const char *vql_fault_name(enum vql_fault f)
{
        static const char *const names[VQL_FAULT_COUNT] = {
                [VQL_FAULT_NONE] = "none",
                [VQL_FAULT_AVAIL_INDEX] = "available index",
                [VQL_FAULT_DESC_INDEX] = "descriptor index",
                [VQL_FAULT_DESC_LOOP] = "descriptor loop",
                [VQL_FAULT_DESC_ADDRESS] = "descriptor address",
                [VQL_FAULT_DESC_DIRECTION] = "descriptor direction",
                [VQL_FAULT_INDIRECT] = "indirect table",
                [VQL_FAULT_DEVICE] = "device lost",
                [VQL_FAULT_CALL_FD] = "call fd",
        };

        return f < VQL_FAULT_COUNT ? names[f] : "unknown";
}

void vql_queue_init(struct vql_queue *q, const struct vql_queue_params *p)
{
        bool modern = vql_has(p->features, VIRTIO_F_VERSION_1) ||
                      vql_has(p->features, VIRTIO_NET_F_MRG_RXBUF);

        q->size = p->state.size;
        q->hdr_len = modern ? HDR_MODERN : HDR_LEGACY;
        q->fault = VQL_FAULT_NONE;
        q->call_fd = p->call_fd;
        q->last_avail = p->state.at.avail;
        q->last_used = p->state.at.used;
        q->avail_wrap = p->state.at.avail_wrap;
        q->used_wrap = p->state.at.used_wrap;
        q->unsignalled = 0;
        q->signalled_valid = false;
        q->event_idx = vql_has(p->features, VIRTIO_RING_F_EVENT_IDX);
        q->notify_off = false;
        q->position = NULL;
        q->log = NULL;
        q->desc_gpa = p->desc_gpa;
        q->device_gpa = p->device_gpa;
        q->features = p->features;
        q->index = p->index;
        q->packed = vql_has(p->features, VIRTIO_F_RING_PACKED);
        q->rx = p->rx;
        vql_queue_remap(q, p->mem, p->area);
}

struct vql_cursor vql_queue_cursor(const struct vql_queue *q)
{
        return (struct vql_cursor){
                .avail = q->last_avail,
                .used = q->last_used,
                .avail_wrap = q->avail_wrap,
                .used_wrap = q->used_wrap,
        };
}

struct vql_queue_state vql_queue_state_of(const struct vql_queue *q)
{
        return (struct vql_queue_state){
                .version = VQL_QUEUE_STATE_VERSION,
                .size = q->size,
                .packed = q->packed,
                .at = vql_queue_cursor(q),
                .owes_signal = true,
        };
}

void vql_queue_remap(struct vql_queue *q, const struct vql_mem_table *mem,
                     void *const area[VQL_AREA_COUNT])
{
        q->mem = mem;
        q->hit = (struct vql_mem_span){ 0 };
        q->desc = area[VQL_AREA_DESC];
        q->avail = area[VQL_AREA_DRIVER];
        q->used = area[VQL_AREA_DEVICE];
}

void vql_queue_read_counters(const struct vql_queue *q, struct vql_queue_counters *ret_counters)
{
#define READ(name, what) ret_counters->name = __atomic_load_n(&q->name, __ATOMIC_RELAXED);
        VQL_QUEUE_COUNTERS(READ)
#undef READ
}

void vql_queue_fail(struct vql_queue *q, enum vql_fault f)
{
        if (q->fault == VQL_FAULT_NONE)
                __atomic_store_n(&q->fault, (uint8_t)f, __ATOMIC_RELAXED);
}
