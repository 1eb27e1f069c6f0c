/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FUZZ_PACKETS_H
#define TESTS_FUZZ_PACKETS_H

/* Packet buffers for fuzz targets. */

#include <rte_mbuf.h>

#include "fuzz.h"
#include "unit/eal.h"

/* DPDK's environment, once a process. */
static inline void fuzz_start_eal(void)
{
        static bool started;

        FUZZ_REQUIRE(started || test_eal_start() == 0);
        started = true;
}

/* A chain whose counts agree, none of its buffers beyond its room. */
static inline void fuzz_check_packet(const struct rte_mbuf *m)
{
        uint32_t bytes = 0, segs = 0;

        for (const struct rte_mbuf *s = m; s; s = s->next, segs++) {
                FUZZ_REQUIRE((uint32_t)s->data_off + s->data_len <= s->buf_len);
                bytes += s->data_len;
        }
        FUZZ_REQUIRE(bytes == m->pkt_len && segs == m->nb_segs);
}

#endif
