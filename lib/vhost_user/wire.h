/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_WIRE_H
#define VQLIFT_VHOST_USER_WIRE_H

/*
 * Bytes as they cross a vhost-user socket: numbers of requests, header flags, payload layouts.
 * Everything is in the byte order of the machine, since both ends live on it.
 */

#include <assert.h>
#include <stdint.h>

#define VQL_WIRE __attribute__((packed))

enum vql_request_id {
        VQL_REQ_GET_FEATURES = 1,
        VQL_REQ_SET_FEATURES = 2,
        VQL_REQ_SET_OWNER = 3,
        VQL_REQ_RESET_OWNER = 4,
        VQL_REQ_SET_MEM_TABLE = 5,
        VQL_REQ_SET_LOG_BASE = 6,
        VQL_REQ_SET_LOG_FD = 7,
        VQL_REQ_SET_VRING_NUM = 8,
        VQL_REQ_SET_VRING_ADDR = 9,
        VQL_REQ_SET_VRING_BASE = 10,
        VQL_REQ_GET_VRING_BASE = 11,
        VQL_REQ_SET_VRING_KICK = 12,
        VQL_REQ_SET_VRING_CALL = 13,
        VQL_REQ_SET_VRING_ERR = 14,
        VQL_REQ_GET_PROTOCOL_FEATURES = 15,
        VQL_REQ_SET_PROTOCOL_FEATURES = 16,
        VQL_REQ_GET_QUEUE_NUM = 17,
        VQL_REQ_SET_VRING_ENABLE = 18,
        VQL_REQ_SEND_RARP = 19,
        VQL_REQ_NET_SET_MTU = 20,
        VQL_REQ_SET_BACKEND_REQ_FD = 21,
        VQL_REQ_IOTLB_MSG = 22,
        VQL_REQ_SET_VRING_ENDIAN = 23,
        VQL_REQ_GET_CONFIG = 24,
        VQL_REQ_SET_CONFIG = 25,
        VQL_REQ_CREATE_CRYPTO_SESSION = 26,
        VQL_REQ_CLOSE_CRYPTO_SESSION = 27,
        VQL_REQ_POSTCOPY_ADVISE = 28,
        VQL_REQ_POSTCOPY_LISTEN = 29,
        VQL_REQ_POSTCOPY_END = 30,
        VQL_REQ_GET_INFLIGHT_FD = 31,
        VQL_REQ_SET_INFLIGHT_FD = 32,
        VQL_REQ_GPU_SET_SOCKET = 33,
        VQL_REQ_RESET_DEVICE = 34,
        VQL_REQ_VRING_KICK = 35,
        VQL_REQ_GET_MAX_MEM_SLOTS = 36,
        VQL_REQ_ADD_MEM_REG = 37,
        VQL_REQ_REM_MEM_REG = 38,
        VQL_REQ_SET_STATUS = 39,
        VQL_REQ_GET_STATUS = 40,
        VQL_REQ_GET_SHARED_OBJECT = 41,
        VQL_REQ_SET_DEVICE_STATE_FD = 42,
        VQL_REQ_CHECK_DEVICE_STATE = 43,
        VQL_REQ_GET_SHMEM_CONFIG = 44,
        VQL_REQ_COUNT,
};

enum {
        VQL_WIRE_VERSION = 1,
        VQL_WIRE_VERSION_MASK = 3,
        VQL_WIRE_REPLY = 1 << 2,
        VQL_WIRE_NEED_REPLY = 1 << 3,
        /* QEMU compares a reply's flags for equality: nothing else may be set. */
        VQL_WIRE_REPLY_FLAGS = VQL_WIRE_VERSION | VQL_WIRE_REPLY,
};

struct vql_wire_header {
        uint32_t request, flags, size;
} VQL_WIRE;

struct vql_wire_state {
        uint32_t index, num;
} VQL_WIRE;

enum { VQL_WIRE_ADDR_LOG = 1 << 0 }; /* vql_wire_addr.flags */

struct vql_wire_addr {
        uint32_t index, flags;
        uint64_t desc_uva, used_uva, avail_uva, log_gpa;
} VQL_WIRE;

struct vql_wire_region {
        uint64_t gpa, size, uva, mmap_offset;
} VQL_WIRE;

enum { VQL_WIRE_TABLE_REGIONS = 8 };

struct vql_wire_mem_table {
        uint32_t n, padding;
        struct vql_wire_region region[VQL_WIRE_TABLE_REGIONS];
} VQL_WIRE;

struct vql_wire_mem_slot { /* ADD_MEM_REG, REM_MEM_REG */
        uint64_t padding;
        struct vql_wire_region region;
} VQL_WIRE;

struct vql_wire_log {
        uint64_t size, offset;
} VQL_WIRE;

/*
 * The specification counts 20 bytes.  Front-ends in C (QEMU, DPDK) send sizeof a struct that is not
 * packed, which is 24, and want as many back.
 */
struct vql_wire_inflight {
        uint64_t mmap_size, mmap_offset;
        uint16_t num_queues, queue_size;
        uint32_t padding;
} VQL_WIRE;

enum { VQL_WIRE_INFLIGHT_MIN = 20 };

/* SET_VRING_KICK, _CALL and _ERR: one u64. */
enum {
        VQL_WIRE_VRING_INDEX = 0xff,
        VQL_WIRE_VRING_NO_FD = 1 << 8,
};

struct vql_wire_device_state {
        uint32_t direction, phase;
} VQL_WIRE;

/* SET_DEVICE_STATE_FD's reply: an error in bits 0-7, and bit 8 for "no descriptor returned". */
enum { VQL_WIRE_STATE_NO_FD = 0x100, VQL_WIRE_STATE_REFUSED = 0x101 };

/* GET_SHMEM_CONFIG's reply. */
struct vql_wire_shmem_config {
        uint32_t n, padding;
        uint64_t size[256];
} VQL_WIRE;

static_assert(sizeof(struct vql_wire_header) == 12, "header");
static_assert(sizeof(struct vql_wire_state) == 8, "vring state");
static_assert(sizeof(struct vql_wire_addr) == 40, "vring address");
static_assert(sizeof(struct vql_wire_region) == 32, "memory region");
static_assert(sizeof(struct vql_wire_mem_table) == 8 + 8 * 32, "memory table");
static_assert(sizeof(struct vql_wire_mem_slot) == 40, "single memory region");
static_assert(sizeof(struct vql_wire_log) == 16, "log");
static_assert(sizeof(struct vql_wire_inflight) == 24, "in-flight description");
static_assert(sizeof(struct vql_wire_device_state) == 8, "device state");
static_assert(sizeof(struct vql_wire_shmem_config) == 2056, "shared memory configuration");

#endif
