/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_WALK_H
#define VQLIFT_SW_FALLBACK_WALK_H

/*
 * Step two of a burst: from a claimed chain to pieces of host memory.  The walker hands out a chain
 * piece by piece, each contiguous in this process; it follows next links, indirect tables and
 * borders between memory regions, reads each descriptor once, and bounds every loop.
 */

#include <string.h>

#include "sw-fallback/claim.h"

struct vql_walk {
        struct vql_desc d; /* current descriptor; addr and len shrink as it is handed out */
        uint32_t left;     /* descriptors that may still follow */
        uint32_t at;       /* split: unused; packed: slot of d; packed indirect: entry of d */
        uint64_t table;    /* guest address of the indirect table */
        uint32_t entries;  /* of the indirect table; 0: d is in the ring */
};

struct vql_piece {
        uint8_t *va;
        uint64_t gpa; /* for the dirty log */
        uint32_t len;
};

static inline void vql_walk_begin(struct vql_walk *w, const struct vql_queue *q,
                                  struct vql_traits t, const struct vql_claim *c)
{
        w->d = c->d;
        w->left = t.packed ? c->slots - 1u : q->size - 1u;
        w->at = c->slot;
        w->table = 0;
        w->entries = 0;
}

/* Read entry i of an indirect table, which may itself cross from region to region. */
static inline bool vql_walk_entry(struct vql_queue *q, struct vql_traits t, struct vql_walk *w,
                                  uint32_t i)
{
        _Alignas(16) uint8_t bytes[sizeof(struct vring_desc)];
        uint64_t gpa = w->table + (uint64_t)i * sizeof(bytes);
        uint32_t got = 0;

        while (got < sizeof(bytes)) {
                uint64_t len = sizeof(bytes) - got;
                const uint8_t *va = vql_mem_at(q->mem, &q->hit, gpa + got, &len);

                if (unlikely(!va)) {
                        vql_queue_fail(q, VQL_FAULT_DESC_ADDRESS);
                        return false;
                }
                memcpy(bytes + got, va, len);
                got += (uint32_t)len;
        }
        if (t.packed)
                w->d = vql_packed_desc_read((const struct vring_packed_desc *)(void *)bytes);
        else
                w->d = vql_desc_read((const struct vring_desc *)(void *)bytes);
        w->at = i;
        return true;
}

/* Does guest memory hold all of a table?  What lies behind the entries that are used counts too. */
static inline bool vql_walk_covered(struct vql_queue *q, uint64_t gpa, uint64_t len)
{
        while (len > 0) {
                uint64_t here = len;

                if (unlikely(!vql_mem_at(q->mem, &q->hit, gpa, &here)))
                        return false;
                gpa += here;
                len -= here;
        }
        return true;
}

/* The current descriptor points to a table: go there. */
static inline bool vql_walk_enter(struct vql_queue *q, struct vql_traits t, struct vql_walk *w)
{
        uint32_t entries = w->d.len / sizeof(struct vring_desc);

        if (unlikely(w->entries != 0 || (w->d.flags & VRING_DESC_F_NEXT) || entries == 0 ||
                     w->d.len % sizeof(struct vring_desc) != 0 || entries > q->size)) {
                vql_queue_fail(q, VQL_FAULT_INDIRECT);
                return false;
        }
        if (unlikely(!vql_walk_covered(q, w->d.addr, w->d.len))) {
                vql_queue_fail(q, VQL_FAULT_DESC_ADDRESS);
                return false;
        }
        w->table = w->d.addr;
        w->entries = entries;
        w->left = entries - 1;
        if (!vql_walk_entry(q, t, w, 0))
                return false;
        if (unlikely(w->d.flags & VRING_DESC_F_INDIRECT)) {
                vql_queue_fail(q, VQL_FAULT_INDIRECT);
                return false;
        }
        return true;
}

static inline bool vql_walk_follow_ring(struct vql_queue *q, struct vql_traits t,
                                        struct vql_walk *w)
{
        uint16_t next = w->d.next;

        if (t.packed) {
                w->at = w->at + 1 == q->size ? 0 : w->at + 1;
                w->d = vql_packed_desc_read(&q->packed_ring[w->at]);
                return true;
        }
        if (unlikely(next >= q->size)) {
                vql_queue_fail(q, VQL_FAULT_DESC_INDEX);
                return false;
        }
        w->d = vql_desc_read(&q->desc[next]);
        return true;
}

static inline bool vql_walk_follow_table(struct vql_queue *q, struct vql_traits t,
                                         struct vql_walk *w)
{
        /* Packed tables are read in order and have no next (virtio 1.2, 2.8.8). */
        uint32_t next = t.packed ? w->at + 1 : w->d.next;

        if (unlikely(next >= w->entries)) {
                vql_queue_fail(q, VQL_FAULT_DESC_INDEX);
                return false;
        }
        if (!vql_walk_entry(q, t, w, next))
                return false;
        if (unlikely(w->d.flags & VRING_DESC_F_INDIRECT)) {
                vql_queue_fail(q, VQL_FAULT_INDIRECT);
                return false;
        }
        return true;
}

/* Does another descriptor follow the current one? */
static inline bool vql_walk_more(struct vql_traits t, const struct vql_walk *w)
{
        if (t.packed) /* the claim has counted the slots, a table has its length */
                return w->left > 0;
        return w->d.flags & VRING_DESC_F_NEXT;
}

/* Go to the next descriptor.  False: the chain has ended, or q->fault says why not. */
static inline bool vql_walk_follow(struct vql_queue *q, struct vql_traits t, struct vql_walk *w)
{
        if (!vql_walk_more(t, w))
                return false;
        if (unlikely(w->left == 0)) {
                vql_queue_fail(q, VQL_FAULT_DESC_LOOP);
                return false;
        }
        w->left--;
        return w->entries ? vql_walk_follow_table(q, t, w) : vql_walk_follow_ring(q, t, w);
}

/*
 * The next piece of the chain, at most `want` bytes (not 0).  False at the end of the chain and on
 * a fault, which is then in q->fault.  The direction must fit: device-writable for packets to the
 * guest, readable for packets from it.
 */
static inline bool vql_walk_next(struct vql_queue *q, struct vql_traits t, struct vql_walk *w,
                                 uint32_t want, struct vql_piece *ret_piece)
{
        uint64_t len;

        while (w->d.flags & VRING_DESC_F_INDIRECT || w->d.len == 0) {
                bool moved = w->d.flags & VRING_DESC_F_INDIRECT ? vql_walk_enter(q, t, w)
                                                                : vql_walk_follow(q, t, w);

                if (!moved)
                        return false;
        }
        if (unlikely(!!(w->d.flags & VRING_DESC_F_WRITE) != t.rx)) {
                vql_queue_fail(q, VQL_FAULT_DESC_DIRECTION);
                return false;
        }
        len = w->d.len < want ? w->d.len : want;
        ret_piece->gpa = w->d.addr;
        ret_piece->va = vql_mem_at(q->mem, &q->hit, w->d.addr, &len);
        if (unlikely(!ret_piece->va)) {
                vql_queue_fail(q, VQL_FAULT_DESC_ADDRESS);
                return false;
        }
        ret_piece->len = (uint32_t)len;
        w->d.addr += len;
        w->d.len -= (uint32_t)len;
        return true;
}

#endif
