/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_CODEC_H
#define VQLIFT_VHOST_USER_CODEC_H

/*
 * Bytes to checked structs.  Pure: no session, no descriptors, no I/O.  What comes out of here has
 * the right size and inner counts that hold; what the values mean is the handlers' matter.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "memory/memory.h"
#include "vhost_user/session.h"
#include "vhost_user/wire.h"

/* The forms that a payload can have. */
enum vql_body {
        VQL_BODY_NONE,
        VQL_BODY_U64,
        VQL_BODY_MAC,       /* a u64 whose first six bytes are an address */
        VQL_BODY_STATE,     /* ring index and number */
        VQL_BODY_ADDR,      /* addresses of a ring */
        VQL_BODY_VRING_FD,  /* ring index and "no descriptor" bit in a u64 */
        VQL_BODY_MEM_TABLE, /* one to eight regions */
        VQL_BODY_MEM_SLOT,  /* one region */
        VQL_BODY_LOG,
        VQL_BODY_INFLIGHT,
        VQL_BODY_DEVICE_STATE, /* direction and phase */
        VQL_BODY_ANY,          /* of a request that we never carry out: not looked at */
        VQL_BODY_COUNT,
};

union vql_payload {
        uint64_t u64;
        uint8_t mac[6];
        struct vql_wire_state state;
        struct vql_wire_addr addr;
        struct {
                uint32_t index;
                bool no_fd;
        } vring_fd;
        struct {
                uint32_t n;
                struct vql_region_desc region[VQL_WIRE_TABLE_REGIONS];
        } table;
        struct vql_region_desc region;
        struct vql_wire_log log;
        struct vql_wire_inflight inflight;
        struct vql_wire_device_state device_state;
};

/*
 * Take a header apart: writes request, flags and size of *in.  -EPROTO if it is not one of version
 * 1, is a reply, or announces more than VQL_MSG_MAX_BODY bytes: where the next message begins is
 * then anybody's guess.
 */
int vql_header_decode(const uint8_t bytes[VQL_MSG_HEADER], struct vql_msg_in *in,
                      struct vql_error *e);

/* -EBADMSG if the size or an inner count is not what the form allows. */
int vql_body_decode(enum vql_body form, const uint8_t *bytes, uint32_t size,
                    union vql_payload *ret_payload, struct vql_error *e);

#endif
