/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRIVERS_VIRTIO_PCI_WAIT_H
#define DRIVERS_VIRTIO_PCI_WAIT_H

/* Waiting for registers and rings that have no interrupt: look, pause, look, up to a deadline. */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "drivers/virtio_pci/virtio_pci.h"

enum { VPCI_PAUSE_NS = 200000 };

static inline uint64_t vpci_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static inline uint64_t vpci_deadline(uint32_t ms)
{
        return vpci_now() + ms * UINT64_C(1000000);
}

/* False when the deadline is over.  Ends early when the device goes. */
static inline bool vpci_pause(const struct vql_vpci *v, uint64_t deadline_ns)
{
        struct pollfd gone = { .fd = vql_vfio_device_gone_fd(v->vfio), .events = POLLIN };
        struct timespec t = { .tv_nsec = VPCI_PAUSE_NS };

        if (vpci_now() >= deadline_ns)
                return false;
        ppoll(&gone, 1, &t, NULL);
        return true;
}

#endif
