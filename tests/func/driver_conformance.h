/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_DRIVER_CONFORMANCE_H
#define FUNC_DRIVER_CONFORMANCE_H

/*
 * Does a driver keep what include/vqlift/driver.h promises?  The suite opens the device, plays the
 * driver of its rings and the far end of its wire, and looks at each sentence in turn.  It needs
 * nothing but the driver, an address, and that wire: a socket of the simulated NIC, a tap in a
 * machine with a real one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "vqlift/driver.h"

struct conf_wire {
        /* A frame to the device on a pair: 0 or -errno. */
        int (*send)(void *arg, uint16_t pair, const void *frame, size_t n);
        /* The next frame from it: its length, 0 none within that time, or -errno. */
        ssize_t (*receive)(void *arg, uint16_t pair, void *ret_frame, size_t room, int timeout_ms);
        void *arg;
};

struct conf_target {
        const struct vql_driver *driver;
        const char *address, *args;
        struct conf_wire wire;
        /* Let something happen to an open device: 0, or -ENOTSUP where that cannot be done. */
        int (*provoke)(void *arg, struct vql_dev *d, enum vql_event_kind kind);
        void *provoke_arg;
        int patience_ms; /* for what has to come; 0: half a minute */
        int quiet_ms;    /* for what must not come; 0: a moment */
        bool lossy;      /* frames get lost while no queue runs */
        bool fragile; /* rings that are out of order, or DMA to nowhere, break the whole device */
};

struct conf_ring {
        uint16_t size, start;
        bool packed, start_wrap_0, event_idx, in_order, mergeable, indirect;
        uint32_t seed;
};

struct conf_result {
        unsigned int passed, failed, skipped;
        char first[256]; /* name of the first check that failed and why */
};

/* Run all checks, or the one named `only`.  What the device cannot do is skipped.  `out` may be
 * NULL. */
void conf_run(const struct conf_target *t, const struct conf_ring *ring, const char *only,
              FILE *out, struct conf_result *io_result);

#endif
