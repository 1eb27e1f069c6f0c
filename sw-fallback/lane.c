/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "sw-fallback/headers.h"
#include "sw-fallback/relay.h"
#include "sw-fallback/uplink.h"
#include "virtqueue/notify.h"

enum { HOLD_US = 200 };

/* Counters have one writer, the owner of the queue, and any reader. */
static void count(uint64_t *counter, uint64_t n)
{
        __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* The next uplink queue that the lane receives from, or one that does not exist. */
static uint32_t next_queue(const struct vql_lane *lane, uint32_t queue)
{
        return lane->rx_stride ? queue + lane->rx_stride : UINT16_MAX + 1u;
}

static uint32_t queue_end(const struct vql_lane *lane)
{
        return likely(lane->uplink != NULL) ? vql_uplink_queues(lane->uplink) : 0;
}

static void note_first_packet(struct vql_lane *lane)
{
        if (unlikely(atomic_load_explicit(&lane->first_packet_tsc, memory_order_relaxed) == 0))
                atomic_store(&lane->first_packet_tsc, rte_rdtsc());
}

static void tell_fault(const struct vql_lane *lane)
{
        const uint64_t one = 1;

        /* Fails only if the counter is full, and then the port was told often enough. */
        if (lane->fault_fd >= 0 && write(lane->fault_fd, &one, sizeof(one)) < 0)
                return;
}

/* ---- to the wire ---- */

/* Where in the ring the guest's next buffer is; changes with every buffer that was taken. */
static uint32_t ring_place(const struct vql_queue *q)
{
        return (uint32_t)q->last_avail | (uint32_t)q->avail_wrap << 16;
}

static bool poll_tx(struct vql_lane_state *s, uint16_t i)
{
        struct vql_lane *lane = s->lane;
        struct vql_queue *q = lane->tx[i].q;
        uint32_t place = ring_place(q);
        struct rte_mbuf *pkts[VQL_BURST];
        uint16_t n, lost;

        n = q->dequeue(q, lane->tx[i].discard ? NULL : lane->pool, pkts, VQL_BURST);
        if (n > 0) {
                note_first_packet(lane);
                lost = vql_uplink_send(lane->uplink, lane->uplink_queue, pkts, n);
                if (unlikely(lost > 0))
                        count(&q->drop_uplink, lost);
        }
        if (unlikely(q->fault != VQL_FAULT_NONE)) {
                s->tx_mode[i] = VQL_LANE_RING_FAULTED;
                tell_fault(lane);
        }
        return n > 0 || ring_place(q) != place;
}

static bool send_injected(struct vql_lane *lane)
{
        struct rte_mbuf *m;

        if (likely(!atomic_load_explicit(&lane->inject, memory_order_relaxed)))
                return false;
        m = atomic_exchange(&lane->inject, NULL);
        if (m && lane->uplink)
                vql_uplink_send(lane->uplink, lane->uplink_queue, &m, 1);
        else
                rte_pktmbuf_free(m);
        return m != NULL;
}

/* ---- to the guest ---- */

static void drop(struct rte_mbuf **pkts, uint16_t n, uint64_t *counter)
{
        count(counter, n);
        rte_pktmbuf_free_bulk(pkts, n);
}

static void list_active(struct vql_lane_state *s)
{
        s->n_active = 0;
        for (uint16_t i = 0; i < s->lane->n_rx; i++)
                if (!s->lane->rx[i].discard && s->rx_mode[i] != VQL_LANE_RING_FAULTED)
                        s->active[s->n_active++] = i;
}

static void hold(struct vql_lane_state *s, uint16_t ring, struct rte_mbuf **pkts, uint16_t n)
{
        if (s->n_held == 0)
                s->held_until = rte_rdtsc() + rte_get_tsc_hz() / 1000000 * HOLD_US;
        for (uint16_t i = 0; i < n; i++)
                s->held[s->n_held++] = (struct vql_lane_held){ pkts[i], ring };
}

/*
 * Give packets to one ring.  What finds no buffer is held, unless the ring is starved: a guest that
 * takes nothing must not hold up the other rings of the lane for every single burst.  At most
 * VQL_BURST packets are on their way here or held at any time, so there is always room to hold.
 */
static bool give(struct vql_lane_state *s, uint16_t ring, struct rte_mbuf **pkts, uint16_t n)
{
        struct vql_queue *q = s->lane->rx[ring].q;
        uint16_t took = q->enqueue(q, pkts, n);

        rte_pktmbuf_free_bulk(pkts, took);
        if (unlikely(q->fault != VQL_FAULT_NONE)) {
                s->rx_mode[ring] = VQL_LANE_RING_FAULTED;
                list_active(s);
                tell_fault(s->lane);
                drop(&pkts[took], (uint16_t)(n - took), &q->drop_no_buffer);
        } else if (likely(took == n)) {
                s->rx_mode[ring] = VQL_LANE_RING_RUNNING;
        } else if (took == 0 && s->rx_mode[ring] == VQL_LANE_RING_STARVED) {
                drop(pkts, n, &q->drop_no_buffer);
        } else {
                s->rx_mode[ring] = VQL_LANE_RING_RUNNING;
                hold(s, ring, &pkts[took], (uint16_t)(n - took));
        }
        return took > 0;
}

/* Give each packet to its ring, those of one ring together and in order. */
static bool give_each(struct vql_lane_state *s, struct vql_lane_held *list, uint16_t n)
{
        struct rte_mbuf *pkts[VQL_BURST];
        bool any = false;

        for (uint16_t i = 0; i < n; i++) {
                uint16_t ring = list[i].ring, k = 0;

                if (!list[i].m)
                        continue;
                for (uint16_t j = i; j < n; j++) {
                        if (list[j].m && list[j].ring == ring) {
                                pkts[k++] = list[j].m;
                                list[j].m = NULL;
                        }
                }
                any |= give(s, ring, pkts, k);
        }
        return any;
}

static uint16_t choose_ring(const struct vql_lane_state *s, const struct rte_mbuf *m)
{
        uint64_t hash =
                m->ol_flags & RTE_MBUF_F_RX_RSS_HASH ? m->hash.rss : vql_headers_flow_hash(m);

        return s->active[hash * s->n_active >> 32];
}

static void deliver(struct vql_lane_state *s, struct rte_mbuf **pkts, uint16_t n)
{
        struct vql_lane_held list[VQL_BURST];

        note_first_packet(s->lane);
        if (likely(s->n_active == 1)) {
                give(s, s->active[0], pkts, n);
        } else if (s->n_active == 0) {
                if (s->lane->n_rx > 0)
                        count(&s->lane->rx[0].q->drop_disabled, n);
                rte_pktmbuf_free_bulk(pkts, n);
        } else {
                for (uint16_t i = 0; i < n; i++)
                        list[i] = (struct vql_lane_held){ pkts[i], choose_ring(s, pkts[i]) };
                give_each(s, list, n);
        }
}

static bool poll_rx(struct vql_lane_state *s)
{
        struct vql_lane *lane = s->lane;
        struct rte_mbuf *pkts[VQL_BURST];
        bool any = false;

        for (uint32_t q = lane->uplink_queue; q < queue_end(lane); q = next_queue(lane, q)) {
                uint16_t n = vql_uplink_receive(lane->uplink, (uint16_t)q, pkts, VQL_BURST);

                if (n == 0)
                        continue;
                any = true;
                deliver(s, pkts, n);
                if (s->n_held > 0)
                        break;
        }
        return any;
}

static void drop_held(struct vql_lane_state *s)
{
        for (uint16_t i = 0; i < s->n_held; i++) {
                uint16_t ring = s->held[i].ring;

                s->rx_mode[ring] = VQL_LANE_RING_STARVED;
                drop(&s->held[i].m, 1, &s->lane->rx[ring].q->drop_no_buffer);
        }
        s->n_held = 0;
}

static void retry_held(struct vql_lane_state *s, uint64_t now)
{
        struct vql_lane_held list[VQL_BURST];
        uint64_t until = s->held_until;
        uint16_t n = s->n_held;

        memcpy(list, s->held, n * sizeof(list[0]));
        s->n_held = 0;
        give_each(s, list, n);
        s->held_until = until;
        if (now >= until)
                drop_held(s);
}

/* ---- by way of a device ---- */

static bool poll_relay(struct vql_lane_state *s, uint16_t i)
{
        struct vql_relay *relay = s->lane->relay[i].relay;
        const int rc = vql_relay_poll(relay);

        if (unlikely(rc < 0))
                s->relay_mode[i] = VQL_LANE_RING_FAULTED;
        if (unlikely(vql_relay_has_news(relay)) || rc < 0)
                tell_fault(s->lane);
        return rc > 0;
}

static bool poll_relays(struct vql_lane_state *s)
{
        bool any = false;

        for (uint16_t i = 0; i < s->lane->n_relay; i++)
                if (likely(s->relay_mode[i] != VQL_LANE_RING_FAULTED))
                        any |= poll_relay(s, i);
        return any;
}

/* ---- rounds ---- */

static bool poll_all_tx(struct vql_lane_state *s)
{
        bool any = false;

        for (uint16_t i = 0; i < s->lane->n_tx; i++)
                if (likely(s->tx_mode[i] != VQL_LANE_RING_FAULTED))
                        any |= poll_tx(s, i);
        return any;
}

bool vql_lane_poll(struct vql_lane_state *s, uint64_t now)
{
        bool any = poll_all_tx(s);

        any |= poll_relays(s);
        any |= send_injected(s->lane);
        if (unlikely(s->n_held > 0)) {
                any = true;
                retry_held(s, now);
        }
        if (likely(s->n_held == 0))
                any |= poll_rx(s);
        return any;
}

bool vql_lane_glance(struct vql_lane_state *s)
{
        bool any = false;

        if (s->tx_timed || s->leftover)
                any |= poll_all_tx(s);
        if (s->rx_timed)
                any |= poll_rx(s);
        if (s->relay_timed)
                any |= poll_relays(s);
        return any;
}

void vql_lane_arm(struct vql_lane_state *s)
{
        struct vql_lane *lane = s->lane;

        /* An interrupt that brought no packet may have to be armed again, so this is always done.
         */
        for (uint32_t q = lane->uplink_queue; q < queue_end(lane); q = next_queue(lane, q))
                vql_uplink_rx_arm(lane->uplink, (uint16_t)q);
        if (s->armed)
                return;
        s->armed = true;
        s->leftover = false;
        for (uint16_t i = 0; i < lane->n_tx; i++)
                if (s->tx_mode[i] != VQL_LANE_RING_FAULTED)
                        s->leftover |= vql_notify_enable(lane->tx[i].q);
        /* What a relay cannot do now for want of room waits for the device, which interrupts. */
        for (uint16_t i = 0; i < lane->n_relay; i++)
                vql_relay_arm(lane->relay[i].relay);
}

void vql_lane_disarm(struct vql_lane_state *s)
{
        struct vql_lane *lane = s->lane;

        if (!s->armed)
                return;
        s->armed = false;
        s->leftover = false;
        for (uint32_t q = lane->uplink_queue; q < queue_end(lane); q = next_queue(lane, q))
                vql_uplink_rx_disarm(lane->uplink, (uint16_t)q);
        for (uint16_t i = 0; i < lane->n_tx; i++)
                if (s->tx_mode[i] != VQL_LANE_RING_FAULTED)
                        vql_notify_disable(lane->tx[i].q);
        for (uint16_t i = 0; i < lane->n_relay; i++)
                vql_relay_disarm(lane->relay[i].relay);
}

static int each_relay_fd(const struct vql_lane_relay *relay, int (*use)(void *arg, int fd),
                         void *arg)
{
        int rc = relay->kick_fd >= 0 ? use(arg, relay->kick_fd) : 0;

        return rc == 0 && relay->device_fd >= 0 ? use(arg, relay->device_fd) : rc;
}

int vql_lane_each_fd(const struct vql_lane *lane, int (*use)(void *arg, int fd), void *arg)
{
        int rc = 0;

        for (uint16_t i = 0; i < lane->n_tx && rc == 0; i++)
                if (lane->tx[i].kick_fd >= 0)
                        rc = use(arg, lane->tx[i].kick_fd);
        for (uint32_t q = lane->uplink_queue; q < queue_end(lane) && rc == 0;
             q = next_queue(lane, q)) {
                int fd = vql_uplink_rx_fd(lane->uplink, (uint16_t)q);

                if (fd >= 0)
                        rc = use(arg, fd);
        }
        for (uint16_t i = 0; i < lane->n_relay && rc == 0; i++)
                rc = each_relay_fd(&lane->relay[i], use, arg);
        return rc;
}

static bool tx_needs_timer(const struct vql_lane *lane)
{
        for (uint16_t i = 0; i < lane->n_tx; i++)
                if (lane->tx[i].kick_fd < 0)
                        return true;
        return false;
}

static bool rx_needs_timer(const struct vql_lane *lane)
{
        for (uint32_t q = lane->uplink_queue; q < queue_end(lane); q = next_queue(lane, q))
                if (vql_uplink_needs_timer(lane->uplink, (uint16_t)q))
                        return true;
        return false;
}

static bool relay_needs_timer(const struct vql_lane *lane)
{
        for (uint16_t i = 0; i < lane->n_relay; i++)
                if (lane->relay[i].kick_fd < 0 || lane->relay[i].device_fd < 0)
                        return true;
        return false;
}

static uint8_t first_mode(const struct vql_queue *q)
{
        return q->fault == VQL_FAULT_NONE ? VQL_LANE_RING_RUNNING : VQL_LANE_RING_FAULTED;
}

int vql_lane_open(struct vql_lane *lane, struct vql_lane_state **ret_state)
{
        struct vql_lane_state *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        s->lane = lane;
        s->tx_timed = tx_needs_timer(lane);
        s->rx_timed = rx_needs_timer(lane);
        s->relay_timed = relay_needs_timer(lane);
        for (uint16_t i = 0; i < lane->n_tx; i++) {
                s->tx_mode[i] = first_mode(lane->tx[i].q);
                vql_notify_disable(lane->tx[i].q);
        }
        for (uint16_t i = 0; i < lane->n_rx; i++) {
                s->rx_mode[i] = first_mode(lane->rx[i].q);
                vql_notify_disable(lane->rx[i].q);
        }
        for (uint16_t i = 0; i < lane->n_relay; i++)
                vql_relay_disarm(lane->relay[i].relay);
        list_active(s);
        *ret_state = s;
        return 0;
}

void vql_lane_close(struct vql_lane_state *s)
{
        if (!s)
                return;
        drop_held(s);
        free(s);
}
