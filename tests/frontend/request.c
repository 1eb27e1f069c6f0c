/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        INFLIGHT_BYTES_QEMU = 24,
        CONFIG_HEADER = 12,
        MEM_TABLE_HEADER = 8,
        MEM_TABLE_MAX = 8,
};

static const char *const names[FE_REQUEST_END] = {
        [FE_GET_FEATURES] = "GET_FEATURES",
        [FE_SET_FEATURES] = "SET_FEATURES",
        [FE_SET_OWNER] = "SET_OWNER",
        [FE_RESET_OWNER] = "RESET_OWNER",
        [FE_SET_MEM_TABLE] = "SET_MEM_TABLE",
        [FE_SET_LOG_BASE] = "SET_LOG_BASE",
        [FE_SET_LOG_FD] = "SET_LOG_FD",
        [FE_SET_VRING_NUM] = "SET_VRING_NUM",
        [FE_SET_VRING_ADDR] = "SET_VRING_ADDR",
        [FE_SET_VRING_BASE] = "SET_VRING_BASE",
        [FE_GET_VRING_BASE] = "GET_VRING_BASE",
        [FE_SET_VRING_KICK] = "SET_VRING_KICK",
        [FE_SET_VRING_CALL] = "SET_VRING_CALL",
        [FE_SET_VRING_ERR] = "SET_VRING_ERR",
        [FE_GET_PROTOCOL_FEATURES] = "GET_PROTOCOL_FEATURES",
        [FE_SET_PROTOCOL_FEATURES] = "SET_PROTOCOL_FEATURES",
        [FE_GET_QUEUE_NUM] = "GET_QUEUE_NUM",
        [FE_SET_VRING_ENABLE] = "SET_VRING_ENABLE",
        [FE_SEND_RARP] = "SEND_RARP",
        [FE_NET_SET_MTU] = "NET_SET_MTU",
        [FE_SET_BACKEND_REQ_FD] = "SET_BACKEND_REQ_FD",
        [FE_IOTLB_MSG] = "IOTLB_MSG",
        [FE_GET_CONFIG] = "GET_CONFIG",
        [FE_SET_CONFIG] = "SET_CONFIG",
        [FE_GET_INFLIGHT_FD] = "GET_INFLIGHT_FD",
        [FE_SET_INFLIGHT_FD] = "SET_INFLIGHT_FD",
        [FE_RESET_DEVICE] = "RESET_DEVICE",
        [FE_GET_MAX_MEM_SLOTS] = "GET_MAX_MEM_SLOTS",
        [FE_ADD_MEM_REG] = "ADD_MEM_REG",
        [FE_REM_MEM_REG] = "REM_MEM_REG",
        [FE_SET_STATUS] = "SET_STATUS",
        [FE_GET_STATUS] = "GET_STATUS",
        [FE_SET_DEVICE_STATE_FD] = "SET_DEVICE_STATE_FD",
        [FE_CHECK_DEVICE_STATE] = "CHECK_DEVICE_STATE",
};

const char *fe_request_name(uint32_t request)
{
        return request < FE_REQUEST_END && names[request] ? names[request] : "request";
}

static int receive_ack(struct fe_link *l, uint32_t request)
{
        uint64_t value;
        int err = fe_channel_receive_reply(&l->ch, request, &value, sizeof(value), NULL);

        if (err < 0)
                return err;
        if (value != 0)
                return fe_fail(&l->ch.error, EREMOTEIO, "%s refused: ack %ju",
                               fe_request_name(request), (uintmax_t)value);
        return 0;
}

int fe_request_force_ack(struct fe_link *l, const struct fe_message *m)
{
        struct fe_message asking = *m;
        int err;

        asking.flags |= FE_NEED_REPLY;
        err = fe_channel_send(&l->ch, &asking);
        return err < 0 ? err : receive_ack(l, m->request);
}

static int send_ack(struct fe_link *l, const struct fe_message *m)
{
        if (fe_has(l->protocol_features, FE_P_REPLY_ACK))
                return fe_request_force_ack(l, m);
        return fe_channel_send(&l->ch, m);
}

int fe_request_ack(struct fe_link *l, uint32_t request, const void *body, size_t len,
                   const int *fds, unsigned int nfds)
{
        struct fe_message m;

        fe_message_init(&m, request, body, len);
        if (nfds > 0)
                memcpy(m.fds, fds, nfds * sizeof(*fds));
        m.nfds = nfds;
        return send_ack(l, &m);
}

int fe_request_reply(struct fe_link *l, const struct fe_message *m, void *ret_body,
                     size_t reply_len, int *ret_fd)
{
        int err = fe_channel_send(&l->ch, m);

        if (err < 0)
                return err;
        return fe_channel_receive_reply(&l->ch, m->request, ret_body, reply_len, ret_fd);
}

int fe_get_u64(struct fe_link *l, enum fe_request request, uint64_t *ret_value)
{
        struct fe_message m;

        fe_message_init(&m, request, NULL, 0);
        return fe_request_reply(l, &m, ret_value, sizeof(*ret_value), NULL);
}

int fe_set_u64(struct fe_link *l, enum fe_request request, uint64_t value)
{
        return fe_request_ack(l, request, &value, sizeof(value), NULL, 0);
}

int fe_set_state(struct fe_link *l, enum fe_request request, uint32_t index, uint32_t num)
{
        const struct fe_vring_state s = { index, num };

        return fe_request_ack(l, request, &s, sizeof(s), NULL, 0);
}

int fe_set_vring_fd(struct fe_link *l, enum fe_request request, uint32_t index, int fd)
{
        const uint64_t value = fd < 0 ? index | FE_VRING_NO_FD : index;

        return fe_request_ack(l, request, &value, sizeof(value), &fd, fd < 0 ? 0 : 1);
}

int fe_set_vring_addr(struct fe_link *l, const struct fe_vring_addr *a)
{
        return fe_request_ack(l, FE_SET_VRING_ADDR, a, sizeof(*a), NULL, 0);
}

int fe_get_vring_base(struct fe_link *l, uint32_t index, uint32_t *ret_num)
{
        struct fe_vring_state s = { index, 0 };
        struct fe_message m;
        int err;

        fe_message_init(&m, FE_GET_VRING_BASE, &s, sizeof(s));
        err = fe_request_reply(l, &m, &s, sizeof(s), NULL);
        if (err < 0)
                return err;
        if (s.index != index)
                return fe_fail(&l->ch.error, EBADMSG, "GET_VRING_BASE of %u answered for %u", index,
                               s.index);
        *ret_num = s.num;
        return 0;
}

int fe_set_owner(struct fe_link *l)
{
        return fe_request_ack(l, FE_SET_OWNER, NULL, 0, NULL, 0);
}

int fe_reset_device(struct fe_link *l)
{
        return fe_request_ack(l, FE_RESET_DEVICE, NULL, 0, NULL, 0);
}

int fe_set_mem_table(struct fe_link *l, const struct fe_mem_region *regions, const int *fds,
                     unsigned int n)
{
        struct fe_mem_table t = { .n = n };

        if (n > MEM_TABLE_MAX)
                return fe_fail(&l->ch.error, E2BIG, "SET_MEM_TABLE holds %d regions, not %u",
                               MEM_TABLE_MAX, n);
        memcpy(t.region, regions, n * sizeof(*regions));
        return fe_request_ack(l, FE_SET_MEM_TABLE, &t, MEM_TABLE_HEADER + n * sizeof(*regions), fds,
                              n);
}

int fe_add_mem_reg(struct fe_link *l, const struct fe_mem_region *r, int fd)
{
        const struct fe_mem_slot s = { .region = *r };

        return fe_request_ack(l, FE_ADD_MEM_REG, &s, sizeof(s), &fd, 1);
}

int fe_rem_mem_reg(struct fe_link *l, const struct fe_mem_region *r)
{
        struct fe_mem_slot s = { .region = *r };

        s.region.offset = 0; /* as QEMU does */
        return fe_request_ack(l, FE_REM_MEM_REG, &s, sizeof(s), NULL, 0);
}

int fe_set_log_base(struct fe_link *l, uint64_t size, uint64_t offset, int fd)
{
        const struct fe_log log = { size, offset };
        struct fe_message m;
        int err;

        fe_message_init(&m, FE_SET_LOG_BASE, &log, sizeof(log));
        m.fds[0] = fd;
        m.nfds = 1;
        err = fe_channel_send(&l->ch, &m);
        if (err < 0 || !fe_has(l->protocol_features, FE_P_LOG_SHMFD))
                return err;
        /* A reply of its own, any size, content ignored: that is what QEMU expects. */
        err = fe_channel_receive(&l->ch, &m);
        if (err < 0)
                return err;
        if (m.request == FE_SET_LOG_BASE && m.flags == (FE_VERSION | FE_REPLY) && m.nfds == 0)
                return 0;
        fe_message_close_fds(&m);
        return fe_fail(&l->ch.error, EBADMSG, "reply %u flags 0x%x to SET_LOG_BASE", m.request,
                       m.flags);
}

static size_t inflight_bytes(const struct fe_link *l)
{
        return l->inflight_bytes ? l->inflight_bytes : INFLIGHT_BYTES_QEMU;
}

int fe_get_inflight_fd(struct fe_link *l, uint16_t queues, uint16_t queue_size,
                       struct fe_inflight *ret_inflight, int *ret_fd)
{
        struct fe_inflight f = { .num_queues = queues, .queue_size = queue_size };
        struct fe_message m;
        int err, fd = -1;

        fe_message_init(&m, FE_GET_INFLIGHT_FD, &f, inflight_bytes(l));
        err = fe_request_reply(l, &m, &f, inflight_bytes(l), &fd);
        if (err < 0)
                return err;
        if (f.mmap_size == 0 || fd < 0)
                return fe_fail(&l->ch.error, EREMOTEIO, "GET_INFLIGHT_FD: %ju bytes, fd %d",
                               (uintmax_t)f.mmap_size, fd);
        *ret_inflight = f;
        *ret_fd = fd;
        return 0;
}

int fe_set_inflight_fd(struct fe_link *l, const struct fe_inflight *f, int fd)
{
        return fe_request_ack(l, FE_SET_INFLIGHT_FD, f, inflight_bytes(l), &fd, 1);
}

int fe_get_config(struct fe_link *l, uint32_t offset, uint32_t size, void *ret_data)
{
        struct fe_config c = { .offset = offset, .size = size };
        struct fe_message m;
        int err;

        fe_message_init(&m, FE_GET_CONFIG, &c, CONFIG_HEADER + size);
        err = fe_channel_send(&l->ch, &m);
        if (err == 0)
                err = fe_channel_receive(&l->ch, &m);
        if (err < 0)
                return err;
        fe_message_close_fds(&m);
        if (m.request == FE_GET_CONFIG && m.size == 0)
                return fe_fail(&l->ch.error, EREMOTEIO, "GET_CONFIG %u+%u refused", offset, size);
        if (m.request != FE_GET_CONFIG || m.size != CONFIG_HEADER + size)
                return fe_fail(&l->ch.error, EBADMSG, "reply %u of %u bytes to GET_CONFIG",
                               m.request, m.size);
        memcpy(ret_data, m.body + CONFIG_HEADER, size);
        return 0;
}

int fe_set_config(struct fe_link *l, uint32_t offset, uint32_t size, const void *data)
{
        struct fe_config c = { .offset = offset, .size = size };

        memcpy(c.data, data, size);
        return fe_request_ack(l, FE_SET_CONFIG, &c, CONFIG_HEADER + size, NULL, 0);
}

int fe_set_backend_channel(struct fe_link *l, int *ret_fd)
{
        int pair[2], err;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        err = fe_request_ack(l, FE_SET_BACKEND_REQ_FD, NULL, 0, &pair[1], 1);
        close(pair[1]);
        if (err < 0)
                close(pair[0]);
        else
                *ret_fd = pair[0];
        return err;
}

int fe_send_rarp(struct fe_link *l, const uint8_t mac[6])
{
        uint8_t body[8] = { 0 };

        memcpy(body, mac, 6);
        return fe_request_ack(l, FE_SEND_RARP, body, sizeof(body), NULL, 0);
}

int fe_set_device_state_fd(struct fe_link *l, enum fe_state_direction direction, int fd)
{
        const struct fe_device_state body = { .direction = direction };
        struct fe_message m;
        uint64_t reply;
        int err, theirs = -1;

        fe_message_init(&m, FE_SET_DEVICE_STATE_FD, &body, sizeof(body));
        m.fds[m.nfds++] = fd;
        err = fe_request_reply(l, &m, &reply, sizeof(reply), &theirs);
        if (err < 0)
                return err;
        if (theirs >= 0)
                close(theirs);
        if (reply & FE_VRING_FD_MASK)
                return fe_fail(&l->ch.error, EREMOTEIO, "SET_DEVICE_STATE_FD refused: 0x%jx",
                               (uintmax_t)reply);
        if (reply != FE_VRING_NO_FD || theirs >= 0)
                return fe_fail(&l->ch.error, EBADMSG, "SET_DEVICE_STATE_FD: 0x%jx, fd %d",
                               (uintmax_t)reply, theirs);
        return 0;
}

int fe_check_device_state(struct fe_link *l)
{
        uint64_t reply;
        int err = fe_get_u64(l, FE_CHECK_DEVICE_STATE, &reply);

        if (err == 0 && reply != 0)
                return fe_fail(&l->ch.error, EREMOTEIO, "CHECK_DEVICE_STATE: %ju",
                               (uintmax_t)reply);
        return err;
}
