/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session_peer.h"

/* Features, and the requests that concern the device as a whole.  FAULTS A22, A27. */

enum { FEATURES_OK = 8, DRIVER_OK = 4 };

#define BIT(bit) (UINT64_C(1) << (bit))

static unsigned int enabled_rings(const struct peer *p)
{
        unsigned int n = 0;

        for (unsigned int i = 0; i < VQL_MAX_RINGS; i++)
                n += p->session->vring[i].enabled;
        return n;
}

static void features_not_offered_are_refused_by_name(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        p->flags = VQL_WIRE_VERSION;
        peer_u64(p, VQL_REQ_SET_FEATURES, FAKE_FEATURES | BIT(VIRTIO_F_ACCESS_PLATFORM));
        assert_ends(p, "SET_FEATURES: bit 33 (ACCESS_PLATFORM) is not offered");
        peer_u64(p, VQL_REQ_SET_FEATURES, BIT(49));
        assert_ends(p, "SET_FEATURES: bit 49 (unknown) is not offered");
        /* What was agreed before still holds. */
        assert_true(p->session->features_set);
        assert_true(vql_has(p->session->features, VIRTIO_F_VERSION_1));
        assert_int_equal(p->host.applied, 1);
        peer_free(p);
}

static void features_once_more_are_no_change(void **state)
{
        struct peer *p = peer_new_acked();
        uint64_t features = p->session->features;

        (void)state;
        assert_int_equal(p->host.changes, VQL_CHANGE_FEATURES);
        assert_int_equal(p->host.applied, 1);
        peer_u64(p, VQL_REQ_SET_FEATURES, features);
        assert_ack(p, true);
        assert_int_equal(p->host.applied, 1);
        peer_u64(p, VQL_REQ_SET_FEATURES, features | BIT(VQL_F_LOG_ALL));
        assert_ack(p, true);
        assert_int_equal(p->host.applied, 2);
        assert_int_equal(p->host.changes, VQL_CHANGE_FEATURES);
        peer_free(p);
}

/* A base in one format says nothing in the other. */
static void ring_format_stays_while_a_ring_is_started(void **state)
{
        struct peer *p = peer_new_acked();
        uint64_t features = p->session->features;

        (void)state;
        peer_u64(p, VQL_REQ_SET_FEATURES, features | BIT(VIRTIO_F_RING_PACKED));
        assert_ack(p, true);
        peer_start_ring(p, 5);
        peer_u64(p, VQL_REQ_SET_FEATURES, features);
        assert_ack(p, false);
        assert_non_null(strstr(p->last_line, "RING_PACKED changes while ring 5 is started"));
        assert_true(vql_has(p->session->features, VIRTIO_F_RING_PACKED));
        /* Anything else may change, also then: an old guest sends its features last. */
        peer_u64(p, VQL_REQ_SET_FEATURES,
                 (features | BIT(VIRTIO_F_RING_PACKED)) & ~BIT(VIRTIO_NET_F_MRG_RXBUF));
        assert_ack(p, true);
        peer_state(p, VQL_REQ_GET_VRING_BASE, 5, 0);
        assert_reply(p, 8);
        peer_u64(p, VQL_REQ_SET_FEATURES, features);
        assert_ack(p, true);
        assert_false(vql_has(p->session->features, VIRTIO_F_RING_PACKED));
        peer_free(p);
}

static void rings_are_enabled_without_protocol_features(void **state)
{
        struct peer *p = peer_new();

        (void)state;
        assert_int_equal(enabled_rings(p), 0);
        peer_u64(p, VQL_REQ_SET_FEATURES, BIT(VIRTIO_F_VERSION_1));
        assert_silent(p);
        assert_int_equal(enabled_rings(p), fake_offer.max_rings);
        /* Nobody could enable them again. */
        peer_empty(p, VQL_REQ_RESET_OWNER);
        assert_silent(p);
        assert_int_equal(enabled_rings(p), fake_offer.max_rings);
        peer_u64(p, VQL_REQ_SET_FEATURES, BIT(VIRTIO_F_VERSION_1) | BIT(VQL_F_PROTOCOL_FEATURES));
        assert_silent(p);
        assert_int_equal(enabled_rings(p), 0);
        peer_free(p);
}

/* QEMU up to 8 enables rings before SET_FEATURES, and the same features come again later. */
static void enable_before_features_counts(void **state)
{
        struct peer *p = peer_new();

        (void)state;
        peer_state(p, VQL_REQ_SET_VRING_ENABLE, 1, 1);
        assert_silent(p);
        assert_int_equal(p->host.changes, VQL_CHANGE_RING);
        peer_negotiate(p, true);
        assert_int_equal(enabled_rings(p), 1);
        assert_true(p->session->vring[1].enabled);
        peer_u64(p, VQL_REQ_SET_FEATURES, p->session->features | BIT(VQL_F_LOG_ALL));
        assert_true(p->session->vring[1].enabled);
        peer_free(p);
}

static void protocol_features_not_offered(void **state)
{
        struct peer *p = peer_new();

        (void)state;
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, BIT(VQL_PF_CRYPTO_SESSION) | BIT(VQL_PF_MQ));
        assert_ends(p, "SET_PROTOCOL_FEATURES: bit 7 (CRYPTO_SESSION) is not offered");
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, BIT(41));
        assert_ends(p, "bit 41 (unknown) is not offered");
        assert_int_equal(p->session->protocol_features, 0);
        peer_free(p);
}

static void protocol_features_need_one_another(void **state)
{
        struct vql_offer offer = fake_offer;
        struct peer *p;

        (void)state;
        offer.protocol_features |= BIT(VQL_PF_HOST_NOTIFIER) | BIT(VQL_PF_INBAND_NOTIFICATIONS) |
                                   BIT(VQL_PF_GET_VRING_BASE_INFLIGHT);
        p = peer_new_offered(&offer);
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES,
                 BIT(VQL_PF_HOST_NOTIFIER) | BIT(VQL_PF_BACKEND_REQ));
        assert_ends(p, "bit 11 (HOST_NOTIFIER) without bit 10 (BACKEND_SEND_FD)");
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES,
                 BIT(VQL_PF_INBAND_NOTIFICATIONS) | BIT(VQL_PF_BACKEND_REQ));
        assert_ends(p, "bit 14 (INBAND_NOTIFICATIONS) without bit 3 (REPLY_ACK)");
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, BIT(VQL_PF_GET_VRING_BASE_INFLIGHT));
        assert_ends(p, "bit 20 (GET_VRING_BASE_INFLIGHT) without bit 12 (INFLIGHT_SHMFD)");
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, offer.protocol_features);
        assert_silent(p);
        peer_free(p);
}

/* ---- status and reset ---- */

static uint64_t status(struct peer *p)
{
        peer_empty(p, VQL_REQ_GET_STATUS);
        assert_reply(p, 8);
        return peer_reply_u64(p);
}

static void features_ok_reads_back_as_0_after_a_refusal(void **state)
{
        struct peer *p = peer_new();
        uint64_t good = BIT(VIRTIO_F_VERSION_1) | BIT(VQL_F_PROTOCOL_FEATURES);

        (void)state;
        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, FAKE_PROTOCOL_FEATURES);
        p->flags |= VQL_WIRE_NEED_REPLY;
        peer_u64(p, VQL_REQ_SET_STATUS, 3 | FEATURES_OK);
        assert_ack(p, true);
        assert_int_equal(status(p), 3); /* no features yet */
        peer_u64(p, VQL_REQ_SET_FEATURES, good);
        peer_u64(p, VQL_REQ_SET_STATUS, 3 | FEATURES_OK);
        assert_int_equal(status(p), 3 | FEATURES_OK);
        peer_u64(p, VQL_REQ_SET_FEATURES, good | BIT(63));
        assert_ack(p, false);
        peer_u64(p, VQL_REQ_SET_STATUS, 3 | FEATURES_OK);
        assert_int_equal(status(p), 3);
        peer_u64(p, VQL_REQ_SET_FEATURES, good);
        peer_u64(p, VQL_REQ_SET_STATUS, 3 | FEATURES_OK | DRIVER_OK);
        assert_int_equal(status(p), 3 | FEATURES_OK | DRIVER_OK);
        peer_u64(p, VQL_REQ_SET_STATUS, 0x100);
        assert_ack(p, false);
        assert_int_equal(status(p), 3 | FEATURES_OK | DRIVER_OK);
        peer_free(p);
}

enum { STOPPED_AT = 777 };

/* While the host stops the rings it may still use their descriptors. */
static void stop_ring_2(struct fake_host *h)
{
        struct vql_vring *v = &h->session->vring[2];

        assert_true(fcntl(v->kick_fd, F_GETFD) >= 0);
        assert_true(fcntl(v->call_fd, F_GETFD) >= 0);
        assert_false(v->kick_set || v->enabled);
        v->base = STOPPED_AT;
        h->look = NULL;
}

static void check_reset(struct peer *p)
{
        const struct vql_vring *v = &p->session->vring[2];

        assert_ack(p, true);
        assert_int_equal(p->host.changes, VQL_CHANGE_RESET);
        assert_null(p->host.look);
        assert_int_equal(v->kick_fd, -1);
        assert_int_equal(v->call_fd, -1);
        assert_int_equal(v->err_fd, -1);
        assert_int_equal(v->num, 0);
        assert_int_equal(v->base, 0);
        assert_false(v->addr_set || v->base_set || v->kick_set || v->enabled);
        assert_false(p->session->features_set);
        assert_int_equal(p->session->features, 0);
        assert_int_equal(status(p), 0);
        /* These stay. */
        assert_true(p->session->owned);
        assert_int_equal(vql_mem_table_count(p->session->mem), 1);
        assert_true(p->session->protocol_features == FAKE_PROTOCOL_FEATURES);
}

static void reset_forgets_rings_and_keeps_memory(void **state)
{
        (void)state;
        for (int by_status = 0; by_status < 2; by_status++) {
                struct peer *p = peer_new_acked();

                peer_mem_slot(p, VQL_REQ_ADD_MEM_REG, peer_region(0, 0x1000), peer_memfd(0x1000));
                peer_start_ring(p, 2);
                peer_state(p, VQL_REQ_SET_VRING_BASE, 2, 1234);
                peer_vring_fd(p, VQL_REQ_SET_VRING_ERR, 2, peer_eventfd());
                assert_ack(p, true);
                p->host.look = stop_ring_2;
                if (by_status)
                        peer_u64(p, VQL_REQ_SET_STATUS, 0);
                else
                        peer_empty(p, VQL_REQ_RESET_DEVICE);
                check_reset(p);
                peer_free(p);
        }
}

/* QEMU 7.2 pauses a guest in this order, and goes on where we say (FAULTS F9, F16). */
static void position_can_be_asked_for_after_a_reset(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        peer_start_ring(p, 2);
        peer_state(p, VQL_REQ_SET_VRING_BASE, 3, 33); /* configured, never run */
        p->host.look = stop_ring_2;
        p->host.leave_base = true;
        peer_u64(p, VQL_REQ_SET_STATUS, 0);
        assert_ack(p, true);
        peer_state(p, VQL_REQ_GET_VRING_BASE, 2, 0);
        assert_true(peer_reply_u64(p) == ((uint64_t)STOPPED_AT << 32 | 2));
        peer_empty(p, VQL_REQ_RESET_DEVICE); /* and once more */
        peer_state(p, VQL_REQ_GET_VRING_BASE, 3, 0);
        assert_true(peer_reply_u64(p) == ((uint64_t)33 << 32 | 3));
        peer_state(p, VQL_REQ_GET_VRING_BASE, 4, 0);
        assert_true(peer_reply_u64(p) == 4);
        peer_state(p, VQL_REQ_GET_VRING_BASE, 2, 0);
        assert_true(peer_reply_u64(p) == ((uint64_t)STOPPED_AT << 32 | 2));
        /* It is an answer only: a ring that starts without a base starts at 0. */
        assert_int_equal(p->session->vring[2].base, 0);
        peer_addr(p, 2, 0, 0x10000);
        peer_state(p, VQL_REQ_GET_VRING_BASE, 2, 0);
        assert_true(peer_reply_u64(p) == 2);
        peer_free(p);
}

static void reset_owner_only_disables(void **state)
{
        struct peer *p = peer_new_acked();

        (void)state;
        peer_start_ring(p, 2);
        peer_empty(p, VQL_REQ_RESET_OWNER);
        assert_ack(p, true);
        assert_false(p->session->vring[2].enabled);
        assert_true(p->session->vring[2].kick_set && p->session->vring[2].addr_set);
        assert_true(p->session->features_set && p->session->owned);
        peer_free(p);
}

/* ---- MTU, RARP, the back-end channel ---- */

static void mtu_is_the_hosts_decision(void **state)
{
        static const uint64_t bad[] = { 0, 67, 65536, 0x100000000 + 1500, UINT64_MAX };
        struct peer *p = peer_new_acked();

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                peer_u64(p, VQL_REQ_NET_SET_MTU, bad[i]);
                assert_ack(p, false);
                assert_int_equal(p->host.mtu, 0);
        }
        peer_u64(p, VQL_REQ_NET_SET_MTU, 68);
        assert_ack(p, true);
        peer_u64(p, VQL_REQ_NET_SET_MTU, 9000);
        assert_ack(p, true);
        assert_int_equal(p->host.mtu, 9000);
        assert_int_equal(p->session->mtu, 9000);
        p->host.fails = ERANGE;
        peer_u64(p, VQL_REQ_NET_SET_MTU, 65535);
        assert_ack(p, false);
        assert_int_equal(p->session->mtu, 9000);
        /* Not worth a connection. */
        p->flags = VQL_WIRE_VERSION;
        peer_u64(p, VQL_REQ_NET_SET_MTU, 65535);
        assert_silent(p);
        peer_free(p);
}

static void rarp_is_sent(void **state)
{
        static const uint8_t mac[8] = { 0x52, 0x54, 0x00, 0x12, 0x34, 0x56, 0xff, 0xff };
        struct peer *p = peer_new_acked();

        (void)state;
        peer_send(p, VQL_REQ_SEND_RARP, mac, sizeof(mac), NULL, 0);
        assert_ack(p, true);
        assert_memory_equal(p->host.mac, mac, 6);
        p->host.fails = ENOTCONN;
        peer_send(p, VQL_REQ_SEND_RARP, mac, sizeof(mac), NULL, 0);
        assert_ack(p, false);
        peer_free(p);
}

static void backend_channel_must_be_a_socket_and_replaces_the_last(void **state)
{
        struct peer *p = peer_new_acked();
        int first[2], second[2], not_a_socket = peer_eventfd();

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, first), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, second), 0);
        peer_send(p, VQL_REQ_SET_BACKEND_REQ_FD, NULL, 0, &first[0], 1);
        assert_ack(p, true);
        assert_int_equal(p->session->backend_fd, first[0]);
        peer_send(p, VQL_REQ_SET_BACKEND_REQ_FD, NULL, 0, &not_a_socket, 1);
        assert_ack(p, false);
        assert_int_equal(fcntl(not_a_socket, F_GETFD), -1);
        assert_int_equal(p->session->backend_fd, first[0]);
        peer_send(p, VQL_REQ_SET_BACKEND_REQ_FD, NULL, 0, &second[0], 1);
        assert_ack(p, true);
        assert_int_equal(p->session->backend_fd, second[0]);
        assert_int_equal(fcntl(first[0], F_GETFD), -1);
        close(first[1]);
        close(second[1]);
        peer_free(p);
        assert_int_equal(fcntl(second[0], F_GETFD), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(features_not_offered_are_refused_by_name),
                cmocka_unit_test(features_once_more_are_no_change),
                cmocka_unit_test(ring_format_stays_while_a_ring_is_started),
                cmocka_unit_test(rings_are_enabled_without_protocol_features),
                cmocka_unit_test(enable_before_features_counts),
                cmocka_unit_test(protocol_features_not_offered),
                cmocka_unit_test(protocol_features_need_one_another),
                cmocka_unit_test(features_ok_reads_back_as_0_after_a_refusal),
                cmocka_unit_test(reset_forgets_rings_and_keeps_memory),
                cmocka_unit_test(position_can_be_asked_for_after_a_reset),
                cmocka_unit_test(reset_owner_only_disables),
                cmocka_unit_test(mtu_is_the_hosts_decision),
                cmocka_unit_test(rarp_is_sent),
                cmocka_unit_test(backend_channel_must_be_a_socket_and_replaces_the_last),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
