/* SPDX-License-Identifier: BSD-3-Clause */

/* What the driver and the device do in turn, and what each of them must see then. */

#include "datapath_rig.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- positions and wishes ---- */

/* After how many steps a position looks the same to the other side. */
static int64_t lap(const struct dp_rig *r)
{
        return r->q.packed ? 2 * (int64_t)r->s.size : 65536;
}

/* Is the other side to be told that its peer went from `from` to `to`?  (virtio 1.2, 2.7.7,
 * 2.7.10, 2.8.10: by the positions themselves.) */
static bool due(const struct dp_rig *r, const struct dp_wish *w, int64_t from, int64_t to)
{
        int64_t ahead = (w->at - from) % lap(r);

        if (from == to || w->mode == DP_NEVER)
                return false;
        return w->mode == DP_ALWAYS || (ahead < 0 ? ahead + lap(r) : ahead) < to - from;
}

/* ---- the log ---- */

static void mark(uint8_t *bits, uint64_t gpa, uint64_t len)
{
        for (uint64_t p = gpa >> VQL_LOG_PAGE_SHIFT; len && p <= (gpa + len - 1) >> 12; p++)
                bits[p / 8] |= (uint8_t)(1u << p % 8);
}

static void mark_chain(struct dp_rig *r, uint8_t *bits, const struct dp_chain *c, uint32_t len)
{
        for (unsigned int i = 0; i < c->n && len > 0; i++) {
                uint32_t here = c->seg[i].len < len ? c->seg[i].len : len;

                if (r->s.instance->traits.logging)
                        mark(bits, c->seg[i].gpa, here);
                len -= here;
        }
}

void dp_wrote(struct dp_rig *r, struct dp_chain *c, uint32_t len)
{
        c->used = len;
        mark_chain(r, r->world->bits[1], c, len);
}

void dp_may_have_written(struct dp_rig *r, struct dp_chain *c, uint32_t len)
{
        if (len > c->soil)
                c->soil = len;
        mark_chain(r, r->world->may, c, len);
}

static void mark_device_area(struct dp_rig *r, uint64_t off, uint64_t len)
{
        if (r->s.instance->traits.logging)
                mark(r->world->bits[1], fe_driver_areas(r->d).device + off, len);
}

/* Used elements of the buffers first to last - 1, which begin at position `at`. */
static void mark_used(struct dp_rig *r, uint32_t first, uint32_t last, int64_t at)
{
        if (!r->s.instance->traits.logging || first == last)
                return;
        if (!r->q.packed)
                mark_device_area(r, 2, 2);
        for (uint32_t i = first; i < last; i++) {
                uint64_t slot = (uint64_t)(r->s.start + at) % r->s.size;

                if (r->q.packed)
                        mark(r->world->bits[1], fe_driver_areas(r->d).desc + 16 * slot, 16);
                else
                        mark_device_area(r, 4 + 8 * slot, 8);
                at += dp_chain(r, i)->slots;
        }
}

/* The pages that had to be marked, all of them and no others but those that may be. */
static void check_log(struct dp_rig *r)
{
        const uint8_t *is = r->world->bits[0], *must = r->world->bits[1], *may = r->world->may;

        if (!r->s.instance->traits.logging)
                return;
        DP_CHECK(r, r->log.dropped == 0, "%ju pages outside the log", (uintmax_t)r->log.dropped);
        if (memcmp(is, must, r->world->log_bytes) == 0)
                return;
        for (uint64_t i = 0; i < r->world->log_bytes; i++)
                DP_CHECK(r, !(must[i] & ~is[i]) && !(is[i] & ~(must[i] | may[i])),
                         "pages from %#jx on: marked %02x, expected %02x and perhaps %02x",
                         (uintmax_t)(i * 8 << VQL_LOG_PAGE_SHIFT), is[i], must[i], may[i]);
}

/* ---- the driver's moves ---- */

void dp_publish(struct dp_rig *r)
{
        bool want, is;

        fe_driver_publish(r->d);
        r->published = r->added;
        r->at_published = r->at_added;
        want = due(r, &r->kicks, r->at_kicked, r->at_published);
        is = fe_driver_kick_due(r->d);
        DP_CHECK(r, is == want, "published from %jd to %jd, kick wish %d at %jd: kick %d",
                 (intmax_t)r->at_kicked, (intmax_t)r->at_published, r->kicks.mode,
                 (intmax_t)r->kicks.at, is);
        r->at_kicked = r->at_published;
}

void dp_get(struct dp_rig *r, uint32_t n)
{
        while (n-- > 0) {
                struct dp_chain *c = dp_chain(r, r->got);
                struct fe_done done;
                int err = fe_driver_get(r->d, &done);

                DP_CHECK(r, err >= 0, "%s", fe_driver_error(r->d));
                DP_CHECK(r, err == (r->got < r->used), "%s to get", err ? "a buffer" : "nothing");
                if (err == 0)
                        return;
                DP_CHECK(r, done.cookie == c, "a later buffer came back");
                DP_CHECK(r, done.len == c->used, "used length %u, expected %u", done.len, c->used);
                for (int i = 0; i < DP_ARENAS; i++)
                        r->arena[i].tail = c->arena_head[i];
                r->got++;
                r->at_got += c->slots;
        }
}

void dp_toggle_calls(struct dp_rig *r)
{
        uint32_t far = r->q.packed ? r->s.size : 40;
        uint16_t after = 0;
        bool pending;

        if (dp_once_in(r, 3)) {
                fe_driver_calls_off(r->d);
                r->calls.mode = DP_NEVER;
                return;
        }
        if (r->s.event_idx && dp_once_in(r, 2))
                after = (uint16_t)dp_random(r, far < 40 ? far : 40);
        pending = fe_driver_calls_on(r->d, after);
        DP_CHECK(r, after > 0 || pending == (r->got < r->used), "pending %d", pending);
        r->calls.mode = r->s.event_idx ? DP_AT : DP_ALWAYS;
        r->calls.at = r->at_got + after;
}

/* ---- the device's moves ---- */

static void note_kick_wish(struct dp_rig *r, bool on)
{
        const uint64_t event = r->q.packed ? 0 : 4 + 8 * (uint64_t)r->s.size;
        const uint64_t flags = r->q.packed ? 2 : 0;

        if (r->q.packed || !r->s.event_idx)
                mark_device_area(r, flags, 2);
        if (on && r->s.event_idx)
                mark_device_area(r, event, 2);
        if (on)
                r->kicks = (struct dp_wish){ r->s.event_idx ? DP_AT : DP_ALWAYS, r->at_used };
        else if (r->q.packed || !r->s.event_idx)
                r->kicks.mode = DP_NEVER;
        /* Else the event index stays where it was, and is not met again for a lap. */
}

void dp_toggle_kicks(struct dp_rig *r)
{
        bool on = dp_once_in(r, 2), waiting = r->published > r->used;

        if (on)
                DP_CHECK(r, vql_notify_enable(&r->q) == waiting, "waiting is %d", waiting);
        else
                vql_notify_disable(&r->q);
        DP_CHECK(r, vql_queue_has_avail(&r->q) == waiting, "waiting is %d", waiting);
        note_kick_wish(r, on);
        check_log(r);
}

void dp_burst_begin(struct dp_rig *r)
{
        const struct fe_area_pointers at = fe_driver_pointers(r->d);

        memcpy(r->desc_copy, at.desc, vql_area_bytes(VQL_AREA_DESC, r->s.size, r->q.packed));
        memcpy(r->driver_copy, at.avail, vql_area_bytes(VQL_AREA_DRIVER, r->s.size, r->q.packed));
        vql_queue_read_counters(&r->q, &r->expect);
}

static void check_cursor(struct dp_rig *r)
{
        const struct vql_cursor c = vql_queue_cursor(&r->q);
        uint64_t at = (uint64_t)(r->s.start + r->at_used);
        uint16_t pos = (uint16_t)(r->q.packed ? at % r->s.size : at);
        const bool odd_lap = at / r->s.size % 2 != 0;
        uint8_t wrap = r->q.packed && r->s.wrap_0 == odd_lap;

        DP_CHECK(r, c.avail == pos && c.used == pos && c.avail_wrap == wrap && c.used_wrap == wrap,
                 "position %u/%u wraps %u/%u, expected %u wrap %u", c.avail, c.used, c.avail_wrap,
                 c.used_wrap, pos, wrap);
}

/* The device has nothing to write to these but used elements in the slots of heads. */
static void check_ring_areas(struct dp_rig *r, uint32_t first, int64_t at)
{
        const struct fe_area_pointers p = fe_driver_pointers(r->d);
        struct vring_packed_desc *copy = (void *)r->desc_copy;

        DP_CHECK(r,
                 memcmp(p.avail, r->driver_copy,
                        vql_area_bytes(VQL_AREA_DRIVER, r->s.size, r->q.packed)) == 0,
                 "driver area changed");
        for (; r->q.packed && first < r->used; first++) {
                uint64_t slot = (uint64_t)(r->s.start + at) % r->s.size;

                copy[slot].len = p.packed[slot].len;
                copy[slot].id = p.packed[slot].id;
                copy[slot].flags = p.packed[slot].flags;
                at += dp_chain(r, first)->slots;
        }
        DP_CHECK(r,
                 memcmp(p.desc, r->desc_copy,
                        vql_area_bytes(VQL_AREA_DESC, r->s.size, r->q.packed)) == 0,
                 "descriptors changed");
}

/*
 * Interrupts: with an event index the exact number, else one for each publication or none.  The
 * very first publication interrupts a driver that uses an event index whatever it says.
 */
static void check_calls(struct dp_rig *r, int64_t from)
{
        uint64_t sent = r->q.signals - r->expect.signals, count = 0;
        uint64_t publications = sent + r->q.signals_saved - r->expect.signals_saved;
        bool want = due(r, &r->calls, from, r->at_used);
        bool forced = !r->signalled && from != r->at_used && r->s.event_idx &&
                      (!r->q.packed || r->calls.mode == DP_AT);

        DP_CHECK(r, (publications > 0) == (from != r->at_used), "%ju publications",
                 (uintmax_t)publications);
        if (r->calls.mode == DP_ALWAYS)
                DP_CHECK(r, sent == publications, "%ju interrupts, expected %ju", (uintmax_t)sent,
                         (uintmax_t)publications);
        else
                DP_CHECK(r, sent >= (want || forced) && sent <= (uint64_t)want + forced,
                         "used from %jd to %jd, wish %d at %jd: %ju interrupts", (intmax_t)from,
                         (intmax_t)r->at_used, r->calls.mode, (intmax_t)r->calls.at,
                         (uintmax_t)sent);
        if (read(r->world->call_fd, &count, sizeof(count)) < 0)
                DP_CHECK(r, errno == EAGAIN, "call fd: %s", strerror(errno));
        DP_CHECK(r, count == sent, "call fd written %ju times, expected %ju", (uintmax_t)count,
                 (uintmax_t)sent);
        r->signalled |= from != r->at_used;
}

void dp_burst_end(struct dp_rig *r, uint32_t n)
{
        const uint32_t first = r->used;
        const int64_t from = r->at_used;

        for (; r->used < first + n; r->used++)
                r->at_used += dp_chain(r, r->used)->slots;
        DP_CHECK(r, r->q.fault == VQL_FAULT_NONE, "fault: %s",
                 vql_fault_name((enum vql_fault)r->q.fault));
        check_cursor(r);
        check_calls(r, from);
        check_ring_areas(r, first, from);
        mark_used(r, first, r->used, from);
        check_log(r);
}
