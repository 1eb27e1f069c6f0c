/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_SESSION_H
#define VQLIFT_VHOST_USER_SESSION_H

/*
 * A session is what one connected front-end has asked for so far: the *wanted* state.  Messages
 * change it; nothing here starts or stops a ring.  After each message the session calls its host
 * (the port), which compares wanted with actual and moves queues, and only then the reply goes out.
 *
 * Threads: everything here belongs to the port's control thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "memory/dirty_log.h"
#include "memory/memory.h"
#include "vhost_user/transfer.h"
#include "virtqueue/inflight.h"

enum {
        VQL_MAX_RINGS = 256, /* 128 queue pairs; also what 8 bits of index can name */
        VQL_MTU_MIN = 68,
        VQL_MTU_MAX = 65535,
        VQL_STATE_MAX_BYTES = 8192, /* of a device */
};

/* Protocol feature bits (vhost-user specification, "Protocol features"). */
enum vql_protocol_feature {
        VQL_PF_MQ = 0,
        VQL_PF_LOG_SHMFD = 1,
        VQL_PF_RARP = 2,
        VQL_PF_REPLY_ACK = 3,
        VQL_PF_MTU = 4,
        VQL_PF_BACKEND_REQ = 5,
        VQL_PF_CROSS_ENDIAN = 6,
        VQL_PF_CRYPTO_SESSION = 7,
        VQL_PF_PAGEFAULT = 8,
        VQL_PF_CONFIG = 9,
        VQL_PF_BACKEND_SEND_FD = 10,
        VQL_PF_HOST_NOTIFIER = 11,
        VQL_PF_INFLIGHT_SHMFD = 12,
        VQL_PF_RESET_DEVICE = 13,
        VQL_PF_INBAND_NOTIFICATIONS = 14,
        VQL_PF_CONFIGURE_MEM_SLOTS = 15,
        VQL_PF_STATUS = 16,
        VQL_PF_XEN_MMAP = 17,
        VQL_PF_SHARED_OBJECT = 18,
        VQL_PF_DEVICE_STATE = 19,
        VQL_PF_GET_VRING_BASE_INFLIGHT = 20,
        VQL_PF_GPA_ADDRESSES = 21,
        VQL_PF_SHMEM_MAP = 22,
};

/* One ring as the front-end wants it.  File descriptors are the session's; -1 means none. */
struct vql_vring {
        uint32_t num;  /* SET_VRING_NUM; 0: not yet */
        uint32_t base; /* SET_VRING_BASE, raw: decoded when the ring starts */
        /* What the front-end may still ask for after a device reset: where that stopped the ring,
         * and how large it was; 0: it stood nowhere.  A device state that was loaded tells both. */
        uint32_t reset_base, reset_num;
        uint64_t desc_uva, avail_uva, used_uva, log_gpa; /* SET_VRING_ADDR */
        int kick_fd, call_fd, err_fd;
        bool addr_set, base_set;
        bool loaded;   /* base is of a device state, and holds for a ring of its size */
        bool log;      /* VHOST_VRING_F_LOG */
        bool kick_set; /* SET_VRING_KICK came, with or without fd */
        bool enabled;  /* SET_VRING_ENABLE, or no PROTOCOL_FEATURES */
};

/* What a message changed; the host looks at all of it that it cares for. */
enum vql_change {
        VQL_CHANGE_RING = 1 << 0,      /* vring[ring]: any field */
        VQL_CHANGE_MEMORY = 1 << 1,    /* session->mem replaced */
        VQL_CHANGE_FEATURES = 1 << 2,  /* session->features */
        VQL_CHANGE_LOG = 1 << 3,       /* session->log replaced */
        VQL_CHANGE_RESET = 1 << 4,     /* device reset: all rings must stop and tell their base */
        VQL_CHANGE_RING_STOP = 1 << 5, /* GET_VRING_BASE: vring[ring] must stop and tell its base */
        VQL_CHANGE_INFLIGHT = 1 << 6,  /* session->inflight replaced */
        VQL_CHANGE_CALL = 1 << 7,      /* vring[ring].call_fd alone: never restarts a ring */
};

/* Postcopy migration to here, as its messages say. */
enum vql_postcopy {
        VQL_POSTCOPY_NONE,
        VQL_POSTCOPY_ADVISED,   /* the front-end has our userfaultfd */
        VQL_POSTCOPY_LISTENING, /* memory that is mapped now is watched before it is used */
};

struct vql_session;

/* What a session needs of the port that owns it. */
struct vql_session_host {
        /*
         * Make the actual state match the wanted state after a change.  `ring` matters for
         * VQL_CHANGE_RING, _CALL and _RING_STOP.  When it returns, what the change replaced is no
         * longer in use: the session frees it (old memory table, old log, old fds).  On an error
         * the message fails with it, the rings that cannot run are stopped, and the port is
         * consistent.  For _RING_STOP the host sets vring[ring].base to the final position, for
         * _RESET that of every ring that ran.
         */
        int (*apply)(void *host, unsigned int changes, uint16_t ring, struct vql_error *e);
        int (*send_rarp)(void *host, const uint8_t mac[6], struct vql_error *e);
        /* -ERANGE: not an MTU that the uplink can carry. */
        int (*set_mtu)(void *host, uint16_t mtu, struct vql_error *e);
        /* Write the device's state down: the number of bytes.  -EBUSY: a ring is not stopped. */
        int (*save_state)(void *host, uint8_t ret_bytes[VQL_STATE_MAX_BYTES], struct vql_error *e);
        /* Check a state as it came, all of it, and only then give it to the session's rings. */
        int (*load_state)(void *host, const uint8_t *bytes, size_t n, struct vql_error *e);
};

/* What a port offers; constant for the life of a session. */
struct vql_offer {
        uint64_t features; /* with VQL_F_PROTOCOL_FEATURES and VQL_F_LOG_ALL */
        uint64_t protocol_features;
        uint16_t max_rings; /* twice the queue pairs */
        uint16_t max_mem_slots;
};

struct vql_session {
        const struct vql_offer *offer;
        const struct vql_session_host *ops;
        void *host;
        const struct vql_log *log_to;
        int broken_fd; /* handed to vql_region_map(); borrowed */

        uint64_t messages;      /* handled so far */
        uint64_t first_message; /* when that was: microseconds of the monotonic clock */
        unsigned int refusals;  /* of these; only the first few are logged */

        uint64_t features;          /* acknowledged by SET_FEATURES */
        uint64_t protocol_features; /* acknowledged by SET_PROTOCOL_FEATURES */
        uint64_t reset_features;    /* that go with the rings' reset_base */
        bool features_set;
        bool features_refused; /* the last SET_FEATURES was: FEATURES_OK is not granted */
        bool owned;            /* SET_OWNER */
        uint8_t status;        /* SET_STATUS: virtio device status */
        uint16_t mtu;          /* NET_SET_MTU, or 0 */
        int backend_fd;        /* SET_BACKEND_REQ_FD, or -1 */

        struct vql_mem_table *mem; /* NULL: no memory yet */
        enum vql_postcopy postcopy;
        int fault_fd;                   /* our userfaultfd while there is postcopy, or -1 */
        struct vql_mem_table *arriving; /* postcopy: mapped, but not watched yet; or NULL */
        struct vql_dirty_log *log;      /* NULL: no SET_LOG_BASE */
        struct vql_inflight *inflight;  /* NULL: none */
        uint16_t inflight_queues;
        sd_event *loop;                /* its connection's; NULL: it has none */
        struct vql_transfer *transfer; /* of the device's state, the last one; or NULL */
        enum vql_direction direction;  /* of that */

        struct vql_vring vring[VQL_MAX_RINGS];
};

/* Begin a session.  Arguments are borrowed and outlive it.  Cannot fail. */
void vql_session_init(struct vql_session *s, const struct vql_offer *offer,
                      const struct vql_session_host *ops, void *host, const struct vql_log *log_to,
                      int broken_fd);

/* Let go of everything: fds closed, memory put.  The host has stopped all rings before. */
void vql_session_fini(struct vql_session *s);

/*
 * No page of the guest is waited for any more.  When a front-end goes away in the middle of
 * postcopy this comes first: who waits for a page could not be parked.
 */
void vql_session_end_postcopy(struct vql_session *s);

/* Has the front-end acknowledged LOG_ALL and given a log? */
bool vql_session_logging(const struct vql_session *s);

/* One message as the connection received it: header, payload, descriptors. */
enum { VQL_MSG_HEADER = 12, VQL_MSG_MAX_BODY = 4096, VQL_MSG_MAX_FDS = 8 };

struct vql_msg_in {
        uint32_t request, flags, size;
        uint8_t body[VQL_MSG_MAX_BODY];
        int fds[VQL_MSG_MAX_FDS];
        unsigned int nfds;
};

struct vql_msg_out {
        bool present; /* false: no reply to this message */
        uint32_t request, flags, size;
        uint8_t body[VQL_MSG_MAX_BODY];
        int fd; /* to be sent and then closed by the sender, or -1 */
};

/*
 * Handle one complete message.  Consumes all of in->fds, whatever happens.  Writes the reply or
 * ack, if one is due, to *out.
 * 0: go on (a refused message that asked for an ack got its refusal in the ack).
 * -EPROTO: the stream cannot be trusted any more, or a message that needed no ack failed in a way
 * that leaves the state unknown: end the connection.  `e` has the sentence for the log.
 */
int vql_session_handle(struct vql_session *s, struct vql_msg_in *in, struct vql_msg_out *out,
                       struct vql_error *e);

/* The name of a protocol feature, "LOG_SHMFD", or NULL. */
const char *vql_protocol_feature_name(unsigned int bit);
/* The name of a front-end request, "SET_MEM_TABLE", or NULL. */
const char *vql_request_name(uint32_t request);

#endif
