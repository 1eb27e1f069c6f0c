/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/paths_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "port/registry.h"
#include "virtqueue/features.h"

/* What front-end and framework do themselves, whatever the device can. */
static const uint64_t without_device =
        UINT64_C(1) << VQL_F_LOG_ALL | UINT64_C(1) << VQL_F_PROTOCOL_FEATURES |
        UINT64_C(1) << VIRTIO_F_ANY_LAYOUT | UINT64_C(1) << VIRTIO_F_RING_RESET |
        UINT64_C(1) << VIRTIO_NET_F_MTU | UINT64_C(1) << VIRTIO_NET_F_STATUS |
        UINT64_C(1) << VIRTIO_NET_F_SPEED_DUPLEX | UINT64_C(1) << VIRTIO_NET_F_GUEST_ANNOUNCE |
        UINT64_C(1) << VIRTIO_NET_F_CTRL_VQ;

static int64_t clock_us(clockid_t id)
{
        struct timespec t;

        clock_gettime(id, &t);
        return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- life ---- */

static int find_driver(struct vql_paths *v, struct vql_error *e)
{
        char *comma = strchr(v->spec, ',');

        v->address = v->spec;
        if (comma) {
                *comma = '\0';
                v->args = comma + 1;
        }
        v->driver = vql_registry_find(v->address);
        if (!v->driver)
                v->driver = vql_registry_match(v->address);
        if (!v->driver)
                return vql_fail(e, EINVAL,
                                "device: '%s', expected the address of a device that a driver "
                                "serves, or sim",
                                v->address);
        return 0;
}

int vql_paths_new(struct vql_port *p, const char *device, struct vql_paths **ret_paths,
                  struct vql_error *e)
{
        struct vql_paths *v = calloc(1, sizeof(*v));
        int rc = -ENOMEM;

        if (!v)
                return vql_fail(e, ENOMEM, "device: out of memory");
        v->port = p;
        v->spec = strdup(device);
        v->queue = calloc(p->offer.max_rings, sizeof(*v->queue));
        for (uint16_t i = 0; v->queue && i < p->offer.max_rings; i++)
                v->queue[i] = (struct vql_path_queue){ .port = p, .index = i, .shadow_fd = -1 };
        if (v->spec && v->queue)
                rc = find_driver(v, e);
        else
                (void)vql_fail(e, ENOMEM, "device: out of memory");
        if (rc == 0)
                rc = vql_path_device_open(v, e);
        if (rc == 0 && vql_device_caps(v->device)->queues < p->offer.max_rings)
                rc = vql_fail(e, EINVAL, "device %s: %u queue pairs, expected at least %u",
                              v->address, vql_device_caps(v->device)->queues / 2,
                              p->offer.max_rings / 2);
        if (rc < 0) {
                vql_paths_free(v);
                return rc;
        }
        *ret_paths = v;
        return 0;
}

void vql_paths_free(struct vql_paths *v)
{
        if (!v)
                return;
        for (uint16_t i = 0; v->queue && i < v->port->offer.max_rings; i++)
                vql_path_queue_fini(&v->queue[i]);
        vql_path_device_close(v);
        sd_event_source_disable_unref(v->reopen);
        free(v->queue);
        free(v->spec);
        free(v);
}

uint64_t vql_paths_features(const struct vql_paths *v, uint64_t set)
{
        uint64_t able;

        if (!v)
                return set;
        able = vql_device_caps(v->device)->features | without_device;
        /* Which queues are in use is told by the front-end, and passed on to the device. */
        return set & able;
}

/* ---- which path ---- */

static struct vql_path_facts facts_of(const struct vql_paths *v, uint16_t index)
{
        const struct vql_path_queue *pq = &v->queue[index];
        const struct vql_session *s = v->port->session;
        const struct vql_vring *vring = &s->vring[index];
        struct vql_path_facts f = {
                .wish = v->wish,
                .uplink = v->port->uplink != NULL,
                .no_device = v->no_device,
                .refused_direct = pq->refused_direct,
                .refused_relay = pq->refused_relay,
                .packed = v->port->rings[index].q.packed,
                .enabled = vring->enabled,
                .initial = vql_path_queue_initial(pq),
                .pending = pq->pending != NULL,
                .kicked = vring->kick_fd >= 0,
                .logging = vql_session_logging(s),
                .inflight_region = s->inflight != NULL,
        };

        if (!v->device)
                return f;
        f.live = vql_device_can(v->device, VQL_DEV_LIVE) && vql_device_can(v->device, VQL_DEV_LATE);
        f.signals_guest = vql_device_can(v->device, VQL_DEV_IRQ_ANYFD);
        f.in_order = vql_device_can(v->device, VQL_DEV_IN_ORDER) && !pq->order_lost;
        f.seeks = vql_device_can(v->device, VQL_DEV_SEEK);
        f.tells = vql_device_can(v->device, VQL_DEV_TELL);
        f.logs = false; /* a device's own log is not used yet */
        f.fits = v->port->rings[index].q.size <= vql_device_caps(v->device)->queue_size;
        return f;
}

static void note_move(struct vql_paths *v, const struct vql_path_queue *pq, enum vql_path from,
                      int64_t began_us)
{
        struct vql_path_move *m = &v->history[v->n_moves++ % VQL_PATH_HISTORY];

        *m = (struct vql_path_move){
                .ring = pq->index,
                .from = from,
                .to = pq->path,
                .why = pq->why,
                .at_us = clock_us(CLOCK_REALTIME),
                .took_us = (uint32_t)(clock_us(CLOCK_MONOTONIC) - began_us),
        };
        vql_log(&v->port->log, LOG_INFO, "ring %u: %s -> %s after %u us%s%s", pq->index,
                vql_path_name(from), vql_path_name(pq->path), m->took_us, *pq->why ? ": " : "",
                pq->why);
}

static void refuse(struct vql_path_queue *pq, enum vql_path path, const struct vql_error *e)
{
        vql_log(&pq->port->log, LOG_WARNING, "ring %u: not %s: %s", pq->index, vql_path_name(path),
                e->text);
        if (path == VQL_PATH_DIRECT)
                pq->refused_direct = true;
        else
                pq->refused_relay = pq->refused_direct = true;
}

/* From nobody to the best owner that takes it.  Software and waiting cannot fail. */
static struct vql_path_answer bring_up(struct vql_paths *v, struct vql_path_queue *pq,
                                       struct vql_path_answer a)
{
        struct vql_path_facts f;
        struct vql_error e = { "" };

        while (vql_path_queue_up(pq, a.path, &e) < 0) {
                refuse(pq, a.path, &e);
                f = facts_of(v, pq->index);
                a = vql_path_choose(&f);
        }
        pq->why = a.why;
        return a;
}

static void take_down(struct vql_paths *v, struct vql_path_queue *pq)
{
        struct vql_error e = { "" };

        if (vql_path_queue_down(pq, &e) < 0)
                vql_path_device_fail(v, "a queue did not stop", &e);
}

static void set_wrap(struct vql_path_queue *pq, bool at_wrap)
{
        if (!pq->relay || pq->at_wrap == at_wrap)
                return;
        pq->at_wrap = at_wrap;
        vql_relay_stop_taking(pq->relay, at_wrap ? VQL_RELAY_STOP_AT_WRAP : VQL_RELAY_TAKE);
}

static void review_ring(struct vql_paths *v, uint16_t index)
{
        struct vql_path_queue *pq = &v->queue[index];
        struct vql_path_facts f = facts_of(v, index);
        struct vql_path_answer a = vql_path_choose(&f);
        const enum vql_path from = pq->path;
        int64_t began_us;

        if (a.path != from) {
                began_us = clock_us(CLOCK_MONOTONIC);
                if (from != VQL_PATH_NONE)
                        take_down(v, pq);
                /* If that took a reset of the device, it has to start again. */
                vql_path_device_prepare(v);
                f = facts_of(v, index);
                a = vql_path_choose(&f);
                a = bring_up(v, pq, a);
                note_move(v, pq, from, began_us);
        }
        pq->why = a.why;
        set_wrap(pq, a.at_wrap);
}

/* A ring with a fault gets no owner any more: its position may be nowhere. */
static bool is_served(const struct vql_port *p, uint16_t index)
{
        return p->rings[index].state == VQL_RING_RUNNING &&
               p->rings[index].q.fault == VQL_FAULT_NONE;
}

void vql_paths_review(struct vql_port *p)
{
        struct vql_paths *v = p->paths;

        if (!v)
                return;
        vql_path_device_prepare(v);
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                if (is_served(p, i))
                        review_ring(v, i);
        /* A device that failed in the middle left rings behind that were done. */
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                if (is_served(p, i) && v->queue[i].path == VQL_PATH_NONE)
                        review_ring(v, i);
}

void vql_paths_end_ring(struct vql_port *p, uint16_t index)
{
        struct vql_path_queue *pq;

        if (!p->paths)
                return;
        pq = &p->paths->queue[index];
        if (pq->path != VQL_PATH_NONE)
                take_down(p->paths, pq);
        if (pq->pending) {
                vql_pending_return(pq->pending, &p->rings[index].q);
                pq->pending = NULL;
        }
        pq->path = VQL_PATH_NONE;
}

void vql_paths_end_memory(struct vql_port *p)
{
        if (!p->paths)
                return;
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                vql_paths_end_ring(p, i);
        vql_path_device_unmap(p->paths);
}

void vql_paths_forgive(struct vql_port *p)
{
        struct vql_paths *v = p->paths;

        if (!v)
                return;
        v->resets = 0;
        if (v->device)
                v->given_up = v->no_device = NULL;
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                v->queue[i].refused_direct = v->queue[i].refused_relay = false;
}

void vql_paths_route(struct vql_port *p, uint16_t index)
{
        struct vql_error e;

        if (p->paths && vql_path_queue_route(&p->paths->queue[index], &e) < 0)
                vql_log(&p->log, LOG_WARNING, "ring %u: %s", index, e.text);
}

static void look_at(struct vql_paths *v, struct vql_path_queue *pq)
{
        struct vql_relay_stats stats;

        if (!pq->relay)
                return;
        vql_relay_read_stats(pq->relay, &stats);
        if (stats.out_of_order && !pq->order_lost) {
                pq->order_lost = true;
                vql_log(&v->port->log, LOG_NOTICE,
                        "ring %u: the device returns buffers out of order, it stays a relay",
                        pq->index);
        }
        if (stats.fault == VQL_RELAY_FINE)
                return;
        vql_log(&v->port->log, LOG_WARNING, "ring %u: relay: %s", pq->index,
                vql_relay_fault_name(stats.fault));
        pq->refused_relay = pq->refused_direct = true;
        if (stats.fault != VQL_RELAY_TOO_LONG)
                vql_path_device_fail(v, "it broke a ring", NULL);
}

void vql_paths_look(struct vql_port *p)
{
        for (uint16_t i = 0; p->paths && i < p->offer.max_rings; i++)
                look_at(p->paths, &p->paths->queue[i]);
}

void vql_paths_wish(struct vql_port *p, enum vql_path_wish wish)
{
        if (p->paths)
                p->paths->wish = wish;
}

/* ---- what is so ---- */

enum vql_path vql_paths_of(const struct vql_port *p, uint16_t index)
{
        if (p->rings[index].state != VQL_RING_RUNNING)
                return VQL_PATH_NONE;
        return p->paths ? p->paths->queue[index].path : VQL_PATH_SOFTWARE;
}

const char *vql_paths_why(const struct vql_port *p, uint16_t index)
{
        if (vql_paths_of(p, index) == VQL_PATH_NONE)
                return "";
        return p->paths ? p->paths->queue[index].why : "the port has no device";
}

struct vql_lane_relay vql_paths_relay(const struct vql_port *p, uint16_t index)
{
        const struct vql_path_queue *pq = &p->paths->queue[index];

        return (struct vql_lane_relay){
                .relay = pq->relay,
                .kick_fd = p->session->vring[index].kick_fd,
                .device_fd = pq->shadow_fd,
        };
}

const char *vql_paths_driver(const struct vql_paths *v)
{
        return v ? v->driver->name : "";
}

const char *vql_paths_address(const struct vql_paths *v)
{
        return v ? v->address : "";
}

const char *vql_paths_device_state(const struct vql_paths *v)
{
        if (!v)
                return "";
        return v->no_device ? v->no_device : vql_device_life_name(vql_device_life(v->device));
}

enum vql_path_wish vql_paths_wished(const struct vql_paths *v)
{
        return v ? v->wish : VQL_WISH_AUTO;
}

const struct vql_path_move *vql_paths_move(const struct vql_paths *v, size_t i)
{
        if (!v || i >= VQL_PATH_HISTORY || i >= v->n_moves)
                return NULL;
        return &v->history[(v->n_moves - 1 - i) % VQL_PATH_HISTORY];
}
