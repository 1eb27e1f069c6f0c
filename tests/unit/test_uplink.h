/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TESTS_UNIT_TEST_UPLINK_H
#define VQLIFT_TESTS_UNIT_TEST_UPLINK_H

/* What the tests of uplinks share: packet buffers, opening, frames. */

#include <netinet/in.h>
#include <string.h>

#include "eal.h"
#include "sw-fallback/uplink.h"

enum { ROOM = 2048 };

static struct rte_mempool *pool, *indirect;

static inline struct vql_uplink_params params_for(const char *spec)
{
        return (struct vql_uplink_params){
                .name = "port1",
                .spec = spec,
                .queues = 1,
                .pool = pool,
                .indirect_pool = indirect,
        };
}

static inline struct vql_uplink *open_params(const struct vql_uplink_params *p)
{
        struct vql_uplink *u = NULL;
        struct vql_error e = { "" };

        if (vql_uplink_open(p, &u, &e) < 0)
                fail_msg("%s", e.text);
        return u;
}

static inline struct vql_uplink *open_spec(const char *spec)
{
        struct vql_uplink_params p = params_for(spec);

        return open_params(&p);
}

static inline void check_refused(const char *spec, int rc, const char *sentence)
{
        struct vql_uplink_params p = params_for(spec);
        struct vql_uplink *u = NULL;
        struct vql_error e = { "" };

        assert_int_equal(vql_uplink_open(&p, &u, &e), rc);
        assert_null(u);
        assert_string_equal(e.text, sentence);
}

/* A frame from a locally administered address to all, of an ether type that nobody speaks. */
static inline struct rte_mbuf *frame(uint32_t len, uint8_t mark)
{
        static const uint8_t head[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,
                                        0,    0,    0,    0,    1,    0x88, 0xb5 };
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool), *last = m;

        assert_non_null(m);
        memcpy(rte_pktmbuf_append(m, sizeof(head)), head, sizeof(head));
        while (m->pkt_len < len) {
                uint16_t n = (uint16_t)RTE_MIN(len - m->pkt_len, rte_pktmbuf_tailroom(last));

                if (n == 0) {
                        struct rte_mbuf *more = rte_pktmbuf_alloc(pool);

                        assert_non_null(more);
                        last->next = more;
                        last = more;
                        m->nb_segs++;
                        continue;
                }
                memset(rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len), mark, n);
                last->data_len = (uint16_t)(last->data_len + n);
                m->pkt_len += n;
        }
        return m;
}

static inline uint8_t mark_of(const struct rte_mbuf *m)
{
        return *rte_pktmbuf_mtod_offset(m, uint8_t *, 14);
}

/* A good checksum makes the sum over pseudo header and datagram all ones. */
static inline void check_udp_sum(const uint8_t *packet, bool v6)
{
        const uint8_t *ip = packet + 14, *udp = ip + (v6 ? 40 : 20);
        size_t len = (size_t)udp[4] << 8 | udp[5];
        uint64_t sum = len + IPPROTO_UDP;

        for (const uint8_t *p = ip + (v6 ? 8 : 12); p < udp; p += 2)
                sum += (uint64_t)p[0] << 8 | p[1];
        for (size_t i = 0; i < len; i++)
                sum += i & 1 ? udp[i] : (uint64_t)udp[i] << 8;
        while (sum >> 16)
                sum = (sum & 0xffff) + (sum >> 16);
        assert_int_equal(sum, 0xffff);
}

static inline void check_pool_full(void)
{
        assert_int_equal(rte_mempool_in_use_count(pool), 0);
        assert_int_equal(rte_mempool_in_use_count(indirect), 0);
}

static inline int test_pools_start(void)
{
        if (test_eal_start() < 0)
                return -1;
        pool = test_pool("pool", 4096, ROOM);
        indirect = test_pool("indirect", 4096, 0);
        return 0;
}

#endif
