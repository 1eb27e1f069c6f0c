/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/pending.h"

#include <stdlib.h>

#include "sw-fallback/publish.h"

struct vql_pending *vql_pending_new(uint32_t chains, uint32_t buffers)
{
        struct vql_pending *p = calloc(1, sizeof(*p));

        if (!p)
                return NULL;
        p->chain = calloc(chains, sizeof(*p->chain));
        p->buffer = calloc(buffers, sizeof(*p->buffer));
        if (!p->chain || !p->buffer) {
                vql_pending_free(p);
                return NULL;
        }
        return p;
}

void vql_pending_free(struct vql_pending *p)
{
        if (!p)
                return;
        free(p->chain);
        free(p->buffer);
        free(p);
}

uint32_t vql_pending_count(const struct vql_pending *p)
{
        return p ? p->n - p->at : 0;
}

uint32_t vql_pending_slots(const struct vql_pending *p)
{
        uint32_t slots = 0;

        for (uint32_t i = p ? p->at : 0; p && i < p->n; i++)
                slots += p->chain[i].slots;
        return slots;
}

uint32_t vql_pending_return(struct vql_pending *p, struct vql_queue *q)
{
        const struct vql_traits t = { .packed = q->packed, .rx = q->rx, .logging = q->log != NULL };
        const uint32_t count = vql_pending_count(p);
        struct vql_done done[VQL_BURST];
        uint16_t n = 0;

        for (uint32_t i = 0; i < count; i++) {
                const struct vql_pending_chain *c = &p->chain[p->at + i];

                done[n++] = (struct vql_done){ 0, c->id, c->slots };
                if (n == VQL_BURST || i + 1 == count) {
                        vql_commit_some(q, t, done, n);
                        n = 0;
                }
        }
        if (count > 0)
                vql_signal_used(q);
        if (!q->rx)
                vql_count(&q->drop_uplink, count);
        vql_pending_free(p);
        return count;
}
