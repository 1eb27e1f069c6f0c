/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/ring.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bits.h"
#include "port/device_state.h"
#include "virtqueue/features.h"
#include "virtqueue/notify.h"

static const char *const area_names[][VQL_AREA_COUNT] = {
        { "descriptor table", "available ring", "used ring" },
        { "descriptor ring", "driver event area", "device event area" },
};

bool vql_ring_wanted(const struct vql_session *s, uint16_t index)
{
        const struct vql_vring *v = &s->vring[index];

        return s->features_set && s->mem && v->num && v->addr_set && v->kick_set;
}

static int translate_area(const struct vql_session *s, uint16_t index, enum vql_ring_area a,
                          void **ret_va, uint64_t *ret_gpa, struct vql_error *e)
{
        const struct vql_vring *v = &s->vring[index];
        const uint64_t uva[VQL_AREA_COUNT] = { v->desc_uva, v->avail_uva, v->used_uva };
        const bool packed = vql_has(s->features, VIRTIO_F_RING_PACKED);
        const size_t bytes = vql_area_bytes(a, (uint16_t)v->num, packed);
        const size_t align = vql_area_align(a, packed);
        uint64_t gpa;
        void *va = vql_mem_uva(s->mem, uva[a], bytes, &gpa);

        if (!va)
                return vql_fail(e, EFAULT,
                                "ring %u: %s at 0x%" PRIx64 " of %zu bytes is not inside one "
                                "memory region",
                                index, area_names[packed][a], uva[a], bytes);
        /* A region whose own address is odd makes an aligned one odd in its file, and here. */
        if ((uva[a] | (uintptr_t)va) % align != 0)
                return vql_fail(e, EINVAL,
                                "ring %u: %s at 0x%" PRIx64 ", expected aligned to %zu, there and "
                                "in the file of its memory",
                                index, area_names[packed][a], uva[a], align);
        *ret_va = va;
        *ret_gpa = gpa;
        return 0;
}

static int translate(const struct vql_session *s, uint16_t index, struct vql_queue_params *qp,
                     struct vql_error *e)
{
        uint64_t gpa[VQL_AREA_COUNT];

        for (enum vql_ring_area a = 0; a < VQL_AREA_COUNT; a++) {
                int rc = translate_area(s, index, a, &qp->area[a], &gpa[a], e);

                if (rc < 0)
                        return rc;
        }
        qp->desc_gpa = gpa[VQL_AREA_DESC];
        qp->device_gpa = gpa[VQL_AREA_DEVICE];
        /* The front-end may name the used ring's guest address itself.  For packed rings QEMU does
         * not name the descriptor ring, which we write too: there the translation decides. */
        if (s->vring[index].log && !vql_has(s->features, VIRTIO_F_RING_PACKED))
                qp->device_gpa = s->vring[index].log_gpa;
        qp->mem = s->mem;
        return 0;
}

static uint32_t session_base(const struct vql_vring *v, bool packed)
{
        return packed && !v->base_set && v->base == 0 ? VQL_PACKED_INITIAL : v->base;
}

/*
 * Where to begin: as told, or as the session says.  Buffers are returned in the order in which they
 * are taken, so that one position serves both, and that is the one up to which buffers were
 * returned: for split rings it stands in guest memory.  What the front-end says may be older (it
 * looked while its previous back-end was still at work) or ahead (of a back-end that died with
 * buffers in hand, which are taken again).
 */
static int start_position(const struct vql_session *s, uint16_t index, const struct vql_cursor *at,
                          struct vql_queue_params *qp, struct vql_error *e)
{
        const bool packed = vql_has(s->features, VIRTIO_F_RING_PACKED);
        const struct vring_used *used = qp->area[VQL_AREA_DEVICE];
        const struct vql_vring *v = &s->vring[index];
        struct vql_cursor begin;
        int rc = 0;

        if (at)
                begin = *at;
        else
                rc = vql_device_state_holds(s, index, e);
        if (rc == 0 && !at)
                rc = vql_cursor_decode(session_base(v, packed), packed, (uint16_t)v->num, &begin,
                                       e);
        if (rc < 0)
                return rc;
        if (!packed)
                begin.used = __atomic_load_n(&used->idx, __ATOMIC_ACQUIRE);
        return vql_queue_state_at(&begin, packed, (uint16_t)v->num, &qp->state, e);
}

void vql_ring_select(struct vql_ring *r, const struct vql_session *s)
{
        r->q.log = vql_session_logging(s) ? s->log : NULL;
        if (!r->set)
                r->set = vql_instance_set_best();
        r->instance = vql_burst_select(&r->q, r->set);
}

int vql_ring_start(struct vql_ring *r, const struct vql_session *s, uint16_t index,
                   const struct vql_cursor *at, struct vql_error *e)
{
        const struct vql_vring *v = &s->vring[index];
        struct vql_queue_params qp = {
                .features = s->features,
                .index = index,
                .rx = index % 2 == 0,
                .call_fd = v->call_fd,
        };
        int rc = vql_ring_size_check(v->num, vql_has(s->features, VIRTIO_F_RING_PACKED), e);

        if (rc == 0)
                rc = translate(s, index, &qp, e);
        if (rc == 0)
                rc = start_position(s, index, at, &qp, e);
        if (rc < 0)
                return rc;
        vql_queue_init(&r->q, &qp);
        vql_ring_select(r, s);
        r->kick_owed = true;
        vql_ring_move(r, VQL_RING_RUNNING);
        return 0;
}

struct vql_queue_state vql_ring_stop(struct vql_ring *r)
{
        const struct vql_queue_state state = vql_queue_state_of(&r->q);

        if (r->state == VQL_RING_RUNNING)
                vql_notify_enable(&r->q);
        r->q.call_fd = -1;
        r->q.position = NULL;
        r->q.log = NULL;
        vql_ring_move(r, VQL_RING_STOPPED);
        return state;
}

int vql_ring_remap(struct vql_ring *r, const struct vql_session *s, uint16_t index,
                   struct vql_error *e)
{
        struct vql_queue_params qp = { .index = index };
        int rc = translate(s, index, &qp, e);

        if (rc < 0)
                return rc;
        r->q.desc_gpa = qp.desc_gpa;
        r->q.device_gpa = qp.device_gpa;
        vql_queue_remap(&r->q, s->mem, qp.area);
        r->kick_owed = true;
        return 0;
}
