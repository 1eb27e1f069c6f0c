/* SPDX-License-Identifier: BSD-3-Clause */

/* Checksums, and what guests may ask for, against the plain reference. */

#include <errno.h>

#include <rte_ethdev.h>

#include "sw-fallback/checksum.h"
#include "sw-fallback/headers.h"
#include "test_offload.h"

static void sums_of_chains(void **state)
{
        static struct flat f;

        (void)state;
        f.len = 97;
        for (uint32_t i = 0; i < f.len; i++)
                f.b[i] = (uint8_t)(0xff - i % 3); /* many carries */
        for (uint32_t first = 0; first <= f.len; first++) {
                for (uint32_t second = 0; second < 5; second++) {
                        struct rte_mbuf *m = chain(&f, first, second);

                        for (uint32_t off = 0; off < 8; off++) {
                                uint16_t got = vql_checksum_range(m, off, f.len - off);

                                assert_int_equal(rte_be_to_cpu_16(got),
                                                 plain_sum(f.b + off, f.len - off, 0));
                        }
                        rte_pktmbuf_free(m);
                }
        }
}

static void checksum_at_every_split(const struct recipe *r)
{
        const struct vql_offload_caps none = caps_of(0, true);
        static struct flat f, want;
        struct virtio_net_hdr h;

        build(&f, r);
        want = f;
        reference_finish(&want, f.l2 + f.l3, field_at(r));
        h = checksum_header(&f);
        for (uint32_t split = 0; split <= f.len; split++) {
                struct rte_mbuf *m = chain(&f, split, split % 7), *out;

                assert_int_equal(vql_offload_from_guest(m, &h), 0);
                assert_int_equal(vql_offload_finish(&none, m, &out, 1), 1);
                check_bytes(out, &want);
                assert_int_equal(out->ol_flags, 0);
                rte_pktmbuf_free(out);
        }
}

static void checksums_in_software(void **state)
{
        (void)state;
        for (unsigned int payload = 0; payload < 4; payload++)
                each_kind(payload, checksum_at_every_split);
}

static void checksums_of_all_sizes(void **state)
{
        const struct vql_offload_caps none = caps_of(0, true);
        static struct flat f, want;

        (void)state;
        for (unsigned int payload = 1; payload <= 65400; payload += 1 + payload / 9) {
                struct recipe r = { .v6 = payload & 1, .udp = payload & 2, .payload = payload };
                struct virtio_net_hdr h;
                struct rte_mbuf *m, *out;

                build(&f, &r);
                want = f;
                reference_finish(&want, f.l2 + f.l3, field_at(&r));
                h = checksum_header(&f);
                m = chain(&f, 54 + payload % 100, 1 + payload % 13);
                assert_int_equal(vql_offload_from_guest(m, &h), 0);
                assert_int_equal(vql_offload_finish(&none, m, &out, 1), 1);
                check_bytes(out, &want);
                rte_pktmbuf_free(out);
        }
}

static void checksums_by_the_device(void **state)
{
        const struct vql_offload_caps tcp_only = caps_of(RTE_ETH_TX_OFFLOAD_TCP_CKSUM, true);
        struct recipe tcp = { .payload = 100, .tags = 1 }, udp = { .udp = true, .payload = 100 };
        static struct flat f;
        struct virtio_net_hdr h;
        struct rte_mbuf *m, *out;

        (void)state;
        build(&f, &tcp);
        h = checksum_header(&f);
        m = chain(&f, ROOM, 0);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        assert_int_equal(vql_offload_finish(&tcp_only, m, &out, 1), 1);
        check_bytes(out, &f);
        assert_true(out->ol_flags == (RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_IPV4));
        assert_int_equal(out->l2_len, 18);
        assert_int_equal(out->l3_len, 20);
        rte_pktmbuf_free(out);

        build(&f, &udp);
        h = checksum_header(&f);
        m = chain(&f, ROOM, 0);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        reference_finish(&f, f.l2 + f.l3, 6);
        assert_int_equal(vql_offload_finish(&tcp_only, m, &out, 1), 1);
        check_bytes(out, &f);
        assert_int_equal(out->ol_flags, 0);
        rte_pktmbuf_free(out);
}

/* A field that is not that of TCP or UDP: the sum is finished whatever it is. */
static void checksum_of_anything(void **state)
{
        struct recipe r = { .payload = 60 };
        static struct flat f, want;

        (void)state;
        build(&f, &r);
        for (uint32_t start = 0; start < 60; start += 3) {
                for (uint32_t split = 0; split <= f.len; split += 5) {
                        struct virtio_net_hdr h = {
                                .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                .csum_start = (uint16_t)start,
                                .csum_offset = (uint16_t)(split % 11),
                        };
                        struct rte_mbuf *m = chain(&f, split, 1);

                        want = f;
                        reference_finish(&want, start, split % 11);
                        assert_int_equal(vql_offload_from_guest(m, &h), 0);
                        assert_int_equal(m->ol_flags, 0);
                        check_bytes(m, &want);
                        rte_pktmbuf_free(m);
                }
        }
}

static void udp_sum_of_zero(void **state)
{
        const struct vql_offload_caps none = caps_of(0, true);
        struct recipe r = { .udp = true, .payload = 2 };
        static struct flat f;
        struct virtio_net_hdr h;
        struct rte_mbuf *m, *out;
        uint8_t got[2];

        (void)state;
        build(&f, &r);
        put16(f.b + f.len - 2, 0);
        put16(f.b + f.len - 2, ~plain_sum(f.b + f.l2 + f.l3, f.len - f.l2 - f.l3, 0) & 0xffff);
        h = checksum_header(&f);
        m = chain(&f, ROOM, 0);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        assert_int_equal(vql_offload_finish(&none, m, &out, 1), 1);
        memcpy(got, rte_pktmbuf_mtod_offset(out, uint8_t *, f.l2 + f.l3 + 6), 2);
        assert_int_equal(got[0], 0xff);
        assert_int_equal(got[1], 0xff);
        rte_pktmbuf_free(out);
}

/* ---- what a guest may not ask for (FAULTS C10) ---- */

enum { CSUM = VIRTIO_NET_HDR_F_NEEDS_CSUM, TCP4 = VIRTIO_NET_HDR_GSO_TCPV4 };

static void lies_in_the_header(void **state)
{
        /* The packet: Ethernet 14, IPv4 20, TCP 20, 946 bytes; 1000 in all. */
        static const struct virtio_net_hdr lies[] = {
                { .flags = CSUM, .csum_start = 1000, .csum_offset = 16 },
                { .flags = CSUM, .csum_start = 999, .csum_offset = 0 },
                { .flags = CSUM, .csum_start = 34, .csum_offset = 965 },
                { .flags = CSUM, .csum_start = 65535, .csum_offset = 65535 },
                { .gso_type = TCP4, .gso_size = 100 },
                { .gso_type = 0x80 },
                { .gso_type = 0x7f, .gso_size = 100 },
                { CSUM, TCP4, 54, 0, 34, 16 },
                { CSUM, TCP4, 54, 100, 35, 16 },
                { CSUM, TCP4, 54, 100, 34, 6 },
                { CSUM, TCP4, 54, 100, 14, 16 },
                { CSUM, VIRTIO_NET_HDR_GSO_TCPV6, 54, 100, 34, 16 },
                { CSUM, VIRTIO_NET_HDR_GSO_UDP, 54, 100, 34, 16 },
                { CSUM, VIRTIO_NET_HDR_GSO_UDP_L4, 54, 100, 34, 16 },
                { CSUM, VIRTIO_NET_HDR_GSO_UDP_L4, 54, 100, 34, 6 },
                { CSUM, VIRTIO_NET_HDR_GSO_ECN, 54, 100, 34, 16 },
                { CSUM, VIRTIO_NET_HDR_GSO_UDP_L4 | 0x80, 54, 100, 34, 16 },
                { CSUM, 6, 54, 100, 34, 16 },
        };
        struct recipe r = { .payload = 946 };
        static struct flat f;

        (void)state;
        build(&f, &r);
        assert_int_equal(f.len, 1000);
        for (size_t i = 0; i < RTE_DIM(lies); i++) {
                struct rte_mbuf *m = chain(&f, 10, 30);

                assert_int_equal(vql_offload_from_guest(m, &lies[i]), -EINVAL);
                assert_int_equal(m->ol_flags, 0);
                check_bytes(m, &f);
                rte_pktmbuf_free(m);
        }
}

/* The last place where a checksum may lie is accepted. */
static void field_at_the_very_end(void **state)
{
        const struct virtio_net_hdr h = { .flags = CSUM, .csum_start = 998, .csum_offset = 0 };
        struct recipe r = { .payload = 946 };
        static struct flat f;
        struct rte_mbuf *m;

        (void)state;
        build(&f, &r);
        m = chain(&f, 999, 1);
        assert_int_equal(vql_offload_from_guest(m, &h), 0);
        reference_finish(&f, 998, 0);
        check_bytes(m, &f);
        rte_pktmbuf_free(m);
}

static void lies_in_the_packet(void **state)
{
        static const struct {
                uint32_t at;
                uint8_t value;
        } lies[] = {
                { 14, 0x44 }, /* IPv4 header of 16 bytes */
                { 14, 0x4f }, /* header of 60 bytes: TCP lies elsewhere */
                { 14, 0x65 }, /* version 6 under IPv4's ether type */
                { 20, 0x20 }, /* more fragments */
                { 21, 0x08 }, /* a later fragment */
                { 23, 17 },   /* UDP under a TCP type */
                { 46, 0x40 }, /* TCP header of 16 bytes */
                { 12, 0x08 + 1 },
        };
        struct recipe r = { .payload = 946 };
        static struct flat f;

        (void)state;
        for (size_t i = 0; i < RTE_DIM(lies); i++) {
                struct virtio_net_hdr h;
                struct rte_mbuf *m;

                build(&f, &r);
                h = segment_header(&f, 100);
                f.b[lies[i].at] = lies[i].value;
                m = chain(&f, 20, 20);
                assert_int_equal(vql_offload_from_guest(m, &h), -EINVAL);
                rte_pktmbuf_free(m);
        }
        /* A TCP header that reaches beyond the packet. */
        r.payload = 4;
        build(&f, &r);
        f.b[46] = 0xf0;
        struct virtio_net_hdr h = segment_header(&f, 1);
        struct rte_mbuf *m = chain(&f, 20, 20);

        assert_int_equal(vql_offload_from_guest(m, &h), -EINVAL);
        rte_pktmbuf_free(m);
}

/* Random headers on random packets: what is accepted must come out whole and give all back. */
static void random_lies(void **state)
{
        static struct rte_mbuf *out[MAX_OUT];
        static struct flat f;

        (void)state;
        srandom(1);
        for (int k = 0; k < 100000; k++) {
                uint64_t x = (uint64_t)random() << 31 ^ (uint64_t)random();
                struct recipe r = { .v6 = x & 1,
                                    .udp = x & 2,
                                    .tags = x >> 2 & 1,
                                    .ip_more = x & 8 ? 8 : 0,
                                    .payload = x >> 8 & 0x1ff };
                struct vql_offload_caps caps = caps_of(x >> 40 & 0x3f, x >> 50 & 1);
                struct virtio_net_hdr h;
                struct rte_mbuf *m;
                int made;

                build(&f, &r);
                h = segment_header(&f, (unsigned int)(x >> 20 & 0xff));
                ((uint8_t *)&h)[random() % 10] = (uint8_t)random();
                for (int flips = random() % 4; flips > 0; flips--)
                        f.b[random() % 80] = (uint8_t)random();
                f.len = (uint32_t)random() % f.len + 1;
                m = chain(&f, (uint32_t)random() % 100, (uint32_t)random() % 50);
                if (vql_offload_from_guest(m, &h) < 0) {
                        rte_pktmbuf_free(m);
                        continue;
                }
                made = vql_offload_finish(&caps, m, out, 64);
                assert_true(made > 0 || made == -ENOSPC || made == -EINVAL);
                for (int i = 0; i < made; i++)
                        assert_int_equal(rte_mbuf_check(out[i], 1, &(const char *){ NULL }), 0);
                if (made > 0)
                        rte_pktmbuf_free_bulk(out, (unsigned int)made);
        }
}

/* ---- to the guest ---- */

static struct virtio_net_hdr told(uint64_t ol_flags, uint64_t features, const struct recipe *r)
{
        struct virtio_net_hdr h;
        static struct flat f;
        struct rte_mbuf *m;

        build(&f, r);
        m = chain(&f, ROOM, ROOM);
        m->ol_flags = ol_flags;
        m->tso_segsz = 1448;
        memset(&h, 0xff, sizeof(h));
        vql_offload_to_guest(m, features, &h);
        rte_pktmbuf_free(m);
        return h;
}

static void what_the_guest_is_told(void **state)
{
        const uint64_t good = RTE_MBUF_F_RX_L4_CKSUM_GOOD, lro = good | RTE_MBUF_F_RX_LRO;
        const uint64_t csum = 1ull << VIRTIO_NET_F_GUEST_CSUM;
        const uint64_t tso4 = csum | 1ull << VIRTIO_NET_F_GUEST_TSO4;
        const struct virtio_net_hdr zero = { 0 };
        struct recipe v4 = { .payload = 3000 }, v6 = { .v6 = true, .payload = 3000 };
        struct virtio_net_hdr h;

        (void)state;
        h = told(good, 0, &v4);
        assert_memory_equal(&h, &zero, sizeof(h));
        h = told(RTE_MBUF_F_RX_L4_CKSUM_BAD, csum, &v4);
        assert_memory_equal(&h, &zero, sizeof(h));
        h = told(good, csum, &v4);
        assert_int_equal(h.flags, VIRTIO_NET_HDR_F_DATA_VALID);
        assert_int_equal(h.gso_type, VIRTIO_NET_HDR_GSO_NONE);
        h = told(lro, csum, &v4);
        assert_int_equal(h.gso_type, VIRTIO_NET_HDR_GSO_NONE);
        h = told(lro, tso4, &v4);
        assert_int_equal(h.gso_type, VIRTIO_NET_HDR_GSO_TCPV4);
        assert_int_equal(h.gso_size, 1448);
        assert_int_equal(h.hdr_len, 54);
        h = told(lro, tso4, &v6);
        assert_int_equal(h.gso_type, VIRTIO_NET_HDR_GSO_NONE);
        h = told(lro, tso4 | 1ull << VIRTIO_NET_F_GUEST_TSO6, &v6);
        assert_int_equal(h.gso_type, VIRTIO_NET_HDR_GSO_TCPV6);
}

/* ---- flows (FAULTS G10) ---- */

static uint32_t hash_of(const struct recipe *r, uint32_t at, uint8_t value)
{
        static struct flat f;
        struct rte_mbuf *m;
        uint32_t hash;

        build(&f, r);
        f.b[at] = value;
        m = chain(&f, 30, 10);
        hash = vql_headers_flow_hash(m);
        rte_pktmbuf_free(m);
        return hash;
}

static void flows_spread(void **state)
{
        (void)state;
        for (int k = 0; k < 4; k++) {
                struct recipe r = { .v6 = k & 1, .udp = k & 2, .payload = 10 };
                uint32_t ports = r.v6 ? 54 : 34, seen[8] = { 0 };

                for (unsigned int port = 0; port < 256; port++)
                        seen[((uint64_t)hash_of(&r, ports + 1, (uint8_t)port) * 8) >> 32]++;
                for (int i = 0; i < 8; i++)
                        assert_true(seen[i] > 10);
                /* Payload does not matter, nor does the port in a fragment. */
                assert_int_equal(hash_of(&r, ports + 30, 1), hash_of(&r, ports + 30, 2));
        }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, check_no_leak)
        const struct CMUnitTest tests[] = {
                TEST(sums_of_chains),         TEST(checksums_in_software),
                TEST(checksums_of_all_sizes), TEST(checksums_by_the_device),
                TEST(checksum_of_anything),   TEST(udp_sum_of_zero),
                TEST(lies_in_the_header),     TEST(field_at_the_very_end),
                TEST(lies_in_the_packet),     TEST(random_lies),
                TEST(what_the_guest_is_told), TEST(flows_spread),
        };

        return test_pools_start() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
