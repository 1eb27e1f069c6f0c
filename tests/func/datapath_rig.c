/* SPDX-License-Identifier: BSD-3-Clause */
#include "datapath_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bare_queue.h"
#include "base/bits.h"
#include "virtqueue/features.h"

enum { ARENA_BYTES = 2 << 20, CROSSING_BYTES = 150000 };

/* ---- numbers ---- */

static uint64_t next_random(struct dp_rig *r)
{
        r->random ^= r->random << 13;
        r->random ^= r->random >> 7;
        r->random ^= r->random << 17;
        return r->random * UINT64_C(0x2545f4914f6cdd1d);
}

uint32_t dp_random(struct dp_rig *r, uint32_t below)
{
        return (uint32_t)((next_random(r) >> 32) * below >> 32);
}

uint32_t dp_between(struct dp_rig *r, uint32_t lo, uint32_t hi)
{
        return lo + dp_random(r, hi - lo + 1);
}

bool dp_once_in(struct dp_rig *r, uint32_t n)
{
        return dp_random(r, n) == 0;
}

uint32_t dp_random_size(struct dp_rig *r)
{
        uint32_t kind = dp_random(r, 64);

        if (kind == 0)
                return dp_once_in(r, 2) ? 65536 : dp_between(r, 9000, 65536);
        if (kind < 6)
                return dp_between(r, 1500, 9000);
        if (kind < 24)
                return dp_between(r, 200, 1600);
        return dp_between(r, 1, 200);
}

void dp_fill(uint8_t *to, size_t len, uint64_t seed)
{
        uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;

        for (size_t i = 0; i < len; i++) {
                x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
                to[i] = (uint8_t)(x >> 56);
        }
}

/* ---- complaints ---- */

void dp_fail(const struct dp_rig *r, int line, const char *fmt, ...)
{
        static const char *const shapes[] = { "direct", "indirect", "mixed" };
        static const char *const headers[] = { "own", "with", "spread", "legacy" };
        static const char *const layouts[] = { "one region", "pc", "mosaic" };
        const struct dp_scenario *s = &r->s;
        va_list ap;

        fprintf(stderr,
                "%s (%s)%s%s, %s, header %s, %s, size %u, start %u%s: buffers %u added %u "
                "published "
                "%u used %u got\nline %d: ",
                s->instance->name, s->set->name, s->event_idx ? ", event index" : "",
                s->in_order ? ", in order" : "", shapes[s->shape], headers[s->header],
                layouts[s->layout], s->size, s->start, s->wrap_0 ? " wrap 0" : "", r->added,
                r->published, r->used, r->got, line);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fprintf(stderr, "\nto repeat: --seed %ju --scenario %u\n", (uintmax_t)s->seed, s->number);
        fail();
        abort();
}

/* ---- the world ---- */

void dp_world_init(struct dp_world *w)
{
        uint64_t end = 0;

        for (int i = 0; i < DP_LAYOUTS; i++) {
                assert_int_equal(fe_memory_new_layout((enum fe_layout)i, &w->mem[i]), 0);
                w->table[i] = bare_table_new(w->mem[i]);
                if (fe_memory_end(w->mem[i]) > end)
                        end = fe_memory_end(w->mem[i]);
        }
        w->log_bytes = (end >> VQL_LOG_PAGE_SHIFT) / 8 + 1;
        for (int i = 0; i < 2; i++)
                w->bits[i] = calloc(1, w->log_bytes);
        w->may = calloc(1, w->log_bytes);
        assert_true(w->bits[0] && w->bits[1] && w->may);
        w->call_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        assert_true(w->call_fd >= 0);
}

void dp_world_fini(struct dp_world *w)
{
        for (int i = 0; i < DP_LAYOUTS; i++) {
                vql_mem_table_put(w->table[i]);
                fe_memory_free(w->mem[i]);
        }
        free(w->bits[0]);
        free(w->bits[1]);
        free(w->may);
        close(w->call_fd);
}

/* ---- the rig ---- */

/* Regions that hold a ring and an arena, in each layout. */
static int random_region(struct dp_rig *r)
{
        static const int pc[] = { 1, 2 }, mosaic[] = { 0, 2, 3 };

        if (r->s.layout == FE_PC)
                return pc[dp_random(r, 2)];
        return r->s.layout == FE_MOSAIC ? mosaic[dp_random(r, 3)] : 0;
}

/*
 * In the mosaic the first arena lies across three regions, the middle one of a single page, and is
 * small, so that buffers come to lie over the borders again and again.
 */
static void make_arenas(struct dp_rig *r)
{
        for (int i = 0; i < DP_ARENAS; i++) {
                struct dp_arena *a = &r->arena[i];
                int region = r->s.layout == FE_PC ? 1 + i : r->s.layout == FE_MOSAIC ? 3 : 0;
                bool across = r->s.layout == FE_MOSAIC && i == 0;

                *a = (struct dp_arena){ .size = across ? CROSSING_BYTES : ARENA_BYTES };
                if (across)
                        a->gpa = fe_memory_cross(r->mem, 0, CROSSING_BYTES / 2);
                else
                        assert_int_equal(fe_memory_alloc(r->mem, region, a->size, 1, &a->gpa), 0);
        }
}

static void make_driver(struct dp_rig *r)
{
        const struct fe_driver_params p = {
                .mem = r->mem,
                .region = random_region(r),
                .size = r->s.size,
                .packed = r->s.instance->traits.packed,
                .event_idx = r->s.event_idx,
                .in_order = r->s.in_order,
                /* Our own guard of receive buffers knows of packets that were taken back. */
                .guard = !r->s.instance->traits.rx,
                .pick = (enum fe_pick)dp_random(r, 3),
                .seed = dp_random(r, UINT32_MAX),
                .start = r->s.start,
                .start_wrap_0 = r->s.wrap_0,
        };
        struct fe_text e;

        if (fe_driver_new(&p, &r->d, &e) < 0)
                dp_fail(r, __LINE__, "driver: %s", e.s);
}

static uint64_t features(const struct dp_scenario *s)
{
        const struct vql_traits *t = &s->instance->traits;
        uint64_t f = vql_bit(VIRTIO_RING_F_INDIRECT_DESC);

        if (s->header != DP_HEADER_LEGACY)
                f |= vql_bit(VIRTIO_F_VERSION_1);
        if (t->mergeable)
                f |= vql_bit(VIRTIO_NET_F_MRG_RXBUF);
        if (t->offloads)
                f |= vql_bit(t->rx ? VIRTIO_NET_F_GUEST_CSUM : VIRTIO_NET_F_CSUM);
        return f;
}

static void make_queue(struct dp_rig *r)
{
        const struct vql_traits *t = &r->s.instance->traits;
        const struct bare_params p = {
                .d = r->d,
                .table = r->world->table[r->s.layout],
                .features = features(&r->s),
                .rx = t->rx,
                .call_fd = r->world->call_fd,
                .log = t->logging ? &r->log : NULL,
                .set = r->s.set,
        };

        r->log = (struct vql_dirty_log){ r->world->bits[0], r->world->log_bytes, 0 };
        bare_queue_init(&r->q, &p);
        assert_ptr_equal(vql_burst_select(&r->q, r->s.set), r->s.instance);
}

static void clear_logs(struct dp_rig *r)
{
        memset(r->world->bits[0], 0, r->world->log_bytes);
        memset(r->world->bits[1], 0, r->world->log_bytes);
        memset(r->world->may, 0, r->world->log_bytes);
}

void dp_rig_init(struct dp_rig *r, struct dp_world *w, const struct dp_scenario *s)
{
        const bool packed = s->instance->traits.packed;
        uint64_t count;

        memset(r, 0, sizeof(*r));
        r->s = *s;
        r->world = w;
        r->mem = w->mem[s->layout];
        r->random = (s->seed + s->number) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        fe_memory_free_all(r->mem);
        make_driver(r);
        make_arenas(r);
        make_queue(r);
        if (s->instance->traits.logging)
                clear_logs(r);
        while (read(w->call_fd, &count, sizeof(count)) > 0)
                ;
        r->chain = calloc(DP_CHAINS, sizeof(*r->chain));
        r->desc_copy = malloc(vql_area_bytes(VQL_AREA_DESC, s->size, packed));
        r->driver_copy = malloc(vql_area_bytes(VQL_AREA_DRIVER, s->size, packed));
        assert_true(r->chain && r->desc_copy && r->driver_copy);
        /* As the driver's memory says when it is new. */
        r->kicks = (struct dp_wish){ s->event_idx && !packed ? DP_AT : DP_ALWAYS, 0 };
        r->calls = r->kicks;
}

void dp_rig_fini(struct dp_rig *r)
{
        fe_driver_free(r->d);
        free(r->chain);
        free(r->desc_copy);
        free(r->driver_copy);
}
