/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A bad front-end beside a good one: both ports share the worker, the packet memory and the
 * process, and the good one loses nothing.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frontend/faults.h"

#include "host.h"

enum { FLIPS = 150, DEADLINE_MS = 60000 };

#define OFFLOADS                                                      \
        (FE_BIT(VIRTIO_NET_F_CSUM) | FE_BIT(VIRTIO_NET_F_HOST_TSO4) | \
         FE_BIT(VIRTIO_NET_F_HOST_TSO6))

static const uint64_t formats[] = { FE_FEATURES_MODERN | OFFLOADS, FE_FEATURES_PACKED | OFFLOADS };

/* ---- the good one ---- */

/* Not on the stack: when a test fails its thread is still there. */
struct neighbour {
        struct guest g;
        struct fe_flow_thread *thread;
};

static void neighbour_start(struct neighbour *n, struct host *h, uint64_t features)
{
        const struct fe_setup s = { .features = features, .guard = true };

        host_add(h, "good", 1);
        guest_start(&n->g, h, "good", &s);
        n->g.flow.by_interrupt = true;
        assert_int_equal(fe_flow_start(&n->g.flow, &n->thread), 0);
}

/* It still moves, now that the worst is over, and nothing is missing. */
static void neighbour_end(struct neighbour *n, struct host *h)
{
        bool moves = flow_moves(&n->g.flow, 200);

        if (fe_flow_stop(n->thread) < 0)
                fail_msg("the neighbour: %s", n->g.flow.error.s);
        assert_true(moves);
        assert_int_equal(n->g.flow.lost, 0);
        assert_int_equal(host_info(h, "good").connections, 1);
        expect_fe(n->g.fe, fe_frontend_stop(n->g.fe), 0);
        guest_end(&n->g);
        host_del(h, "good");
}

/* ---- faults in rings ---- */

static void revive(struct guest *g)
{
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(g->fe, fe_frontend_revive_ring(g->fe, i), 0);
        fe_net_reset(g->net);
}

static void expect_broken(struct host *h, struct guest *g, unsigned int ring, const char *name)
{
        struct vql_ring_info info;

        if (fe_frontend_wait_broken(g->fe, ring, HOST_WAIT_MS) < 0)
                fail_msg("\"%s\": ring %u does not break", name, ring);
        assert_int_equal(vql_port_get_ring(h->vql, "bad", ring, &info), 0);
        assert_string_equal(info.state, "broken");
        assert_string_not_equal(info.fault, "");
}

/* Wait for the buffer or for the end of the ring, whichever comes; true: the buffer. */
static bool came_back(struct guest *g, unsigned int ring, const char *name)
{
        struct fe_driver *d = g->fe->ring[ring].driver;
        struct fe_done done;

        for (int ms = 0; ms < HOST_WAIT_MS; ms++) {
                int got = fe_driver_get(d, &done);

                if (got < 0)
                        fail_msg("\"%s\": %s", name, fe_driver_error(d));
                if (got > 0)
                        return true;
                if (fe_frontend_wait_broken(g->fe, ring, 1) == 0)
                        return false;
        }
        fail_msg("\"%s\": neither back nor broken", name);
        return false;
}

static void expect_packet(struct guest *g, const struct fe_fault_room *room, const char *name)
{
        uint8_t packet[2048];
        size_t len;
        int got = 0;

        for (int ms = 0; got == 0 && ms < HOST_WAIT_MS; ms++) {
                len = sizeof(packet);
                got = fe_net_receive(g->net, NULL, packet, &len);
                usleep(1000);
        }
        if (got != 1 || len != FE_FAULT_PACKET || memcmp(packet, room->packet, len) != 0)
                fail_msg("\"%s\": the packet does not arrive as it was sent", name);
}

static void show(const struct fe_ring_fault *f, struct fe_ring *r, struct fe_fault_room *room)
{
        assert_int_equal(fe_fault_inject(f, r->driver, room), 0);
        /* A kick by the driver would publish, and so correct, an index that jumped. */
        if (f->shown)
                assert_int_equal(eventfd_write(r->kick_fd, 1), 0);
        else
                assert_true(fe_driver_kick(r->driver, r->kick_fd) >= 0);
}

/* That nothing came out of a returned buffer is read from the counter: flows pass noise over. */
static void tx_fault(struct host *h, struct guest *g, const struct fe_ring_fault *f,
                     struct fe_fault_room *room)
{
        struct fe_ring *r = &g->fe->ring[1];
        uint64_t sent = host_stat(h, "bad", 1, "packets");

        assert_true(fe_net_refill(g->net) >= 0);
        show(f, r, room);
        switch (f->effect) {
        case FE_BREAKS_RING:
                expect_broken(h, g, 1, f->name);
                revive(g);
                break;
        case FE_RETURNED:
                assert_true(came_back(g, 1, f->name));
                assert_int_equal(host_stat(h, "bad", 1, "packets"), sent);
                break;
        case FE_ACCEPTED:
                assert_true(came_back(g, 1, f->name));
                expect_packet(g, room, f->name);
                break;
        default:
                if (!came_back(g, 1, f->name))
                        revive(g);
        }
        guest_traffic(g, 20);
}

/* A bad receive buffer shows when a packet is to be put into it. */
static void rx_fault(struct host *h, struct guest *g, const struct fe_ring_fault *f,
                     struct fe_fault_room *room)
{
        struct fe_ring *r = &g->fe->ring[0];
        uint8_t packet[64] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb6 };

        revive(g);
        show(f, r, room);
        assert_int_equal(fe_net_send(g->net, NULL, packet, sizeof(packet)), 0);
        if (f->effect == FE_BREAKS_RING)
                expect_broken(h, g, 0, f->name);
        else
                for (int ms = 0; ms < HOST_WAIT_MS && fe_net_reap(g->net) == 0; ms++)
                        usleep(1000);
        revive(g);
        guest_traffic(g, 20);
}

static bool applies(const struct fe_ring_fault *f, uint64_t features)
{
        bool packed = fe_has(features, VIRTIO_F_RING_PACKED);

        if (!(f->formats & (packed ? FE_FOR_PACKED : FE_FOR_SPLIT)))
                return false;
        return !(f->needs & FE_NEEDS_OFFLOADS) ||
               (fe_has(features, VIRTIO_NET_F_CSUM) && fe_has(features, VIRTIO_NET_F_HOST_TSO4));
}

static void all_ring_faults(struct host *h, uint64_t features)
{
        const struct fe_setup s = { .features = features };
        struct fe_fault_room rx, tx;
        static struct neighbour good;
        struct guest bad;
        unsigned int tried = 0;

        neighbour_start(&good, h, features);
        host_add(h, "bad", 1);
        guest_start(&bad, h, "bad", &s);
        assert_int_equal(fe_fault_room_init(&rx, bad.mem, FE_ANY_REGION, true, 12), 0);
        assert_int_equal(fe_fault_room_init(&tx, bad.mem, FE_ANY_REGION, false, 12), 0);
        for (size_t i = 0; i < fe_ring_fault_count; i++) {
                const struct fe_ring_fault *f = &fe_ring_faults[i];

                if (!applies(f, bad.fe->features))
                        continue;
                tried++;
                if (f->tx)
                        tx_fault(h, &bad, f, &tx);
                if (f->rx)
                        rx_fault(h, &bad, f, &rx);
        }
        assert_true(tried > 20);
        assert_int_equal(host_info(h, "bad").connections, 1);
        guest_end(&bad);
        host_del(h, "bad");
        neighbour_end(&good, h);
}

static void test_ring_faults(void **state)
{
        all_ring_faults(*state, formats[0]);
        all_ring_faults(*state, formats[1]);
}

/* ---- words that change while they are read ---- */

struct flip {
        const char *name;
        bool header; /* of the packet, else of the table's second descriptor */
        unsigned int offset, bytes;
        uint64_t value; /* the wrong one */
};

static const struct flip split_flips[] = {
        { "addr", false, 0, 8, UINT64_C(1) << 60 },
        { "len", false, 8, 4, 0xffffffff },
        { "flags", false, 12, 2, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE },
        { "indirect", false, 12, 2, VRING_DESC_F_INDIRECT },
        { "next", false, 14, 2, 0xffff },
        { "csum_start", true, 6, 2, 0xffff },
        { "gso", true, 0, 4, 0x00640101 },
};

static const struct flip packed_flips[] = {
        { "addr", false, 0, 8, UINT64_C(1) << 60 },
        { "len", false, 8, 4, 0xffffffff },
        { "flags", false, 14, 2, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE },
        { "indirect", false, 14, 2, VRING_DESC_F_INDIRECT },
        { "csum_start", true, 6, 2, 0xffff },
        { "gso", true, 0, 4, 0x00640101 },
};

/* Offer the same indirect buffer again and again while one of its words flickers. */
static void flicker(struct guest *g, const struct flip *f, struct fe_fault_room *room)
{
        static const struct fe_ring_fault right = { .name = "none", .table = true };
        struct fe_ring *r = &g->fe->ring[1];
        struct fe_flipper *flipper;
        uint64_t value = 0;
        uint8_t *word;

        assert_true(fe_net_refill(g->net) >= 0);
        assert_int_equal(fe_fault_inject(&right, r->driver, room), 0);
        word = fe_memory_alias(g->fe->setup.mem,
                               (f->header ? room->at : room->table + 16) + f->offset);
        assert_non_null(word);
        memcpy(&value, word, f->bytes);
        assert_int_equal(fe_flipper_start(word, f->bytes, value, f->value, &flipper), 0);
        for (unsigned int i = 0; i < FLIPS; i++) {
                assert_true(fe_driver_kick(r->driver, r->kick_fd) >= 0);
                if (!came_back(g, 1, f->name))
                        revive(g);
                assert_true(fe_net_refill(g->net) >= 0);
                assert_int_equal(fe_fault_inject(&right, r->driver, room), 0);
        }
        fe_flipper_stop(flipper);
        fe_memory_unalias(word);
        revive(g);
        guest_traffic(g, 20);
}

static void test_double_fetch(void **state)
{
        struct host *h = *state;

        for (unsigned int packed = 0; packed < 2; packed++) {
                const struct flip *flips = packed ? packed_flips : split_flips;
                size_t n = packed ? sizeof(packed_flips) / sizeof(packed_flips[0])
                                  : sizeof(split_flips) / sizeof(split_flips[0]);
                const struct fe_setup s = { .features = formats[packed] };
                struct fe_fault_room room;
                static struct neighbour good;
                struct guest bad;

                neighbour_start(&good, h, formats[packed]);
                host_add(h, "bad", 1);
                guest_start(&bad, h, "bad", &s);
                assert_int_equal(fe_fault_room_init(&room, bad.mem, FE_ANY_REGION, false, 12), 0);
                for (size_t i = 0; i < n; i++)
                        flicker(&bad, &flips[i], &room);
                guest_end(&bad);
                host_del(h, "bad");
                neighbour_end(&good, h);
        }
}

/* ---- memory that goes away ---- */

/* Regions of FE_MOSAIC. */
enum { RINGS = 0, BUFFERS = 3 };

/* The file behind a region shrinks under the back-end's mapping.  We must not touch it ourselves
 * any more: of the rings, a kick makes the back-end look. */
static void truncate_one(struct host *h, uint64_t features, unsigned int victim)
{
        const struct fe_setup s = { .features = features };
        const struct fe_net_params p = { .region = BUFFERS, .buffers = 16 };
        uint8_t packet[1000] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb6 };
        struct guest bad;

        guest_start(&bad, h, "bad", &s);
        guest_net(&bad, &p);
        bad.flow.window = p.buffers;
        guest_traffic(&bad, 100);
        for (unsigned int i = 0; i < 8; i++)
                assert_int_equal(fe_net_put(bad.net, NULL, packet, sizeof(packet)), 0);
        assert_int_equal(fe_memory_truncate(bad.fe->setup.mem, victim, 0), 0);
        if (victim == BUFFERS)
                fe_driver_publish(bad.fe->ring[1].driver);
        assert_int_equal(eventfd_write(bad.fe->ring[1].kick_fd, 1), 0);
        expect_fe(bad.fe, fe_channel_wait_closed(&bad.fe->link.ch, HOST_WAIT_MS), 0);
        host_wait_state(h, "bad", "waiting");
        guest_end(&bad);
}

static void test_truncation(void **state)
{
        struct host *h = *state;
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        static struct neighbour good;
        struct guest again;

        neighbour_start(&good, h, FE_FEATURES_MODERN);
        host_add(h, "bad", 1);
        for (unsigned int packed = 0; packed < 2; packed++) {
                uint64_t features = packed ? FE_FEATURES_PACKED : FE_FEATURES_MODERN;

                for (unsigned int i = 0; i < 5; i++) {
                        truncate_one(h, features, BUFFERS);
                        truncate_one(h, features, RINGS);
                }
        }
        guest_start(&again, h, "bad", &s);
        guest_traffic(&again, 100);
        guest_end(&again);
        host_del(h, "bad");
        neighbour_end(&good, h);
}

/* ---- peers that keep the back-end waiting ---- */

/* A byte now and then, for ever: cut at the deadline, and nobody else waits for it. */
static void test_slow_sender(void **state)
{
        struct host *h = *state;
        const uint8_t byte = 1;
        static struct neighbour good;
        struct fe_frontend *slow;
        int ms = 0;

        neighbour_start(&good, h, FE_FEATURES_MODERN);
        host_add(h, "bad", 1);
        slow = host_connect(h, "bad");
        while (ms < DEADLINE_MS && fe_channel_send_bytes(&slow->link.ch, &byte, 1, NULL, 0) == 0) {
                poll(NULL, 0, 1000);
                ms += 1000;
        }
        /* Twelve bytes make a header that is none: it must have ended before that. */
        assert_in_range(ms, 0, 11000);
        fe_frontend_free(slow);
        host_wait_state(h, "bad", "waiting");
        host_del(h, "bad");
        neighbour_end(&good, h);
}

/* A header that promises a body, and silence. */
static void test_silent_sender(void **state)
{
        struct host *h = *state;
        static struct neighbour good;
        struct fe_frontend *silent;
        struct fe_message m;

        neighbour_start(&good, h, FE_FEATURES_PACKED);
        host_add(h, "bad", 1);
        silent = host_connect(h, "bad");
        fe_message_init(&m, FE_SET_VRING_ADDR, NULL, 40);
        assert_int_equal(fe_channel_send_slowly(&silent->link.ch, &m, 64, 0, FE_HEADER + 39), 0);
        expect_fe(silent, fe_channel_wait_closed(&silent->link.ch, DEADLINE_MS), 0);
        assert_string_not_equal(host_info(h, "bad").reason, "");
        fe_frontend_free(silent);
        host_del(h, "bad");
        neighbour_end(&good, h);
}

/* Questions without end, and not one answer read. */
static void test_never_reads(void **state)
{
        struct host *h = *state;
        static struct neighbour good;
        struct fe_frontend *deaf;
        const uint32_t question[3] = { FE_GET_FEATURES, FE_VERSION, 0 };
        int ms;

        neighbour_start(&good, h, FE_FEATURES_MODERN);
        host_add(h, "bad", 1);
        deaf = host_connect(h, "bad");
        assert_int_equal(fcntl(deaf->link.ch.fd, F_SETFL, O_NONBLOCK), 0);
        for (ms = 0; ms < DEADLINE_MS; ms += 10) {
                ssize_t n;

                do
                        n = send(deaf->link.ch.fd, question, sizeof(question), MSG_NOSIGNAL);
                while (n == sizeof(question));
                if (n < 0 && errno != EAGAIN)
                        break;
                poll(NULL, 0, 10);
        }
        assert_in_range(ms, 10, DEADLINE_MS - 10);
        fe_frontend_free(deaf);
        host_wait_state(h, "bad", "waiting");
        host_del(h, "bad");
        neighbour_end(&good, h);
}

/* Connected, and never a word: that is allowed, and costs nobody anything. */
static void test_says_nothing(void **state)
{
        struct host *h = *state;
        struct fe_frontend *mute;
        static struct neighbour good;
        uint64_t features;

        neighbour_start(&good, h, FE_FEATURES_MODERN);
        host_add(h, "bad", 1);
        mute = host_connect(h, "bad");
        expect_fe(mute, fe_channel_wait_closed(&mute->link.ch, 1000), -ETIMEDOUT);
        expect_fe(mute, fe_get_u64(&mute->link, FE_GET_FEATURES, &features), 0);
        fe_frontend_free(mute);
        host_del(h, "bad");
        neighbour_end(&good, h);
}

/* ---- eventfds ---- */

/* A call eventfd that is full: the next write to it would block for ever. */
static void test_full_call(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct host *h = *state;
        static struct neighbour good;
        struct guest bad;
        int full = eventfd(0, EFD_CLOEXEC);

        assert_true(full >= 0);
        assert_int_equal(eventfd_write(full, UINT64_MAX - 1), 0);
        neighbour_start(&good, h, FE_FEATURES_MODERN);
        host_add(h, "bad", 1);
        guest_start(&bad, h, "bad", &s);
        guest_traffic(&bad, 20);
        for (unsigned int i = 0; i < 2; i++) {
                fe_driver_calls_on(bad.fe->ring[i].driver, 0);
                expect_fe(bad.fe, fe_set_vring_fd(&bad.fe->link, FE_SET_VRING_CALL, i, full), 0);
        }
        for (unsigned int i = 0; i < 20; i++)
                (void)fe_net_send(bad.net, NULL, "\2\0\0\0\0\1\2\0\0\0\0\2\x88\xb6", 14);
        poll(NULL, 0, 200);
        for (unsigned int i = 0; i < 2; i++)
                expect_fe(bad.fe,
                          fe_set_vring_fd(&bad.fe->link, FE_SET_VRING_CALL, i,
                                          bad.fe->ring[i].call_fd),
                          0);
        guest_end(&bad);
        close(full);
        host_del(h, "bad");
        neighbour_end(&good, h);
}

/* Kicks without end and without reason. */
static void test_kick_storm(void **state)
{
        const struct fe_setup s = { .features = FE_FEATURES_MODERN };
        struct host *h = *state;
        static struct neighbour good;
        struct guest bad;

        neighbour_start(&good, h, FE_FEATURES_MODERN);
        host_add(h, "bad", 1);
        guest_start(&bad, h, "bad", &s);
        for (unsigned int i = 0; i < 20000; i++) {
                (void)eventfd_write(bad.fe->ring[i % 2].kick_fd, UINT64_MAX / 2);
                if (i % 1000 == 0)
                        guest_traffic(&bad, 10);
        }
        guest_traffic(&bad, 100);
        guest_end(&bad);
        host_del(h, "bad");
        neighbour_end(&good, h);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                host_test(test_ring_faults),   host_test(test_double_fetch),
                host_test(test_truncation),    host_test(test_slow_sender),
                host_test(test_silent_sender), host_test(test_never_reads),
                host_test(test_says_nothing),  host_test(test_full_call),
                host_test(test_kick_storm),
        };

        return cmocka_run_group_tests(tests, host_setup, host_teardown);
}
