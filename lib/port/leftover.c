/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/leftover.h"

#include <errno.h>
#include <stdlib.h>

#include "sw-fallback/publish.h"

/* Does the front-end keep a region that has a place for this ring? */
static bool has_place(const struct vql_session *s, uint16_t index)
{
        return s->inflight && index < s->inflight_queues;
}

int vql_leftover_find(const struct vql_session *s, uint16_t index,
                      const struct vql_inflight_ring *ring, struct vql_leftover *ret_leftover,
                      struct vql_error *e)
{
        struct vql_leftover l = { .found = false };
        int rc = has_place(s, index) ? vql_inflight_recover(s->inflight, index, ring) : -ENODATA;

        if (rc == 0)
                rc = vql_inflight_read(s->inflight, index, ring->size, &l.at);
        if (rc == 0)
                rc = vql_inflight_list(s->inflight, index, ring->size, &l.chains);
        if (rc == -ENOMEM)
                return vql_fail(e, ENOMEM, "ring %u: out of memory", index);
        if (rc < 0 && rc != -ENODATA)
                return vql_fail(e, -rc,
                                "ring %u: the in-flight region says what cannot be of a ring of %u",
                                index, ring->size);
        if (rc >= 0) {
                l.found = true;
                l.n = (uint16_t)rc;
                l.at.avail = l.at.used;
                l.at.avail_wrap = l.at.used_wrap;
        }
        *ret_leftover = l;
        return 0;
}

void vql_leftover_fini(struct vql_leftover *l)
{
        free(l->chains);
        l->chains = NULL;
        l->n = 0;
}

/* In batches, each of which is finished in the region before the next: a cut finds one at most. */
static void give_back(const struct vql_leftover *l, const struct vql_session *s, uint16_t index,
                      struct vql_queue *q)
{
        const struct vql_traits t = { .packed = q->packed, .rx = q->rx, .logging = q->log != NULL };
        struct vql_inflight_ring ring = { .size = q->size, .desc = q->packed_ring };
        struct vql_done done[VQL_BURST];
        uint16_t n;

        q->position = NULL; /* the region is written by hand, in an order of its own */
        for (uint16_t at = 0; at < l->n; at = (uint16_t)(at + n)) {
                n = (uint16_t)RTE_MIN(l->n - at, VQL_BURST);
                for (uint16_t i = 0; i < n; i++)
                        done[i] = (struct vql_done){ 0, l->chains[at + i].id,
                                                     l->chains[at + i].slots };
                vql_inflight_return(s->inflight, index, q->size, &l->chains[at], n);
                vql_commit(q, t, done, n);
                ring.used_idx = q->last_used;
                vql_inflight_recover(s->inflight, index, &ring);
        }
}

bool vql_leftover_return(const struct vql_leftover *l, const struct vql_session *s, uint16_t index,
                         struct vql_queue *q)
{
        struct vql_cursor at;

        if (!has_place(s, index))
                return false;
        if (l->n > 0)
                give_back(l, s, index, q);
        at = vql_queue_cursor(q);
        vql_inflight_settle(s->inflight, index, &at);
        if (q->packed)
                q->position = vql_inflight_position(s->inflight, index);
        return true;
}
