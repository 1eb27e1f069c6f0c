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

enum { READY_SECONDS = 20 };

/* The library's callbacks have no argument of ours. */
static struct {
        char path[64];
        _Atomic(int) vid; /* of the device that is ready */
        sem_t ready, gone;
} host;

struct rte_peer {
        int vid; /* -1: not ready yet */
};

static int on_new_device(int vid)
{
        atomic_store(&host.vid, vid);
        sem_post(&host.ready);
        return 0;
}

static void on_destroy_device(int vid)
{
        (void)vid;
        sem_post(&host.gone);
}

static const struct rte_vhost_device_ops ops = {
        .new_device = on_new_device,
        .destroy_device = on_destroy_device,
};

int rte_peer_listen(void)
{
        sem_init(&host.ready, 0, 0);
        sem_init(&host.gone, 0, 0);
        snprintf(host.path, sizeof(host.path), "/tmp/vqlift-bench-%d.sock", getpid());
        if (rte_vhost_driver_register(host.path, 0) == 0 &&
            rte_vhost_driver_callback_register(host.path, &ops) == 0 &&
            rte_vhost_driver_start(host.path) == 0)
                return 0;
        rte_peer_unlisten();
        return -EIO;
}

void rte_peer_unlisten(void)
{
        rte_vhost_driver_unregister(host.path);
}

int rte_peer_new(struct rte_peer **ret_peer, struct fe_frontend **ret_fe)
{
        struct rte_peer *p = calloc(1, sizeof(*p));
        int rc = p ? fe_frontend_connect(host.path, ret_fe) : -ENOMEM;

        if (rc < 0) {
                free(p);
                return rc;
        }
        p->vid = -1;
        *ret_peer = p;
        return 0;
}

static int wait_for(sem_t *what)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += READY_SECONDS;
        while (sem_timedwait(what, &until) < 0)
                if (errno != EINTR)
                        return -errno;
        return 0;
}

int rte_peer_wait(struct rte_peer *p)
{
        int rc = wait_for(&host.ready);

        if (rc < 0)
                return rc;
        p->vid = atomic_load(&host.vid);
        for (uint16_t q = 0; q < 2; q++)
                rte_vhost_enable_guest_notification(p->vid, q, 0);
        return 0;
}

void rte_peer_free(struct rte_peer *p)
{
        if (p && p->vid >= 0)
                (void)wait_for(&host.gone);
        free(p);
}

int rte_peer_seek(struct rte_peer *p, unsigned int ring, uint32_t at, bool packed)
{
        const uint16_t avail = (uint16_t)at, used = packed ? (uint16_t)(at >> 16) : (uint16_t)at;

        return rte_vhost_set_vring_base(p->vid, (uint16_t)ring, avail, used);
}

uint16_t rte_peer_move(struct rte_peer *p, unsigned int ring, struct rte_mempool *pool,
                       struct rte_mbuf **pkts, uint16_t n)
{
        if (!pool)
                return rte_vhost_enqueue_burst(p->vid, (uint16_t)ring, pkts, n);
        return rte_vhost_dequeue_burst(p->vid, (uint16_t)ring, pool, pkts, n);
}
