/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/limit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "vqlift-bench/guest.h"

enum {
        LINE = 64,
        AHEAD = 4,        /* pieces */
        MOST_PIECES = 80, /* of a packet: mbufs and buffers of 64 KiB, which end at other bytes */
        MOST_LINES = 8,   /* of the ring, for a packet and its buffers' shares */
};

struct piece {
        uint8_t *to;
        const uint8_t *from;
        uint32_t n;
};

struct limit {
        const struct guest *guest;
        bool to_guest;
        uint64_t (*run)(const struct limit *l);
        size_t n_pieces, n_read, n_written;
        struct piece *piece;
        const uint8_t **read; /* a word of a line that is read */
        uint8_t **written;    /* of one that is written: what it holds */
        uint64_t sum;         /* of what was read, so that it is */
};

/* ---- the timed part ---- */

/* As many registers as the instruction set takes for a line. */
typedef uint8_t line_t __attribute__((vector_size(LINE), aligned(1), may_alias));

static inline __attribute__((always_inline)) void copy_line(uint8_t *to, const uint8_t *from)
{
        *(line_t *)to = *(const line_t *)from;
}

/* Whole lines are stored; the first and the last store overlap those beside them. */
static inline __attribute__((always_inline)) void copy(const struct piece *p)
{
        uint32_t i;

        if (p->n < LINE) {
                memcpy(p->to, p->from, p->n);
                return;
        }
        copy_line(p->to, p->from);
        for (i = LINE - (uint32_t)((uintptr_t)p->to % LINE); i + LINE < p->n; i += LINE)
                copy_line(p->to + i, p->from + i);
        copy_line(p->to + p->n - LINE, p->from + p->n - LINE);
}

/* The guest's memory is what may be far away: its first lines, while others are copied. */
static inline __attribute__((always_inline)) void ask_for(const struct limit *l, size_t i)
{
        if (i >= l->n_pieces)
                return;
        if (l->to_guest) {
                __builtin_prefetch(l->piece[i].to, 1);
                __builtin_prefetch(l->piece[i].to + LINE, 1);
        } else {
                __builtin_prefetch(l->piece[i].from, 0);
                __builtin_prefetch(l->piece[i].from + LINE, 0);
        }
}

static inline __attribute__((always_inline)) uint64_t run(const struct limit *l)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < l->n_read; i++)
                sum += *(const volatile uint16_t *)l->read[i];
        for (size_t i = 0; i < l->n_pieces; i++) {
                ask_for(l, i + AHEAD);
                copy(&l->piece[i]);
        }
        /* The guest may read or write the line meanwhile, but not these two bytes. */
        for (size_t i = 0; i < l->n_written; i++) {
                uint16_t *word = (uint16_t *)l->written[i];

                __atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
        }
        return sum;
}

/* One body, compiled for each instruction set. */
static uint64_t run_plain(const struct limit *l)
{
        return run(l);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static uint64_t run_avx2(const struct limit *l)
{
        return run(l);
}

__attribute__((target("avx512f"))) static uint64_t run_avx512(const struct limit *l)
{
        return run(l);
}
#endif

void limit_run(struct limit *l)
{
        l->sum += l->run(l);
}

/* ---- life cycle ---- */

int limit_new(const struct guest *g, struct limit **ret_limit)
{
        struct limit *l = calloc(1, sizeof(*l));

        if (!l)
                return -ENOMEM;
        l->guest = g;
        l->to_guest = g->cell.to_guest;
        l->run = run_plain;
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx512f"))
                l->run = run_avx512;
        else if (__builtin_cpu_supports("avx2"))
                l->run = run_avx2;
#endif
        l->piece = calloc((size_t)CELL_MAX_BURST * MOST_PIECES, sizeof(*l->piece));
        l->read = calloc((size_t)CELL_MAX_BURST * (MOST_PIECES + MOST_LINES), sizeof(*l->read));
        l->written =
                calloc((size_t)CELL_MAX_BURST * (MOST_PIECES + MOST_LINES), sizeof(*l->written));
        if (!l->piece || !l->read || !l->written) {
                limit_free(l);
                return -ENOMEM;
        }
        *ret_limit = l;
        return 0;
}

void limit_free(struct limit *l)
{
        if (!l)
                return;
        free(l->piece);
        free(l->read);
        free(l->written);
        free(l);
}

/* ---- packets ---- */

static void list_packet(struct limit *l, const struct rte_mbuf *m, uint64_t buffer)
{
        const struct guest *g = l->guest;
        const bool to_guest = g->cell.to_guest;
        const uint32_t room = to_guest ? g->segs[0][0].len : g->cell.size + GUEST_HEADER;
        uint32_t in_mbuf = 0, in_buffer = GUEST_HEADER, left = g->cell.size;

        while (left > 0) {
                uint32_t n = RTE_MIN(RTE_MIN(room - in_buffer, m->data_len - in_mbuf), left);
                uint8_t *ours = rte_pktmbuf_mtod_offset(m, uint8_t *, in_mbuf);
                uint8_t *guests = g->payload[buffer % g->buffers] - GUEST_HEADER + in_buffer;

                l->piece[l->n_pieces++] =
                        (struct piece){ to_guest ? guests : ours, to_guest ? ours : guests, n };
                left -= n;
                in_mbuf += n;
                in_buffer += n;
                if (in_mbuf == m->data_len) {
                        m = m->next;
                        in_mbuf = 0;
                }
                if (in_buffer == room) {
                        buffer++;
                        in_buffer = 0;
                }
        }
}

static void list_read(struct limit *l, const void *p)
{
        l->read[l->n_read++] = p;
}

static void list_written(struct limit *l, void *p)
{
        l->written[l->n_written++] = p;
}

/* ---- rings ---- */

/* The part of a ring that is touched: elements of `bytes` each. */
struct area {
        void *at;
        uint32_t bytes;
        bool written;
};

/* A word of each line that holds elements first to first + n - 1. */
static void list_area(struct limit *l, struct area a, uint64_t first, uint64_t n)
{
        for (uint64_t i = first; i < first + n; i++) {
                uint8_t *p = (uint8_t *)a.at + i % l->guest->cell.ring * a.bytes;

                if (i > first && (uintptr_t)p % LINE >= a.bytes)
                        continue;
                if (a.written)
                        list_written(l, p);
                else
                        list_read(l, p);
        }
}

static void list_tables(struct limit *l, uint64_t first, uint64_t n)
{
        const struct guest *g = l->guest;

        for (uint64_t i = first; i < first + n; i++)
                list_read(l, fe_memory_at(g->mem, g->tables[i % g->buffers], 16));
}

static void list_ring(struct limit *l, uint64_t first, uint64_t n)
{
        const struct guest *g = l->guest;
        const struct fe_area_pointers at = fe_driver_pointers(g->driver);
        const struct area descs = { at.desc, 16, g->cell.packed };

        list_area(l, descs, first * g->slots, n * g->slots);
        if (g->cell.layout == LAYOUT_INDIRECT)
                list_tables(l, first, n);
        if (g->cell.packed) {
                list_read(l, at.driver_event);
                return;
        }
        list_area(l, (struct area){ at.avail->ring, 2, false }, first, n);
        list_area(l, (struct area){ at.used->ring, 8, true }, first, n);
        list_read(l, &at.avail->idx);
        list_written(l, &at.used->idx);
}

void limit_prepare(struct limit *l, uint64_t first, struct rte_mbuf **pkts, uint16_t n)
{
        const unsigned int each = guest_buffers_of_packet(&l->guest->cell);

        l->n_pieces = l->n_read = l->n_written = 0;
        list_ring(l, first, (uint64_t)n * each);
        for (uint16_t i = 0; i < n; i++, first += each)
                list_packet(l, pkts[i], first);
}
