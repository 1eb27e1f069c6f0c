/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/paths_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "virtqueue/features.h"

enum {
        MAX_EVENTS = 16,
        REOPEN_US = 500 * 1000,
        MAX_RESETS = 3, /* after failures, before the device is given up until the guest begins anew
                         */
        CTRL_RX = 0,
        CTRL_RX_PROMISC = 0,
        CTRL_MQ = 4,
        CTRL_MQ_PAIRS = 0,
};

/* Transport and vhost bits that the device does not get to see. */
static const uint64_t not_for_devices =
        UINT64_C(1) << VQL_F_LOG_ALL | UINT64_C(1) << VQL_F_PROTOCOL_FEATURES |
        UINT64_C(1) << VIRTIO_F_ANY_LAYOUT | UINT64_C(1) << VIRTIO_F_RING_RESET;

static const char cannot_map[] = "the guest's memory cannot be mapped for the device";

static void give_up(struct vql_paths *v, const char *why, const struct vql_error *e)
{
        v->given_up = v->no_device = why;
        vql_log(&v->port->log, LOG_WARNING, "device %s: %s%s%s", v->address, why,
                e && e->text[0] ? ": " : "", e ? e->text : "");
}

static void forget_maps(struct vql_paths *v)
{
        free(v->maps);
        v->maps = NULL;
        v->n_maps = 0;
}

/* ---- events ---- */

static void reopen_later(struct vql_paths *v)
{
        uint64_t now = 0;

        sd_event_now(v->port->loop, CLOCK_MONOTONIC, &now);
        sd_event_source_set_time(v->reopen, now + REOPEN_US);
        sd_event_source_set_enabled(v->reopen, SD_EVENT_ONESHOT);
}

/* Nothing that it does counts any more.  It may do something until it is closed. */
static void lose(struct vql_paths *v, const char *why)
{
        vql_path_device_close(v);
        for (uint16_t i = 0; i < v->port->offer.max_rings; i++)
                vql_path_queue_wreck(&v->queue[i]);
        give_up(v, why, NULL);
        reopen_later(v);
}

static void end_rings(struct vql_paths *v)
{
        for (uint16_t i = 0; i < v->port->offer.max_rings; i++)
                vql_paths_end_ring(v->port, i);
}

static void queue_failed(struct vql_paths *v, uint16_t index)
{
        struct vql_path_queue *pq = &v->queue[index];
        const enum vql_path was = pq->path;

        vql_log(&v->port->log, LOG_WARNING, "ring %u: the device failed on it (%s)", index,
                vql_path_name(was));
        vql_paths_end_ring(v->port, index);
        pq->refused_direct |= was == VQL_PATH_DIRECT;
        if (was == VQL_PATH_RELAY)
                pq->refused_relay = pq->refused_direct = true;
}

static void handle(struct vql_paths *v, const struct vql_event *event)
{
        switch (event->kind) {
        case VQL_EVENT_QUEUE:
                if (event->queue < v->port->offer.max_rings)
                        queue_failed(v, event->queue);
                break;
        case VQL_EVENT_BROKEN:
                vql_path_device_fail(v, "the device needs a reset", NULL);
                break;
        case VQL_EVENT_REMOVE:
                end_rings(v);
                lose(v, "the host wanted the device back");
                break;
        case VQL_EVENT_GONE:
                lose(v, "the device is gone");
                break;
        default: /* VQL_EVENT_CONFIG: a front-end of vhost-user keeps its own configuration */
                break;
        }
}

static int on_events(sd_event_source *src, int fd, uint32_t revents, void *arg)
{
        struct vql_paths *v = arg;
        struct vql_event events[MAX_EVENTS];
        size_t n = vql_device_events(v->device, events, MAX_EVENTS);

        (void)src;
        (void)fd;
        (void)revents;
        vql_port_park(v->port);
        for (size_t i = 0; i < n && v->device; i++)
                handle(v, &events[i]);
        (void)vql_port_resume(v->port, NULL);
        return 0;
}

static int on_reopen(sd_event_source *src, uint64_t now, void *arg)
{
        struct vql_paths *v = arg;
        struct vql_error e;

        (void)src;
        (void)now;
        if (vql_path_device_open(v, &e) < 0) {
                reopen_later(v);
                return 0;
        }
        vql_log(&v->port->log, LOG_NOTICE, "device %s: is back", v->address);
        vql_port_park(v->port);
        vql_paths_forgive(v->port);
        (void)vql_port_resume(v->port, NULL);
        return 0;
}

/* ---- life ---- */

int vql_path_device_open(struct vql_paths *v, struct vql_error *e)
{
        const struct vql_device_env env = { &v->port->log, v->port->vfio };
        int rc = 0;

        if (!v->reopen) {
                rc = sd_event_add_time(v->port->loop, &v->reopen, CLOCK_MONOTONIC, UINT64_MAX, 0,
                                       on_reopen, v);
                if (rc >= 0)
                        rc = sd_event_source_set_enabled(v->reopen, SD_EVENT_OFF);
        }
        if (rc >= 0)
                rc = vql_device_open(v->driver, v->address, v->args, &env, &v->device, e);
        if (rc >= 0 && vql_device_event_fd(v->device) >= 0)
                rc = sd_event_add_io(v->port->loop, &v->events, vql_device_event_fd(v->device),
                                     EPOLLIN, on_events, v);
        if (rc < 0) {
                vql_path_device_close(v);
                return rc;
        }
        v->given_up = v->no_device = NULL;
        return 0;
}

void vql_path_device_close(struct vql_paths *v)
{
        v->events = sd_event_source_disable_unref(v->events);
        for (uint16_t i = 0; v->queue && i < v->port->offer.max_rings; i++)
                v->queue[i].arena.mapped = false;
        vql_device_close(v->device);
        v->device = NULL;
        forget_maps(v);
        v->pairs = 0;
}

void vql_path_device_fail(struct vql_paths *v, const char *why, const struct vql_error *e)
{
        struct vql_error reset;
        int rc = vql_device_reset(v->device, &reset);

        v->pairs = 0;
        if (rc < 0) {
                lose(v, rc == -ENODEV ? "the device is gone" : "the device cannot be reset");
                return;
        }
        for (uint16_t i = 0; i < v->port->offer.max_rings; i++)
                vql_path_queue_wreck(&v->queue[i]);
        if (++v->resets > MAX_RESETS)
                give_up(v, "the device failed again and again", e);
        else
                vql_log(&v->port->log, LOG_WARNING, "device %s: %s%s%s, it was reset", v->address,
                        why, e ? ": " : "", e ? e->text : "");
}

/* ---- memory ---- */

static size_t list_memory(const struct vql_paths *v, struct vql_map *ret_maps)
{
        const struct vql_mem_table *t = v->port->session->mem;
        const size_t n = vql_mem_table_count(t);

        for (size_t i = 0; i < n; i++) {
                const struct vql_region_desc *d = vql_region_desc(vql_mem_table_region(t, i));
                struct vql_mem_span span = { 0 };

                (void)vql_mem_find(t, d->gpa, &span);
                ret_maps[i] = (struct vql_map){ d->gpa, d->size, span.va, true };
        }
        return n;
}

static int map_memory(struct vql_paths *v, struct vql_error *e)
{
        struct vql_device_maps m = { 0 };
        int rc;

        v->maps = calloc(VQL_MEM_MAX_REGIONS, sizeof(*v->maps));
        if (!v->maps)
                return vql_fail(e, ENOMEM, "out of memory");
        v->n_maps = list_memory(v, v->maps);
        m.add = v->maps;
        m.n_add = v->n_maps;
        rc = vql_device_dma_update(v->device, &m, e);
        if (rc < 0)
                forget_maps(v);
        return rc;
}

/* What was mapped, not what the session has now: that may be the next table already. */
void vql_path_device_unmap(struct vql_paths *v)
{
        const struct vql_device_maps m = { .del = v->maps, .n_del = v->n_maps };
        struct vql_error e;
        int rc;

        /* Other memory may be mapped well. */
        if (v->given_up == cannot_map)
                v->given_up = NULL;
        if (!v->device || !v->maps)
                return;
        rc = vql_device_dma_update(v->device, &m, &e);
        forget_maps(v);
        /* What cannot be taken back goes with the device. */
        if (rc < 0)
                lose(v, "the device does not let go of memory");
}

/* ---- ready for a session ---- */

static uint64_t wanted_features(const struct vql_paths *v)
{
        const struct vql_dev_caps *caps = vql_device_caps(v->device);
        uint64_t extra = 0;

        /* A guest's filters do not reach us: the device is to let everything through. */
        if (vql_device_can(v->device, VQL_DEV_CTRL))
                extra = caps->features &
                        (vql_bit(VIRTIO_NET_F_CTRL_VQ) | vql_bit(VIRTIO_NET_F_CTRL_RX));
        return (v->port->session->features & ~not_for_devices & caps->features) | extra;
}

/* What shapes rings and headers must be the same for guest and device. */
static const char *against_features(const struct vql_paths *v)
{
        static const uint64_t shape =
                UINT64_C(1) << VIRTIO_F_RING_PACKED | UINT64_C(1) << VIRTIO_F_IN_ORDER |
                UINT64_C(1) << VIRTIO_RING_F_EVENT_IDX |
                UINT64_C(1) << VIRTIO_RING_F_INDIRECT_DESC | UINT64_C(1) << VIRTIO_NET_F_MRG_RXBUF;
        const uint64_t have = v->port->session->features;

        if (!vql_has(have, VIRTIO_F_VERSION_1))
                return "the guest's driver is a legacy one";
        if (have & shape & ~vql_device_caps(v->device)->features)
                return "the device has not all ring features of the guest";
        return NULL;
}

static int enabled_pairs(const struct vql_port *p)
{
        int pairs = 0;

        for (uint16_t i = 0; i < p->offer.max_rings; i += 2)
                pairs += p->session->vring[i].enabled && p->rings[i].state == VQL_RING_RUNNING;
        return pairs;
}

static int tell_pairs(struct vql_paths *v, struct vql_error *e)
{
        const uint16_t pairs = (uint16_t)enabled_pairs(v->port);
        const uint8_t wire[2] = { (uint8_t)pairs, (uint8_t)(pairs >> 8) };
        const struct vql_ctrl c = { CTRL_MQ, CTRL_MQ_PAIRS, wire, sizeof(wire) };
        int rc = 0;

        if (!vql_has(vql_device_features(v->device), VIRTIO_NET_F_MQ) || pairs == 0 ||
            pairs == v->pairs || !vql_device_can(v->device, VQL_DEV_CTRL))
                return 0;
        rc = vql_device_ctrl(v->device, &c, e);
        if (rc == 0)
                v->pairs = pairs;
        return rc;
}

static int let_everything_in(struct vql_paths *v, struct vql_error *e)
{
        const uint8_t on = 1;
        const struct vql_ctrl c = { CTRL_RX, CTRL_RX_PROMISC, &on, sizeof(on) };

        if (!vql_device_can(v->device, VQL_DEV_CTRL) ||
            !vql_has(vql_device_features(v->device), VIRTIO_NET_F_CTRL_RX))
                return 0;
        return vql_device_ctrl(v->device, &c, e);
}

/* From wherever it is to running without queues, with the features of this session. */
static int restart(struct vql_paths *v, uint64_t features, struct vql_error *e)
{
        int rc = 0;

        end_rings(v);
        if (!v->device)
                return -ENODEV;
        if (vql_device_life(v->device) != VQL_DEVICE_RESET)
                rc = vql_device_reset(v->device, e);
        v->pairs = 0;
        if (rc == 0)
                rc = vql_device_negotiate(v->device, features, e);
        if (rc == 0)
                rc = vql_device_start(v->device, e);
        if (rc == 0)
                rc = let_everything_in(v, e);
        return rc;
}

void vql_path_device_prepare(struct vql_paths *v)
{
        struct vql_error e = { "" };
        uint64_t features;
        int rc = 0;

        if (!v->device)
                return;
        v->no_device = v->given_up ? v->given_up : against_features(v);
        if (v->no_device)
                return;
        features = wanted_features(v);
        if (!v->maps)
                rc = map_memory(v, &e);
        if (rc < 0) {
                give_up(v, cannot_map, &e);
                return;
        }
        if (vql_device_life(v->device) != VQL_DEVICE_RUN ||
            vql_device_features(v->device) != features)
                rc = restart(v, features, &e);
        if (rc == 0)
                rc = tell_pairs(v, &e);
        if (rc == -ENODEV)
                lose(v, "the device is gone");
        else if (rc < 0)
                give_up(v, "the device does not start", &e);
}
