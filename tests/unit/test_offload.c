/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Offloads against a plain reference: packets are built and cut byte by byte here, with none of the
 * code under test, and compared with what comes out.
 */

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <rte_ethdev.h>

#include "eal.h"
#include "sw-fallback/checksum.h"
#include "sw-fallback/headers.h"
#include "sw-fallback/offload.h"
#include "virtqueue/features.h"

enum { ROOM = 2048, FLAT = 65536 + 256, MAX_OUT = 2048 };

static struct rte_mempool *direct, *indirect;

/* ---- the reference ---- */

struct recipe {
        bool v6, udp;
        unsigned int tags;    /* VLAN tags, 0 to 2 */
        unsigned int ip_more; /* bytes of IPv4 options, or of an IPv6 extension header */
        unsigned int tcp_more;
        unsigned int payload;
        uint8_t flags; /* TCP */
};

struct flat {
        uint32_t len, l2, l3, l4;
        struct recipe r;
        uint8_t b[FLAT];
};

static void put16(uint8_t *p, unsigned int v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
        put16(p, v >> 16);
        put16(p + 2, v & 0xffff);
}

static uint32_t plain_sum(const uint8_t *p, size_t n, uint64_t sum)
{
        for (size_t i = 0; i < n; i++)
                sum += i & 1 ? p[i] : (uint64_t)p[i] << 8;
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return (uint32_t)sum;
}

static uint32_t pseudo(const struct flat *f, uint32_t l4_bytes)
{
        uint64_t sum = l4_bytes + (f->r.udp ? IPPROTO_UDP : IPPROTO_TCP);

        return plain_sum(f->b + f->l2 + (f->r.v6 ? 8 : 12), f->r.v6 ? 32 : 8, sum);
}

static unsigned int field_at(const struct recipe *r)
{
        return r->udp ? 6 : 16;
}

static void build_ip(struct flat *f, uint32_t l4_bytes)
{
        const struct recipe *r = &f->r;
        uint8_t *ip = f->b + f->l2, proto = r->udp ? IPPROTO_UDP : IPPROTO_TCP;

        if (r->v6) {
                ip[0] = 0x60;
                put16(ip + 4, r->ip_more + l4_bytes);
                ip[6] = r->ip_more ? IPPROTO_DSTOPTS : proto;
                ip[7] = 64;
                if (r->ip_more) {
                        ip[40] = proto;
                        ip[41] = (uint8_t)(r->ip_more / 8 - 1);
                }
                return;
        }
        ip[0] = (uint8_t)(0x40 | (20 + r->ip_more) / 4);
        put16(ip + 2, f->l3 + l4_bytes);
        put16(ip + 4, 0xfffe); /* the id wraps soon */
        put16(ip + 6, 0x4000);
        ip[8] = 64;
        ip[9] = proto;
        put16(ip + 10, 0);
        put16(ip + 10, ~plain_sum(ip, f->l3, 0) & 0xffff);
}

/* A packet as a guest hands it over: the checksum field holds the pseudo header's sum. */
static void build(struct flat *f, const struct recipe *r)
{
        static const unsigned int types[3][3] = { { 0 }, { 0x8100 }, { 0x88a8, 0x8100 } };
        uint32_t l4_bytes;
        uint8_t *l4;

        f->r = *r;
        f->l2 = 14 + 4 * r->tags;
        f->l3 = (r->v6 ? 40 : 20) + r->ip_more;
        f->l4 = r->udp ? 8 : 20 + r->tcp_more;
        f->len = f->l2 + f->l3 + f->l4 + r->payload;
        assert_true(f->len <= FLAT);
        for (uint32_t i = 0; i < f->len; i++)
                f->b[i] = (uint8_t)(i * 7 + i / 251 + r->payload);
        for (unsigned int t = 0; t < r->tags; t++)
                put16(f->b + 12 + 4 * t, types[r->tags][t]);
        put16(f->b + 12 + 4 * r->tags, r->v6 ? 0x86dd : 0x0800);
        memset(f->b + f->l2, 0, r->v6 ? 8 : 12);
        if (r->ip_more)
                memset(f->b + f->l2 + (r->v6 ? 40 : 20), 1, r->ip_more);
        l4_bytes = f->l4 + r->payload;
        build_ip(f, l4_bytes);
        l4 = f->b + f->l2 + f->l3;
        if (r->udp) {
                put16(l4 + 4, l4_bytes);
        } else {
                put32(l4 + 4, 0xfffffff0u); /* the sequence number wraps soon */
                l4[12] = (uint8_t)(f->l4 / 4 << 4);
                l4[13] = r->flags;
        }
        put16(l4 + field_at(r), pseudo(f, l4_bytes));
}

/* Finish a checksum the plain way. */
static void reference_finish(struct flat *f, uint32_t start, uint32_t offset)
{
        uint32_t sum = ~plain_sum(f->b + start, f->len - start, 0) & 0xffff;

        put16(f->b + start + offset, sum ? sum : 0xffff);
}

/* Segment i of f, all checksums finished. */
static void reference_segment(const struct flat *f, unsigned int i, unsigned int mss,
                              struct flat *s)
{
        uint32_t headers = f->l2 + f->l3 + f->l4, off = i * mss;
        uint32_t n = f->r.payload - off < mss ? f->r.payload - off : mss;
        uint8_t *ip = s->b + f->l2, *l4 = ip + f->l3;
        bool last = off + n == f->r.payload;

        s->l2 = f->l2;
        s->l3 = f->l3;
        s->l4 = f->l4;
        s->r = f->r;
        s->r.payload = n;
        s->len = headers + n;
        memcpy(s->b, f->b, headers);
        memcpy(s->b + headers, f->b + headers + off, n);
        if (f->r.v6) {
                put16(ip + 4, f->r.ip_more + f->l4 + n);
        } else {
                put16(ip + 2, f->l3 + f->l4 + n);
                put16(ip + 4, (0xfffe + i) & 0xffff);
                put16(ip + 10, 0);
                put16(ip + 10, ~plain_sum(ip, f->l3, 0) & 0xffff);
        }
        if (f->r.udp) {
                put16(l4 + 4, 8 + n);
        } else {
                put32(l4 + 4, 0xfffffff0u + off);
                l4[13] = (uint8_t)(f->r.flags & ~(last ? 0 : 0x09) & ~(i ? 0x80 : 0));
        }
        put16(l4 + field_at(&f->r), pseudo(s, f->l4 + n));
        reference_finish(s, f->l2 + f->l3, field_at(&f->r));
}

/* ---- between flat bytes and chains ---- */

/* A chain whose first buffer has `first` bytes, the second `second`, the others what fits. */
static struct rte_mbuf *chain(const struct flat *f, uint32_t first, uint32_t second)
{
        struct rte_mbuf *head = NULL, *last = NULL;

        for (uint32_t off = 0, i = 0; off < f->len || !head; i++) {
                uint32_t n = i == 0 ? first : i == 1 ? second : ROOM;
                struct rte_mbuf *m = rte_pktmbuf_alloc(direct);

                assert_non_null(m);
                n = RTE_MIN(RTE_MIN(n, (uint32_t)ROOM), f->len - off);
                memcpy(rte_pktmbuf_append(m, (uint16_t)n), f->b + off, n);
                off += n;
                if (!head) {
                        head = m;
                } else {
                        last->next = m;
                        head->nb_segs++;
                        head->pkt_len += n;
                }
                last = m;
        }
        return head;
}

static void check_bytes(const struct rte_mbuf *m, const struct flat *f)
{
        static uint8_t copy[FLAT];
        const uint8_t *got;

        assert_int_equal(rte_mbuf_check(m, 1, &(const char *){ NULL }), 0);
        assert_int_equal(m->pkt_len, f->len);
        got = rte_pktmbuf_read(m, 0, f->len, copy);
        assert_non_null(got);
        assert_memory_equal(got, f->b, f->len);
}

static struct vql_offload_caps caps_of(uint64_t tx_offloads, bool multi_seg)
{
        return (struct vql_offload_caps){ tx_offloads, multi_seg, direct, indirect };
}

static struct virtio_net_hdr checksum_header(const struct flat *f)
{
        return (struct virtio_net_hdr){
                .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                .csum_start = (uint16_t)(f->l2 + f->l3),
                .csum_offset = (uint16_t)field_at(&f->r),
        };
}

static struct virtio_net_hdr segment_header(const struct flat *f, unsigned int mss)
{
        struct virtio_net_hdr h = checksum_header(f);

        h.gso_type = f->r.udp  ? VIRTIO_NET_HDR_GSO_UDP_L4
                     : f->r.v6 ? VIRTIO_NET_HDR_GSO_TCPV6
                               : VIRTIO_NET_HDR_GSO_TCPV4;
        h.gso_size = (uint16_t)mss;
        return h;
}

/* Every test gives all of its buffers back. */
static int check_no_leak(void **state)
{
        (void)state;
        assert_int_equal(rte_mempool_in_use_count(direct), 0);
        assert_int_equal(rte_mempool_in_use_count(indirect), 0);
        return 0;
}

/* Call `check` for each kind of packet. */
static void each_kind(unsigned int payload, void (*check)(const struct recipe *r))
{
        for (unsigned int k = 0; k < 2 * 2 * 3 * 2 * 2; k++) {
                struct recipe r = {
                        .v6 = k & 1,
                        .udp = k & 2,
                        .ip_more = k & 4 ? 8 : 0,
                        .tcp_more = k & 8 ? 12 : 0,
                        .tags = k / 16,
                        .payload = payload,
                        .flags = 0x99, /* CWR, ACK, PSH, FIN */
                };

                check(&r);
        }
}

/* ---- tests ---- */

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
                TEST(sums_of_chains),
                TEST(checksums_in_software),
                TEST(checksums_of_all_sizes),
                TEST(checksums_by_the_device),
                TEST(checksum_of_anything),
                TEST(udp_sum_of_zero),
                TEST(segmentation_of_all_kinds),
                TEST(segmentation_of_all_sizes),
                TEST(segmentation_of_little),
                TEST(segmentation_by_the_device),
                TEST(too_many_segments),
                TEST(out_of_buffers),
                TEST(devices_without_chains),
                TEST(lies_in_the_header),
                TEST(field_at_the_very_end),
                TEST(lies_in_the_packet),
                TEST(random_lies),
                TEST(what_the_guest_is_told),
                TEST(flows_spread),
        };

        if (test_eal_start() < 0)
                return 1;
        direct = test_pool("direct", 4096, ROOM);
        indirect = test_pool("indirect", 4096, 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
