/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_SESSION_PEER_H
#define TESTS_UNIT_SESSION_PEER_H

/*
 * A session with a fake host, and the front-end's side of it as calls: each hands one message to
 * the session, without a socket in between.  For cmocka tests: checks that fail end the test.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_host.h"
#include "vhost_user/wire.h"

struct peer {
        struct vql_session *session;
        struct fake_host host;
        struct vql_log log;
        unsigned int lines;  /* logged */
        char last_line[512]; /* of these */

        uint32_t flags; /* of the messages to come: version, and NEED_REPLY or not */
        struct vql_msg_in in;
        struct vql_msg_out out;
        struct vql_error error;
        int result; /* of the last message */
};

static inline void peer_log_line(void *arg, int level, const char *name, const char *line)
{
        struct peer *p = arg;

        (void)level;
        (void)name;
        p->lines++;
        snprintf(p->last_line, sizeof(p->last_line), "%s", line);
}

/* A session as it is when somebody has just connected. */
static inline struct peer *peer_new_offered(const struct vql_offer *offer)
{
        struct peer *p = calloc(1, sizeof(*p));

        p->session = calloc(1, sizeof(*p->session));
        p->host.session = p->session;
        p->log = (struct vql_log){ .write = peer_log_line, .arg = p, .level = LOG_DEBUG };
        p->flags = VQL_WIRE_VERSION;
        p->out.fd = -1;
        vql_session_init(p->session, offer, &fake_host_ops, &p->host, &p->log, -1);
        return p;
}

static inline struct peer *peer_new(void)
{
        return peer_new_offered(&fake_offer);
}

static inline void peer_free(struct peer *p)
{
        vql_session_fini(p->session);
        free(p->session);
        free(p);
}

/* Send any message; the descriptors are the session's from here on.  Returns what it says. */
static inline int peer_send(struct peer *p, uint32_t request, const void *body, size_t size,
                            const int *fds, unsigned int nfds)
{
        p->in.request = request;
        p->in.flags = p->flags;
        p->in.size = (uint32_t)size;
        if (size)
                memcpy(p->in.body, body, size);
        p->in.nfds = nfds;
        for (unsigned int i = 0; i < nfds; i++)
                p->in.fds[i] = fds[i];
        p->error.text[0] = '\0';
        memset(&p->out, 0xa5, sizeof(p->out));
        p->result = vql_session_handle(p->session, &p->in, &p->out, &p->error);
        return p->result;
}

static inline int peer_empty(struct peer *p, uint32_t request)
{
        return peer_send(p, request, NULL, 0, NULL, 0);
}

static inline int peer_u64(struct peer *p, uint32_t request, uint64_t value)
{
        return peer_send(p, request, &value, sizeof(value), NULL, 0);
}

static inline int peer_state(struct peer *p, uint32_t request, uint32_t index, uint32_t num)
{
        const struct vql_wire_state body = { index, num };

        return peer_send(p, request, &body, sizeof(body), NULL, 0);
}

static inline int peer_addr(struct peer *p, uint32_t index, uint32_t flags, uint64_t at)
{
        const struct vql_wire_addr body = {
                .index = index,
                .flags = flags,
                .desc_uva = at,
                .avail_uva = at + 0x1000,
                .used_uva = at + 0x2000,
                .log_gpa = at + 0x3000,
        };

        return peer_send(p, VQL_REQ_SET_VRING_ADDR, &body, sizeof(body), NULL, 0);
}

static inline int peer_eventfd(void)
{
        int fd = eventfd(0, EFD_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

static inline int peer_memfd(uint64_t size)
{
        int fd = memfd_create("vql-unit-session", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        return fd;
}

/* SET_VRING_KICK, _CALL, _ERR; fd -1: without. */
static inline int peer_vring_fd(struct peer *p, uint32_t request, uint64_t value, int fd)
{
        return peer_send(p, request, &value, sizeof(value), &fd, fd >= 0 ? 1 : 0);
}

static inline struct vql_wire_region peer_region(uint64_t gpa, uint64_t size)
{
        return (struct vql_wire_region){ .gpa = gpa, .size = size, .uva = gpa + (1ULL << 40) };
}

static inline int peer_mem_slot(struct peer *p, uint32_t request, struct vql_wire_region r, int fd)
{
        const struct vql_wire_mem_slot body = { .region = r };

        return peer_send(p, request, &body, sizeof(body), &fd, fd >= 0 ? 1 : 0);
}

/* SET_MEM_TABLE of n regions, each with a file that just holds it. */
static inline int peer_mem_table(struct peer *p, const struct vql_wire_region *regions, uint32_t n)
{
        struct vql_wire_mem_table body = { .n = n };
        int fds[VQL_WIRE_TABLE_REGIONS];

        for (uint32_t i = 0; i < n; i++) {
                body.region[i] = regions[i];
                fds[i] = peer_memfd(regions[i].mmap_offset + regions[i].size);
        }
        return peer_send(p, VQL_REQ_SET_MEM_TABLE, &body, 8 + n * sizeof(body.region[0]), fds, n);
}

static inline int peer_log_base(struct peer *p, uint64_t size, uint64_t offset, int fd)
{
        const struct vql_wire_log body = { size, offset };

        return peer_send(p, VQL_REQ_SET_LOG_BASE, &body, sizeof(body), &fd, fd >= 0 ? 1 : 0);
}

/* ---- what came back ---- */

static inline uint64_t peer_reply_u64(const struct peer *p)
{
        uint64_t v;

        assert_true(p->out.present);
        assert_int_equal(p->out.size, sizeof(v));
        memcpy(&v, p->out.body, sizeof(v));
        return v;
}

#define assert_reply(p, bytes)                                       \
        do {                                                         \
                assert_int_equal((p)->result, 0);                    \
                assert_true((p)->out.present);                       \
                assert_int_equal((p)->out.request, (p)->in.request); \
                assert_int_equal((p)->out.flags, 0x5);               \
                assert_int_equal((p)->out.size, bytes);              \
        } while (0)

/* An ack, and whether it says yes. */
#define assert_ack(p, good)                                     \
        do {                                                    \
                assert_reply(p, 8);                             \
                assert_int_equal((p)->out.fd, -1);              \
                assert_int_equal(peer_reply_u64(p) == 0, good); \
        } while (0)

/* Taken without a word. */
#define assert_silent(p)                           \
        do {                                       \
                assert_int_equal((p)->result, 0);  \
                assert_false((p)->out.present);    \
                assert_int_equal((p)->out.fd, -1); \
        } while (0)

/* The connection is to end, with a sentence that has `text` in it. */
#define assert_ends(p, sentence)                                                           \
        do {                                                                               \
                assert_int_equal((p)->result, -EPROTO);                                    \
                if (!strstr((p)->error.text, sentence))                                    \
                        fail_msg("\"%s\" does not say \"%s\"", (p)->error.text, sentence); \
        } while (0)

/* ---- ready-made states ---- */

/* Negotiate everything that is offered, except LOG_ALL and RING_PACKED; with acks or without. */
static inline void peer_negotiate(struct peer *p, bool acks)
{
        uint64_t protocol = FAKE_PROTOCOL_FEATURES;
        uint64_t features =
                FAKE_FEATURES & ~vql_bit(VQL_F_LOG_ALL) & ~vql_bit(VIRTIO_F_RING_PACKED);

        p->flags = VQL_WIRE_VERSION;
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, protocol);
        assert_silent(p);
        peer_empty(p, VQL_REQ_SET_OWNER);
        assert_silent(p);
        peer_u64(p, VQL_REQ_SET_FEATURES, features);
        assert_silent(p);
        p->flags = VQL_WIRE_VERSION | (acks ? VQL_WIRE_NEED_REPLY : 0);
}

/* A negotiated session whose every message asks for an ack. */
static inline struct peer *peer_new_acked(void)
{
        struct peer *p = peer_new();

        peer_negotiate(p, true);
        return p;
}

/* Configure ring i completely; memory is the caller's matter. */
static inline void peer_start_ring(struct peer *p, uint32_t i)
{
        const uint32_t flags = p->flags;

        p->flags = VQL_WIRE_VERSION;
        peer_state(p, VQL_REQ_SET_VRING_NUM, i, 256);
        assert_silent(p);
        peer_state(p, VQL_REQ_SET_VRING_BASE, i, 0);
        assert_silent(p);
        peer_addr(p, i, 0, 0x10000 * (i + 1));
        assert_silent(p);
        peer_vring_fd(p, VQL_REQ_SET_VRING_KICK, i, peer_eventfd());
        assert_silent(p);
        peer_vring_fd(p, VQL_REQ_SET_VRING_CALL, i, peer_eventfd());
        assert_silent(p);
        peer_state(p, VQL_REQ_SET_VRING_ENABLE, i, 1);
        assert_silent(p);
        p->flags = flags;
}

#endif
