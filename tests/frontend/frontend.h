/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

/*
 * A whole vhost-user front-end for virtio-net: memory, socket, negotiation in QEMU's order, rings.
 *
 *         struct fe_setup s = { .size = ..., see below };
 *         struct fe_frontend *fe;
 *
 *         fe_memory_new_layout(FE_MOSAIC, &mem);
 *         fe_frontend_connect(path, &fe);
 *         fe_frontend_setup(fe, &s);       negotiation, memory, rings, enable
 *         ... fe->ring[i].driver, or net.h for packets ...
 *         fe_frontend_stop(fe);            GET_VRING_BASE for each ring, positions checked
 *         fe_frontend_free(fe);
 *
 * Everything can also be done piece by piece, in any order and any number of times, with the
 * functions below and with request.h on fe->link.
 */

#include <stdbool.h>
#include <stdint.h>

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>

#include "frontend/channel.h"
#include "frontend/driver.h"
#include "frontend/memory.h"
#include "frontend/request.h"

enum { FE_MAX_RINGS = 256 };

#define FE_BIT(bit) (UINT64_C(1) << (bit))

struct fe_ring {
        struct fe_driver *driver;     /* NULL: not made */
        int kick_fd, call_fd, err_fd; /* eventfds; -1: none */
};

struct fe_setup {
        struct fe_memory *mem; /* borrowed */
        /* Wanted; what is acknowledged is the meet with what is offered.  A `required` feature that
         * is not offered makes setup fail with -EREMOTEIO. */
        uint64_t features, required;
        uint64_t protocol_features; /* 0: FE_PROTOCOL_QEMU; FE_PROTOCOL_NONE: do not ask */
        unsigned int queue_pairs;   /* 0: 1 */
        uint16_t ring_size;         /* 0: 256 */
        uint16_t start;             /* ring position to start at; see fe_driver_params */
        bool start_wrap_0;
        bool guard;          /* drivers check buffers */
        enum fe_pick pick;   /* which descriptors the drivers take */
        bool no_kick_fd;     /* SET_VRING_KICK without fd: the back-end polls */
        bool no_call_fd;     /* SET_VRING_CALL without fd: we poll */
        bool forgets_packed; /* hand over the initial position of packed rings, as QEMU 7.2 does */
        bool no_base;        /* no SET_VRING_BASE: a device state told the positions */
        bool inflight;       /* GET_INFLIGHT_FD and SET_INFLIGHT_FD, if negotiated */
        unsigned int enable; /* queue pairs to enable; 0: all */
        uint16_t mtu;        /* NET_SET_MTU if not 0 */
};

/* What a Linux guest takes, in either format; add what the test is about. */
#define FE_FEATURES_MODERN                                             \
        (FE_BIT(VIRTIO_F_VERSION_1) | FE_BIT(VIRTIO_NET_F_MRG_RXBUF) | \
         FE_BIT(VIRTIO_RING_F_INDIRECT_DESC) | FE_BIT(VIRTIO_RING_F_EVENT_IDX))
#define FE_FEATURES_PACKED (FE_FEATURES_MODERN | FE_BIT(VIRTIO_F_RING_PACKED))

#define FE_PROTOCOL_NONE (UINT64_C(1) << 63)
#define FE_PROTOCOL_QEMU                                                                         \
        (FE_BIT(FE_P_MQ) | FE_BIT(FE_P_LOG_SHMFD) | FE_BIT(FE_P_RARP) | FE_BIT(FE_P_REPLY_ACK) | \
         FE_BIT(FE_P_NET_MTU) | FE_BIT(FE_P_BACKEND_REQ) | FE_BIT(FE_P_BACKEND_SEND_FD) |        \
         FE_BIT(FE_P_INFLIGHT_SHMFD) | FE_BIT(FE_P_RESET_DEVICE) |                               \
         FE_BIT(FE_P_CONFIGURE_MEM_SLOTS) | FE_BIT(FE_P_STATUS) | FE_BIT(FE_P_DEVICE_STATE))

struct fe_frontend {
        struct fe_link link;
        struct fe_setup setup;
        uint64_t offered, protocol_offered;
        uint64_t features; /* acknowledged */
        uint64_t queue_pairs_offered, slots_offered;
        int backend_fd; /* our end of the back-end channel, or -1 */
        struct fe_inflight inflight;
        int inflight_fd;      /* kept over reconnects, or -1 */
        unsigned int n_rings; /* 2 * queue_pairs once set up */
        struct fe_ring ring[FE_MAX_RINGS];
        struct fe_text error;
};

/* Take a connected socket (fd is ours from here on), or connect to a path. */
int fe_frontend_new(int fd, struct fe_frontend **ret_frontend);
int fe_frontend_connect(const char *path, struct fe_frontend **ret_frontend);
void fe_frontend_free(struct fe_frontend *fe); /* NULL is fine; closes without a word */
const char *fe_frontend_error(const struct fe_frontend *fe);

/* All of it: the four steps below.  0 or a negative errno of channel.h. */
int fe_frontend_setup(struct fe_frontend *fe, const struct fe_setup *setup);

/* 1. GET_FEATURES ... SET_VRING_CALL of each ring, before anything else exists. */
int fe_frontend_negotiate(struct fe_frontend *fe, const struct fe_setup *setup);
/* 2. SET_FEATURES, status, and memory: SET_MEM_TABLE, or ADD_MEM_REG if slots are negotiated. */
int fe_frontend_send_features(struct fe_frontend *fe);
int fe_frontend_send_memory(struct fe_frontend *fe);
int fe_frontend_send_mem_table(struct fe_frontend *fe); /* the SET_MEM_TABLE form */
/* One region, as SET_MEM_TABLE and ADD_MEM_REG describe it; and hot-plug of one. */
struct fe_mem_region fe_frontend_region(const struct fe_frontend *fe, unsigned int region);
int fe_frontend_add_region(struct fe_frontend *fe, unsigned int region);
int fe_frontend_remove_region(struct fe_frontend *fe, unsigned int region);
/* 3. Make the driver of ring i if there is none and tell: NUM, BASE, ADDR, KICK, CALL, ERR. */
int fe_frontend_start_ring(struct fe_frontend *fe, unsigned int i);
/* 4. SET_VRING_ENABLE, and wait until it has taken effect. */
int fe_frontend_enable_ring(struct fe_frontend *fe, unsigned int i, bool on);
/* SET_VRING_ADDR again, with or without the LOG flag. */
int fe_frontend_send_addr(struct fe_frontend *fe, unsigned int i, bool log);
/* A new eventfd for calls of ring i, the old one closed after the back-end has let go of it. */
int fe_frontend_replace_call(struct fe_frontend *fe, unsigned int i);

/* Wait until the back-end reports ring i as broken by its error eventfd: 0 or -ETIMEDOUT. */
int fe_frontend_wait_broken(struct fe_frontend *fe, unsigned int i, int timeout_ms);
/* Begin anew with ring i after it broke: GET_VRING_BASE, whatever it says, an empty ring, start. */
int fe_frontend_revive_ring(struct fe_frontend *fe, unsigned int i);

/* GET_VRING_BASE.  -EBADMSG if the position is not the one that the driver sees in the ring:
 * all that was taken must have been returned.  The driver stays; start_ring goes on with it. */
int fe_frontend_stop_ring(struct fe_frontend *fe, unsigned int i);
/* As QEMU at device stop: disable, GET_VRING_BASE for every ring, status 0, memory removed. */
int fe_frontend_stop(struct fe_frontend *fe);

/* Close the socket and come back over another one: memory, rings and their positions stay, as in a
 * guest that keeps running; the in-flight region is handed back. */
int fe_frontend_reconnect(struct fe_frontend *fe, int fd);

#endif
