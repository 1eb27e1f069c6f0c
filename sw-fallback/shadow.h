/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_SHADOW_H
#define VQLIFT_SW_FALLBACK_SHADOW_H

/*
 * A shadow ring: a ring in our own memory, on which a device works and we are the driver.  Here is
 * its format and nothing else; which chains are in it is the relay's business (relay_impl.h).
 *
 * A device is not trusted: what it may write is read once, and checked by the caller.
 *
 * Threads: the owner of the relay.
 */

#include <stdbool.h>
#include <stdint.h>

#include <rte_atomic.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "virtqueue/ring.h"

struct vql_shadow {
        union {
                struct vring_desc *desc;
                struct vring_packed_desc *packed_ring;
        };
        union {
                struct vring_avail *avail;
                struct vring_packed_desc_event *driver_event;
        };
        union {
                struct vring_used *used;
                struct vring_packed_desc_event *device_event;
        };
        uint16_t size;
        bool packed, event_idx;

        /* Where we offer and where we take back.  Split: free-running; packed: slots. */
        uint16_t next_avail, next_used;
        uint8_t avail_wrap, used_wrap;
        uint32_t hidden;   /* offered, not visible: split: chains; packed: slots */
        uint16_t *showing; /* packed: the flags that make them visible, */
        uint16_t shown;    /* and what they will be */
};

/* A used element as read once. */
struct vql_shadow_used {
        uint32_t id, len;
};

/* Begin anew in these areas at the initial position, with the device's interrupts off. */
void vql_shadow_init(struct vql_shadow *s, void *const area[VQL_AREA_COUNT]);

/* Ask for an interrupt when the next chain is returned, then look: true means it is there. */
bool vql_shadow_calls_on(struct vql_shadow *s);
void vql_shadow_calls_off(struct vql_shadow *s);

/* Does the device want to know of the last `n` chains (packed: slots), which are visible? */
bool vql_shadow_wants_kick(const struct vql_shadow *s, uint32_t n);

/*
 * Offer a chain of n entries, linked by `next` from `head` on, whose id is `head`.  Entries have
 * the form of split descriptors, without NEXT.
 */
static __rte_always_inline void vql_shadow_put_split(struct vql_shadow *s,
                                                     const struct vring_desc *entry, uint16_t head,
                                                     uint32_t n)
{
        uint16_t at = head;

        for (; unlikely(n > 1); n--) {
                s->desc[at] = entry[at];
                s->desc[at].flags |= VRING_DESC_F_NEXT;
                at = entry[at].next;
        }
        s->desc[at] = entry[at];
        s->avail->ring[s->next_avail & (s->size - 1)] = head;
        s->next_avail++;
        s->hidden++;
}

static __rte_always_inline void vql_shadow_put_packed(struct vql_shadow *s,
                                                      const struct vring_desc *entry, uint16_t head,
                                                      uint32_t n)
{
        uint16_t at = head;

        for (; n > 0; n--, at = entry[at].next) {
                struct vring_packed_desc *d = &s->packed_ring[s->next_avail];
                const uint16_t flags = entry[at].flags | (n > 1 ? VRING_DESC_F_NEXT : 0) |
                                       (s->avail_wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED);
                const uint64_t word = entry[at].len | (uint64_t)head << 32 | (uint64_t)flags << 48;

                /* The device may look at any time, though it makes no use of it yet. */
                __atomic_store_n(&d->addr, entry[at].addr, __ATOMIC_RELAXED);
                if (s->hidden++ == 0) {
                        __atomic_store_n(&d->len, entry[at].len, __ATOMIC_RELAXED);
                        __atomic_store_n(&d->id, head, __ATOMIC_RELAXED);
                        s->showing = &d->flags;
                        s->shown = flags;
                } else {
                        __atomic_store_n((uint64_t *)(void *)&d->len, word, __ATOMIC_RELAXED);
                }
                if (unlikely(++s->next_avail == s->size)) {
                        s->next_avail = 0;
                        s->avail_wrap ^= 1;
                }
        }
}

/* Make visible what was put.  Returns how much that is, for vql_shadow_wants_kick(). */
static __rte_always_inline uint32_t vql_shadow_show(struct vql_shadow *s, bool packed)
{
        const uint32_t n = s->hidden;

        s->hidden = 0;
        /* Devices are not in the domain that release orders on every CPU. */
        rte_io_wmb();
        if (packed)
                __atomic_store_n(s->showing, s->shown, __ATOMIC_RELEASE);
        else
                __atomic_store_n(&s->avail->idx, s->next_avail, __ATOMIC_RELEASE);
        return n;
}

/* Split: chains that the device says it returned.  What it says beyond 65535 cannot be told. */
static __rte_always_inline uint16_t vql_shadow_returned(const struct vql_shadow *s)
{
        const uint16_t n =
                (uint16_t)(__atomic_load_n(&s->used->idx, __ATOMIC_ACQUIRE) - s->next_used);

        rte_io_rmb();
        return n;
}

static __rte_always_inline struct vql_shadow_used vql_shadow_read_split(const struct vql_shadow *s)
{
        const struct vring_used_elem *u = &s->used->ring[s->next_used & (s->size - 1)];
        const uint64_t word = __atomic_load_n((const uint64_t *)(const void *)u, __ATOMIC_RELAXED);

        return (struct vql_shadow_used){ (uint32_t)word, (uint32_t)(word >> 32) };
}

/* False: the next slot was not returned. */
static __rte_always_inline bool vql_shadow_read_packed(const struct vql_shadow *s,
                                                       struct vql_shadow_used *ret_used)
{
        const struct vring_packed_desc *d = &s->packed_ring[s->next_used];
        uint64_t word;

        if (!vql_packed_is_used(__atomic_load_n(&d->flags, __ATOMIC_ACQUIRE), s->used_wrap))
                return false;
        rte_io_rmb();
        word = __atomic_load_n((const uint64_t *)(const void *)&d->len, __ATOMIC_RELAXED);
        *ret_used = (struct vql_shadow_used){ (uint16_t)(word >> 32), (uint32_t)word };
        return true;
}

/* The next one: a chain (packed: of n slots) was taken back. */
static __rte_always_inline void vql_shadow_step(struct vql_shadow *s, bool packed, uint32_t n)
{
        uint32_t to = s->next_used + (packed ? n : 1);

        if (packed && unlikely(to >= s->size)) {
                to -= s->size;
                s->used_wrap ^= 1;
        }
        s->next_used = (uint16_t)to;
}

#endif
