/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <unistd.h>

#include "drivers/sim/sim_impl.h"
#include "virtqueue/features.h"

void vql_sim_queue_init(struct sim_queue *q, uint16_t index)
{
        q->state = SIM_QUEUE_FRESH;
        q->index = index;
        q->irq_fd = -1;
}

void vql_sim_queue_quiet(struct sim_queue *q, enum sim_queue_state then)
{
        vql_sim_ring_close(&q->ring);
        q->state = then;
}

void vql_sim_queue_fail(struct sim *s, struct sim_queue *q)
{
        q->state = SIM_QUEUE_STUCK;
        sim_count(q, SIM_STAT_faults, 1);
        vql_sim_event_raise(s, VQL_EVENT_QUEUE, q->index);
}

/* ---- interrupts ---- */

void vql_sim_queue_signal(struct sim *s, struct sim_queue *q)
{
        const int32_t lose = s->args.knob[VQL_SIM_KNOB_lose_irq];
        const uint64_t one = 1;

        if (q->irq_fd < 0 || !vql_sim_ring_signal_due(&q->ring))
                return;
        s->interrupts++;
        if (lose && s->interrupts % (uint64_t)lose == 0) {
                sim_count(q, SIM_STAT_interrupts_lost, 1);
                return;
        }
        /* An eventfd that is full is readable, which is all that an interrupt has to say. */
        if (write(q->irq_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN)
                sim_count(q, SIM_STAT_interrupts, 1);
}

int vql_sim_vq_irq(struct vql_dev *d, uint16_t q, int fd, struct vql_error *e)
{
        struct sim *s = d->priv;
        /* Vector 0 is the configuration's, as on PCI. */
        const int32_t vector = q == VQL_IRQ_CONFIG ? 0 : q + 1;
        const int32_t vectors = s->args.knob[VQL_SIM_KNOB_vectors];
        int err;

        if (q != VQL_IRQ_CONFIG && q >= s->caps.queues)
                return vql_fail(e, EINVAL, "%s: no queue %u", d->address, q);
        vql_sim_lock(s);
        err = s->health == SIM_GONE ? vql_sim_check_health(s, e) : 0;
        if (!err && fd >= 0 && vectors && vector >= vectors)
                err = vql_fail(e, ENOSPC, "%s: interrupt %d, the device has %d", d->address, vector,
                               vectors);
        if (!err && q == VQL_IRQ_CONFIG)
                s->config_fd = fd;
        else if (!err)
                s->queue[q].irq_fd = fd;
        vql_sim_unlock(s);
        return err;
}

/* ---- work ---- */

/* After so many buffers: what a knob wants to happen. */
static void count_moved(struct sim *s, struct sim_queue *q, unsigned int n)
{
        const int32_t *knob = s->args.knob;

        s->moved += n;
        q->moved += n;
        if (knob[VQL_SIM_KNOB_break_after] && s->moved >= (uint64_t)knob[VQL_SIM_KNOB_break_after])
                vql_sim_turn_bad(s, SIM_BROKEN);
        if (knob[VQL_SIM_KNOB_gone_after] && s->moved >= (uint64_t)knob[VQL_SIM_KNOB_gone_after])
                vql_sim_turn_bad(s, SIM_GONE);
        if (knob[VQL_SIM_KNOB_stuck_after] && q->moved >= (uint64_t)knob[VQL_SIM_KNOB_stuck_after])
                vql_sim_queue_fail(s, q);
}

static bool transmit_work(struct sim *s, struct sim_queue *q)
{
        int n;

        /* A doorbell is what makes a device look; one that looked anyway would hide a lost one. */
        if (!atomic_exchange_explicit(&q->kicked, false, memory_order_acq_rel))
                return false;
        vql_sim_ring_ask_kicks(&q->ring, false);
        n = vql_sim_transmit(s, q, SIM_BURST);
        vql_sim_queue_signal(s, q);
        if (n < 0) {
                vql_sim_queue_fail(s, q);
                return false;
        }
        count_moved(s, q, (unsigned int)n);
        if (q->state != SIM_QUEUE_RUNNING)
                return false;
        if (!n)
                vql_sim_ring_ask_kicks(&q->ring, true);
        if (n || vql_sim_ring_has(&q->ring))
                atomic_store_explicit(&q->kicked, true, memory_order_release);
        return atomic_load_explicit(&q->kicked, memory_order_acquire);
}

static bool receive_work(struct sim *s, struct sim_queue *q)
{
        int n = vql_sim_receive(s, q);

        atomic_store_explicit(&q->kicked, false, memory_order_release);
        vql_sim_queue_signal(s, q);
        if (n < 0) {
                vql_sim_queue_fail(s, q);
                return false;
        }
        count_moved(s, q, (unsigned int)n);
        return n > 0;
}

bool vql_sim_queue_work(struct sim *s, struct sim_queue *q)
{
        return sim_queue_is_tx(q) ? transmit_work(s, q) : receive_work(s, q);
}

void vql_sim_vq_kick(struct vql_dev *d, uint16_t q)
{
        struct sim *s = d->priv;

        atomic_store_explicit(&s->queue[q].kicked, true, memory_order_release);
        vql_sim_wake(s);
}

/* ---- start and stop ---- */

static int check_start(const struct sim *s, const struct sim_queue *q,
                       const struct vql_dev_ring *ring, struct vql_error *e)
{
        const bool runs = s->life == SIM_RUN;
        const bool packed = vql_has(s->features, VIRTIO_F_RING_PACKED);

        if (runs && q->state == SIM_QUEUE_FRESH && !(s->caps.flags & VQL_DEV_LATE))
                return vql_fail(e, ENOTSUP, "queue %u was not started before the device", q->index);
        if (runs && q->state == SIM_QUEUE_STOPPED && !(s->caps.flags & VQL_DEV_LIVE))
                return vql_fail(e, ENOTSUP, "queue %u cannot start again by itself", q->index);
        if (ring->packed != packed || ring->size > s->caps.queue_size)
                return vql_fail(e, EINVAL, "a %s ring of %u, expected a %s one of at most %u",
                                ring->packed ? "packed" : "split", ring->size,
                                packed ? "packed" : "split", s->caps.queue_size);
        return vql_sim_check_health(s, e);
}

static bool is_initial(const struct vql_position *at, bool packed)
{
        return !at->avail && !at->used && at->avail_wrap == packed && at->used_wrap == packed;
}

int vql_sim_vq_start(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                     const struct vql_position *at, struct vql_error *e)
{
        struct sim *s = d->priv;
        struct sim_queue *queue = &s->queue[q];
        struct sim_ring_params params = {
                .mem = &s->mem,
                .where = ring,
                .at = at,
                .fills = !sim_queue_is_tx(queue),
        };
        int err;

        vql_sim_lock(s);
        params.event_idx = vql_has(s->features, VIRTIO_RING_F_EVENT_IDX);
        err = check_start(s, queue, ring, e);
        if (!err && !(s->caps.flags & VQL_DEV_SEEK) && !is_initial(at, ring->packed))
                err = vql_fail(e, ENOTSUP, "queue %u at %u (%u), it can start at the initial place",
                               q, at->used, at->used_wrap);
        if (!err) {
                err = vql_sim_ring_open(&queue->ring, &params, e);
                if (err < 0)
                        vql_sim_ring_close(&queue->ring);
        }
        if (!err) {
                atomic_store(&queue->kicked, false);
                queue->state = s->life == SIM_RUN ? SIM_QUEUE_RUNNING : SIM_QUEUE_STARTED;
        }
        vql_sim_unlock(s);
        return err;
}

/* Buffers that were taken and not used are as if they had never been taken. */
static struct vql_stop settle(struct sim *s, struct sim_queue *q)
{
        const int32_t *knob = s->args.knob;
        const bool tell = s->caps.flags & VQL_DEV_TELL;
        struct vql_stop stop = { .stopped = true, .quality = VQL_STOP_EXACT };

        if (q->state == SIM_QUEUE_RUNNING && sim_queue_is_tx(q)) {
                if ((s->caps.flags & VQL_DEV_ORDERLY) && vql_sim_transmit(s, q, q->ring.count) > 0)
                        vql_sim_queue_signal(s, q);
                else if (knob[VQL_SIM_KNOB_repeat] && vql_sim_transmit_untold(s, q))
                        stop.quality = VQL_STOP_REPEAT;
        }
        if (knob[VQL_SIM_KNOB_shuffle] && q->ring.count)
                stop.quality = VQL_STOP_UNKNOWN;
        stop.at = tell ? vql_sim_ring_position(&q->ring) : vql_sim_ring_position_shown(&q->ring);
        stop.at.used = (uint16_t)(stop.at.used + knob[VQL_SIM_KNOB_tell_off]);
        stop.at.avail = stop.at.used;
        vql_sim_queue_quiet(q, SIM_QUEUE_STOPPED);
        return stop;
}

/* A stop takes as long as the knob says; the queues run on until then. */
static int linger(struct sim *s, uint32_t timeout_ms, struct vql_error *e)
{
        const uint32_t ms = (uint32_t)s->args.knob[VQL_SIM_KNOB_stop_ms];

        if (!ms)
                return 0;
        vql_sim_wait(s, ms < timeout_ms ? ms : timeout_ms);
        if (ms <= timeout_ms)
                return 0;
        return vql_fail(e, ETIMEDOUT, "%s: not stopped within %u ms", s->dev->address, timeout_ms);
}

int vql_sim_vq_stop(struct vql_dev *d, uint16_t q, uint32_t timeout_ms, struct vql_stop *ret_stop,
                    struct vql_error *e)
{
        struct sim *s = d->priv;
        int err;

        if (!(s->caps.flags & VQL_DEV_LIVE))
                return vql_fail(e, ENOTSUP, "%s: no queue stops by itself", d->address);
        vql_sim_lock(s);
        err = linger(s, timeout_ms, e);
        if (!err)
                err = vql_sim_check_health(s, e);
        if (!err)
                *ret_stop = settle(s, &s->queue[q]);
        vql_sim_unlock(s);
        return err;
}

static bool ran(const struct sim_queue *q)
{
        return q->state == SIM_QUEUE_RUNNING || q->state == SIM_QUEUE_STUCK;
}

int vql_sim_suspend(struct vql_dev *d, uint32_t timeout_ms, struct vql_stop *ret_stops,
                    struct vql_error *e)
{
        struct sim *s = d->priv;
        int err;

        vql_sim_lock(s);
        err = linger(s, timeout_ms, e);
        if (!err)
                err = vql_sim_check_health(s, e);
        for (uint16_t q = 0; !err && q < s->caps.queues; q++)
                ret_stops[q] = ran(&s->queue[q]) ? settle(s, &s->queue[q])
                                                 : (struct vql_stop){ .stopped = false };
        if (!err) {
                s->life = SIM_HELD;
                if (!(s->caps.flags & VQL_DEV_HOLD_KEEPS))
                        vql_sim_filter_reset(s);
        }
        vql_sim_unlock(s);
        return err;
}
