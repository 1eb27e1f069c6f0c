/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver_conformance.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <linux/virtio_net.h>

#include "base/bits.h"
#include "conformance_checks.h"
#include "conformance_rig.h"
#include "virtqueue/features.h"

enum { FRAMES = 100, ROUNDS = 10, MANY_KICKS = 1000, PATIENCE_MS = 30000, QUIET_MS = 20 };

static bool can(struct rig *r, enum vql_dev_flag flag)
{
        return vql_device_can(r->dev, flag);
}

static const struct vql_dev_ops *ops(const struct rig *r)
{
        return &r->t->driver->ops;
}

/* ---- open, negotiate, reset ---- */

static void one_owner(struct rig *r)
{
        struct vql_device *second;
        struct vql_error e = { "" };
        int err = vql_device_open(r->t->driver, r->t->address, r->t->args, NULL, &second, &e);

        if (!err)
                vql_device_close(second);
        conf_require(r, err == -EBUSY, "a second open gives %d, expected -EBUSY", err);
        err = vql_device_open(r->t->driver, r->t->address, "no-such-argument=1", NULL, &second, &e);
        if (!err)
                vql_device_close(second);
        conf_require(r, err == -EINVAL || err == -EBUSY, "an unknown argument gives %d", err);
}

static void caps_are_constant(struct rig *r)
{
        const struct vql_dev_caps before = *vql_device_caps(r->dev);
        struct vql_dev_caps now;

        conf_go(r);
        ops(r)->caps(vql_device_dev(r->dev), &now);
        conf_require(r,
                     now.queues == before.queues && now.queue_size == before.queue_size &&
                             now.features == before.features && now.flags == before.flags &&
                             now.page_size == before.page_size &&
                             now.map_limit == before.map_limit && now.n_ranges == before.n_ranges,
                     "caps change in the life of the device");
        conf_require(r, !!r->t->driver->match(r->t->address),
                     "the driver does not know its device");
}

static void features_are_agreed(struct rig *r)
{
        const uint64_t offered = vql_device_caps(r->dev)->features;
        struct vql_error e = { "" };

        for (unsigned int bit = 0; bit < 64; bit++) {
                /* Those of transport and rings are the driver's own business. */
                if (vql_has(offered, bit) || (bit >= 24 && bit <= 41))
                        continue;
                conf_require(r,
                             ops(r)->negotiate(vql_device_dev(r->dev),
                                               conf_features(r) | vql_bit(bit), &e) == -EINVAL,
                             "feature %u, which the device has not, is agreed on", bit);
                conf_require(r, vql_device_reset(r->dev, &e) == 0, "reset: %s", e.text);
        }
        conf_go(r);
        conf_send(r, 8);
}

static void reset_leads_back(struct rig *r)
{
        struct vql_error e = { "" };

        conf_go(r);
        conf_receive(r, 8);
        conf_send(r, 8);
        conf_require(r, vql_device_reset(r->dev, &e) == 0, "reset: %s", e.text);
        conf_expect_quiet(r);
        /* Maps stay; all else is set up again. */
        conf_negotiate(r);
        for (int i = 0; i < 2; i++)
                conf_irq(&r->line[i], r->line[i].call_fd);
        conf_resume_after_reset(r);
        conf_receive(r, 8);
        conf_send(r, 8);
}

/* ---- queues ---- */

static void moves_both_ways(struct rig *r)
{
        conf_go(r);
        for (int i = 0; i < 3; i++) {
                conf_send(r, FRAMES);
                conf_receive(r, FRAMES);
        }
}

static void waits_for_start(struct rig *r)
{
        struct vql_error e = { "" };

        conf_map(r);
        conf_negotiate(r);
        for (uint16_t i = 0; i < 2; i++) {
                const struct vql_position at = conf_position(&r->line[i]);

                conf_irq(&r->line[i], r->line[i].call_fd);
                conf_require(r, conf_vq_start(&r->line[i], &at, &e) == 0, "queue %u: start: %s", i,
                             e.text);
        }
        conf_expect_quiet(r);
        conf_require(r, vql_device_start(r->dev, &e) == 0, "start: %s", e.text);
        for (uint16_t i = 0; i < 2; i++)
                vql_device_vq_kick(r->dev, i);
        conf_send(r, 8);
        conf_receive(r, 8);
}

static void refuses_positions(struct rig *r)
{
        const struct vql_dev_ring ring = conf_ring_of(&r->line[CONF_TX]);
        struct vql_position at = conf_position(&r->line[CONF_TX]);
        struct vql_dev *d = vql_device_dev(r->dev);
        struct vql_dev_ring big = ring;
        struct vql_error e = { "" };
        int err;

        conf_map(r);
        conf_negotiate(r);
        at.avail = at.used = (uint16_t)(at.used + 1);
        if (ring.packed && at.used >= ring.size)
                at.avail = at.used = 0, at.avail_wrap = at.used_wrap = !at.used_wrap;
        err = ops(r)->vq_start(d, CONF_TX, &ring, &at, &e);
        if (!can(r, VQL_DEV_SEEK))
                conf_require(r, err == -ENOTSUP,
                             "a device that starts at the beginning only answers %d", err);
        else if (!ring.packed)
                conf_require(r, err == -EINVAL, "a start beside the used index answers %d", err);
        at = conf_position(&r->line[CONF_TX]);
        if (vql_device_caps(r->dev)->queue_size < 32768) {
                big.size = (uint16_t)(2 * vql_device_caps(r->dev)->queue_size);
                err = ops(r)->vq_start(d, CONF_TX, &big, &at, &e);
                conf_require(r, err == -EINVAL, "a ring of %u answers %d", big.size, err);
        }
        /* Nothing of that counts. */
        conf_require(r, vql_device_reset(r->dev, &e) == 0, "reset: %s", e.text);
        conf_negotiate(r);
}

static void stop_leaves_quiet(struct rig *r)
{
        struct vql_stop stops[2];

        conf_go(r);
        conf_receive(r, FRAMES / 3);
        conf_send(r, FRAMES / 3);
        conf_stop(r, stops);
        conf_expect_quiet(r);
        for (int i = 0; i < 2; i++)
                conf_check_stop(&r->line[i], &stops[i]);
        conf_resume(r, stops);
        conf_send(r, 8);
        conf_receive(r, 8);
}

static void goes_on_where_it_stopped(struct rig *r)
{
        struct vql_stop stops[2];

        conf_go(r);
        for (int i = 0; i < ROUNDS; i++) {
                conf_receive(r, 1 + conf_random(r, 20));
                conf_send(r, 1 + conf_random(r, 20));
                /* With buffers that it has and has not looked at. */
                conf_offer(&r->line[CONF_RX], 1 + conf_random(r, 20));
                conf_offer(&r->line[CONF_TX], 1 + conf_random(r, 20));
                conf_stop(r, stops);
                conf_resume(r, stops);
        }
        conf_receive(r, 8);
        conf_send(r, 8);
}

static void one_queue_at_a_time(struct rig *r)
{
        struct conf_line *tx = &r->line[CONF_TX];
        struct vql_error e = { "" };
        struct vql_stop stop;
        int err;

        conf_go(r);
        conf_send(r, 8);
        if (!can(r, VQL_DEV_LIVE)) {
                err = ops(r)->vq_stop(vql_device_dev(r->dev), CONF_TX, (uint32_t)r->patience_ms,
                                      &stop, &e);
                conf_require(r, err == -ENOTSUP, "to stop one queue answers %d", err);
                conf_send(r, 8);
                return;
        }
        for (int i = 0; i < ROUNDS; i++) {
                struct vql_position at;

                err = vql_device_vq_stop(r->dev, CONF_TX, (uint32_t)r->patience_ms, &stop, &e);
                conf_require(r, err == 0, "stop: %s", e.text);
                conf_check_stop(tx, &stop);
                conf_receive(r, 10);
                if (!can(r, VQL_DEV_SEEK))
                        fe_driver_restart(tx->d);
                at = conf_position(tx);
                conf_require(r, conf_vq_start(tx, &at, &e) == 0, "start: %s", e.text);
                vql_device_vq_kick(r->dev, CONF_TX);
                conf_send(r, 10);
        }
}

static void late_queue(struct rig *r)
{
        struct conf_line *tx = &r->line[CONF_TX];
        const struct vql_position at = conf_position(tx), rx_at = conf_position(&r->line[CONF_RX]);
        const struct vql_dev_ring ring = conf_ring_of(tx);
        struct vql_error e = { "" };
        int err;

        conf_map(r);
        conf_negotiate(r);
        for (int i = 0; i < 2; i++)
                conf_irq(&r->line[i], r->line[i].call_fd);
        conf_require(r, conf_vq_start(&r->line[CONF_RX], &rx_at, &e) == 0, "start: %s", e.text);
        conf_require(r, vql_device_start(r->dev, &e) == 0, "start: %s", e.text);
        vql_device_vq_kick(r->dev, CONF_RX);
        conf_receive(r, 8);
        if (!can(r, VQL_DEV_LATE)) {
                err = ops(r)->vq_start(vql_device_dev(r->dev), CONF_TX, &ring, &at, &e);
                conf_require(r, err == -ENOTSUP, "a late queue answers %d", err);
                return;
        }
        conf_require(r, conf_vq_start(tx, &at, &e) == 0, "late start: %s", e.text);
        vql_device_vq_kick(r->dev, CONF_TX);
        conf_send(r, 8);
        conf_receive(r, 8);
}

/* ---- kicks and interrupts ---- */

struct kicker {
        struct rig *rig;
        _Atomic bool end;
        _Atomic unsigned int kicks;
        int done_fd;
};

static void *kick_on(void *arg)
{
        struct kicker *k = arg;
        struct pollfd p = { .fd = k->done_fd, .events = POLLIN };

        while (!atomic_load(&k->end)) {
                for (uint16_t i = 0; i < 2; i++)
                        vql_device_vq_kick(k->rig->dev, i);
                if (atomic_fetch_add(&k->kicks, 2) % 50 == 0)
                        poll(&p, 1, 1);
        }
        return NULL;
}

static void kicks_may_come_too_often(struct rig *r)
{
        struct kicker k = { .rig = r, .done_fd = eventfd(0, EFD_CLOEXEC) };
        const uint64_t one = 1;
        jmp_buf outer;
        pthread_t thread;
        volatile int how;

        conf_go(r);
        conf_require(r, k.done_fd >= 0 && pthread_create(&thread, NULL, kick_on, &k) == 0,
                     "no thread");
        /* Whatever comes of it, the thread ends before the device does. */
        memcpy(&outer, &r->out, sizeof(outer));
        how = setjmp(r->out);
        while (!how && atomic_load(&k.kicks) < MANY_KICKS) {
                conf_send(r, FRAMES);
                conf_receive(r, FRAMES);
        }
        atomic_store(&k.end, true);
        if (write(k.done_fd, &one, sizeof(one)) != sizeof(one))
                how = CONF_FAILED;
        pthread_join(thread, NULL);
        close(k.done_fd);
        memcpy(&r->out, &outer, sizeof(outer));
        if (how)
                longjmp(r->out, how);
}

static uint64_t calls(int fd)
{
        uint64_t n = 0;

        return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void interrupts_move(struct rig *r)
{
        struct conf_line *tx = &r->line[CONF_TX];
        const int first = tx->call_fd;
        const int other = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        uint64_t stray;

        conf_go(r);
        for (int i = 0; i < ROUNDS; i++) {
                conf_send(r, 10);
                tx->call_fd = tx->call_fd == first ? other : first;
                conf_irq(tx, tx->call_fd);
                calls(tx->call_fd == first ? other : first);
                conf_send(r, 10);
                stray = calls(tx->call_fd == first ? other : first);
                if (stray) {
                        tx->call_fd = first;
                        close(other);
                        conf_fail(r, "%llu interrupts where they were taken away",
                                  (unsigned long long)stray);
                }
        }
        tx->call_fd = first;
        conf_irq(tx, -1);
        close(other);
        calls(first);
        fe_driver_calls_on(tx->d, 0);
        conf_offer(tx, 1);
        while (tx->arrived != tx->offered)
                conf_require(r, conf_wire_take(r, r->patience_ms), "a frame did not arrive");
        conf_require(r, !calls(first), "an interrupt without a descriptor for it");
        conf_irq(tx, first);
        conf_send(r, 10);
}

/* ---- all checks ---- */

static const struct conf_check checks[] = {
        { "one-owner", one_owner },
        { "caps", caps_are_constant },
        { "features", features_are_agreed },
        { "reset", reset_leads_back },
        { "moves", moves_both_ways },
        { "start", waits_for_start },
        { "positions", refuses_positions },
        { "quiet", stop_leaves_quiet },
        { "position", goes_on_where_it_stopped },
        { "live", one_queue_at_a_time },
        { "late", late_queue },
        { "kicks", kicks_may_come_too_often },
        { "interrupts", interrupts_move },
        { NULL, NULL },
};

static void run_check(const struct conf_target *t, const struct conf_ring *ring,
                      const struct conf_check *c, FILE *out, struct conf_result *io_result)
{
        struct rig *r = calloc(1, sizeof(*r));
        volatile int how;

        if (!r)
                abort();
        r->t = t;
        r->ring = *ring;
        r->check = io_result->passed + io_result->skipped + io_result->failed;
        r->patience_ms = t->patience_ms ? t->patience_ms : PATIENCE_MS;
        r->quiet_ms = t->quiet_ms ? t->quiet_ms : QUIET_MS;
        how = setjmp(r->out);
        if (!how) {
                conf_open(r);
                c->check(r);
        }
        conf_close(r);
        io_result->passed += how == 0;
        io_result->skipped += how == CONF_SKIPPED;
        io_result->failed += how == CONF_FAILED;
        if (how == CONF_FAILED && !io_result->first[0])
                snprintf(io_result->first, sizeof(io_result->first), "%s: %.200s", c->name, r->why);
        if (out && how == CONF_FAILED)
                fprintf(out, "%s: FAILED: %s\n", c->name, r->why);
        free(r);
}

void conf_run(const struct conf_target *t, const struct conf_ring *ring, const char *only,
              FILE *out, struct conf_result *io_result)
{
        const struct conf_check *const lists[] = { checks, conf_memory_checks, conf_event_checks };

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
                for (const struct conf_check *c = lists[i]; c->name; c++)
                        if (!only || strcmp(only, c->name) == 0)
                                run_check(t, ring, c, out, io_result);
}
