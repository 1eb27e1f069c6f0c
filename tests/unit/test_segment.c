/* SPDX-License-Identifier: BSD-3-Clause */

/* Segmentation against the plain reference. */

#include <errno.h>

#include <rte_ethdev.h>

#include "sw-fallback/segment.h"
#include "test_offload.h"

static void check_segments(const struct flat *f, unsigned int mss, uint32_t first, uint32_t second)
{
        const struct vql_offload_caps none = caps_of(0, true);
        static struct rte_mbuf *out[MAX_OUT];
        struct virtio_net_hdr h = segment_header(f, mss);
        struct rte_mbuf *m = chain(f, first, second);
        static struct flat want;
        int made;

        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        made = vql_offload_finish(&none, m, out, MAX_OUT);
        assert_int_equal(made, (f->r.payload + mss - 1) / mss);
        for (int i = 0; i < made; i++) {
                reference_segment(f, (unsigned int)i, mss, &want);
                check_bytes(out[i], &want);
                assert_int_equal(out[i]->ol_flags, 0);
        }
        rte_pktmbuf_free_bulk(out, (unsigned int)made);
}

static void segments_at_every_split(const struct recipe *r)
{
        static struct flat f;

        build(&f, r);
        for (uint32_t split = 0; split <= f.len; split++)
                check_segments(&f, 29, split, split % 5);
}

static void segmentation_of_all_kinds(void **state)
{
        (void)state;
        each_kind(100, segments_at_every_split);
}

static void segmentation_of_all_sizes(void **state)
{
        static const unsigned int sizes[] = { 1, 13, 255, 536, 1220, 1448, 8948, 32767, 65000 };
        static struct flat f;
        unsigned int n = 0;

        (void)state;
        for (size_t s = 0; s < RTE_DIM(sizes); s++) {
                for (unsigned int payload = 1; payload <= 65400; payload += 1 + payload / 3) {
                        struct recipe r = {
                                .v6 = n & 1,
                                .udp = n & 2,
                                .payload = payload,
                                .flags = 0x19,
                        };

                        n++;
                        if (payload <= sizes[s] || payload / sizes[s] > 300)
                                continue;
                        build(&f, &r);
                        check_segments(&f, sizes[s], 54 + n % 1400, 1 + n % 1000);
                }
        }
}

/* A packet that asks for segmentation and needs none is an ordinary one with a checksum to make. */
static void segmentation_of_little(void **state)
{
        struct recipe r = { .payload = 1448, .flags = 0x18 };
        static struct flat f;
        struct virtio_net_hdr h;
        struct rte_mbuf *m;

        (void)state;
        build(&f, &r);
        h = segment_header(&f, 1448);
        m = chain(&f, ROOM, 0);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        assert_true(m->ol_flags == (RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_IPV4));
        rte_pktmbuf_free(m);
}

static void segmentation_by_the_device(void **state)
{
        const uint64_t all = RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_UDP_TSO |
                             RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
                             RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
        const struct vql_offload_caps caps = caps_of(all, true);
        struct recipe r = { .payload = 3000, .flags = 0x98 };
        static struct flat f;
        struct rte_mbuf *out[8];
        struct virtio_net_hdr h;
        int made;

        (void)state;
        build(&f, &r);
        h = segment_header(&f, 1448);
        h.gso_type |= VIRTIO_NET_HDR_GSO_ECN;
        out[1] = chain(&f, ROOM, ROOM);
        assert_int_equal(vql_offload_from_guest(out[1], &h), 0);
        assert_int_equal(vql_offload_finish(&caps, out[1], out, 8), 1);
        check_bytes(out[0], &f);
        assert_true(out[0]->ol_flags & RTE_MBUF_F_TX_TCP_SEG);
        assert_int_equal(out[0]->tso_segsz, 1448);
        rte_pktmbuf_free(out[0]);

        /* UDP is cut here, and the device makes the segments' checksums. */
        r.udp = true;
        build(&f, &r);
        h = segment_header(&f, 1448);
        out[1] = chain(&f, ROOM, ROOM);
        assert_int_equal(vql_offload_from_guest(out[1], &h), 0);
        made = vql_offload_finish(&caps, out[1], out, 8);
        assert_int_equal(made, 3);
        for (int i = 0; i < made; i++)
                assert_true(out[i]->ol_flags == (RTE_MBUF_F_TX_UDP_CKSUM | RTE_MBUF_F_TX_IPV4 |
                                                 RTE_MBUF_F_TX_IP_CKSUM));
        rte_pktmbuf_free_bulk(out, 3);
}

static void too_many_segments(void **state)
{
        const struct vql_offload_caps none = caps_of(0, true);
        struct recipe r = { .payload = 1000 };
        static struct flat f;
        struct virtio_net_hdr h;
        struct rte_mbuf *m, *out[9];

        (void)state;
        build(&f, &r);
        h = segment_header(&f, 100);
        m = chain(&f, ROOM, 0);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        assert_int_equal(vql_offload_finish(&none, m, out, 9), -ENOSPC);
}

/* Whichever allocation fails, everything is given back. */
static void out_of_buffers(void **state)
{
        struct recipe r = { .payload = 1000, .flags = 0x80 };
        static struct flat f;
        struct rte_mbuf *out[16];

        (void)state;
        for (int k = 0; k < 4; k++) {
                r.v6 = k & 1;
                r.flags = k & 2 ? 0x80 : 0;
                build(&f, &r);
                for (unsigned int left = 0; left < 21; left++) {
                        struct vql_offload_caps caps = caps_of(0, true);
                        struct rte_mempool *small = test_pool("small", 21, ROOM);
                        struct virtio_net_hdr h = segment_header(&f, 100);
                        struct rte_mbuf *taken[21], *m = chain(&f, ROOM, 0);

                        assert_int_equal(rte_pktmbuf_alloc_bulk(small, taken, 21 - left), 0);
                        caps.direct = caps.indirect = small;
                        assert_int_equal(vql_offload_from_guest(m, &h), 0);
                        if (left < 20)
                                assert_int_equal(vql_offload_finish(&caps, m, out, 16), -ENOMEM);
                        else
                                assert_int_equal(vql_offload_finish(&caps, m, out, 16), 10);
                        if (left >= 20)
                                rte_pktmbuf_free_bulk(out, 10);
                        rte_pktmbuf_free_bulk(taken, 21 - left);
                        assert_int_equal(rte_mempool_in_use_count(small), 0);
                        rte_mempool_free(small);
                }
        }
}

static void devices_without_chains(void **state)
{
        const struct vql_offload_caps caps = caps_of(RTE_ETH_TX_OFFLOAD_TCP_TSO, false);
        struct recipe small = { .payload = 500 }, large = { .payload = 4000 };
        static struct flat f, want;
        struct virtio_net_hdr h;
        struct rte_mbuf *m, *out[4];

        (void)state;
        build(&f, &small);
        want = f;
        reference_finish(&want, f.l2 + f.l3, 16);
        h = checksum_header(&f);
        m = chain(&f, 20, 20);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        assert_int_equal(vql_offload_finish(&caps, m, out, 4), 1);
        assert_int_equal(out[0]->nb_segs, 1);
        check_bytes(out[0], &want);
        rte_pktmbuf_free(out[0]);

        build(&f, &large);
        assert_int_equal(vql_offload_finish(&caps, chain(&f, ROOM, ROOM), out, 4), -EMSGSIZE);

        h = segment_header(&f, 1400);
        m = chain(&f, ROOM, ROOM);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        assert_int_equal(vql_offload_finish(&caps, m, out, 4), 3);
        for (unsigned int i = 0; i < 3; i++) {
                assert_int_equal(out[i]->nb_segs, 1);
                reference_segment(&f, i, 1400, &want);
                check_bytes(out[i], &want);
        }
        rte_pktmbuf_free_bulk(out, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, check_no_leak)
        const struct CMUnitTest tests[] = {
                TEST(segmentation_of_all_kinds), TEST(segmentation_of_all_sizes),
                TEST(segmentation_of_little),    TEST(segmentation_by_the_device),
                TEST(too_many_segments),         TEST(out_of_buffers),
                TEST(devices_without_chains),
        };

        return test_pools_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
