/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TESTS_UNIT_TEST_OFFLOAD_H
#define VQLIFT_TESTS_UNIT_TEST_OFFLOAD_H

/*
 * The plain reference for offloads: packets are built and cut byte by byte here, with none of the
 * code under test.
 */

#include <netinet/in.h>
#include <string.h>

#include "sw-fallback/offload.h"
#include "eal.h"
#include "virtqueue/features.h"

enum { ROOM = 2048, FLAT = 65536 + 256, MAX_OUT = 2048 };

/* The pools of the test program; test_pools_start() makes them. */
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

static inline void put16(uint8_t *p, unsigned int v)
{
        p[0] = (uint8_t)(v >> 8);
        p[1] = (uint8_t)v;
}

static inline void put32(uint8_t *p, uint32_t v)
{
        put16(p, v >> 16);
        put16(p + 2, v & 0xffff);
}

static inline uint32_t plain_sum(const uint8_t *p, size_t n, uint64_t sum)
{
        for (size_t i = 0; i < n; i++)
                sum += i & 1 ? p[i] : (uint64_t)p[i] << 8;
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        return (uint32_t)sum;
}

static inline uint32_t pseudo(const struct flat *f, uint32_t l4_bytes)
{
        uint64_t sum = l4_bytes + (f->r.udp ? IPPROTO_UDP : IPPROTO_TCP);

        return plain_sum(f->b + f->l2 + (f->r.v6 ? 8 : 12), f->r.v6 ? 32 : 8, sum);
}

static inline unsigned int field_at(const struct recipe *r)
{
        return r->udp ? 6 : 16;
}

static inline void build_ip(struct flat *f, uint32_t l4_bytes)
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
static inline void build(struct flat *f, const struct recipe *r)
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
static inline void reference_finish(struct flat *f, uint32_t start, uint32_t offset)
{
        uint32_t sum = ~plain_sum(f->b + start, f->len - start, 0) & 0xffff;

        put16(f->b + start + offset, sum ? sum : 0xffff);
}

/* Segment i of f, all checksums finished. */
static inline void reference_segment(const struct flat *f, unsigned int i, unsigned int mss,
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
static inline struct rte_mbuf *chain(const struct flat *f, uint32_t first, uint32_t second)
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

static inline void check_bytes(const struct rte_mbuf *m, const struct flat *f)
{
        static uint8_t copy[FLAT];
        const uint8_t *got;

        assert_int_equal(rte_mbuf_check(m, 1, &(const char *){ NULL }), 0);
        assert_int_equal(m->pkt_len, f->len);
        got = rte_pktmbuf_read(m, 0, f->len, copy);
        assert_non_null(got);
        assert_memory_equal(got, f->b, f->len);
}

static inline struct vql_offload_caps caps_of(uint64_t tx_offloads, bool multi_seg)
{
        return (struct vql_offload_caps){ tx_offloads, multi_seg, direct, indirect };
}

static inline struct virtio_net_hdr checksum_header(const struct flat *f)
{
        return (struct virtio_net_hdr){
                .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                .csum_start = (uint16_t)(f->l2 + f->l3),
                .csum_offset = (uint16_t)field_at(&f->r),
        };
}

static inline struct virtio_net_hdr segment_header(const struct flat *f, unsigned int mss)
{
        struct virtio_net_hdr h = checksum_header(f);

        h.gso_type = f->r.udp  ? VIRTIO_NET_HDR_GSO_UDP_L4
                     : f->r.v6 ? VIRTIO_NET_HDR_GSO_TCPV6
                               : VIRTIO_NET_HDR_GSO_TCPV4;
        h.gso_size = (uint16_t)mss;
        return h;
}

/* Every test gives all of its buffers back. */
static inline int check_no_leak(void **state)
{
        (void)state;
        assert_int_equal(rte_mempool_in_use_count(direct), 0);
        assert_int_equal(rte_mempool_in_use_count(indirect), 0);
        return 0;
}

/* Call `check` for each kind of packet. */
static inline void each_kind(unsigned int payload, void (*check)(const struct recipe *r))
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

static inline int test_pools_start(void)
{
        if (test_eal_start() < 0)
                return -1;
        direct = test_pool("direct", 4096, ROOM);
        indirect = test_pool("indirect", 4096, 0);
        return 0;
}

#endif
