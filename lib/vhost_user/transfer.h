/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_TRANSFER_H
#define VQLIFT_VHOST_USER_TRANSFER_H

/*
 * A device's state on its way through a descriptor of the front-end's, a pipe or a stream socket
 * (vhost-user specification, "Migrating back-end state").  Never blocks: what does not go through
 * at once follows on the event loop, and a peer that lets nothing move for longer than the deadline
 * ends the transfer.
 *
 * Threads: the port's control thread, on its sd-event loop.
 */

#include <stddef.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include "base/error.h"
#include "base/log.h"

enum vql_direction { VQL_SAVE, VQL_LOAD }; /* as in SET_DEVICE_STATE_FD */

struct vql_transfer;

struct vql_transfer_params {
        sd_event *loop; /* referenced */
        int fd;         /* owned from here on, even on error */
        enum vql_direction direction;
        const uint8_t *bytes; /* to be saved: copied */
        size_t n;             /* of them; load: more than that is an error */
        uint64_t deadline_us; /* without a byte that moves */
        const struct vql_log *log;
        /* Load: all has come, up to the end of the stream.  Called at most once. */
        int (*arrived)(void *arg, const uint8_t *bytes, size_t n, struct vql_error *e);
        void *arg;
};

/* Begin.  -EINVAL: not a pipe's right end and not a stream socket; -errno of what failed. */
int vql_transfer_new(const struct vql_transfer_params *params, struct vql_transfer **ret_transfer,
                     struct vql_error *e);
/* Close the descriptor, finished or not.  NULL is fine. */
void vql_transfer_free(struct vql_transfer *t);

/*
 * Go on as far as is possible without waiting: 0 if all was written, or all came and arrived() took
 * it; -EAGAIN if the end was not seen yet; else what it failed with.
 */
int vql_transfer_check(struct vql_transfer *t, struct vql_error *e);

/* What was to be saved, or the `ret_n` bytes that came so far. */
const uint8_t *vql_transfer_bytes(const struct vql_transfer *t, size_t *ret_n);

#endif
