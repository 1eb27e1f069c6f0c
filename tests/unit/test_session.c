/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "process.h"
#include "session_peer.h"
#include "vhost_user/message_table.h"

/* Rules that hold for every request: replies, acks, sizes, descriptors.  FAULTS A1 to A31. */

enum { SEED = 20240612, RANDOM_MESSAGES = 2000 };

static const int no_fds[VQL_MSG_MAX_FDS];

/* ---- a front-end that does everything right, in QEMU's order ---- */

static void open_as_qemu(struct peer *p)
{
        int fds[2];

        peer_empty(p, VQL_REQ_GET_FEATURES);
        assert_reply(p, 8);
        assert_true(peer_reply_u64(p) == fake_offer.features);
        peer_empty(p, VQL_REQ_GET_PROTOCOL_FEATURES);
        assert_reply(p, 8);
        assert_true(peer_reply_u64(p) == fake_offer.protocol_features);
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, fake_offer.protocol_features);
        assert_silent(p);
        peer_empty(p, VQL_REQ_GET_QUEUE_NUM);
        assert_int_equal(peer_reply_u64(p), 4); /* pairs */
        peer_empty(p, VQL_REQ_GET_MAX_MEM_SLOTS);
        assert_int_equal(peer_reply_u64(p), 509);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        p->flags |= VQL_WIRE_NEED_REPLY;
        peer_send(p, VQL_REQ_SET_BACKEND_REQ_FD, NULL, 0, &fds[0], 1);
        assert_ack(p, true);
        p->flags = VQL_WIRE_VERSION;
        close(fds[1]);
        peer_empty(p, VQL_REQ_SET_OWNER);
        assert_silent(p);
        peer_empty(p, VQL_REQ_GET_FEATURES);
        for (uint32_t i = 0; i < 8; i++) {
                peer_vring_fd(p, VQL_REQ_SET_VRING_CALL, i, peer_eventfd());
                assert_silent(p);
        }
        assert_int_equal(p->host.changes, VQL_CHANGE_CALL);
}

static void start_as_qemu(struct peer *p)
{
        p->flags |= VQL_WIRE_NEED_REPLY;
        peer_u64(p, VQL_REQ_SET_FEATURES,
                 1 << VQL_F_PROTOCOL_FEATURES | vql_bit(VIRTIO_F_VERSION_1));
        assert_ack(p, true);
        peer_mem_slot(p, VQL_REQ_ADD_MEM_REG, peer_region(0, 0x100000), peer_memfd(0x100000));
        assert_ack(p, true);
        assert_int_equal(p->host.changes, VQL_CHANGE_MEMORY);
        for (uint32_t i = 0; i < 2; i++)
                peer_start_ring(p, i);
        assert_int_equal(p->host.changes, VQL_CHANGE_RING);
        assert_int_equal(p->host.ring, 1);
}

static void stop_as_qemu(struct peer *p)
{
        p->flags = VQL_WIRE_VERSION;
        for (uint32_t i = 0; i < 2; i++) {
                p->host.final_base = 1000 + i;
                peer_state(p, VQL_REQ_GET_VRING_BASE, i, 0);
                assert_reply(p, 8);
                assert_int_equal(peer_reply_u64(p), (uint64_t)(1000 + i) << 32 | i);
        }
        p->flags |= VQL_WIRE_NEED_REPLY;
        peer_mem_slot(p, VQL_REQ_REM_MEM_REG, peer_region(0, 0x100000), -1);
        assert_ack(p, true);
        p->flags = VQL_WIRE_VERSION;
}

static void qemu_sequence_twice(void **state)
{
        size_t fds = process_count_fds(), maps = process_count_maps("vql-unit-session");
        struct peer *p = peer_new();

        (void)state;
        open_as_qemu(p);
        for (int i = 0; i < 2; i++) {
                start_as_qemu(p);
                assert_true(p->session->owned);
                assert_int_equal(vql_mem_table_count(p->session->mem), 1);
                for (uint32_t r = 0; r < 2; r++) {
                        const struct vql_vring *v = &p->session->vring[r];

                        assert_true(v->addr_set && v->base_set && v->kick_set && v->enabled);
                        assert_int_equal(v->num, 256);
                        assert_true(v->kick_fd >= 0 && v->call_fd >= 0);
                }
                assert_false(p->session->vring[2].enabled);
                stop_as_qemu(p);
        }
        assert_int_equal(p->lines, 0);
        peer_free(p);
        assert_int_equal(process_count_fds(), fds);
        assert_int_equal(process_count_maps("vql-unit-session"), maps);
}

/* ---- acks ---- */

static void acks_need_both_the_flag_and_the_feature(void **state)
{
        struct peer *p = peer_new();

        (void)state;
        p->flags = VQL_WIRE_VERSION | VQL_WIRE_NEED_REPLY;
        peer_empty(p, VQL_REQ_SET_OWNER);
        assert_silent(p);
        /* From the message on that negotiates it, as front-ends expect. */
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, 1 << VQL_PF_REPLY_ACK);
        assert_ack(p, true);
        peer_empty(p, VQL_REQ_SET_OWNER);
        assert_ack(p, true);
        p->flags = VQL_WIRE_VERSION;
        peer_empty(p, VQL_REQ_SET_OWNER);
        assert_silent(p);
        p->flags = VQL_WIRE_VERSION | VQL_WIRE_NEED_REPLY;
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, 0);
        assert_silent(p);
        peer_free(p);
}

/* One reply, not a reply and an ack (FAULTS A20). */
static void own_replies_get_no_ack(void **state)
{
        static const uint32_t requests[] = {
                VQL_REQ_GET_FEATURES,  VQL_REQ_GET_PROTOCOL_FEATURES,
                VQL_REQ_GET_QUEUE_NUM, VQL_REQ_GET_MAX_MEM_SLOTS,
                VQL_REQ_GET_STATUS,
        };
        struct peer *p = peer_new_acked();

        (void)state;
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                peer_empty(p, requests[i]);
                assert_reply(p, 8);
        }
        peer_empty(p, VQL_REQ_GET_STATUS);
        assert_int_equal(peer_reply_u64(p), 0);
        peer_state(p, VQL_REQ_GET_VRING_BASE, 3, 0);
        assert_reply(p, 8);
        assert_int_equal(peer_reply_u64(p), 3); /* index 3, base 0: never set */
        peer_free(p);
}

static void failure_is_told_in_the_ack_or_ends_the_connection(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        peer_state(p, VQL_REQ_SET_VRING_NUM, 0, 0);
        assert_ack(p, false);
        assert_string_equal(p->last_line,
                            "refused SET_VRING_NUM: ring 0: size 0, expected 1 to 32768");
        p->host.fails = EIO;
        peer_state(p, VQL_REQ_SET_VRING_NUM, 0, 256);
        assert_ack(p, false);
        p->flags = VQL_WIRE_VERSION;
        peer_state(p, VQL_REQ_SET_VRING_NUM, 0, 256);
        assert_ends(p, "SET_VRING_NUM: the host does not want to");
        /* A reply of its own cannot say that a ring did not stop. */
        peer_state(p, VQL_REQ_GET_VRING_BASE, 0, 0);
        assert_ends(p, "GET_VRING_BASE: the host does not want to");
        assert_false(p->out.present);
        peer_free(p);
}

/* A front-end must not be able to fill the disk. */
static void refusals_are_logged_a_bounded_number_of_times(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        for (int i = 0; i < 1000; i++)
                peer_empty(p, 999);
        assert_int_equal(p->lines, 32);
        assert_non_null(strstr(p->last_line, "request 999 is not known (further"));
        assert_int_equal(p->session->refusals, 1000);
        peer_free(p);
}

/* ---- requests that nobody offered ---- */

static void unknown_requests_keep_the_stream_in_step(void **state)
{
        static const uint32_t unknown[] = { 0, 45, 46, 100, 1000, 0x80000001, UINT32_MAX };
        static const uint8_t body[64];
        struct peer *p = peer_new();

        (void)state;
        for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
                int fds[2] = { peer_eventfd(), peer_eventfd() };

                p->flags = VQL_WIRE_VERSION | VQL_WIRE_NEED_REPLY;
                peer_send(p, unknown[i], body, sizeof(body), fds, 2);
                assert_silent(p);
                assert_int_equal(fcntl(fds[0], F_GETFD), -1);
                assert_int_equal(fcntl(fds[1], F_GETFD), -1);
        }
        peer_negotiate(p, true);
        for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
                peer_empty(p, unknown[i]);
                assert_ack(p, false);
                assert_int_equal(peer_reply_u64(p), 1);
        }
        peer_free(p);
}

struct refusal {
        uint32_t request, size; /* sent */
        int reply_size;         /* -1: none but an ack that was asked for; ALWAYS_ACK */
        uint64_t reply;         /* its first eight bytes */
};

enum { ONLY_ACK = -1, ALWAYS_ACK = -2 };

static const struct refusal refusals[] = {
        { VQL_REQ_IOTLB_MSG, 32, ALWAYS_ACK, 1 },
        { VQL_REQ_SET_VRING_ENDIAN, 8, ONLY_ACK, 0 },
        { VQL_REQ_GET_CONFIG, 12 + 60, 0, 0 },
        { VQL_REQ_GET_CONFIG, 12, 0, 0 },
        { VQL_REQ_SET_CONFIG, 12 + 60, ONLY_ACK, 0 },
        { VQL_REQ_CREATE_CRYPTO_SESSION, 656, 656, UINT64_MAX },
        { VQL_REQ_CREATE_CRYPTO_SESSION, 1040, 1040, UINT64_MAX },
        { VQL_REQ_CLOSE_CRYPTO_SESSION, 8, ONLY_ACK, 0 },
        { VQL_REQ_GPU_SET_SOCKET, 0, ONLY_ACK, 0 },
        { VQL_REQ_VRING_KICK, 8, ONLY_ACK, 0 },
        { VQL_REQ_GET_SHARED_OBJECT, 16, 16, 0 },
        { VQL_REQ_SET_DEVICE_STATE_FD, 8, 8, 0x101 },
        { VQL_REQ_CHECK_DEVICE_STATE, 0, 8, 1 },
        { VQL_REQ_GET_SHMEM_CONFIG, 0, 2056, 0 },
};

static void check_refusal(struct peer *p, const struct refusal *f, bool acks)
{
        static const uint8_t body[2048] = { 0x11, 0x11, 0x11, 0x11 };
        int fd = peer_eventfd();
        uint64_t first = 0;

        peer_send(p, f->request, body, f->size, &fd, 1);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        if (f->reply_size == ONLY_ACK && !acks) {
                assert_silent(p);
        } else if (f->reply_size < 0) {
                assert_ack(p, false);
        } else {
                assert_reply(p, f->reply_size);
                assert_int_equal(p->out.fd, -1);
                memcpy(&first, p->out.body, p->out.size < 8 ? p->out.size : 8);
                assert_true(first == f->reply);
        }
}

/* Each gets the "no" that its sender can read, and the connection stays (FAULTS A22, A24). */
static void requests_not_offered_are_refused_in_their_own_form(void **state)
{
        (void)state;
        for (int acks = 0; acks < 2; acks++) {
                struct peer *p = peer_new();

                peer_negotiate(p, acks);
                p->session->protocol_features &= ~vql_bit(VQL_PF_DEVICE_STATE);
                for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
                        check_refusal(p, &refusals[i], acks);
                assert_int_equal(p->session->refusals, sizeof(refusals) / sizeof(refusals[0]));
                assert_int_equal(p->host.applied, 1); /* SET_FEATURES alone */
                peer_free(p);
        }
}

/* What was offered and not taken is refused likewise. */
static void requests_not_negotiated_are_refused(void **state)
{
        const struct vql_wire_inflight w = { .num_queues = 2, .queue_size = 256 };
        struct peer *p = peer_new();

        (void)state;
        peer_u64(p, VQL_REQ_SET_STATUS, 1);
        assert_silent(p);
        peer_u64(p, VQL_REQ_NET_SET_MTU, 1500);
        assert_silent(p);
        peer_empty(p, VQL_REQ_RESET_DEVICE);
        assert_silent(p);
        peer_mem_slot(p, VQL_REQ_ADD_MEM_REG, peer_region(0, 0x1000), peer_memfd(0x1000));
        assert_silent(p);
        peer_log_base(p, 0x1000, 0, -1);
        assert_silent(p);
        peer_send(p, VQL_REQ_GET_INFLIGHT_FD, &w, sizeof(w), NULL, 0);
        assert_reply(p, sizeof(w));
        assert_int_equal(((const struct vql_wire_inflight *)p->out.body)->mmap_size, 0);
        peer_empty(p, VQL_REQ_GET_STATUS);
        assert_int_equal(peer_reply_u64(p), 0);
        assert_int_equal(p->host.applied, 0);
        assert_null(p->session->mem);
        assert_int_equal(p->session->status, 0);
        peer_free(p);
}

/* A port may be told not to offer PROTOCOL_FEATURES at all. */
static void no_protocol_features_without_the_offer(void **state)
{
        const struct vql_offer offer = { .features = vql_bit(VIRTIO_F_VERSION_1), .max_rings = 2 };
        struct peer *p = peer_new_offered(&offer);

        (void)state;
        peer_empty(p, VQL_REQ_GET_PROTOCOL_FEATURES);
        assert_int_equal(peer_reply_u64(p), 0);
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, 0);
        assert_silent(p);
        assert_int_equal(p->session->refusals, 2);
        peer_state(p, VQL_REQ_SET_VRING_ENABLE, 0, 1);
        assert_silent(p);
        assert_false(p->session->vring[0].enabled);
        peer_free(p);
}

/* ---- sizes and descriptors, request by request ---- */

static uint32_t right_size(uint32_t request)
{
        static const uint8_t sizes[VQL_BODY_COUNT] = {
                [VQL_BODY_U64] = 8,          [VQL_BODY_MAC] = 8,      [VQL_BODY_STATE] = 8,
                [VQL_BODY_ADDR] = 40,        [VQL_BODY_VRING_FD] = 8, [VQL_BODY_MEM_TABLE] = 40,
                [VQL_BODY_MEM_SLOT] = 40,    [VQL_BODY_LOG] = 16,     [VQL_BODY_INFLIGHT] = 24,
                [VQL_BODY_DEVICE_STATE] = 8,
        };

        return sizes[vql_request_find(request)->body];
}

static bool carried_out(uint32_t request)
{
        const struct vql_request *r = vql_request_find(request);

        return r && r->handle;
}

/* Refused, as far as the front-end that asked for no ack can be told. */
static void assert_refused(const struct peer *p, uint32_t request, const char *sentence)
{
        if (vql_request_find(request)->reply == VQL_REPLY_ALWAYS_ACK) {
                assert_ack(p, false);
                return;
        }
        assert_ends(p, sentence);
        assert_false(p->out.present);
}

static void malformed_sizes(void **state)
{
        static const uint8_t body[64];

        (void)state;
        for (uint32_t id = 0; id < VQL_REQ_COUNT; id++) {
                struct peer *p;

                if (!carried_out(id))
                        continue;
                p = peer_new();
                peer_negotiate(p, false);
                peer_send(p, id, body, right_size(id) + 1, no_fds, 0);
                assert_refused(p, id, vql_request_name(id));
                peer_negotiate(p, true);
                peer_send(p, id, body, right_size(id) + 1, no_fds, 0);
                if (vql_request_find(id)->reply == VQL_REPLY_OWN)
                        assert_ends(p, "bytes, expected");
                else
                        assert_ack(p, false);
                assert_int_equal(p->host.applied, 1); /* the first SET_FEATURES */
                peer_free(p);
        }
}

/* A well-formed body of one ring or region. */
static void fill_body(uint32_t request, uint8_t *body)
{
        const uint32_t one = 1;

        memset(body, 0, 64);
        if (vql_request_find(request)->body == VQL_BODY_MEM_TABLE)
                memcpy(body, &one, sizeof(one));
}

static unsigned int right_fds(uint32_t request)
{
        switch (vql_request_find(request)->fds) {
        case VQL_FDS_NONE:
                return 0;
        case VQL_FDS_IGNORED:
                return UINT32_MAX; /* any number */
        default:
                return 1;
        }
}

static void send_with_fds(struct peer *p, uint32_t request, unsigned int n)
{
        int fds[VQL_MSG_MAX_FDS];
        uint8_t body[64];

        fill_body(request, body);
        for (unsigned int i = 0; i < n; i++)
                fds[i] = peer_eventfd();
        peer_send(p, request, body, right_size(request), fds, n);
        assert_int_equal(p->in.nfds, 0);
}

/* Too many or too few: closed, all of them, and refused (FAULTS A1, A6, A8, A13). */
static void wrong_numbers_of_descriptors(void **state)
{
        (void)state;
        for (uint32_t id = 0; id < VQL_REQ_COUNT; id++) {
                for (unsigned int n = 0; carried_out(id) && n <= VQL_MSG_MAX_FDS; n++) {
                        size_t before = process_count_fds();
                        struct peer *p = peer_new();

                        if (n == right_fds(id) || right_fds(id) == UINT32_MAX)
                                goto next;
                        peer_negotiate(p, false);
                        send_with_fds(p, id, n);
                        assert_refused(p, id, "number of descriptors");
                        peer_negotiate(p, true);
                        send_with_fds(p, id, n);
                        if (vql_request_find(id)->reply == VQL_REPLY_OWN)
                                assert_ends(p, "number of descriptors");
                        else
                                assert_ack(p, false);
                next:
                        peer_free(p);
                        assert_int_equal(process_count_fds(), before);
                }
        }
}

/* REM_MEM_REG with a descriptor, as some front-ends send it: closed and ignored. */
static void surplus_descriptor_of_rem_mem_reg(void **state)
{
        struct peer *p = peer_new_acked();
        size_t before;

        (void)state;
        before = process_count_fds();
        peer_mem_slot(p, VQL_REQ_ADD_MEM_REG, peer_region(0, 0x1000), peer_memfd(0x1000));
        assert_ack(p, true);
        peer_mem_slot(p, VQL_REQ_REM_MEM_REG, peer_region(0, 0x1000), peer_memfd(0x1000));
        assert_ack(p, true);
        assert_int_equal(process_count_fds(), before);
        peer_free(p);
}

/* Descriptor 0 is one like any other. */
static void descriptor_zero(void **state)
{
        int keep = dup(0), fd = peer_eventfd();
        struct peer *p = peer_new_acked();

        (void)state;
        assert_int_equal(dup2(fd, 0), 0);
        close(fd);
        peer_vring_fd(p, VQL_REQ_SET_VRING_KICK, 0, 0);
        assert_ack(p, true);
        assert_int_equal(p->session->vring[0].kick_fd, 0);
        peer_vring_fd(p, VQL_REQ_SET_VRING_KICK, VQL_WIRE_VRING_NO_FD, -1);
        assert_ack(p, true);
        assert_int_equal(fcntl(0, F_GETFD), -1);
        peer_free(p);
        if (keep >= 0) {
                dup2(keep, 0);
                close(keep);
        }
}

/* ---- anything at all ---- */

static uint32_t random_below(uint32_t n)
{
        return (uint32_t)rand() % n;
}

static int random_fd(void)
{
        int fds[2];

        switch (random_below(4)) {
        case 0:
                return peer_memfd(random_below(3) * 0x2000);
        case 1:
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
                close(fds[1]);
                return fds[0];
        default:
                return peer_eventfd();
        }
}

/* Mostly plausible, so that it gets past the first check. */
static void random_message(struct peer *p)
{
        uint32_t id = random_below(VQL_REQ_COUNT + 2), size, words[64];
        unsigned int nfds = random_below(4) ? random_below(2) : random_below(9);
        int fds[VQL_MSG_MAX_FDS];

        size = vql_request_find(id) && random_below(8) ? right_size(id) : random_below(256);
        for (size_t i = 0; i < 64; i++)
                words[i] = random_below(3) ? random_below(10) : (uint32_t)rand() * 2654435761U;
        for (unsigned int i = 0; i < nfds; i++)
                fds[i] = random_fd();
        p->flags = VQL_WIRE_VERSION | (random_below(2) ? VQL_WIRE_NEED_REPLY : 0);
        p->host.fails = random_below(10) ? 0 : EIO;
        peer_send(p, id, words, size, fds, nfds);
        if (p->out.present && p->out.fd >= 0)
                close(p->out.fd);
        assert_true(p->result == 0 || p->result == -EPROTO);
        assert_true(p->result == 0 || p->error.text[0]);
}

static void nothing_leaks_over_random_messages(void **state)
{
        size_t fds = process_count_fds(), maps = process_count_maps("memfd");

        (void)state;
        srand(SEED);
        for (int session = 0; session < 20; session++) {
                struct peer *p = peer_new();

                if (session % 2)
                        peer_negotiate(p, true);
                for (int i = 0; i < RANDOM_MESSAGES / 20; i++)
                        random_message(p);
                peer_free(p);
                assert_int_equal(process_count_fds(), fds);
                assert_int_equal(process_count_maps("memfd"), maps);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(qemu_sequence_twice),
                cmocka_unit_test(acks_need_both_the_flag_and_the_feature),
                cmocka_unit_test(own_replies_get_no_ack),
                cmocka_unit_test(failure_is_told_in_the_ack_or_ends_the_connection),
                cmocka_unit_test(refusals_are_logged_a_bounded_number_of_times),
                cmocka_unit_test(unknown_requests_keep_the_stream_in_step),
                cmocka_unit_test(requests_not_offered_are_refused_in_their_own_form),
                cmocka_unit_test(requests_not_negotiated_are_refused),
                cmocka_unit_test(no_protocol_features_without_the_offer),
                cmocka_unit_test(malformed_sizes),
                cmocka_unit_test(wrong_numbers_of_descriptors),
                cmocka_unit_test(surplus_descriptor_of_rem_mem_reg),
                cmocka_unit_test(descriptor_zero),
                cmocka_unit_test(nothing_leaks_over_random_messages),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
