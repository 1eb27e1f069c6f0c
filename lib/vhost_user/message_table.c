/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/message_table.h"

#include "vhost_user/handlers.h"

/* Number, payload, descriptors, what must be negotiated, reply; then what differs from nothing. */
#define ROW(ID, BODY, FDS, NEED, REPLY, ...)           \
        [VQL_REQ_##ID] = { .name = #ID,                \
                           .body = VQL_BODY_##BODY,    \
                           .fds = VQL_FDS_##FDS,       \
                           .need = VQL_##NEED,         \
                           .reply = VQL_REPLY_##REPLY, \
                           __VA_ARGS__ }

/*
 * A request of another device type or of a feature that is never offered.  It has a row so that a
 * front-end that sends it all the same gets the "no" that it understands and the stream stays in
 * step.
 */
#define ROW_NEVER(ID, NEED, REPLY, ...) \
        ROW(ID, ANY, IGNORED, NEED, REPLY, .handle = NULL, ##__VA_ARGS__)

static const struct vql_request requests[VQL_REQ_COUNT] = {
        /* Limits are answered without negotiation: nothing in them can go wrong. */
        ROW(GET_FEATURES, NONE, NONE, NEED_NOTHING, OWN, .handle = vql_handle_get_features),
        ROW(SET_FEATURES, U64, NONE, NEED_NOTHING, ACK, .handle = vql_handle_set_features),
        ROW(GET_PROTOCOL_FEATURES, NONE, NONE, NEED_PROTOCOL, OWN,
            .handle = vql_handle_get_protocol_features, .refuse = vql_refuse_zero),
        ROW(SET_PROTOCOL_FEATURES, U64, NONE, NEED_PROTOCOL, ACK,
            .handle = vql_handle_set_protocol_features),
        ROW(GET_QUEUE_NUM, NONE, NONE, NEED_NOTHING, OWN, .handle = vql_handle_get_queue_num),
        ROW(GET_MAX_MEM_SLOTS, NONE, NONE, NEED_NOTHING, OWN,
            .handle = vql_handle_get_max_mem_slots),

        ROW(SET_OWNER, NONE, NONE, NEED_NOTHING, ACK, .handle = vql_handle_set_owner),
        ROW(RESET_OWNER, NONE, NONE, NEED_NOTHING, ACK, .handle = vql_handle_reset_owner),
        ROW(RESET_DEVICE, NONE, NONE, PF_RESET_DEVICE, ACK, .handle = vql_handle_reset_device,
            .finish = vql_finish_reset_device),
        ROW(SET_STATUS, U64, NONE, PF_STATUS, ACK, .handle = vql_handle_set_status,
            .finish = vql_finish_set_status),
        ROW(GET_STATUS, NONE, NONE, PF_STATUS, OWN, .handle = vql_handle_get_status,
            .refuse = vql_refuse_zero),
        ROW(NET_SET_MTU, U64, NONE, PF_MTU, ACK, .handle = vql_handle_set_mtu,
            .failure = VQL_FAILURE_LOGGED),
        ROW(SEND_RARP, MAC, NONE, PF_RARP, ACK, .handle = vql_handle_send_rarp,
            .failure = VQL_FAILURE_LOGGED),
        ROW(SET_BACKEND_REQ_FD, NONE, ONE, PF_BACKEND_REQ, ACK,
            .handle = vql_handle_set_backend_fd),

        /* Some front-ends send a descriptor with REM_MEM_REG. */
        ROW(SET_MEM_TABLE, MEM_TABLE, PER_REGION, NEED_NOTHING, ACK,
            .handle = vql_handle_set_mem_table),
        ROW(ADD_MEM_REG, MEM_SLOT, ONE, PF_CONFIGURE_MEM_SLOTS, ACK,
            .handle = vql_handle_add_mem_reg),
        ROW(REM_MEM_REG, MEM_SLOT, IGNORED, PF_CONFIGURE_MEM_SLOTS, ACK,
            .handle = vql_handle_rem_mem_reg),
        ROW(POSTCOPY_ADVISE, NONE, NONE, PF_PAGEFAULT, OWN, .handle = vql_handle_postcopy_advise,
            .refuse = vql_refuse_nothing_back),
        ROW(POSTCOPY_LISTEN, NONE, NONE, PF_PAGEFAULT, ALWAYS_ACK,
            .handle = vql_handle_postcopy_listen),
        ROW(POSTCOPY_END, NONE, NONE, PF_PAGEFAULT, ALWAYS_ACK, .handle = vql_handle_postcopy_end),

        ROW(SET_LOG_BASE, LOG, ONE, PF_LOG_SHMFD, ACK, .handle = vql_handle_set_log_base,
            .finish = vql_finish_set_log_base),
        ROW(SET_LOG_FD, NONE, ONE, NEED_NOTHING, ACK, .handle = vql_handle_set_log_fd),
        ROW(GET_INFLIGHT_FD, INFLIGHT, NONE, PF_INFLIGHT_SHMFD, OWN,
            .handle = vql_handle_get_inflight_fd, .refuse = vql_refuse_same_size),
        ROW(SET_INFLIGHT_FD, INFLIGHT, ONE, PF_INFLIGHT_SHMFD, ACK,
            .handle = vql_handle_set_inflight_fd),

        ROW(SET_DEVICE_STATE_FD, DEVICE_STATE, ONE, PF_DEVICE_STATE, OWN,
            .handle = vql_handle_set_device_state_fd, .refuse = vql_refuse_device_state),
        ROW(CHECK_DEVICE_STATE, NONE, NONE, PF_DEVICE_STATE, OWN,
            .handle = vql_handle_check_device_state, .refuse = vql_refuse_one),

        /* QEMU up to version 8 enables rings before it has sent SET_FEATURES. */
        ROW(SET_VRING_NUM, STATE, NONE, NEED_NOTHING, ACK, .handle = vql_handle_set_vring_num),
        ROW(SET_VRING_ADDR, ADDR, NONE, NEED_NOTHING, ACK, .handle = vql_handle_set_vring_addr),
        ROW(SET_VRING_BASE, STATE, NONE, NEED_NOTHING, ACK, .handle = vql_handle_set_vring_base),
        ROW(GET_VRING_BASE, STATE, NONE, NEED_NOTHING, OWN, .handle = vql_handle_get_vring_base,
            .finish = vql_finish_get_vring_base),
        ROW(SET_VRING_KICK, VRING_FD, AS_TOLD, NEED_NOTHING, ACK,
            .handle = vql_handle_set_vring_kick),
        ROW(SET_VRING_CALL, VRING_FD, AS_TOLD, NEED_NOTHING, ACK,
            .handle = vql_handle_set_vring_call),
        ROW(SET_VRING_ERR, VRING_FD, AS_TOLD, NEED_NOTHING, ACK,
            .handle = vql_handle_set_vring_err),
        ROW(SET_VRING_ENABLE, STATE, NONE, NEED_PROTOCOL, ACK,
            .handle = vql_handle_set_vring_enable),

        ROW_NEVER(VRING_KICK, PF_INBAND_NOTIFICATIONS, ACK),
        ROW_NEVER(SET_VRING_ENDIAN, PF_CROSS_ENDIAN, ACK),
        ROW_NEVER(IOTLB_MSG, NEED_NOTHING, ALWAYS_ACK),
        ROW_NEVER(GET_CONFIG, PF_CONFIG, OWN, .refuse = vql_refuse_nothing_back),
        ROW_NEVER(SET_CONFIG, PF_CONFIG, ACK),
        ROW_NEVER(CREATE_CRYPTO_SESSION, PF_CRYPTO_SESSION, OWN,
                  .refuse = vql_refuse_crypto_session),
        ROW_NEVER(CLOSE_CRYPTO_SESSION, PF_CRYPTO_SESSION, ACK),
        ROW_NEVER(GPU_SET_SOCKET, NEED_NOTHING, ACK),
        ROW_NEVER(GET_SHARED_OBJECT, PF_SHARED_OBJECT, OWN, .refuse = vql_refuse_same_size),
        ROW_NEVER(GET_SHMEM_CONFIG, PF_SHMEM_MAP, OWN, .refuse = vql_refuse_shmem_config),
};

/*
 * In postcopy the request that maps memory is answered with our addresses, and the front-end then
 * says whether it took them, in a message that has the number of that request.
 */
static const struct vql_request postcopy_placed = {
        .name = "memory's addresses",
        .body = VQL_BODY_U64,
        .need = VQL_PF_PAGEFAULT,
        .handle = vql_handle_postcopy_placed,
};

const struct vql_request *vql_request_find(uint32_t id)
{
        return id < VQL_REQ_COUNT && requests[id].name ? &requests[id] : NULL;
}

const struct vql_request *vql_request_of(const struct vql_session *s, const struct vql_msg_in *in)
{
        if (s->postcopy == VQL_POSTCOPY_LISTENING && in->size == sizeof(uint64_t) &&
            (in->request == VQL_REQ_SET_MEM_TABLE || in->request == VQL_REQ_ADD_MEM_REG))
                return &postcopy_placed;
        return vql_request_find(in->request);
}

unsigned int vql_request_fds(const struct vql_request *r, const union vql_payload *body)
{
        switch (r->fds) {
        case VQL_FDS_ONE:
                return 1;
        case VQL_FDS_AS_TOLD:
                return body->vring_fd.no_fd ? 0 : 1;
        case VQL_FDS_PER_REGION:
                return body->table.n;
        default:
                return 0;
        }
}

const char *vql_request_name(uint32_t request)
{
        const struct vql_request *r = vql_request_find(request);

        return r ? r->name : NULL;
}
