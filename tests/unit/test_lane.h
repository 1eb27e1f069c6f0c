/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TESTS_UNIT_TEST_LANE_H
#define VQLIFT_TESTS_UNIT_TEST_LANE_H

/*
 * Lanes with queues whose bursts are functions of the test: they see every touch of a queue, also
 * one that comes too late.  The rings behind them are real enough for notifications.
 */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "eal.h"
#include "sw-fallback/uplink.h"
#include "sw-fallback/worker.h"
#include "virtqueue/features.h"

enum { ROOM = 2048, RING = 256 };

static struct rte_mempool *pool, *indirect;

/* ---- a queue of the test's own ---- */

struct fake {
        struct vql_queue q;
        int kick_fd;
        _Atomic(bool) alive; /* false: nobody may touch it */
        _Atomic(unsigned int) touched_dead, calls;

        /* from the guest */
        _Atomic(unsigned int) fault_after; /* buffers until the ring is found broken; 0: never */
        unsigned int kicks;
        uint16_t port; /* destination port that its packets have */

        /* to the guest */
        _Atomic(unsigned int) room, got;
        uint8_t marks[4096]; /* a byte of each packet, in order */

        _Alignas(16) uint8_t desc[RING * 16];
        _Alignas(4) uint16_t avail[RING + 3];
        _Alignas(4) uint8_t used[RING * 8 + 6];
};

static inline struct fake *fake_of(struct vql_queue *q)
{
        return (struct fake *)((char *)q - offsetof(struct fake, q));
}

static inline void note_touch(struct fake *f)
{
        atomic_fetch_add(&f->calls, 1);
        if (!atomic_load(&f->alive))
                atomic_fetch_add(&f->touched_dead, 1);
}

/* A UDP packet of 60 bytes; its last byte says which buffer it was in. */
static inline struct rte_mbuf *make_packet(struct rte_mempool *from, uint16_t port, uint8_t mark)
{
        static const uint8_t head[] = {
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0,  0,  0, 1,  8,   0, /* Ethernet */
                0x45, 0,    0,    46,   0,    0,    0, 0, 64, 17, 0, 0,  192, 0,
                2,    1,    192,  0,    2,    2,    0, 9, 0,  9,  0, 26, 0,   0,
        };
        struct rte_mbuf *m = rte_pktmbuf_alloc(from);
        uint8_t *p = m ? (uint8_t *)rte_pktmbuf_append(m, 60) : NULL;

        if (!p)
                return NULL;
        memset(p, 0, 60);
        memcpy(p, head, sizeof(head));
        p[36] = (uint8_t)(port >> 8);
        p[37] = (uint8_t)port;
        p[59] = mark;
        return m;
}

static inline uint16_t fake_dequeue(struct vql_queue *q, struct rte_mempool *from,
                                    struct rte_mbuf **pkts, uint16_t n)
{
        struct fake *f = fake_of(q);
        uint16_t there, i;
        unsigned int left = atomic_load(&f->fault_after);

        note_touch(f);
        if (q->fault != VQL_FAULT_NONE)
                return 0;
        there = (uint16_t)(__atomic_load_n(&q->avail->idx, __ATOMIC_ACQUIRE) - q->last_avail);
        n = (uint16_t)RTE_MIN(n, there);
        if (left > 0 && left <= n) {
                vql_queue_fail(q, VQL_FAULT_DESC_LOOP);
                return 0;
        }
        if (left > 0)
                atomic_store(&f->fault_after, left - n);
        if (!from) {
                q->last_avail = (uint16_t)(q->last_avail + n);
                __atomic_store_n(&q->drop_disabled, q->drop_disabled + n, __ATOMIC_RELAXED);
                return 0;
        }
        for (i = 0; i < n; i++) {
                pkts[i] = make_packet(from, f->port, (uint8_t)q->last_avail);
                if (!pkts[i])
                        break;
                q->last_avail++;
        }
        __atomic_store_n(&q->packets, q->packets + i, __ATOMIC_RELEASE);
        return i;
}

static inline uint16_t fake_enqueue(struct vql_queue *q, struct rte_mbuf **pkts, uint16_t n)
{
        struct fake *f = fake_of(q);
        unsigned int room = atomic_load(&f->room), got = atomic_load(&f->got);

        note_touch(f);
        if (atomic_load(&f->fault_after) > 0)
                vql_queue_fail(q, VQL_FAULT_DESC_ADDRESS);
        if (q->fault != VQL_FAULT_NONE)
                return 0;
        n = (uint16_t)RTE_MIN(n, room);
        for (uint16_t i = 0; i < n; i++)
                f->marks[(got + i) % sizeof(f->marks)] =
                        *rte_pktmbuf_mtod_offset(pkts[i], uint8_t *, 59);
        atomic_fetch_sub(&f->room, n);
        atomic_fetch_add(&f->got, n);
        return n;
}

static inline struct fake *fake_new(bool rx)
{
        struct fake *f = aligned_alloc(64, (sizeof(*f) + 63) / 64 * 64);
        struct vql_queue_params params = {
                .features = 1ull << VIRTIO_F_VERSION_1,
                .state.size = RING,
                .rx = rx,
                .call_fd = -1,
        };

        assert_non_null(f);
        memset(f, 0, sizeof(*f));
        params.area[VQL_AREA_DESC] = f->desc;
        params.area[VQL_AREA_DRIVER] = f->avail;
        params.area[VQL_AREA_DEVICE] = f->used;
        vql_queue_init(&f->q, &params);
        if (rx)
                f->q.enqueue = fake_enqueue;
        else
                f->q.dequeue = fake_dequeue;
        f->kick_fd = rx ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        f->room = 1000000;
        f->alive = true;
        return f;
}

static inline void fake_free(struct fake *f)
{
        assert_int_equal(f->touched_dead, 0);
        if (f->kick_fd >= 0)
                close(f->kick_fd);
        free(f);
}

/* The guest makes n buffers available, and kicks if it is asked to (virtio 1.2, 2.7.13). */
static inline void guest_adds(struct fake *f, uint16_t n)
{
        const uint64_t one = 1;

        __atomic_store_n(&f->q.avail->idx, (uint16_t)(f->q.avail->idx + n), __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (!(__atomic_load_n(&f->q.used->flags, __ATOMIC_RELAXED) & VRING_USED_F_NO_NOTIFY)) {
                f->kicks++;
                assert_int_equal(write(f->kick_fd, &one, sizeof(one)), sizeof(one));
        }
}

/* ---- lanes ---- */

static inline struct vql_uplink *open_uplink(const char *spec, uint16_t queues)
{
        struct vql_uplink_params p = {
                .name = "port1",
                .spec = spec,
                .queues = queues,
                .pool = pool,
                .indirect_pool = indirect,
        };
        struct vql_uplink *u = NULL;
        struct vql_error e = { "" };

        if (vql_uplink_open(&p, &u, &e) < 0)
                fail_msg("%s", e.text);
        return u;
}

static inline struct vql_lane *lane_new(struct vql_uplink *u)
{
        struct vql_lane *lane = calloc(1, sizeof(*lane));

        assert_non_null(lane);
        lane->uplink = u;
        lane->pool = pool;
        lane->fault_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        return lane;
}

static inline struct fake *add_tx(struct vql_lane *lane)
{
        struct fake *f = fake_new(false);

        lane->tx[lane->n_tx++] = (struct vql_lane_ring){ .q = &f->q, .kick_fd = f->kick_fd };
        return f;
}

static inline struct fake *add_rx(struct vql_lane *lane)
{
        struct fake *f = fake_new(true);

        lane->rx[lane->n_rx++] = (struct vql_lane_ring){ .q = &f->q, .kick_fd = -1 };
        return f;
}

static inline void lane_free(struct vql_lane *lane)
{
        for (uint16_t i = 0; i < lane->n_tx; i++)
                fake_free(fake_of(lane->tx[i].q));
        for (uint16_t i = 0; i < lane->n_rx; i++)
                fake_free(fake_of(lane->rx[i].q));
        close(lane->fault_fd);
        free(lane);
}

static inline int test_pools_start(void)
{
        if (test_eal_start() < 0)
                return -1;
        pool = test_pool("pool", 8192, ROOM);
        indirect = test_pool("indirect", 4096, 0);
        return 0;
}

#endif
