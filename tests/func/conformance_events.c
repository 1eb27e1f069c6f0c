/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "conformance_checks.h"
#include "conformance_rig.h"
#include "frontend/faults.h"
#include "virtqueue/features.h"

enum { LEAST_FOR_FAULTS = 64 };

static void provoke(struct rig *r, enum vql_event_kind kind)
{
        int err = r->t->provoke ? r->t->provoke(r->t->provoke_arg, vql_device_dev(r->dev), kind)
                                : -ENOTSUP;

        if (err == -ENOTSUP)
                conf_skip(r);
        conf_require(r, err == 0, "cannot provoke event %d: %s", (int)kind, strerror(-err));
}

/* Wait for one event of that kind and queue; others may come before it. */
static void expect_event(struct rig *r, enum vql_event_kind kind, uint16_t queue)
{
        struct pollfd p = { .fd = vql_device_event_fd(r->dev), .events = POLLIN };
        struct vql_event event[VQL_DEV_MAX_EVENTS];

        for (;;) {
                size_t n;

                conf_require(r, p.fd >= 0 && poll(&p, 1, r->patience_ms) == 1,
                             "no event of kind %d", (int)kind);
                n = vql_device_events(r->dev, event, VQL_DEV_MAX_EVENTS);
                for (size_t i = 0; i < n; i++)
                        if (event[i].kind == kind && event[i].queue == queue)
                                return;
        }
}

static void expect_no_more_events(struct rig *r)
{
        struct pollfd p = { .fd = vql_device_event_fd(r->dev), .events = POLLIN };
        struct vql_event event[VQL_DEV_MAX_EVENTS];

        for (int i = 0; vql_device_events(r->dev, event, VQL_DEV_MAX_EVENTS); i++)
                conf_require(r, i < VQL_DEV_MAX_EVENTS, "events do not end");
        conf_require(r, poll(&p, 1, 0) == 0, "the descriptor of events is readable without any");
}

static uint16_t read_status(struct rig *r)
{
        struct virtio_net_config config = { 0 };

        conf_require(r,
                     vql_device_cfg_read(r->dev, 0, &config,
                                         offsetof(struct virtio_net_config, max_virtqueue_pairs)) ==
                             0,
                     "the configuration cannot be read");
        return config.status;
}

static void configuration_changes(struct rig *r)
{
        const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        struct vql_error e = { "" };
        const uint16_t before = (conf_go(r), read_status(r));
        uint64_t n = 0;
        int err = vql_device_vq_irq(r->dev, VQL_IRQ_CONFIG, fd, &e);
        ssize_t got;

        expect_no_more_events(r);
        provoke(r, VQL_EVENT_CONFIG);
        expect_event(r, VQL_EVENT_CONFIG, VQL_NO_QUEUE);
        expect_no_more_events(r);
        got = read(fd, &n, sizeof(n));
        close(fd);
        conf_require(r, err == 0, "interrupt: %s", e.text);
        conf_require(r, got == sizeof(n), "no interrupt for a change of the configuration");
        conf_require(r, (before ^ read_status(r)) & VIRTIO_NET_S_LINK_UP,
                     "the link changed and its status did not");
        conf_require(r, vql_device_vq_irq(r->dev, VQL_IRQ_CONFIG, -1, &e) == 0, "interrupt: %s",
                     e.text);
        conf_send(r, 8);
}

static void needs_a_reset(struct rig *r)
{
        struct vql_stop stops[VQL_DEV_MAX_QUEUES];
        struct vql_error e = { "" };
        int err;

        conf_go(r);
        conf_send(r, 8);
        conf_receive(r, 8);
        provoke(r, VQL_EVENT_BROKEN);
        expect_event(r, VQL_EVENT_BROKEN, VQL_NO_QUEUE);
        err = vql_device_suspend(r->dev, 1000, stops, &e);
        conf_require(r, err == -EIO || err == -ETIMEDOUT, "a broken device answers %d to suspend",
                     err);
        conf_require(r, vql_device_reset(r->dev, &e) == 0, "reset: %s", e.text);
        conf_negotiate(r);
        for (int i = 0; i < 2; i++)
                conf_irq(&r->line[i], r->line[i].call_fd);
        conf_resume_after_reset(r);
        conf_send(r, 8);
        conf_receive(r, 8);
}

static void goes_away(struct rig *r)
{
        struct vql_stop stops[VQL_DEV_MAX_QUEUES];
        struct vql_error e = { "" };
        int err;

        conf_go(r);
        conf_send(r, 8);
        provoke(r, VQL_EVENT_GONE);
        expect_event(r, VQL_EVENT_GONE, VQL_NO_QUEUE);
        err = vql_device_suspend(r->dev, 1000, stops, &e);
        conf_require(r, err == -ENODEV, "a device that is gone answers %d to suspend", err);
        err = vql_device_reset(r->dev, &e);
        conf_require(r, err == -ENODEV, "a device that is gone answers %d to reset", err);
        conf_expect_quiet(r);
}

static void is_wanted_back(struct rig *r)
{
        conf_go(r);
        conf_send(r, 8);
        provoke(r, VQL_EVENT_REMOVE);
        expect_event(r, VQL_EVENT_REMOVE, VQL_NO_QUEUE);
        expect_no_more_events(r);
        conf_send(r, 8);
}

/* A ring of nonsense stops its queue, and nothing else. */
static void bad_ring_stops_its_queue(struct rig *r)
{
        struct conf_line *tx = &r->line[CONF_TX];
        struct fe_seg seg = tx->buffer[0].seg;
        const struct fe_chain chain = { .segs = &seg, .n = 1, .cookie = &tx->buffer[0] };
        struct vql_error e = { "" };
        struct fe_desc desc;
        struct vql_stop stop;

        if (r->t->fragile)
                conf_skip(r);
        conf_go(r);
        conf_send(r, 8);
        tx->buffer[0].busy = true;
        conf_require(r, fe_driver_add(tx->d, &chain, NULL) == 0, "ring: %s",
                     fe_driver_error(tx->d));
        conf_require(r, fe_driver_desc(tx->d, 0, &desc) == 0, "no descriptor");
        *desc.addr = UINT64_MAX - 100;
        fe_driver_publish(tx->d);
        vql_device_vq_kick(r->dev, CONF_TX);
        expect_event(r, VQL_EVENT_QUEUE, CONF_TX);
        conf_receive(r, 8);
        if (!vql_device_can(r->dev, VQL_DEV_LIVE))
                return;
        conf_require(r,
                     vql_device_vq_stop(r->dev, CONF_TX, (uint32_t)r->patience_ms, &stop, &e) == 0,
                     "stop: %s", e.text);
        conf_check_stop(tx, &stop);
        conf_receive(r, 8);
}

/* Does the fault make sense on a ring to send with? */
static bool applies(const struct rig *r, const struct fe_ring_fault *f)
{
        const unsigned int format = r->ring.packed ? FE_FOR_PACKED : FE_FOR_SPLIT;

        return f->tx && (f->formats & format) && !(f->needs & FE_NEEDS_OFFLOADS) &&
               (r->ring.indirect || !(f->needs & FE_NEEDS_INDIRECT));
}

static void all_bad_rings(struct rig *r)
{
        const struct vql_stop lost = { .stopped = true, .quality = VQL_STOP_UNKNOWN };
        struct fe_fault_room room;
        struct vql_error e = { "" };

        if (r->t->fragile || r->ring.size < LEAST_FOR_FAULTS)
                conf_skip(r);
        conf_require(r, fe_fault_room_init(&room, r->mem, FE_ANY_REGION, false, 12) == 0,
                     "no memory");
        conf_go(r);
        for (size_t i = 0; i < fe_ring_fault_count; i++) {
                const struct fe_ring_fault *f = &fe_ring_faults[i];

                if (!applies(r, f))
                        continue;
                conf_require(r, fe_fault_inject(f, r->line[CONF_TX].d, &room) == 0, "%s: %s",
                             f->name, fe_driver_error(r->line[CONF_TX].d));
                vql_device_vq_kick(r->dev, CONF_TX);
                snprintf(r->doing, sizeof(r->doing), "%s: ", f->name);
                if (f->effect == FE_BREAKS_RING)
                        expect_event(r, VQL_EVENT_QUEUE, CONF_TX);
                conf_receive(r, 3);
                conf_require(r, vql_device_reset(r->dev, &e) == 0, "reset: %s", e.text);
                conf_negotiate(r);
                for (int q = 0; q < 2; q++)
                        conf_irq(&r->line[q], r->line[q].call_fd);
                conf_resume(r, (struct vql_stop[2]){ lost, lost });
        }
        r->doing[0] = '\0';
        conf_send(r, 8);
}

/* ---- control commands ---- */

static void commands_work(struct rig *r)
{
        static const uint8_t mac[6] = { 0x02, 0x11, 0x22, 0x33, 0x44, 0x55 };
        const uint64_t features = vql_device_caps(r->dev)->features;
        uint8_t now[6] = { 0 };
        struct vql_error e = { "" };
        struct vql_ctrl set = { VIRTIO_NET_CTRL_MAC, VIRTIO_NET_CTRL_MAC_ADDR_SET, mac, 6 };
        struct vql_ctrl unknown = { 0xee, 0, mac, 1 };
        struct vql_stop stops[VQL_DEV_MAX_QUEUES];
        const uint64_t wanted = vql_bit(VIRTIO_NET_F_CTRL_VQ) | vql_bit(VIRTIO_NET_F_CTRL_RX) |
                                vql_bit(VIRTIO_NET_F_CTRL_MAC_ADDR);
        int err;

        if (!vql_device_can(r->dev, VQL_DEV_CTRL) || (features & wanted) != wanted)
                conf_skip(r);
        conf_map(r);
        conf_require(r, vql_device_negotiate(r->dev, conf_features(r) | wanted, &e) == 0, "%s",
                     e.text);
        conf_require(r, vql_device_start(r->dev, &e) == 0, "start: %s", e.text);
        conf_require(r, vql_device_ctrl(r->dev, &set, &e) == 0, "MAC: %s", e.text);
        conf_require(r, vql_device_cfg_read(r->dev, 0, now, 6) == 0 && !memcmp(now, mac, 6),
                     "an address that was set is not there");
        err = vql_device_ctrl(r->dev, &unknown, &e);
        conf_require(r, err == -EIO, "an unknown command answers %d", err);
        conf_require(r, vql_device_suspend(r->dev, (uint32_t)r->patience_ms, stops, &e) == 0,
                     "suspend: %s", e.text);
        conf_require(r, vql_device_start(r->dev, &e) == 0, "start: %s", e.text);
        if (!vql_device_can(r->dev, VQL_DEV_HOLD_KEEPS))
                conf_require(r, vql_device_replay(r->dev, &e) == 0, "replay: %s", e.text);
        conf_require(r, vql_device_cfg_read(r->dev, 0, now, 6) == 0 && !memcmp(now, mac, 6),
                     "an address that was set is gone after all queues stopped");
}

/* ---- counters ---- */

static void counters_fit_their_names(struct rig *r)
{
        uint64_t values[64] = { 0 };
        size_t names = 0;

        conf_go(r);
        conf_send(r, 8);
        while (vql_device_stat_names(r->dev)[names])
                names++;
        if (!names)
                conf_skip(r);
        for (uint32_t q = 0; q < vql_device_caps(r->dev)->queues; q++)
                conf_require(r, vql_device_stats(r->dev, (uint16_t)q, values, 64) == names,
                             "queue %u: not a value for each of %zu names", q, names);
        values[1] = 0x5a5a;
        conf_require(r,
                     vql_device_stats(r->dev, VQL_NO_QUEUE, values, 1) == 1 && values[1] == 0x5a5a,
                     "more values than there is room for");
}

const struct conf_check conf_event_checks[] = {
        { "configuration", configuration_changes },
        { "broken", needs_a_reset },
        { "gone", goes_away },
        { "wanted-back", is_wanted_back },
        { "bad-ring", bad_ring_stops_its_queue },
        { "bad-rings", all_bad_rings },
        { "commands", commands_work },
        { "counters", counters_fit_their_names },
        { NULL, NULL },
};
