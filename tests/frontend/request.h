/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_REQUEST_H
#define FRONTEND_REQUEST_H

/*
 * The front-end requests of the vhost-user protocol, one call each: numbers, layouts, replies.
 * The layouts are ours, written from the specification, so that an error on the other side is not
 * mirrored here.
 *
 * A call whose answer is an ack sets NEED_REPLY and waits if REPLY_ACK was negotiated, and returns
 * as soon as the message is sent otherwise.  Results: see channel.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "frontend/channel.h"

enum fe_request {
        FE_GET_FEATURES = 1,
        FE_SET_FEATURES,
        FE_SET_OWNER,
        FE_RESET_OWNER,
        FE_SET_MEM_TABLE,
        FE_SET_LOG_BASE,
        FE_SET_LOG_FD,
        FE_SET_VRING_NUM,
        FE_SET_VRING_ADDR,
        FE_SET_VRING_BASE,
        FE_GET_VRING_BASE,
        FE_SET_VRING_KICK,
        FE_SET_VRING_CALL,
        FE_SET_VRING_ERR,
        FE_GET_PROTOCOL_FEATURES,
        FE_SET_PROTOCOL_FEATURES,
        FE_GET_QUEUE_NUM,
        FE_SET_VRING_ENABLE,
        FE_SEND_RARP,
        FE_NET_SET_MTU,
        FE_SET_BACKEND_REQ_FD,
        FE_IOTLB_MSG,
        FE_SET_VRING_ENDIAN,
        FE_GET_CONFIG,
        FE_SET_CONFIG,
        FE_CREATE_CRYPTO_SESSION,
        FE_CLOSE_CRYPTO_SESSION,
        FE_POSTCOPY_ADVISE,
        FE_POSTCOPY_LISTEN,
        FE_POSTCOPY_END,
        FE_GET_INFLIGHT_FD,
        FE_SET_INFLIGHT_FD,
        FE_GPU_SET_SOCKET,
        FE_RESET_DEVICE,
        FE_VRING_KICK,
        FE_GET_MAX_MEM_SLOTS,
        FE_ADD_MEM_REG,
        FE_REM_MEM_REG,
        FE_SET_STATUS,
        FE_GET_STATUS,
        FE_GET_SHARED_OBJECT,
        FE_SET_DEVICE_STATE_FD,
        FE_CHECK_DEVICE_STATE,
        FE_GET_SHMEM_CONFIG,
        FE_REQUEST_END, /* one past the last */
};

enum fe_protocol_feature {
        FE_P_MQ = 0,
        FE_P_LOG_SHMFD = 1,
        FE_P_RARP = 2,
        FE_P_REPLY_ACK = 3,
        FE_P_NET_MTU = 4,
        FE_P_BACKEND_REQ = 5,
        FE_P_CROSS_ENDIAN = 6,
        FE_P_CRYPTO_SESSION = 7,
        FE_P_PAGEFAULT = 8,
        FE_P_CONFIG = 9,
        FE_P_BACKEND_SEND_FD = 10,
        FE_P_HOST_NOTIFIER = 11,
        FE_P_INFLIGHT_SHMFD = 12,
        FE_P_RESET_DEVICE = 13,
        FE_P_INBAND_NOTIFICATIONS = 14,
        FE_P_CONFIGURE_MEM_SLOTS = 15,
        FE_P_STATUS = 16,
        FE_P_DEVICE_STATE = 19,
};

/* Feature bits that vhost-user adds to virtio's. */
enum { FE_F_LOG_ALL = 26, FE_F_PROTOCOL_FEATURES = 30 };

struct fe_vring_state {
        uint32_t index, num;
};

enum { FE_VRING_LOG = 1 }; /* fe_vring_addr.flags */

struct fe_vring_addr {
        uint32_t index, flags;
        uint64_t desc, used, avail, log;
};

struct fe_mem_region {
        uint64_t gpa, size, uva, offset;
};

struct fe_mem_table {
        uint32_t n, padding;
        struct fe_mem_region region[8];
};

struct fe_mem_slot { /* ADD_MEM_REG, REM_MEM_REG */
        uint64_t padding;
        struct fe_mem_region region;
};

struct fe_log {
        uint64_t size, offset;
};

struct fe_inflight {
        uint64_t mmap_size, mmap_offset;
        uint16_t num_queues, queue_size;
        uint32_t padding; /* of C, not of the specification: see fe_link.inflight_bytes */
};

enum fe_state_direction { FE_STATE_SAVE, FE_STATE_LOAD };

struct fe_device_state { /* SET_DEVICE_STATE_FD */
        uint32_t direction, phase;
};

struct fe_config {
        uint32_t offset, size, flags;
        uint8_t data[256];
};

enum { FE_VRING_FD_MASK = 0xff, FE_VRING_NO_FD = 1 << 8 };

const char *fe_request_name(uint32_t request); /* "SET_MEM_TABLE", or "request" */

/* What the calls below need to know of the connection. */
struct fe_link {
        struct fe_channel ch;
        uint64_t protocol_features; /* as acknowledged by us: REPLY_ACK decides over acks */
        size_t inflight_bytes;      /* of the in-flight messages: 20 by the specification, 24 as
                                     * QEMU sends them and wants them back; 0: 24 */
};

static inline bool fe_has(uint64_t set, unsigned int bit)
{
        return (set >> bit) & 1;
}

/* Any request with an ack: send, and if REPLY_ACK is on, wait for it. */
int fe_request_ack(struct fe_link *l, uint32_t request, const void *body, size_t len,
                   const int *fds, unsigned int nfds);
/* Any request with a reply of `reply_len` bytes; *ret_fd (may be NULL) is its fd or -1. */
int fe_request_reply(struct fe_link *l, const struct fe_message *m, void *ret_body,
                     size_t reply_len, int *ret_fd);
/* Always ask for an ack, whatever was negotiated (wrong-doers, IOTLB_MSG). */
int fe_request_force_ack(struct fe_link *l, const struct fe_message *m);

int fe_get_u64(struct fe_link *l, enum fe_request request, uint64_t *ret_value);
int fe_set_u64(struct fe_link *l, enum fe_request request, uint64_t value);
int fe_set_state(struct fe_link *l, enum fe_request request, uint32_t index, uint32_t num);
/* SET_VRING_KICK, _CALL, _ERR; fd -1 sends the no-fd form. */
int fe_set_vring_fd(struct fe_link *l, enum fe_request request, uint32_t index, int fd);
int fe_set_vring_addr(struct fe_link *l, const struct fe_vring_addr *a);
int fe_get_vring_base(struct fe_link *l, uint32_t index, uint32_t *ret_num);
int fe_set_owner(struct fe_link *l);
int fe_set_mem_table(struct fe_link *l, const struct fe_mem_region *regions, const int *fds,
                     unsigned int n);
int fe_add_mem_reg(struct fe_link *l, const struct fe_mem_region *r, int fd);
int fe_rem_mem_reg(struct fe_link *l, const struct fe_mem_region *r);
int fe_set_log_base(struct fe_link *l, uint64_t size, uint64_t offset, int fd);
int fe_get_inflight_fd(struct fe_link *l, uint16_t queues, uint16_t queue_size,
                       struct fe_inflight *ret_inflight, int *ret_fd);
int fe_set_inflight_fd(struct fe_link *l, const struct fe_inflight *f, int fd);
int fe_get_config(struct fe_link *l, uint32_t offset, uint32_t size, void *ret_data);
int fe_set_config(struct fe_link *l, uint32_t offset, uint32_t size, const void *data);
/* SET_BACKEND_REQ_FD with a new socket pair; *ret_fd is our end. */
int fe_set_backend_channel(struct fe_link *l, int *ret_fd);
int fe_send_rarp(struct fe_link *l, const uint8_t mac[6]);
int fe_reset_device(struct fe_link *l);
/* SET_DEVICE_STATE_FD; the caller keeps `fd`.  -EREMOTEIO: refused; -EBADMSG: not the reply that
 * this request has, or a descriptor with it. */
int fe_set_device_state_fd(struct fe_link *l, enum fe_state_direction direction, int fd);
/* CHECK_DEVICE_STATE: 0, or -EREMOTEIO. */
int fe_check_device_state(struct fe_link *l);

#endif
