/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VQLIFT_H
#define VQLIFT_VQLIFT_H

/*
 * libvqlift: life cycle, ports, state and statistics.
 *
 * Every function returns 0 or a negative errno unless it says otherwise; out-parameters named
 * ret_* are written on success only.  The sentence that goes with the last error of a context is
 * vql_last_error().  All functions of one context are called from one thread; the library's own
 * threads (one control thread per port, the workers) are its own business.
 *
 * Parameter structs carry their size first, so that they can grow: initialise with
 *
 *         struct vql_port_params p = { .size = sizeof(p), .name = "vm1", ... };
 *
 * Fields left 0 have the default that their comment names.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vql; /* a context: workers, packet memory, ports */

/* Receives one line of log without newline; level is that of syslog(3), name a port's or NULL.
 * Called from any thread of the library. */
typedef void vql_log_fn(void *arg, int level, const char *name, const char *line);

struct vql_params {
        size_t size;
        vql_log_fn *log; /* NULL: nothing is logged */
        void *log_arg;
        int log_level;          /* syslog level; 0 means LOG_INFO */
        const char *const *pci; /* PCI addresses that uplinks may use; others stay untouched */
        unsigned int n_pci;
        const unsigned int *worker_cpus; /* one worker per entry, pinned to that CPU */
        unsigned int n_worker_cpus;      /* 0: one worker that is not pinned */
        unsigned int memory_mb;          /* packet memory, MiB; 0: 256 */
        bool no_huge;                    /* do not use hugepages even where there are some */
        const char *state_dir; /* where ring positions outlive the process; NULL: nowhere */
};

/*
 * Start DPDK's environment (once a process), workers and packet memory.
 * -EINVAL a parameter; -ENOMEM packet memory; -EALREADY the environment was started otherwise and
 * failed.  On an error `ret_error` (may be NULL), a buffer of `n` bytes, gets the sentence.
 */
int vql_create(const struct vql_params *params, struct vql **ret_vql, char *ret_error, size_t n);
/* Close all ports, stop the workers, free.  NULL is fine. */
void vql_destroy(struct vql *v);
/* The first part of that, and the one that a successor in another process waits for: sockets and
 * uplinks are let go of, ring positions stay in the state directory.  NULL is fine. */
void vql_close_ports(struct vql *v);
/* The sentence of the last error; valid until the next call.  Never NULL. */
const char *vql_last_error(const struct vql *v);
const char *vql_version(void);

enum vql_socket_role { VQL_SOCKET_SERVER, VQL_SOCKET_CLIENT };

struct vql_port_params {
        size_t size;
        const char *name;           /* 1 to 63 letters, digits, '-', '_', '.'; unique */
        const char *socket;         /* path of the vhost-user socket */
        enum vql_socket_role role;  /* server listens, client connects to QEMU's socket */
        unsigned int socket_mode;   /* server: permissions; 0: 0660 */
        const char *socket_owner;   /* server: user name or number; NULL: as created */
        const char *socket_group;   /* server: group name or number; NULL: as created */
        unsigned int queue_pairs;   /* most that the guest may use, 1 to 128; 0: 1 */
        const char *uplink;         /* "loopback", DPDK device arguments ("net_tap0,iface=t0"), a
                                     * PCI address, or the name of an ethdev of this process */
        unsigned int uplink_queues; /* 0: as many as the pairs and the device allow */
        unsigned int mtu;           /* set on the uplink; 0: leave it */
        uint64_t features_only;     /* virtio feature bits to offer at most; 0: all */
        uint64_t features_off;      /* virtio feature bits not to offer */
        int worker;                 /* index of the worker to serve all queues, or -1: automatic.
                                     * Note that 0 is a worker. */
        /* A device to serve the rings: its address, or "sim", and arguments behind a comma; NULL:
         * none.  With a device the uplink may be NULL: then rings wait while it cannot serve. */
        const char *device;
        bool postcopy; /* offer it, if the host has userfaultfd: a front-end then may
                        * keep workers waiting for its memory */
};

/* Open the uplink, start the control thread, offer the socket.
 * -EINVAL (the sentence names the field), -EEXIST the name, -EADDRINUSE the socket, -ENODEV the
 * uplink, -ENOMEM. */
int vql_port_add(struct vql *v, const struct vql_port_params *params);
/* Disconnect, stop, free.  -ENOENT. */
int vql_port_del(struct vql *v, const char *name);
/* Number of ports, and the name of port i in order of creation (NULL past the end). */
size_t vql_port_count(const struct vql *v);
const char *vql_port_name(const struct vql *v, size_t i);

enum { VQL_NAME_BYTES = 64, VQL_PATH_BYTES = 108, VQL_TEXT_BYTES = 128 };

/* A port's state as it was at the last change; strings are copies. */
struct vql_port_info {
        char name[VQL_NAME_BYTES];
        char socket[VQL_PATH_BYTES];
        char role[16];               /* "server", "client" */
        char state[16];              /* "waiting", "connected", "running", "broken" */
        char reason[VQL_TEXT_BYTES]; /* why the last connection ended, or "" */
        uint64_t features_offered, features;
        uint64_t protocol_features_offered, protocol_features;
        unsigned int queue_pairs; /* offered */
        unsigned int rings;       /* rings that the front-end configured */
        unsigned int rings_running;
        uint64_t connections;    /* so far */
        int64_t connected_us;    /* since the connection was made; -1: not connected */
        int64_t first_packet_us; /* from connection to first packet; -1: none yet */
        unsigned int mem_regions;
        uint64_t mem_bytes;
        unsigned int mtu_negotiated;        /* NET_SET_MTU; 0: not told */
        char uplink[VQL_TEXT_BYTES];        /* as configured */
        char uplink_device[VQL_NAME_BYTES]; /* the ethdev's name */
        char uplink_driver[VQL_NAME_BYTES];
        bool link_up;
        uint32_t link_mbps; /* 0: not known */
        unsigned int uplink_mtu;
        unsigned int uplink_rx_queues, uplink_tx_queues;
        bool uplink_interrupts; /* false: the worker wakes up by timer */
        uint8_t uplink_mac[6];
        char device[VQL_NAME_BYTES]; /* address, or "" */
        char device_driver[VQL_NAME_BYTES];
        char device_state[VQL_TEXT_BYTES]; /* "running", ..., or why it serves nothing */
        char path_wish[16];                /* as asked for: "auto", ... */
};
int vql_port_get_info(struct vql *v, const char *name, struct vql_port_info *ret_info);

/*
 * One connection of a front-end and its phases, in this order:
 *   connect       to the first message
 *   negotiate     from there to the first ring that runs
 *   first-packet  from there to the first packet, either way
 *   log           writes to guest memory are logged
 *   stop          from the first ring that stops to the last
 *   hand-over     no ring runs any more, until one does or the connection ends
 * Of a phase that came more than once the last time is told.
 */
enum { VQL_TIMELINE_SESSIONS = 8, VQL_PHASES = 6 };
struct vql_phase_info {
        char name[16];
        unsigned int count; /* how often it began */
        int64_t at_us;      /* since the connection; -1: never */
        int64_t took_us;    /* -1: it goes on, or did not come to its end */
};
struct vql_session_info {
        uint64_t connection; /* counted from 1 */
        int64_t began_us;    /* since 1970 */
        int64_t lasted_us;   /* -1: it goes on */
        char reason[VQL_TEXT_BYTES];
        struct vql_phase_info phase[VQL_PHASES];
};
/* The last VQL_TIMELINE_SESSIONS ones, 0 is the newest.  -ENOENT no such port; -ERANGE past the
 * oldest. */
int vql_port_get_session(struct vql *v, const char *name, unsigned int i,
                         struct vql_session_info *ret_info);

struct vql_ring_info {
        unsigned int index;
        char direction[8];                /* "rx": to the guest; "tx": from the guest */
        char path[12];                    /* "software", "relay", "direct", "held", "none" */
        char path_reason[VQL_TEXT_BYTES]; /* why not a better one, or "" */
        char state[12];                   /* "stopped", "running", "broken" */
        char fault[32];                   /* why it is broken, or "" */
        bool enabled, packed;
        unsigned int ring_size;
        char instance[48]; /* name of the datapath instance */
        int worker;        /* -1: none */
        unsigned int uplink_queue;
};
/* -ENOENT no such port; -ERANGE past the last ring. */
int vql_port_get_ring(struct vql *v, const char *name, unsigned int ring,
                      struct vql_ring_info *ret_info);

/*
 * Ask for a path for all rings of a port: "auto", "direct", "relay", "software".  A ring that
 * cannot have it gets the next best one, and its reason.  -ENOENT no such port; -EINVAL no such
 * path, or the port has no device.
 */
int vql_port_set_path(struct vql *v, const char *name, const char *path);

/* A move of a ring from one path to another. */
struct vql_move_info {
        unsigned int ring;
        char from[12], to[12], why[VQL_TEXT_BYTES];
        int64_t at_us;    /* since 1970 */
        uint32_t took_us; /* without any owner */
};
/* Move i of a port, 0 is the newest.  -ENOENT no such port; -ERANGE past the oldest that is
 * remembered. */
int vql_port_get_move(struct vql *v, const char *name, unsigned int i,
                      struct vql_move_info *ret_info);

/* Statistics: names (constant) and, for one ring, values in the same order.  Values count since
 * the port was added; take differences yourself. */
const char *const *vql_ring_stat_names(unsigned int *ret_count);
int vql_port_get_ring_stats(struct vql *v, const char *name, unsigned int ring,
                            uint64_t *ret_values, unsigned int n);

struct vql_worker_info {
        unsigned int index;
        int cpu;            /* -1: not pinned */
        unsigned int lanes; /* uplink queues with their rings that it serves */
        uint64_t polls, polls_busy, sleeps;
};
/* -ERANGE past the last worker. */
int vql_worker_get_info(struct vql *v, unsigned int index, struct vql_worker_info *ret_info);

/* What a port offers and can bear: what a guest on it may have come to rely on. */
struct vql_compat_info {
        uint64_t features, protocol_features;
        unsigned int queue_pairs;
        unsigned int ring_size_split, ring_size_packed; /* largest */
        unsigned int mem_slots;
        unsigned int mtu; /* largest that a front-end may tell; 0: any port has its own */
        char uplink_device[VQL_NAME_BYTES];
        unsigned int state_version; /* of what goes from one daemon to the next with a guest */
};
/* Of a port, or with NULL of a port whose keys take nothing away.  -ENOENT. */
int vql_port_get_compat(struct vql *v, const char *name, struct vql_compat_info *ret_info);

/* Features: bit of a name ("RING_PACKED", "MRG_RXBUF", ...) or -ENOENT, and the name or NULL. */
int vql_feature_from_name(const char *name);
const char *vql_feature_to_name(unsigned int bit);
/* The name of a vhost-user protocol feature ("LOG_SHMFD") or NULL. */
const char *vql_protocol_feature_to_name(unsigned int bit);

#ifdef __cplusplus
}
#endif

#endif
