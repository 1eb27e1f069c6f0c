/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/rte.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rte_vhost.h>

#include "frontend/frontend.h"

enum { READY_SECONDS = 10 };

struct rte_vhost_peer {
        char path[64];
        int vid;
};

/* The library's callbacks have no argument of ours: one peer at a time. */
static _Atomic(int) ready_vid = -1;
static sem_t ready;

static int on_new_device(int vid)
{
        atomic_store(&ready_vid, vid);
        sem_post(&ready);
        return 0;
}

static void on_destroy_device(int vid)
{
        (void)vid;
        atomic_store(&ready_vid, -1);
}

static const struct rte_vhost_device_ops ops = {
        .new_device = on_new_device,
        .destroy_device = on_destroy_device,
};

int rte_vhost_peer_new(struct rte_vhost_peer **ret_peer, struct fe_frontend **ret_fe)
{
        struct rte_vhost_peer *p = calloc(1, sizeof(*p));
        int rc = -ENOMEM;

        if (!p)
                return rc;
        sem_init(&ready, 0, 0);
        snprintf(p->path, sizeof(p->path), "/tmp/vqlift-bench-%d.sock", getpid());
        if (rte_vhost_driver_register(p->path, 0) < 0 ||
            rte_vhost_driver_callback_register(p->path, &ops) < 0 ||
            rte_vhost_driver_start(p->path) < 0)
                rc = -EIO;
        else
                rc = fe_frontend_connect(p->path, ret_fe);
        if (rc < 0) {
                rte_vhost_peer_free(p);
                return rc;
        }
        *ret_peer = p;
        return 0;
}

void rte_vhost_peer_free(struct rte_vhost_peer *p)
{
        if (!p)
                return;
        rte_vhost_driver_unregister(p->path);
        sem_destroy(&ready);
        free(p);
}

int rte_vhost_peer_wait(struct rte_vhost_peer *p)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += READY_SECONDS;
        while (sem_timedwait(&ready, &until) < 0)
                if (errno != EINTR)
                        return -errno;
        p->vid = atomic_load(&ready_vid);
        for (uint16_t q = 0; q < 2; q++)
                rte_vhost_enable_guest_notification(p->vid, q, 0);
        return 0;
}

int rte_vhost_peer_seek(struct rte_vhost_peer *p, unsigned int ring, uint32_t at, bool packed)
{
        const uint16_t avail = (uint16_t)at, used = packed ? (uint16_t)(at >> 16) : (uint16_t)at;

        return rte_vhost_set_vring_base(p->vid, (uint16_t)ring, avail, used);
}

uint16_t rte_vhost_peer_move(struct rte_vhost_peer *p, unsigned int ring, struct rte_mempool *pool,
                             struct rte_mbuf **pkts, uint16_t n)
{
        if (!pool)
                return rte_vhost_enqueue_burst(p->vid, (uint16_t)ring, pkts, n);
        return rte_vhost_dequeue_burst(p->vid, (uint16_t)ring, pool, pkts, n);
}
