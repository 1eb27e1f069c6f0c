/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/sim/sim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "drivers/drivers.h"
#include "drivers/sim/sim_impl.h"
#include "virtqueue/features.h"

#define BIT(n) (UINT64_C(1) << (n))

static const uint64_t all_features =
        BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_RING_F_EVENT_IDX) |
        BIT(VIRTIO_F_RING_PACKED) | BIT(VIRTIO_F_IN_ORDER) | BIT(VIRTIO_NET_F_MAC) |
        BIT(VIRTIO_NET_F_STATUS) | BIT(VIRTIO_NET_F_MTU) | BIT(VIRTIO_NET_F_MRG_RXBUF) |
        BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_CTRL_RX) | BIT(VIRTIO_NET_F_CTRL_RX_EXTRA) |
        BIT(VIRTIO_NET_F_CTRL_VLAN) | BIT(VIRTIO_NET_F_CTRL_MAC_ADDR) | BIT(VIRTIO_NET_F_MQ);
static const uint64_t ctrl_features =
        BIT(VIRTIO_NET_F_CTRL_VQ) | BIT(VIRTIO_NET_F_CTRL_RX) | BIT(VIRTIO_NET_F_CTRL_RX_EXTRA) |
        BIT(VIRTIO_NET_F_CTRL_VLAN) | BIT(VIRTIO_NET_F_CTRL_MAC_ADDR) | BIT(VIRTIO_NET_F_MQ);
static const uint32_t all_flags = VQL_DEV_SEEK | VQL_DEV_TELL | VQL_DEV_IN_ORDER | VQL_DEV_LIVE |
                                  VQL_DEV_LATE | VQL_DEV_LOG | VQL_DEV_PACKED | VQL_DEV_ORDERLY |
                                  VQL_DEV_IRQ_ANYFD | VQL_DEV_CTRL | VQL_DEV_CPU_DMA |
                                  VQL_DEV_HOLD_KEEPS;

/* What goes together: a device without one has not the other either. */
static void fill_caps(const struct sim_args *a, struct vql_dev_caps *ret_caps)
{
        uint32_t flags = all_flags & ~a->without_flags;
        uint64_t features = all_features & ~a->without_features;

        if (a->knob[VQL_SIM_KNOB_shuffle])
                flags &= ~(uint32_t)VQL_DEV_IN_ORDER;
        if (!(flags & VQL_DEV_IN_ORDER))
                features &= ~BIT(VIRTIO_F_IN_ORDER);
        if (!(flags & VQL_DEV_CTRL))
                features &= ~ctrl_features;
        if (a->pairs == 1)
                features &= ~BIT(VIRTIO_NET_F_MQ);
        if (!(flags & VQL_DEV_PACKED))
                features &= ~BIT(VIRTIO_F_RING_PACKED);
        if (!(features & BIT(VIRTIO_F_RING_PACKED)))
                flags &= ~(uint32_t)VQL_DEV_PACKED;
        *ret_caps = (struct vql_dev_caps){
                .queues = (uint16_t)(2 * a->pairs),
                .queue_size = a->size,
                .features = features,
                .flags = flags,
                .page_size = 4096,
                .map_limit = (uint32_t)a->knob[VQL_SIM_KNOB_maps],
        };
}

/* ---- life ---- */

/* The name of a socket is free again as soon as its holder is gone, however it went. */
static int claim(const char *address, int *ret_fd, struct vql_error *e)
{
        struct sockaddr_un name = { .sun_family = AF_UNIX };
        int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "vqlift-sim/%s", address);
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        int err;

        if (fd < 0)
                return vql_fail(e, errno, "%s: socket: %s", address, strerror(errno));
        if (bind(fd, (const struct sockaddr *)&name,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0) {
                *ret_fd = fd;
                return 0;
        }
        err = errno == EADDRINUSE ? EBUSY : errno;
        close(fd);
        return vql_fail(e, err, "%s: %s", address,
                        err == EBUSY ? "somebody else has this device" : strerror(err));
}

static int start_thread(struct sim *s)
{
        sigset_t all, before;
        int err;

        /* Signals are the business of the threads that the process knows of. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        err = pthread_create(&s->thread, NULL, vql_sim_thread, s);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -err;
}

static void init_lock(struct sim *s)
{
        pthread_condattr_t attr;

        pthread_mutex_init(&s->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&s->turn, &attr);
        pthread_condattr_destroy(&attr);
}

/* All but the thread. */
static void destroy(struct sim *s)
{
        vql_sim_memory_clear(&s->mem);
        vql_sim_wires_close(s->wire, s->args.pairs);
        vql_fd_close(&s->claim_fd);
        vql_fd_close(&s->wake_fd);
        vql_fd_close(&s->dev->event_fd);
        pthread_cond_destroy(&s->turn);
        pthread_mutex_destroy(&s->lock);
        free(s);
}

static void to_initial_state(struct sim *s)
{
        for (uint16_t q = 0; q < s->caps.queues; q++) {
                vql_sim_queue_quiet(&s->queue[q], SIM_QUEUE_FRESH);
                s->queue[q].irq_fd = -1;
        }
        s->life = SIM_RESET;
        s->health = SIM_WELL;
        s->features = 0;
        s->config_fd = -1;
        vql_sim_filter_reset(s);
}

static int open_parts(struct sim *s, struct vql_error *e)
{
        int err = claim(s->dev->address, &s->claim_fd, e);

        if (err < 0)
                return err;
        err = vql_sim_wires_open(&s->args, s->wire, e);
        if (err < 0)
                return err;
        s->wake_fd = eventfd(0, EFD_CLOEXEC);
        s->dev->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (s->wake_fd < 0 || s->dev->event_fd < 0)
                return vql_fail(e, errno, "%s: eventfd: %s", s->dev->address, strerror(errno));
        return 0;
}

static int sim_open(struct vql_dev *d, const char *args, struct vql_error *e)
{
        struct sim *s = calloc(1, sizeof(*s));
        int err;

        d->event_fd = -1;
        if (!s)
                return vql_fail(e, ENOMEM, "%s: out of memory", d->address);
        s->dev = d;
        s->claim_fd = s->wake_fd = -1;
        for (int pair = 0; pair < SIM_MAX_PAIRS; pair++)
                s->wire[pair].in = s->wire[pair].out = -1;
        s->link_up = true;
        s->random = 1;
        init_lock(s);
        err = vql_sim_args_parse(d->address, args, &s->args, e);
        if (!err)
                err = open_parts(s, e);
        if (err < 0)
                goto fail;
        fill_caps(&s->args, &s->caps);
        for (uint16_t q = 0; q < s->caps.queues; q++)
                vql_sim_queue_init(&s->queue[q], q);
        to_initial_state(s);
        d->priv = s;
        err = start_thread(s);
        if (!err)
                return 0;
        err = vql_fail(e, -err, "%s: no thread: %s", d->address, strerror(-err));

fail:
        d->priv = NULL;
        destroy(s);
        return err;
}

static void sim_close(struct vql_dev *d)
{
        struct sim *s = d->priv;

        vql_sim_lock(s);
        to_initial_state(s);
        s->life = SIM_CLOSING;
        vql_sim_unlock(s);
        vql_sim_wake(s);
        pthread_join(s->thread, NULL);
        destroy(s);
        d->priv = NULL;
}

static void sim_caps(struct vql_dev *d, struct vql_dev_caps *ret_caps)
{
        const struct sim *s = d->priv;

        *ret_caps = s->caps;
}

static int sim_reset(struct vql_dev *d, struct vql_error *e)
{
        struct sim *s = d->priv;
        int err;

        vql_sim_lock(s);
        err = s->health == SIM_GONE ? vql_sim_check_health(s, e) : 0;
        if (!err)
                to_initial_state(s);
        vql_sim_unlock(s);
        return err;
}

static int sim_negotiate(struct vql_dev *d, uint64_t features, struct vql_error *e)
{
        struct sim *s = d->priv;
        int err;

        if (!vql_has(features, VIRTIO_F_VERSION_1) || (features & ~s->caps.features))
                return vql_fail(e, EINVAL,
                                "%s: features %#llx, expected VERSION_1 and others of %#llx",
                                d->address, (unsigned long long)features,
                                (unsigned long long)s->caps.features);
        vql_sim_lock(s);
        err = vql_sim_check_health(s, e);
        if (!err) {
                s->features = features;
                s->life = SIM_READY;
                vql_sim_filter_reset(s);
        }
        vql_sim_unlock(s);
        return err;
}

static int sim_start(struct vql_dev *d, struct vql_error *e)
{
        struct sim *s = d->priv;
        int err;

        vql_sim_lock(s);
        err = vql_sim_check_health(s, e);
        if (!err && s->args.knob[VQL_SIM_KNOB_refuse_start])
                err = vql_fail(e, EIO, "%s: the device does not start", d->address);
        for (uint16_t q = 0; !err && q < s->caps.queues; q++)
                if (s->queue[q].state == SIM_QUEUE_STARTED)
                        s->queue[q].state = SIM_QUEUE_RUNNING;
        if (!err)
                s->life = SIM_RUN;
        vql_sim_unlock(s);
        vql_sim_wake(s);
        return err;
}

/* ---- memory ---- */

static int sim_dma_update(struct vql_dev *d, const struct vql_map *del, size_t n_del,
                          const struct vql_map *add, size_t n_add, struct vql_error *e)
{
        struct sim *s = d->priv;
        const struct sim_memory_change change = { del, add, n_del, n_add, s->caps.map_limit };
        int err;

        vql_sim_lock(s);
        err = vql_sim_memory_update(&s->mem, &change, e);
        /* Whoever takes a ring away from a running queue stops it. */
        for (uint16_t q = 0; !err && q < s->caps.queues; q++) {
                struct sim_queue *queue = &s->queue[q];

                if ((queue->state == SIM_QUEUE_RUNNING || queue->state == SIM_QUEUE_STARTED) &&
                    !vql_sim_ring_is_mapped(&queue->ring))
                        vql_sim_queue_fail(s, queue);
        }
        vql_sim_unlock(s);
        return err;
}

static int sim_log_set(struct vql_dev *d, const struct vql_dev_log *log, struct vql_error *e)
{
        struct sim *s = d->priv;

        if (!(s->caps.flags & VQL_DEV_LOG))
                return vql_fail(e, ENOTSUP, "%s: keeps no log", d->address);
        vql_sim_lock(s);
        s->mem.log = log ? *log : (struct vql_dev_log){ 0 };
        vql_sim_unlock(s);
        return 0;
}

/* A page is in the log before the buffer is: whoever has the lock sees all of it. */
static int sim_log_sync(struct vql_dev *d)
{
        struct sim *s = d->priv;

        if (!(s->caps.flags & VQL_DEV_LOG))
                return -ENOTSUP;
        vql_sim_lock(s);
        vql_sim_unlock(s);
        return 0;
}

/* ---- counters ---- */

static const char *const *sim_stat_names(struct vql_dev *d)
{
#define NAME(name) #name,
        static const char *const names[] = { SIM_STATS(NAME) NULL };
#undef NAME

        (void)d;
        return names;
}

static size_t sim_stats(struct vql_dev *d, uint16_t q, uint64_t *ret_values, size_t n)
{
        struct sim *s = d->priv;
        const uint16_t first = q == VQL_NO_QUEUE ? 0 : q;
        const uint16_t end = q == VQL_NO_QUEUE ? s->caps.queues : (uint16_t)(q + 1);

        if (n > SIM_STAT_COUNT)
                n = SIM_STAT_COUNT;
        for (size_t i = 0; i < n; i++) {
                ret_values[i] = 0;
                for (uint16_t at = first; at < end; at++)
                        ret_values[i] +=
                                atomic_load_explicit(&s->queue[at].stat[i], memory_order_relaxed);
        }
        return n;
}

/* ---- what tests do to it ---- */

void vql_sim_set(struct vql_dev *d, enum vql_sim_knob knob, int32_t value)
{
        struct sim *s = d->priv;

        vql_sim_lock(s);
        s->args.knob[knob] = value;
        s->moved = s->interrupts = 0;
        for (uint16_t q = 0; q < s->caps.queues; q++)
                s->queue[q].moved = 0;
        vql_sim_unlock(s);
}

void vql_sim_link(struct vql_dev *d, bool up)
{
        struct sim *s = d->priv;
        const uint64_t one = 1;

        vql_sim_lock(s);
        s->link_up = up;
        vql_sim_event_raise(s, VQL_EVENT_CONFIG, VQL_NO_QUEUE);
        /* An eventfd that is full is readable, too. */
        if (s->config_fd >= 0 && write(s->config_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
                vql_log(d->log, LOG_WARNING, "%s: interrupt: %s", d->address, strerror(errno));
        vql_sim_unlock(s);
}

void vql_sim_want_back(struct vql_dev *d)
{
        struct sim *s = d->priv;

        vql_sim_lock(s);
        vql_sim_event_raise(s, VQL_EVENT_REMOVE, VQL_NO_QUEUE);
        vql_sim_unlock(s);
}

static void turn_bad(struct vql_dev *d, enum sim_health health)
{
        struct sim *s = d->priv;

        vql_sim_lock(s);
        vql_sim_turn_bad(s, health);
        vql_sim_unlock(s);
}

void vql_sim_break(struct vql_dev *d)
{
        turn_bad(d, SIM_BROKEN);
}

void vql_sim_pull_out(struct vql_dev *d)
{
        turn_bad(d, SIM_GONE);
}

static bool sim_match(const char *address)
{
        return strncmp(address, "sim", 3) == 0 && !strchr(address, '/');
}

const struct vql_driver vql_driver_sim = {
        .name = "sim",
        .what = "a simulated NIC, to try things out and to test",
        .match = sim_match,
        .ops = {
                .open = sim_open,
                .close = sim_close,
                .caps = sim_caps,
                .reset = sim_reset,
                .negotiate = sim_negotiate,
                .start = sim_start,
                .suspend = vql_sim_suspend,
                .dma_update = sim_dma_update,
                .vq_start = vql_sim_vq_start,
                .vq_stop = vql_sim_vq_stop,
                .vq_kick = vql_sim_vq_kick,
                .vq_irq = vql_sim_vq_irq,
                .cfg_read = vql_sim_cfg_read,
                .ctrl = vql_sim_ctrl,
                .log_set = sim_log_set,
                .log_sync = sim_log_sync,
                .events = vql_sim_events,
                .stat_names = sim_stat_names,
                .stats = sim_stats,
        },
};
