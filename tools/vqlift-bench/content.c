/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/content.h"

#include <string.h>

#include <rte_mbuf.h>

static uint8_t byte_at(uint32_t i, uint32_t serial)
{
        if (i < CONTENT_STAMP)
                return (uint8_t)(serial >> (8 * i));
        return (uint8_t)(i * 131 + (i >> 8) * 7 + serial * 29 + (serial >> 8));
}

void content_write(uint8_t *to, uint32_t at, uint32_t n, uint32_t serial)
{
        for (uint32_t i = 0; i < n; i++)
                to[i] = byte_at(at + i, serial);
}

bool content_matches(const uint8_t *p, uint32_t at, uint32_t n, uint32_t serial)
{
        uint8_t wrong = 0;

        for (uint32_t i = 0; i < n; i++)
                wrong |= p[i] ^ byte_at(at + i, serial);
        return wrong == 0;
}

void content_stamp(uint8_t *to, uint32_t serial)
{
        memcpy(to, &serial, CONTENT_STAMP);
}

bool content_stamp_matches(const uint8_t *p, uint32_t serial)
{
        return memcmp(p, &serial, CONTENT_STAMP) == 0;
}

void content_write_mbuf(struct rte_mbuf *m, uint32_t serial, bool whole)
{
        uint32_t at = 0;

        if (!whole) {
                content_stamp(rte_pktmbuf_mtod(m, uint8_t *), serial);
                return;
        }
        for (; m; at += m->data_len, m = m->next)
                content_write(rte_pktmbuf_mtod(m, uint8_t *), at, m->data_len, serial);
}

bool content_matches_mbuf(const struct rte_mbuf *m, uint32_t size, uint32_t serial, bool whole)
{
        uint32_t at = 0;
        bool good = m->pkt_len == size && m->data_len >= CONTENT_STAMP &&
                    content_stamp_matches(rte_pktmbuf_mtod(m, const uint8_t *), serial);

        if (!good || !whole)
                return good;
        for (; m && good; at += m->data_len, m = m->next)
                good = content_matches(rte_pktmbuf_mtod(m, const uint8_t *), at, m->data_len,
                                       serial);
        return good && at == size;
}
