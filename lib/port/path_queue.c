/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/paths_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/fd.h"
#include "virtqueue/features.h"
#include "virtqueue/notify.h"

enum {
        STOP_MS = 1000,
        ARENA_ROOM = 4 * 1024 * 1024,  /* of IOVAs a queue: a ring of 32768 takes less */
        TOP_OFFSET = 64 * 1024 * 1024, /* from the end of what a device can address */
};

static struct vql_queue *queue_of(const struct vql_path_queue *pq)
{
        return &pq->port->rings[pq->index].q;
}

static struct vql_device *device_of(const struct vql_path_queue *pq)
{
        return pq->port->paths->device;
}

static void set_position(struct vql_queue *q, const struct vql_position *at)
{
        q->last_avail = at->avail;
        q->last_used = at->used;
        q->avail_wrap = at->avail_wrap;
        q->used_wrap = at->used_wrap;
        q->unsignalled = 0;
        q->signalled_valid = false;
}

static struct vql_position position_of(const struct vql_queue *q)
{
        return (struct vql_position){ q->last_avail, q->last_used, q->avail_wrap, q->used_wrap };
}

static struct vql_position initial_position(bool packed)
{
        return (struct vql_position){ 0, 0, packed, packed };
}

bool vql_path_queue_initial(const struct vql_path_queue *pq)
{
        const struct vql_queue *q = queue_of(pq);

        if (pq->relay)
                return pq->at_wrap && vql_relay_phase(pq->relay) == VQL_RELAY_DRAINED;
        return q->last_avail == 0 && q->last_used == 0 && q->avail_wrap == q->packed &&
               q->used_wrap == q->packed;
}

/* ---- the shadow ring's memory ---- */

static void arena_maps(const struct vql_arena *a, struct vql_map ret_maps[2])
{
        uint8_t *va = a->va;
        const size_t split = a->layout.writable;

        ret_maps[0] = (struct vql_map){ a->iova, split, va, false };
        ret_maps[1] =
                (struct vql_map){ a->iova + split, a->layout.bytes - split, va + split, true };
}

static void arena_free(struct vql_path_queue *pq)
{
        struct vql_arena *a = &pq->arena;
        struct vql_map maps[2];

        if (a->mapped && device_of(pq)) {
                arena_maps(a, maps);
                (void)vql_device_dma_update(
                        device_of(pq), &(struct vql_device_maps){ .del = maps, .n_del = 2 }, NULL);
        }
        if (a->va)
                munmap(a->va, a->layout.bytes);
        *a = (struct vql_arena){ 0 };
}

/* From the end of what the device can address downwards, away from the guest's memory. */
static int choose_iova(const struct vql_path_queue *pq, uint64_t *ret_iova, struct vql_error *e)
{
        const struct vql_dev_caps *caps = vql_device_caps(device_of(pq));
        const uint64_t top =
                caps->n_ranges ? caps->ranges[caps->n_ranges - 1].last : (UINT64_C(1) << 47) - 1;
        const uint64_t down = TOP_OFFSET + (pq->index + UINT64_C(1)) * ARENA_ROOM;
        const uint64_t end = vql_mem_table_end(pq->port->session->mem);

        if (top < down || top - down < end)
                return vql_fail(e, ENOSPC,
                                "ring %u: the device addresses up to 0x%llx, the guest's memory "
                                "ends at 0x%llx: no room for a ring of ours",
                                pq->index, (unsigned long long)top, (unsigned long long)end);
        *ret_iova = (top - down) & ~(uint64_t)(ARENA_ROOM - 1);
        return 0;
}

static int arena_make(struct vql_path_queue *pq, struct vql_error *e)
{
        const struct vql_queue *q = queue_of(pq);
        const uint16_t most = vql_device_caps(device_of(pq))->queue_size;
        struct vql_arena *a = &pq->arena;
        struct vql_map maps[2];
        int rc;

        if (a->mapped && a->packed == q->packed && a->size == (q->size < most ? q->size : most))
                return 0;
        arena_free(pq);
        a->size = q->size < most ? q->size : most;
        a->packed = q->packed;
        vql_relay_layout(a->size, a->packed, vql_device_caps(device_of(pq))->page_size, &a->layout);
        rc = choose_iova(pq, &a->iova, e);
        if (rc < 0)
                return rc;
        /* Shared: of a private page that nobody has written yet the kernel would pin the page of
         * zeros where the device only reads, and our first write would go to another one. */
        a->va = mmap(NULL, a->layout.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                     0);
        if (a->va == MAP_FAILED) {
                a->va = NULL;
                return vql_fail(e, errno, "ring %u: memory for a ring of ours: %s", pq->index,
                                strerror(errno));
        }
        arena_maps(a, maps);
        rc = vql_device_dma_update(device_of(pq),
                                   &(struct vql_device_maps){ .add = maps, .n_add = 2 }, e);
        a->mapped = rc == 0;
        if (rc < 0)
                arena_free(pq);
        return rc;
}

/* ---- relay ---- */

static void kick_shadow(void *arg)
{
        const struct vql_path_queue *pq = arg;

        vql_device_vq_kick(device_of(pq), pq->index);
}

static int open_relay(struct vql_path_queue *pq, struct vql_error *e)
{
        struct vql_relay_params params = {
                .q = queue_of(pq),
                .size = pq->arena.size,
                .features = vql_device_features(device_of(pq)),
                .kick = kick_shadow,
                .arg = pq,
                .pending = pq->pending,
        };
        int rc;

        for (int a = 0; a < VQL_AREA_COUNT; a++)
                params.area[a] = (uint8_t *)pq->arena.va + pq->arena.layout.at[a];
        rc = vql_relay_open(&params, &pq->relay, e);
        if (rc == 0)
                pq->pending = NULL;
        return rc;
}

static int start_shadow(struct vql_path_queue *pq, struct vql_error *e)
{
        const struct vql_arena *a = &pq->arena;
        const struct vql_position at = initial_position(a->packed);
        const struct vql_dev_ring ring = {
                .desc = a->iova + a->layout.at[VQL_AREA_DESC],
                .driver = a->iova + a->layout.at[VQL_AREA_DRIVER],
                .device = a->iova + a->layout.at[VQL_AREA_DEVICE],
                .device_va = (uint8_t *)a->va +
                             a->layout.at[a->packed ? VQL_AREA_DESC : VQL_AREA_DEVICE],
                .size = a->size,
                .packed = a->packed,
        };
        int rc = vql_device_vq_irq(device_of(pq), pq->index, pq->shadow_fd, e);

        if (rc == 0)
                rc = vql_device_vq_start(device_of(pq), pq->index, &ring, &at, e);
        if (rc < 0)
                (void)vql_device_vq_irq(device_of(pq), pq->index, -1, NULL);
        return rc;
}

static int up_relay(struct vql_path_queue *pq, struct vql_error *e)
{
        int rc = arena_make(pq, e);

        if (rc == 0 && pq->shadow_fd < 0) {
                pq->shadow_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
                if (pq->shadow_fd < 0)
                        rc = vql_fail(e, errno, "ring %u: eventfd: %s", pq->index, strerror(errno));
        }
        if (rc == 0)
                rc = open_relay(pq, e);
        if (rc == 0)
                rc = start_shadow(pq, e);
        if (rc < 0 && pq->relay) {
                pq->pending = vql_relay_settle(pq->relay);
                vql_relay_close(pq->relay);
                pq->relay = NULL;
        }
        if (rc == 0)
                kick_shadow(pq);
        return rc;
}

static void settle(struct vql_path_queue *pq)
{
        pq->pending = vql_relay_settle(pq->relay);
        vql_relay_close(pq->relay);
        pq->relay = NULL;
        pq->at_wrap = false;
}

static int down_relay(struct vql_path_queue *pq, struct vql_error *e)
{
        struct vql_stop stop;
        int rc = vql_device_vq_stop(device_of(pq), pq->index, STOP_MS, &stop, e);

        if (rc < 0)
                return rc; /* the device may still write: settled after its reset */
        (void)vql_device_vq_irq(device_of(pq), pq->index, -1, NULL);
        settle(pq);
        return 0;
}

/* ---- direct ---- */

/* What is no eventfd any more stays readable for ever: it kicks no more. */
static int on_kick(sd_event_source *src, int fd, uint32_t events, void *arg)
{
        const struct vql_path_queue *pq = arg;
        uint64_t n;
        const ssize_t got = read(fd, &n, sizeof(n));

        (void)events;
        if (got == sizeof(n) && device_of(pq))
                vql_device_vq_kick(device_of(pq), pq->index);
        else if (got >= 0 || errno != EAGAIN)
                return sd_event_source_set_enabled(src, SD_EVENT_OFF);
        return 0;
}

/* The guest's kicks from now on. */
static int listen_to_guest(struct vql_path_queue *pq, struct vql_error *e)
{
        const int fd = pq->port->session->vring[pq->index].kick_fd;
        int rc;

        pq->kick = sd_event_source_disable_unref(pq->kick);
        rc = sd_event_add_io(pq->port->loop, &pq->kick, fd, EPOLLIN, on_kick, pq);
        if (rc < 0)
                return vql_fail(e, -rc, "ring %u: kick descriptor %d: %s", pq->index, fd,
                                strerror(-rc));
        return 0;
}

static int guest_ring(const struct vql_path_queue *pq, struct vql_dev_ring *ret_ring,
                      struct vql_error *e)
{
        const struct vql_session *s = pq->port->session;
        const struct vql_vring *v = &s->vring[pq->index];
        const struct vql_queue *q = queue_of(pq);
        const uint64_t uva[VQL_AREA_COUNT] = { v->desc_uva, v->avail_uva, v->used_uva };
        uint64_t gpa[VQL_AREA_COUNT];

        for (enum vql_ring_area a = 0; a < VQL_AREA_COUNT; a++)
                if (!vql_mem_uva(s->mem, uva[a], vql_area_bytes(a, q->size, q->packed), &gpa[a]))
                        return vql_fail(e, EFAULT, "ring %u: not in guest memory", pq->index);
        *ret_ring = (struct vql_dev_ring){
                .desc = gpa[VQL_AREA_DESC],
                .driver = gpa[VQL_AREA_DRIVER],
                .device = gpa[VQL_AREA_DEVICE],
                .device_va = q->packed ? (const void *)q->packed_ring : q->used,
                .size = q->size,
                .packed = q->packed,
        };
        return 0;
}

/* The device's position is in nobody's record: what is there goes stale. */
static void forget_record(const struct vql_path_queue *pq)
{
        queue_of(pq)->position = NULL;
        vql_journal_end(pq->port->journal, pq->index);
}

static void record_again(const struct vql_path_queue *pq)
{
        const struct vql_vring *v = &pq->port->session->vring[pq->index];
        struct vql_queue *q = queue_of(pq);
        const struct vql_cursor now = vql_queue_cursor(q);

        if (q->packed)
                q->position =
                        vql_journal_begin(pq->port->journal, pq->index, v->desc_uva, q->size, &now);
}

static int up_direct(struct vql_path_queue *pq, struct vql_error *e)
{
        const struct vql_vring *v = &pq->port->session->vring[pq->index];
        struct vql_queue *q = queue_of(pq);
        const struct vql_position at = position_of(q);
        struct vql_dev_ring ring;
        int rc = guest_ring(pq, &ring, e);

        /* The last owner may have told the guest not to kick. */
        vql_notify_enable(q);
        if (rc == 0)
                rc = listen_to_guest(pq, e);
        if (rc == 0)
                rc = vql_device_vq_irq(device_of(pq), pq->index, v->call_fd, e);
        if (rc == 0)
                rc = vql_device_vq_start(device_of(pq), pq->index, &ring, &at, e);
        if (rc < 0) {
                pq->kick = sd_event_source_disable_unref(pq->kick);
                (void)vql_device_vq_irq(device_of(pq), pq->index, -1, NULL);
                return rc;
        }
        forget_record(pq);
        vql_device_vq_kick(device_of(pq), pq->index);
        return 0;
}

/* Nobody knows which buffers are done: the ring stops until the guest resets it. */
static void give_up_ring(const struct vql_path_queue *pq)
{
        const uint64_t one = 1;

        vql_queue_fail(queue_of(pq), VQL_FAULT_DEVICE);
        if (write(pq->port->fault_fd, &one, sizeof(one)) < 0)
                return; /* it is full: the port was told */
}

int vql_path_queue_route(struct vql_path_queue *pq, struct vql_error *e)
{
        const struct vql_vring *v = &pq->port->session->vring[pq->index];
        int rc;

        if (pq->path != VQL_PATH_DIRECT)
                return 0;
        rc = vql_device_vq_irq(device_of(pq), pq->index, v->call_fd, e);
        /* Without a descriptor the ring is about to go to another path. */
        if (rc == 0 && v->kick_fd >= 0)
                rc = listen_to_guest(pq, e);
        vql_device_vq_kick(device_of(pq), pq->index);
        return rc;
}

/* A split ring tells itself where its owner was, whatever the device says. */
static int check_told(const struct vql_path_queue *pq, const struct vql_stop *stop,
                      struct vql_error *e)
{
        const struct vql_queue *q = queue_of(pq);
        uint16_t shown;

        if (q->packed)
                return 0;
        shown = __atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE);
        if (stop->at.used == shown)
                return 0;
        return vql_fail(e, EIO, "ring %u: the device says that it stopped at %u, the ring %u",
                        pq->index, stop->at.used, shown);
}

static int down_direct(struct vql_path_queue *pq, struct vql_error *e)
{
        struct vql_stop stop;
        int rc;

        pq->kick = sd_event_source_disable_unref(pq->kick);
        rc = vql_device_vq_stop(device_of(pq), pq->index, STOP_MS, &stop, e);
        if (rc == 0)
                rc = check_told(pq, &stop, e);
        if (rc < 0)
                return rc;
        (void)vql_device_vq_irq(device_of(pq), pq->index, -1, NULL);
        set_position(queue_of(pq), &stop.at);
        record_again(pq);
        if (stop.quality == VQL_STOP_UNKNOWN)
                give_up_ring(pq);
        if (stop.quality == VQL_STOP_REPEAT && pq->index % 2)
                vql_log(&pq->port->log, LOG_NOTICE,
                        "ring %u: the device was cut off, a packet may be sent twice", pq->index);
        return 0;
}

/* ---- all of them ---- */

int vql_path_queue_up(struct vql_path_queue *pq, enum vql_path path, struct vql_error *e)
{
        int rc = 0;

        if (path == VQL_PATH_DIRECT)
                rc = up_direct(pq, e);
        else if (path == VQL_PATH_RELAY)
                rc = up_relay(pq, e);
        else if (pq->pending) {
                /* Software works in order and has no place for them. */
                vql_pending_return(pq->pending, queue_of(pq));
                pq->pending = NULL;
        }
        if (rc < 0)
                return rc;
        pq->path = path;
        pq->port->rings[pq->index].kick_owed = true;
        return 0;
}

int vql_path_queue_down(struct vql_path_queue *pq, struct vql_error *e)
{
        int rc = 0;

        if (pq->path == VQL_PATH_DIRECT)
                rc = down_direct(pq, e);
        else if (pq->path == VQL_PATH_RELAY)
                rc = down_relay(pq, e);
        if (rc == 0)
                pq->path = VQL_PATH_NONE;
        return rc;
}

/* A split ring tells itself how far its owner came; a packed one would have to be read from where
 * that owner began. */
void vql_path_queue_wreck(struct vql_path_queue *pq)
{
        struct vql_queue *q = queue_of(pq);
        struct vql_position at = { 0 };

        if (pq->path != VQL_PATH_RELAY && pq->path != VQL_PATH_DIRECT)
                return;
        pq->kick = sd_event_source_disable_unref(pq->kick);
        if (pq->path == VQL_PATH_RELAY) {
                settle(pq);
        } else if (pq->path == VQL_PATH_DIRECT && !q->packed) {
                at.used = at.avail = __atomic_load_n(&q->used->idx, __ATOMIC_ACQUIRE);
                set_position(q, &at);
        } else if (pq->path == VQL_PATH_DIRECT) {
                give_up_ring(pq);
        }
        pq->path = VQL_PATH_NONE;
}

void vql_path_queue_fini(struct vql_path_queue *pq)
{
        arena_free(pq);
        vql_pending_free(pq->pending);
        pq->pending = NULL;
        vql_fd_close(&pq->shadow_fd);
}
