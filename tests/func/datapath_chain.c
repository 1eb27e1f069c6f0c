/* SPDX-License-Identifier: BSD-3-Clause */

/* Buffers of random shape in guest memory. */

#include "datapath_rig.h"

#include <string.h>

#include <rte_common.h>

/* ---- memory ---- */

static bool arena_alloc(struct dp_arena *a, uint64_t len, uint64_t align, uint64_t *ret_gpa)
{
        uint64_t at = a->gpa + a->head % a->size;
        uint64_t pad = (align - at % align) % align;

        /* What does not fit before the end begins again at the start. */
        if (a->head % a->size + pad + len > a->size) {
                pad = a->size - a->head % a->size;
                pad += (align - a->gpa % align) % align;
        }
        if (a->head + pad + len - a->tail > a->size)
                return false;
        *ret_gpa = a->gpa + (a->head + pad) % a->size;
        a->head += pad + len;
        return true;
}

static bool place(struct dp_rig *r, struct fe_seg *s)
{
        struct dp_arena *a = &r->arena[dp_random(r, DP_ARENAS)];

        if (!arena_alloc(a, s->len + 2u * DP_CANARY, 1, &s->gpa))
                return false;
        s->gpa += DP_CANARY;
        return true;
}

/* ---- shapes ---- */

/* Cut `len` bytes into n pieces, none empty. */
static void cut(struct dp_rig *r, struct fe_seg *s, unsigned int n, uint32_t len)
{
        for (unsigned int i = 0; i < n; i++) {
                uint32_t rest = n - 1 - i, most = len - rest;

                s[i].len = rest == 0 ? len : dp_between(r, 1, most < 4 ? most : most / 2);
                len -= s[i].len;
        }
}

static unsigned int header_pieces(struct dp_rig *r, uint32_t header)
{
        switch (r->s.header) {
        case DP_HEADER_OWN:
                return 1;
        case DP_HEADER_SPREAD:
                return dp_between(r, 1, header);
        case DP_HEADER_LEGACY:
                return dp_random(r, 2);
        default:
                return 0;
        }
}

static unsigned int payload_pieces(struct dp_rig *r, uint32_t payload)
{
        uint32_t n = dp_once_in(r, 8) ? dp_between(r, 2, 19) : dp_between(r, 1, 3);

        return n < payload ? n : payload;
}

static void insert_empty(struct dp_rig *r, struct dp_chain *c)
{
        unsigned int at = dp_random(r, c->n + 1);

        for (unsigned int i = c->n; i > at; i--)
                c->seg[i] = c->seg[i - 1];
        c->seg[at] = (struct fe_seg){ 0 };
        c->n++;
}

/* Header pieces, then payload pieces; the last of one may be the first of the other. */
static void shape(struct dp_rig *r, struct dp_chain *c, uint32_t header, uint32_t payload,
                  unsigned int max)
{
        unsigned int h = header_pieces(r, header), p = payload_pieces(r, payload);

        while (h + p > max && h + p > 1) {
                if (p > 1 || h == 0)
                        p--;
                else
                        h--;
        }
        if (h == 0 || p == 0) {
                c->n = h + p ? h + p : 1;
                cut(r, c->seg, c->n, header + payload);
        } else {
                bool joined = r->s.header == DP_HEADER_SPREAD && dp_once_in(r, 2);
                unsigned int at = joined ? h - 1 : h;
                uint32_t tail;

                cut(r, c->seg, h, header);
                tail = joined ? c->seg[at].len : 0;
                cut(r, c->seg + at, p, payload);
                c->seg[at].len += tail;
                c->n = at + p;
        }
        if (c->n < max && dp_once_in(r, 16))
                insert_empty(r, c);
}

/* ---- buffers ---- */

static uint64_t print_table(struct dp_rig *r, const struct dp_chain *c)
{
        uint8_t bytes[16 * DP_SEGS];
        uint64_t print = UINT64_C(0xcbf29ce484222325);

        if (!c->table)
                return 0;
        fe_memory_read(r->mem, c->table, bytes, 16ull * c->n);
        for (size_t i = 0; i < 16ull * c->n; i++)
                print = (print ^ bytes[i]) * UINT64_C(0x100000001b3);
        return print;
}

static bool place_all(struct dp_rig *r, struct dp_chain *c, bool indirect)
{
        const bool rx = r->s.instance->traits.rx;

        c->table = 0;
        if (indirect &&
            !arena_alloc(&r->arena[dp_random(r, DP_ARENAS)], 16ull * c->n, 16, &c->table))
                return false;
        c->bytes = 0;
        for (unsigned int i = 0; i < c->n; i++) {
                c->seg[i].write = rx;
                c->seg[i].canary = DP_CANARY;
                c->bytes += c->seg[i].len;
                if (!place(r, &c->seg[i]))
                        return false;
        }
        return true;
}

static void paint(struct dp_rig *r, const struct dp_chain *c)
{
        for (unsigned int i = 0; i < c->n; i++)
                fe_memory_paint(r->mem, c->seg[i].gpa - DP_CANARY, c->seg[i].len + 2u * DP_CANARY);
}

struct dp_chain *dp_chain_add(struct dp_rig *r, const struct dp_load *load)
{
        const bool indirect =
                r->s.shape == DP_INDIRECT || (r->s.shape == DP_MIXED && dp_once_in(r, 2));
        unsigned int room = indirect ? r->s.size : fe_driver_free_slots(r->d);
        struct dp_chain *c = dp_chain(r, r->added);
        struct dp_arena before[DP_ARENAS];
        struct fe_chain f;
        int err;

        if (r->added - r->got == DP_CHAINS || fe_driver_free_slots(r->d) == 0)
                return NULL;
        *c = (struct dp_chain){ .kind = load->kind };
        memcpy(before, r->arena, sizeof(before));
        shape(r, c, load->header, load->payload, RTE_MIN(room, (unsigned int)DP_SEGS));
        if (!place_all(r, c, indirect)) {
                memcpy(r->arena, before, sizeof(before));
                return NULL;
        }
        for (int i = 0; i < DP_ARENAS; i++)
                c->arena_head[i] = r->arena[i].head;
        paint(r, c);
        if (load->fill)
                load->fill(r, c);
        f = (struct fe_chain){ c->seg, c->n, c->table, c };
        err = fe_driver_add(r->d, &f, NULL);
        DP_CHECK(r, err == 0, "add: %d, %s", err, fe_driver_error(r->d));
        c->table_print = print_table(r, c);
        c->slots = (uint16_t)(c->table || !r->q.packed ? 1 : c->n);
        r->added++;
        r->at_added += c->slots;
        return c;
}

struct dp_chain *dp_chain(struct dp_rig *r, uint32_t number)
{
        return &r->chain[number % DP_CHAINS];
}

/* Is everything around and behind what the device wrote as it was? */
void dp_check_guard(struct dp_rig *r, const struct dp_chain *c)
{
        uint64_t written = RTE_MAX(c->used, c->soil);

        for (unsigned int i = 0; i < c->n; i++) {
                const struct fe_seg *s = &c->seg[i];
                uint64_t here = RTE_MIN(written, (uint64_t)s->len);
                uint64_t rest = s->len - here + DP_CANARY, good;

                good = fe_memory_untouched(r->mem, s->gpa - DP_CANARY, DP_CANARY);
                DP_CHECK(r, good == DP_CANARY, "segment %u of %u: bytes before it changed", i,
                         c->n);
                good = fe_memory_untouched(r->mem, s->gpa + here, rest);
                DP_CHECK(r, good == rest, "segment %u of %u, %u bytes: byte %ju changed, %ju used",
                         i, c->n, s->len, (uintmax_t)(here + good), (uintmax_t)here);
                written -= here;
        }
        DP_CHECK(r, print_table(r, c) == c->table_print, "indirect table changed");
}
