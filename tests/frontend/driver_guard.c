/* SPDX-License-Identifier: BSD-3-Clause */

/* What a device may not touch: paint it before, look at it after. */

#include "frontend/driver_priv.h"

#include <errno.h>

static uint64_t print_bytes(uint64_t print, const struct fe_memory *m, uint64_t gpa, uint64_t len)
{
        uint8_t chunk[256];

        while (len > 0) {
                uint64_t n = len < sizeof(chunk) ? len : sizeof(chunk);

                if (fe_memory_read(m, gpa, chunk, n) < 0)
                        return 0;
                for (uint64_t i = 0; i < n; i++)
                        print = (print ^ chunk[i]) * UINT64_C(0x100000001b3);
                gpa += n;
                len -= n;
        }
        return print;
}

static uint64_t readable_print(const struct fe_driver *d, const struct fe_slot *s)
{
        uint64_t print = UINT64_C(0xcbf29ce484222325);

        for (unsigned int i = 0; i < s->n_segs; i++)
                if (!s->segs[i].write)
                        print = print_bytes(print, d->p.mem, s->segs[i].gpa, s->segs[i].len);
        return print;
}

static uint64_t table_print(const struct fe_driver *d, const struct fe_slot *s)
{
        return s->table ? print_bytes(1, d->p.mem, s->table, (uint64_t)s->n_segs * 16) : 0;
}

void fe_guard_arm(struct fe_driver *d, struct fe_slot *s)
{
        for (unsigned int i = 0; i < s->n_segs; i++) {
                const struct fe_seg *g = &s->segs[i];

                fe_memory_paint(d->p.mem, g->gpa - g->canary, g->canary);
                fe_memory_paint(d->p.mem, g->gpa + g->len, g->canary);
                if (g->write)
                        fe_memory_paint(d->p.mem, g->gpa, g->len);
        }
        s->fingerprint = readable_print(d, s);
        s->table_print = table_print(d, s);
}

static int check_seg(struct fe_driver *d, uint16_t id, unsigned int i, uint64_t used)
{
        const struct fe_seg *g = &d->slot[id].segs[i];
        const struct fe_memory *m = d->p.mem;
        uint64_t good;

        if (fe_memory_untouched(m, g->gpa - g->canary, g->canary) < g->canary)
                return fe_fail(&d->error, EBADMSG, "buffer %u: bytes before segment %u written", id,
                               i);
        good = fe_memory_untouched(m, g->gpa + g->len, g->canary);
        if (good < g->canary)
                return fe_fail(&d->error, EBADMSG, "buffer %u: byte %ju behind segment %u written",
                               id, (uintmax_t)good, i);
        if (!g->write)
                return 0;
        good = fe_memory_untouched(m, g->gpa + used, g->len - used);
        if (good < g->len - used)
                return fe_fail(&d->error, EBADMSG,
                               "buffer %u: byte %ju of segment %u written, used length ends at %ju",
                               id, (uintmax_t)(used + good), i, (uintmax_t)used);
        return 0;
}

int fe_guard_check(struct fe_driver *d, uint16_t id, uint64_t len)
{
        const struct fe_slot *s = &d->slot[id];
        int err;

        for (unsigned int i = 0; i < s->n_segs; i++) {
                uint64_t here = s->segs[i].write ? s->segs[i].len : 0;

                if (here > len)
                        here = len;
                len -= here;
                err = check_seg(d, id, i, here);
                if (err < 0)
                        return err;
        }
        if (readable_print(d, s) != s->fingerprint)
                return fe_fail(&d->error, EBADMSG, "buffer %u: device-readable bytes changed", id);
        if (table_print(d, s) != s->table_print)
                return fe_fail(&d->error, EBADMSG, "buffer %u: indirect table changed", id);
        return 0;
}
