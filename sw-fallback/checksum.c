/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/checksum.h"

#include <rte_byteorder.h>
#include <rte_ip.h>
#include <rte_mbuf.h>

/* Sums are of 16-bit words as they lie in memory: byte order cancels out (RFC 1071, 2.B). */
static uint16_t fold(uint32_t sum)
{
        sum = (sum & 0xffff) + (sum >> 16);
        return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

uint16_t vql_checksum_range(const struct rte_mbuf *m, uint32_t off, uint32_t len)
{
        uint32_t sum = 0, done = 0;

        while (off >= m->data_len) {
                off -= m->data_len;
                m = m->next;
        }
        while (done < len) {
                uint32_t n = RTE_MIN(m->data_len - off, len - done);
                uint16_t part = rte_raw_cksum(rte_pktmbuf_mtod_offset(m, const void *, off), n);

                /* Words of a buffer that begins at an odd place are off by one byte. */
                sum += done & 1 ? rte_bswap16(part) : part;
                done += n;
                off = 0;
                m = m->next;
        }
        return fold(sum);
}

static void store_byte(struct rte_mbuf *m, uint32_t off, uint8_t byte)
{
        while (off >= m->data_len) {
                off -= m->data_len;
                m = m->next;
        }
        *rte_pktmbuf_mtod_offset(m, uint8_t *, off) = byte;
}

void vql_checksum_finish(struct rte_mbuf *m, uint32_t start, uint16_t offset)
{
        uint16_t sum = (uint16_t)~vql_checksum_range(m, start, m->pkt_len - start);
        uint8_t bytes[2];

        if (sum == 0)
                sum = 0xffff;
        memcpy(bytes, &sum, sizeof(bytes));
        store_byte(m, start + offset, bytes[0]);
        store_byte(m, start + offset + 1, bytes[1]);
}

uint16_t vql_checksum_pseudo(const void *l3, bool v6, uint8_t proto, uint32_t l4_bytes)
{
        const uint8_t *addresses = (const uint8_t *)l3 + (v6 ? 8 : 12);
        uint32_t sum = rte_raw_cksum(addresses, v6 ? 32 : 8);

        sum += rte_cpu_to_be_16((uint16_t)(l4_bytes >> 16));
        sum += rte_cpu_to_be_16((uint16_t)l4_bytes);
        sum += rte_cpu_to_be_16(proto);
        return fold(sum);
}

void vql_checksum_ipv4(void *l3, uint16_t l3_len)
{
        struct rte_ipv4_hdr *ip = l3;

        ip->hdr_checksum = 0;
        ip->hdr_checksum = (uint16_t)~rte_raw_cksum(ip, l3_len);
}
