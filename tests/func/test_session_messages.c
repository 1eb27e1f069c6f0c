/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages that are not as they should be, over a real socket to a real port: wrong sizes, flags,
 * descriptors, indices.  Each is tried with and without a wish for an
 * acknowledgement, and none may leave a descriptor behind.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

enum { PAIRS = 2, FILE_BYTES = 1 << 20 };

/* What becomes of a bad message.  Asked for an ack, the back-end says no and goes on; not asked, it
 * hangs up, since the front-end believes in a state that is not there. */
enum outcome {
        OK,      /* fine, after all */
        REFUSED, /* as above */
        IGNORED, /* refused if asked, else passed over */
        CLOSED,  /* hung up in any case: nobody knows where the next message begins */
};

#define STATE(index, num) ((uint64_t)(num) << 32 | (index))
#define NO_FD             FE_VRING_NO_FD

struct bad {
        const char *name;
        uint32_t request;
        enum outcome outcome;
        size_t len; /* of the body */
        uint64_t body[18];
        unsigned int nfds;
        uint32_t flags; /* exclusive-or */
        uint32_t claim; /* size in the header, if not len */
};

#define BAD(what, id, result, bytes, ...)                                                 \
        {                                                                                 \
                .name = what, .request = id, .outcome = result, .len = bytes, __VA_ARGS__ \
        }

static const struct bad bads[] = {
        /* descriptors */
        BAD("surplus fd", FE_SET_OWNER, REFUSED, 0, .nfds = 1),
        BAD("8 surplus fds", FE_SET_VRING_NUM, REFUSED, 8, .body = { STATE(0, 256) }, .nfds = 8),
        BAD("9 fds", FE_SET_VRING_NUM, CLOSED, 8, .body = { STATE(0, 256) }, .nfds = 9),
        BAD("32 fds", FE_SET_VRING_CALL, CLOSED, 8, .nfds = 32),
        BAD("call: two fds", FE_SET_VRING_CALL, REFUSED, 8, .nfds = 2),
        BAD("call: none", FE_SET_VRING_CALL, REFUSED, 8),
        BAD("call: no-fd form", FE_SET_VRING_CALL, OK, 8, .body = { NO_FD }),
        BAD("call: no-fd form with fd", FE_SET_VRING_CALL, REFUSED, 8, .body = { NO_FD },
            .nfds = 1),
        BAD("kick: no-fd form", FE_SET_VRING_KICK, OK, 8, .body = { 1 | NO_FD }),
        BAD("kick: none", FE_SET_VRING_KICK, REFUSED, 8, .body = { 1 }),
        BAD("err: no-fd form", FE_SET_VRING_ERR, OK, 8, .body = { 2 | NO_FD }),
        BAD("err: none", FE_SET_VRING_ERR, REFUSED, 8, .body = { 2 }),
        BAD("table: fd missing", FE_SET_MEM_TABLE, REFUSED, 40,
            .body = { 1, 0, FILE_BYTES, 1 << 30, 0 }),
        BAD("table: fd too many", FE_SET_MEM_TABLE, REFUSED, 40,
            .body = { 1, 0, FILE_BYTES, 1 << 30, 0 }, .nfds = 2),
        BAD("slot: fd missing", FE_ADD_MEM_REG, REFUSED, 40,
            .body = { 0, 0, FILE_BYTES, 1 << 30, 0 }),
        BAD("slot: two fds", FE_ADD_MEM_REG, REFUSED, 40, .body = { 0, 0, FILE_BYTES, 1 << 30, 0 },
            .nfds = 2),
        BAD("log fd missing", FE_SET_LOG_FD, REFUSED, 0),
        BAD("back-end channel missing", FE_SET_BACKEND_REQ_FD, REFUSED, 0),
        BAD("back-end channel no socket", FE_SET_BACKEND_REQ_FD, REFUSED, 0, .nfds = 1),
        BAD("in-flight fd missing", FE_SET_INFLIGHT_FD, REFUSED, 24,
            .body = { 4096, 0, STATE(2, 0) }),
        /* sizes and headers */
        BAD("short u64", FE_SET_FEATURES, REFUSED, 4),
        BAD("long u64", FE_SET_FEATURES, REFUSED, 12),
        BAD("no state", FE_SET_VRING_NUM, REFUSED, 0),
        BAD("long state", FE_SET_VRING_BASE, REFUSED, 16),
        BAD("short address", FE_SET_VRING_ADDR, REFUSED, 32),
        BAD("empty table", FE_SET_MEM_TABLE, REFUSED, 8),
        BAD("table longer than its count", FE_SET_MEM_TABLE, REFUSED, 72,
            .body = { 1, 0, FILE_BYTES, 1 << 30, 0 }, .nfds = 1),
        BAD("table shorter than its count", FE_SET_MEM_TABLE, REFUSED, 40,
            .body = { 2, 0, FILE_BYTES, 1 << 30, 0 }, .nfds = 2),
        BAD("table of 4 billion", FE_SET_MEM_TABLE, REFUSED, 40, .body = { 0xffffffff }),
        BAD("table of 9", FE_SET_MEM_TABLE, REFUSED, 8 + 4 * 32, .body = { 9 }, .nfds = 8),
        BAD("owner with a body", FE_SET_OWNER, REFUSED, 8),
        BAD("4097 bytes", FE_SET_FEATURES, CLOSED, 8, .claim = 4097),
        BAD("4 GiB with fds", FE_SET_FEATURES, CLOSED, 8, .nfds = 4, .claim = UINT32_MAX),
        BAD("version 0", FE_SET_OWNER, CLOSED, 0, .flags = 1),
        BAD("version 3", FE_SET_OWNER, CLOSED, 0, .flags = 2),
        BAD("a reply", FE_SET_OWNER, CLOSED, 0, .flags = FE_REPLY),
        /* requests that do not exist or were not negotiated */
        BAD("request 0", 0, IGNORED, 0),
        BAD("request 0 with fds", 0, IGNORED, 0, .nfds = 3),
        BAD("request 45", FE_REQUEST_END, IGNORED, 0),
        BAD("request 2^31", UINT32_C(1) << 31, IGNORED, 100),
        BAD("request 2^32 - 1", UINT32_MAX, IGNORED, 0, .nfds = 8),
        BAD("in-band kick", FE_VRING_KICK, IGNORED, 8),
        BAD("endian", FE_SET_VRING_ENDIAN, IGNORED, 8),
        BAD("config", FE_SET_CONFIG, IGNORED, 16, .body = { STATE(0, 0xffffffff) }),
        BAD("close of a crypto session", FE_CLOSE_CRYPTO_SESSION, IGNORED, 8),
        /* values */
        BAD("ring 4 of 4", FE_SET_VRING_NUM, REFUSED, 8, .body = { STATE(2 * PAIRS, 256) }),
        BAD("ring 65536", FE_SET_VRING_NUM, REFUSED, 8, .body = { STATE(0x10000, 256) }),
        BAD("ring 2^32 - 1", FE_SET_VRING_BASE, REFUSED, 8, .body = { STATE(0xffffffff, 0) }),
        BAD("enable: ring 256", FE_SET_VRING_ENABLE, REFUSED, 8, .body = { STATE(256, 1) }),
        BAD("address: ring 65536", FE_SET_VRING_ADDR, REFUSED, 40, .body = { STATE(0x10000, 0) }),
        BAD("call: ring 255", FE_SET_VRING_CALL, REFUSED, 8, .body = { 255 }, .nfds = 1),
        BAD("kick: ring 4", FE_SET_VRING_KICK, REFUSED, 8, .body = { 4 }, .nfds = 1),
        BAD("size 0", FE_SET_VRING_NUM, REFUSED, 8, .body = { STATE(0, 0) }),
        BAD("size 32769", FE_SET_VRING_NUM, REFUSED, 8, .body = { STATE(0, 32769) }),
        BAD("size 65536 + 256", FE_SET_VRING_NUM, REFUSED, 8, .body = { STATE(0, 0x10100) }),
        BAD("size 2^31", FE_SET_VRING_NUM, REFUSED, 8, .body = { STATE(0, 0x80000000) }),
        BAD("enable 2", FE_SET_VRING_ENABLE, REFUSED, 8, .body = { STATE(0, 2) }),
        BAD("feature 62", FE_SET_FEATURES, REFUSED, 8, .body = { UINT64_C(1) << 62 }),
        BAD("protocol feature 17", FE_SET_PROTOCOL_FEATURES, REFUSED, 8, .body = { 1 << 17 }),
        BAD("MTU 67", FE_NET_SET_MTU, IGNORED, 8, .body = { 67 }),
        BAD("MTU 65536", FE_NET_SET_MTU, IGNORED, 8, .body = { 65536 }),
        BAD("status 256", FE_SET_STATUS, REFUSED, 8, .body = { 256 }),
        BAD("in-flight: sizes do not fit", FE_SET_INFLIGHT_FD, REFUSED, 24,
            .body = { 64, 0, 65535 | 65535u << 16 }, .nfds = 1),
        BAD("in-flight: wrap", FE_SET_INFLIGHT_FD, REFUSED, 24,
            .body = { 1 << 16, UINT64_MAX - 4095, 2 | 256 << 16 }, .nfds = 1),
        BAD("in-flight: longer than its file", FE_SET_INFLIGHT_FD, REFUSED, 24,
            .body = { 2 * FILE_BYTES, 0, 2 | 256 << 16 }, .nfds = 1),
        BAD("slot: size 0", FE_ADD_MEM_REG, REFUSED, 40, .body = { 0, 0, 0, 1 << 30, 0 },
            .nfds = 1),
        BAD("slot: longer than its file", FE_ADD_MEM_REG, REFUSED, 40,
            .body = { 0, 0, FILE_BYTES + 4096, 1 << 30, 0 }, .nfds = 1),
        BAD("slot: offset behind its file", FE_ADD_MEM_REG, REFUSED, 40,
            .body = { 0, 0, 4096, 1 << 30, FILE_BYTES }, .nfds = 1),
        BAD("slot: offset wraps", FE_ADD_MEM_REG, REFUSED, 40,
            .body = { 0, 0, FILE_BYTES, 1 << 30, UINT64_MAX - 4095 }, .nfds = 1),
        BAD("slot: address wraps", FE_ADD_MEM_REG, REFUSED, 40,
            .body = { 0, UINT64_MAX - 4095, FILE_BYTES, 1 << 30, 0 }, .nfds = 1),
        BAD("slot: front-end address wraps", FE_ADD_MEM_REG, REFUSED, 40,
            .body = { 0, 0, FILE_BYTES, UINT64_MAX - 4095, 0 }, .nfds = 1),
        BAD("removal of what is not there", FE_REM_MEM_REG, REFUSED, 40,
            .body = { 0, 0, FILE_BYTES, 1 << 30, 0 }),
};

static int file_fd(void)
{
        int fd = memfd_create("message", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
        return fd;
}

static void make_message(const struct bad *b, int fd, struct fe_message *ret_message)
{
        fe_message_init(ret_message, b->request, b->body, b->len);
        ret_message->flags ^= b->flags;
        if (b->claim)
                ret_message->size = b->claim;
        for (unsigned int i = 0; i < b->nfds; i++)
                ret_message->fds[i] = fd;
        ret_message->nfds = b->nfds;
}

static struct fe_frontend *negotiated(struct host *h, const char *name)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN, .queue_pairs = PAIRS };
        struct fe_frontend *fe = host_connect(h, name);

        expect_fe(fe, fe_frontend_negotiate(fe, &s), 0);
        return fe;
}

static bool alive(struct fe_frontend *fe)
{
        uint64_t features;
        int err = fe_get_u64(&fe->link, FE_GET_FEATURES, &features);

        if (err < 0 && err != -ECONNRESET)
                fail_msg("GET_FEATURES: %s", fe_frontend_error(fe));
        return err == 0;
}

static void expect(const struct bad *b, const char *how, bool got, bool want)
{
        if (got != want)
                fail_msg("\"%s\", %s: %s", b->name, how, got ? "yes" : "no");
}

static void try_asking(struct host *h, const struct bad *b, int fd)
{
        struct fe_frontend *fe = negotiated(h, "p");
        struct fe_message m;
        int err;

        make_message(b, fd, &m);
        err = fe_request_force_ack(&fe->link, &m);
        if (err != 0 && err != -EREMOTEIO && err != -ECONNRESET)
                fail_msg("\"%s\": %s", b->name, fe_frontend_error(fe));
        expect(b, "accepted", err == 0, b->outcome == OK);
        expect(b, "refused", err == -EREMOTEIO, b->outcome == REFUSED || b->outcome == IGNORED);
        if (b->outcome != CLOSED)
                expect(b, "alive", alive(fe), true);
        fe_frontend_free(fe);
}

static void try_not_asking(struct host *h, const struct bad *b, int fd)
{
        struct fe_frontend *fe = negotiated(h, "p");
        struct fe_message m;

        make_message(b, fd, &m);
        assert_int_equal(fe_channel_send(&fe->link.ch, &m), 0);
        expect(b, "alive", alive(fe), b->outcome == OK || b->outcome == IGNORED);
        fe_frontend_free(fe);
}

static void test_bad_messages(void **state)
{
        struct host *h = *state;
        struct host_counts before, after;
        int fd = file_fd();

        host_add(h, "p", PAIRS);
        try_asking(h, &bads[0], fd); /* what is made at the first use is not a leak */
        host_wait_state(h, "p", "waiting");
        before = host_count();
        for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
                try_asking(h, &bads[i], fd);
                try_not_asking(h, &bads[i], fd);
                host_wait_state(h, "p", "waiting");
                after = host_count();
                if (after.fds != before.fds || after.shared_maps != before.shared_maps)
                        fail_msg("\"%s\": %d fds and %d mappings stay", bads[i].name,
                                 (int)(after.fds - before.fds),
                                 (int)(after.shared_maps - before.shared_maps));
        }
        close(fd);
        host_del(h, "p");
}

/* Requests with a reply of their own: the right "no" is the one that keeps the stream in step. */
static void test_refused_replies(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        struct fe_inflight inflight;
        uint32_t num;
        uint8_t config[256];
        int fd;

        host_add(h, "p", PAIRS);
        fe = negotiated(h, "p");
        expect_fe(fe, fe_get_config(&fe->link, 0, sizeof(config), config), -EREMOTEIO);
        expect_fe(fe, fe_get_inflight_fd(&fe->link, 65535, 65535, &inflight, &fd), -EREMOTEIO);
        expect_fe(fe, fe_get_inflight_fd(&fe->link, 0, 256, &inflight, &fd), -EREMOTEIO);
        assert_true(alive(fe));
        /* There is no such form of GET_VRING_BASE: hanging up is the only one. */
        assert_true(fe_get_vring_base(&fe->link, 2 * PAIRS, &num) < 0);
        fe_frontend_free(fe);
        host_del(h, "p");
}

/* In-flight messages in the specification's length and in QEMU's; again and again without leak. */
static void test_inflight_sizes(void **state)
{
        struct host *h = *state;
        struct fe_frontend *fe;
        struct fe_inflight inflight;
        struct host_counts before;
        int fd;

        host_add(h, "p", PAIRS);
        fe = negotiated(h, "p");
        before = host_count();
        for (unsigned int i = 0; i < 50; i++) {
                fe->link.inflight_bytes = i % 2 ? 20 : 24;
                expect_fe(fe, fe_get_inflight_fd(&fe->link, 4, 256, &inflight, &fd), 0);
                expect_fe(fe, fe_set_inflight_fd(&fe->link, &inflight, fd), 0);
                close(fd);
        }
        assert_int_equal(host_count().fds, before.fds);
        assert_in_range(host_count().shared_maps, before.shared_maps, before.shared_maps + 1);
        fe_frontend_free(fe);
        host_del(h, "p");
}

/* The same SET messages over and over: each replaces and lets go of what was there. */
static void test_repetition(void **state)
{
        struct host *h = *state;
        struct host_counts before = { 0 };
        struct fe_frontend *fe;
        int fd = file_fd(), log = file_fd(), peer;
        const struct fe_mem_region r = { 0, FILE_BYTES, 1 << 30, 0 };

        host_add(h, "p", PAIRS);
        fe = negotiated(h, "p");
        for (unsigned int i = 0; i < 1000; i++) {
                uint32_t ring = i % (2 * PAIRS);

                if (i == 8)
                        before = host_count();
                expect_fe(fe, fe_set_state(&fe->link, FE_SET_VRING_NUM, ring, 1u << i % 10), 0);
                expect_fe(
                        fe,
                        fe_set_vring_fd(&fe->link, FE_SET_VRING_CALL, ring, fe->ring[ring].call_fd),
                        0);
                expect_fe(fe,
                          fe_set_vring_fd(&fe->link, FE_SET_VRING_ERR, ring, fe->ring[ring].err_fd),
                          0);
                expect_fe(fe, fe_set_mem_table(&fe->link, &r, &fd, 1), 0);
                expect_fe(fe, fe_set_log_base(&fe->link, FILE_BYTES / 2, 0, log), 0);
                close(fe->backend_fd);
                expect_fe(fe, fe_set_backend_channel(&fe->link, &peer), 0);
                fe->backend_fd = peer;
        }
        assert_int_equal(host_count().fds, before.fds);
        assert_int_equal(host_count().shared_maps, before.shared_maps);
        fe_frontend_free(fe);
        close(fd);
        close(log);
        host_del(h, "p");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_bad_messages),
                host_test(test_refused_replies),
                host_test(test_inflight_sizes),
                host_test(test_repetition),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
