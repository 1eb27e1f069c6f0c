/* SPDX-License-Identifier: BSD-3-Clause */
#include "oracle_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <rte_vhost.h>

#include "frontend/frontend.h"

enum { WAIT_MS = 60000 };

/* What the library's thread says: numbers of devices, which are as good as messages. */
static struct {
        char path[64];
        int ready[2], gone[2]; /* pipes */
} oracle;

static void tell(int fd, int vid)
{
        if (write(fd, &vid, sizeof(vid)) < 0)
                perror("rte_vhost's device");
}

static int note_new(int vid)
{
        tell(oracle.ready[1], vid);
        return 0;
}

static void note_gone(int vid)
{
        tell(oracle.gone[1], vid);
}

static int hear(int fd, int *ret_vid)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };

        if (poll(&p, 1, WAIT_MS) <= 0)
                return -ETIMEDOUT;
        return read(fd, ret_vid, sizeof(*ret_vid)) == sizeof(*ret_vid) ? 0 : -EIO;
}

int oracle_listen(void)
{
        static const struct rte_vhost_device_ops ops = {
                .new_device = note_new,
                .destroy_device = note_gone,
        };

        if (pipe2(oracle.ready, O_CLOEXEC) < 0 || pipe2(oracle.gone, O_CLOEXEC) < 0)
                return -errno;
        snprintf(oracle.path, sizeof(oracle.path), "/tmp/vqlift-oracle-%d.sock", getpid());
        if (rte_vhost_driver_register(oracle.path, 0) < 0 ||
            rte_vhost_driver_callback_register(oracle.path, &ops) < 0 ||
            rte_vhost_driver_start(oracle.path) < 0)
                return -EIO;
        return 0;
}

void oracle_unlisten(void)
{
        rte_vhost_driver_unregister(oracle.path);
        for (int i = 0; i < 2; i++) {
                close(oracle.ready[i]);
                close(oracle.gone[i]);
        }
}

int oracle_connect(struct fe_frontend **ret_frontend)
{
        return fe_frontend_connect(oracle.path, ret_frontend);
}

int oracle_wait_ready(int *ret_vid)
{
        int vid, err = hear(oracle.ready[0], &vid);

        if (err < 0)
                return err;
        for (uint16_t ring = 0; ring < 2; ring++)
                rte_vhost_enable_guest_notification(vid, ring, 0);
        *ret_vid = vid;
        return 0;
}

int oracle_wait_gone(void)
{
        int vid;

        return hear(oracle.gone[0], &vid);
}

uint16_t oracle_enqueue(int vid, uint16_t ring, struct rte_mbuf **pkts, uint16_t n)
{
        return rte_vhost_enqueue_burst(vid, ring, pkts, n);
}

uint16_t oracle_dequeue(int vid, uint16_t ring, struct rte_mempool *pool, struct rte_mbuf **pkts,
                        uint16_t n)
{
        return rte_vhost_dequeue_burst(vid, ring, pool, pkts, n);
}
