/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <rte_hash_crc.h>

#include "base/bits.h"
#include "port/device_state.h"
#include "session_peer.h"

/* The stream that a device's state is, and what a session makes of it. */

enum { HEADER = 24, RING = 28, SUM = 4, MAGIC_AT = 0, VERSION_AT = 4, DEVICE_AT = 6 };
enum { FEATURES_AT = 8, MTU_AT = 16, COUNT_AT = 18, ZERO_AT = 20 };

#define PACKED (vql_bit(VIRTIO_F_RING_PACKED) | vql_bit(VIRTIO_F_VERSION_1))

struct bytes {
        uint8_t at[VQL_STATE_MAX_BYTES];
        size_t n;
};

static struct vql_queue_state at_slot(uint16_t slot, uint8_t wrap)
{
        const struct vql_cursor c = { slot, slot, wrap, wrap };
        struct vql_queue_state q;

        assert_int_equal(vql_queue_state_at(&c, true, 256, &q, NULL), 0);
        return q;
}

/* Rings 0, 2, 3 of a packed device. */
static struct vql_device_state sample(void)
{
        return (struct vql_device_state){
                .features = PACKED,
                .mtu = 9000,
                .n_rings = 3,
                .ring = { { 0, at_slot(0, 0) }, { 2, at_slot(255, 1) }, { 3, at_slot(17, 0) } },
        };
}

static struct bytes written(const struct vql_device_state *d)
{
        struct bytes b;

        b.n = vql_device_state_write(d, b.at);
        return b;
}

/* After a change that is not to be noticed by the checksum. */
static void sum_up(struct bytes *b)
{
        const uint32_t sum = rte_hash_crc(b->at, (uint32_t)b->n - SUM, UINT32_MAX);

        for (unsigned int i = 0; i < SUM; i++)
                b->at[b->n - SUM + i] = (uint8_t)(sum >> 8 * i);
}

static int read_back(const struct bytes *b, struct vql_device_state *ret_state, char *ret_text)
{
        /* What is read past the end is found. */
        uint8_t *exact = malloc(b->n ? b->n : 1);
        struct vql_error e = { .text = "" };
        int rc;

        memcpy(exact, b->at, b->n);
        rc = vql_device_state_read(exact, b->n, ret_state, &e);
        free(exact);
        memcpy(ret_text, e.text, sizeof(e.text));
        return rc;
}

static void expect_refused(const struct bytes *b, const char *sentence)
{
        struct vql_device_state d;
        char text[VQL_ERROR_TEXT];

        assert_int_equal(read_back(b, &d, text), -EBADMSG);
        if (!strstr(text, sentence))
                fail_msg("\"%s\" does not say \"%s\"", text, sentence);
}

static void goes_through(const struct vql_device_state *d)
{
        const struct bytes b = written(d);
        struct vql_device_state back;
        char text[VQL_ERROR_TEXT];

        assert_int_equal(b.n, HEADER + d->n_rings * (size_t)RING + SUM);
        if (read_back(&b, &back, text) < 0)
                fail_msg("%s", text);
        assert_true(back.features == d->features && back.mtu == d->mtu);
        assert_int_equal(back.n_rings, d->n_rings);
        for (unsigned int i = 0; i < d->n_rings; i++) {
                uint8_t was[VQL_QUEUE_STATE_BYTES], is[VQL_QUEUE_STATE_BYTES];

                assert_int_equal(back.ring[i].index, d->ring[i].index);
                vql_queue_state_write(&d->ring[i].state, was);
                vql_queue_state_write(&back.ring[i].state, is);
                assert_memory_equal(was, is, sizeof(was));
        }
}

static void round_trip(void **state)
{
        struct vql_device_state d = sample();

        (void)state;
        goes_through(&d);
        d.n_rings = 0;
        d.mtu = 0;
        goes_through(&d);
        d.n_rings = VQL_MAX_RINGS;
        for (unsigned int i = 0; i < VQL_MAX_RINGS; i++)
                d.ring[i] = (struct vql_device_ring){ (uint16_t)i, at_slot((uint16_t)i, i % 2) };
        goes_through(&d);
}

/* Another host may be of another version, or of another kind: the layout is what is promised. */
static void layout(void **state)
{
        const struct vql_device_state d = sample();
        const struct bytes b = written(&d);
        static const uint8_t header[HEADER] = { 'V', 'L', 'D', 'S', 1,    0,    1, 0, 0, 0, 0, 0,
                                                5,   0,   0,   0,   0x28, 0x23, 3, 0, 0, 0, 0, 0 };
        static const uint8_t ring2[RING] = { 2, 0, 0, 0,    1, 0,    0, 1, 3,
                                             0, 0, 0, 0xff, 0, 0xff, 0, 1, 1 };

        (void)state;
        assert_memory_equal(b.at, header, HEADER);
        assert_memory_equal(b.at + HEADER + RING, ring2, RING);
}

static void every_bit_counts(void **state)
{
        const struct vql_device_state d = sample();
        struct bytes b = written(&d);

        (void)state;
        for (size_t i = 0; i < 8 * b.n; i++) {
                b.at[i / 8] ^= (uint8_t)(1 << i % 8);
                expect_refused(&b, i / 8 < MAGIC_AT + 4 ? "not a device state" : "");
                b.at[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        for (size_t i = 0; i < b.n; i++) {
                b.at[i] ^= 0xff;
                expect_refused(&b, "");
                b.at[i] ^= 0xff;
        }
}

static void every_length_but_one(void **state)
{
        const struct vql_device_state d = sample();
        struct bytes b = written(&d);
        const size_t whole = b.n;

        (void)state;
        memset(b.at + whole, 0, sizeof(b.at) - whole);
        for (b.n = 0; b.n <= sizeof(b.at); b.n++)
                if (b.n != whole)
                        expect_refused(&b, b.n < 4 ? "not a device state" : "expected");
}

static void random_bytes(void **state)
{
        struct bytes b;
        uint32_t x = 1;

        (void)state;
        for (unsigned int round = 0; round < 20000; round++) {
                for (size_t i = 0; i < 300; i++) {
                        x = x * 1664525 + 1013904223;
                        b.at[i] = (uint8_t)(x >> 24);
                }
                b.n = x % 300;
                if (round % 2 && b.n > HEADER + SUM) {
                        memcpy(b.at, "VLDS\1\0\1\0", 8);
                        sum_up(&b);
                }
                expect_refused(&b, "");
        }
}

/* Whole and undamaged, and yet impossible. */
struct lie {
        size_t at;
        uint8_t byte[2];
        const char *sentence;
};

static void whole_but_wrong(void **state)
{
        static const struct lie lies[] = {
                { VERSION_AT, { 2, 0 }, "version 2, expected 1" },
                { VERSION_AT, { 0, 0 }, "version 0, expected 1" },
                { DEVICE_AT, { 2, 0 }, "device type 2, expected 1" },
                { ZERO_AT, { 1, 0 }, "device type" },
                { MTU_AT, { 67, 0 }, "MTU 67, expected at least 68" },
                { COUNT_AT, { 0xff, 0xff }, "expected 1835008 with 65535 rings" },
                { COUNT_AT, { 2, 0 }, "expected 84 with 2 rings" },
                { FEATURES_AT + 4, { 1, 0 }, "ring 0: state of a packed ring, against" },
                { HEADER, { 3, 0 }, "ring 2 behind that of 3" },
                { HEADER, { 2, 0 }, "ring 2 behind that of 2" },
                { HEADER + 2 * RING, { 0, 1 }, "ring 256 behind that of 2" },
                { HEADER + 2, { 1, 0 }, "ring 0 behind that of -1" },
                { HEADER + 4, { 9, 0 }, "ring 0: queue state of version 9" },
                { HEADER + 6, { 0, 0 }, "ring 0: ring size 0" },
                { HEADER + 4 + 8, { 0, 1 }, "ring 0: available slot 256" },
                { HEADER + RING - 1, { 1, 0 }, "ring 0: queue state with 0x01" },
        };
        const struct vql_device_state d = sample();

        (void)state;
        for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
                struct bytes b = written(&d);

                memcpy(b.at + lies[i].at, lies[i].byte, lies[i].at == HEADER + RING - 1 ? 1 : 2);
                sum_up(&b);
                expect_refused(&b, lies[i].sentence);
        }
}

static void more_rings_than_there_can_be(void **state)
{
        const struct vql_device_state d = sample();
        struct bytes b = written(&d);

        (void)state;
        b.at[COUNT_AT] = 257 & 0xff;
        b.at[COUNT_AT + 1] = 257 >> 8;
        b.n = HEADER + 257 * RING + SUM;
        sum_up(&b);
        expect_refused(&b, "state of 257 rings, expected at most 256");
}

/* ---- a session's ---- */

static void acknowledge(struct peer *p, uint64_t features)
{
        peer_u64(p, VQL_REQ_SET_FEATURES, features | vql_bit(VQL_F_PROTOCOL_FEATURES));
        assert_int_equal(p->result, 0);
}

static struct peer *negotiated(uint64_t features)
{
        struct peer *p = peer_new();

        peer_u64(p, VQL_REQ_SET_PROTOCOL_FEATURES, FAKE_PROTOCOL_FEATURES);
        if (features)
                acknowledge(p, features);
        return p;
}

static struct vql_device_state state_of(const struct peer *p)
{
        struct vql_device_state d;

        assert_int_equal(vql_device_state_of(p->session, &d, NULL), 0);
        return d;
}

static void only_rings_that_stand_somewhere(void **state)
{
        struct peer *p = negotiated(PACKED);
        struct vql_device_state d;

        (void)state;
        peer_u64(p, VQL_REQ_NET_SET_MTU, 1500);
        peer_state(p, VQL_REQ_SET_VRING_NUM, 0, 256);
        peer_start_ring(p, 3);
        p->host.final_base = 0x00420042;
        peer_state(p, VQL_REQ_GET_VRING_BASE, 3, 0);
        d = state_of(p);
        assert_true(d.features == PACKED);
        assert_int_equal(d.mtu, 1500);
        assert_int_equal(d.n_rings, 1);
        assert_int_equal(d.ring[0].index, 3);
        assert_int_equal(d.ring[0].state.at.used, 0x42);
        assert_int_equal(d.ring[0].state.size, 256);
        peer_free(p);
}

/* QEMU resets the device before it saves its state. */
static void reset_does_not_lose_it(void **state)
{
        struct peer *p = negotiated(PACKED | vql_bit(VQL_F_LOG_ALL));
        struct vql_device_state d;

        (void)state;
        peer_start_ring(p, 1);
        p->host.final_base = 0; /* slot 0 of an even lap, which is not "nowhere" */
        peer_state(p, VQL_REQ_GET_VRING_BASE, 1, 0);
        for (int i = 0; i < 2; i++) {
                peer_u64(p, VQL_REQ_SET_STATUS, 0);
                d = state_of(p);
                assert_true(d.features == PACKED);
                assert_int_equal(d.n_rings, 1);
                assert_int_equal(d.ring[0].index, 1);
                assert_int_equal(d.ring[0].state.at.used, 0);
                assert_int_equal(d.ring[0].state.at.used_wrap, 0);
        }
        /* The guest begins anew: what was is over. */
        acknowledge(p, PACKED);
        d = state_of(p);
        assert_int_equal(d.n_rings, 0);
        peer_free(p);
}

static void unfit(const struct peer *p, const struct vql_device_state *d, const char *sentence)
{
        struct vql_error e = { .text = "" };

        assert_int_equal(vql_device_state_fits(d, p->session, &e), -EINVAL);
        if (!strstr(e.text, sentence))
                fail_msg("\"%s\" does not say \"%s\"", e.text, sentence);
}

static void must_fit(void **state)
{
        struct vql_device_state d = sample();
        struct peer *p = negotiated(PACKED);

        (void)state;
        assert_int_equal(vql_device_state_fits(&d, p->session, NULL), 0);
        d.features |= vql_bit(VIRTIO_NET_F_CSUM);
        unfit(p, &d, "bit 0 (CSUM) is not offered");
        d.features = PACKED | vql_bit(VIRTIO_NET_F_MRG_RXBUF);
        unfit(p, &d, "bit 15 (MRG_RXBUF) differs from what was acknowledged here");
        d.features = PACKED;
        d.ring[2].index = 8;
        unfit(p, &d, "ring 8, expected below 8");
        d.ring[2].index = 3;
        peer_state(p, VQL_REQ_SET_VRING_NUM, 2, 512);
        unfit(p, &d, "ring 2: size 256, expected 512 as set here");
        peer_state(p, VQL_REQ_SET_VRING_NUM, 2, 256);
        d.ring[0].state.in_flight = 3;
        unfit(p, &d, "ring 0: 3 in flight, expected none");
        d.ring[0].state.in_flight = 0;
        peer_u64(p, VQL_REQ_NET_SET_MTU, 1500);
        unfit(p, &d, "MTU 9000, expected 1500 as set here");
        d.mtu = 1500;
        p->host.fails = EINVAL;
        unfit(p, &d, "the host does not want to");
        p->host.fails = 0;
        assert_int_equal(vql_device_state_fits(&d, p->session, NULL), 0);
        peer_free(p);
}

static int holds(const struct peer *p, uint16_t ring)
{
        return vql_device_state_holds(p->session, ring, NULL);
}

/* A later SET_VRING_BASE rules; the position of a state is for the ring that it was saved of. */
static void newest_position_counts(void **state)
{
        const struct vql_device_state d = sample();
        struct peer *p = negotiated(0);

        (void)state;
        peer_state(p, VQL_REQ_SET_VRING_BASE, 3, 5);
        vql_device_state_give(&d, p->session);
        assert_int_equal(p->session->mtu, 9000);
        acknowledge(p, PACKED);
        peer_state(p, VQL_REQ_SET_VRING_NUM, 2, 256);
        peer_state(p, VQL_REQ_SET_VRING_NUM, 3, 512);
        assert_int_equal(p->session->vring[2].base, 0x80ff80ff);
        assert_int_equal(p->session->vring[3].base, 0x00110011);
        assert_true(p->session->vring[2].base_set);
        assert_int_equal(holds(p, 1), 0);
        assert_int_equal(holds(p, 2), 0);
        assert_int_equal(holds(p, 3), -EINVAL);
        peer_state(p, VQL_REQ_SET_VRING_BASE, 3, 5);
        assert_int_equal(holds(p, 3), 0);
        assert_int_equal(p->session->vring[3].base, 5);
        acknowledge(p, vql_bit(VIRTIO_F_VERSION_1));
        assert_int_equal(holds(p, 2), -EINVAL);
        peer_free(p);
}

/* A guest that is paused may move on before it ran here; and a state replaces another. */
static void loaded_is_saved_again(void **state)
{
        struct vql_device_state d = sample(), again;
        struct peer *p = negotiated(0);

        (void)state;
        vql_device_state_give(&d, p->session);
        again = state_of(p);
        assert_memory_equal(written(&again).at, written(&d).at, written(&d).n);
        acknowledge(p, PACKED);
        again = state_of(p);
        assert_memory_equal(written(&again).at, written(&d).at, written(&d).n);
        d.n_rings = 1;
        vql_device_state_give(&d, p->session);
        again = state_of(p);
        assert_memory_equal(written(&again).at, written(&d).at, written(&d).n);
        assert_false(p->session->vring[3].base_set || p->session->vring[3].loaded);
        peer_u64(p, VQL_REQ_SET_STATUS, 0);
        again = state_of(p);
        assert_memory_equal(written(&again).at, written(&d).at, written(&d).n);
        peer_free(p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(round_trip),
                cmocka_unit_test(layout),
                cmocka_unit_test(every_bit_counts),
                cmocka_unit_test(every_length_but_one),
                cmocka_unit_test(random_bytes),
                cmocka_unit_test(whole_but_wrong),
                cmocka_unit_test(more_rings_than_there_can_be),
                cmocka_unit_test(only_rings_that_stand_somewhere),
                cmocka_unit_test(reset_does_not_lose_it),
                cmocka_unit_test(must_fit),
                cmocka_unit_test(newest_position_counts),
                cmocka_unit_test(loaded_is_saved_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
