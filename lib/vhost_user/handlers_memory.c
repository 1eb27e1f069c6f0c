/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <errno.h>
#include <string.h>

#include "memory/dirty_log.h"

/* While a migration runs, memory that the log does not reach would be lost to it. */
static int check_log_reach(const struct vql_session *s, const struct vql_mem_table *t,
                           struct vql_error *e)
{
        uint64_t end = vql_mem_table_end(t);
        uint64_t last_byte = end ? (end - 1) >> (VQL_LOG_PAGE_SHIFT + 3) : 0;

        if (!vql_session_logging(s) || last_byte < s->log->size)
                return 0;
        return vql_fail(e, EINVAL,
                        "memory ends at 0x%llx, beyond the %llu bytes of the dirty log in use",
                        (unsigned long long)end, (unsigned long long)s->log->size);
}

static bool listening(const struct vql_call *c)
{
        return c->s->postcopy == VQL_POSTCOPY_LISTENING;
}

enum purpose { ADD, REMOVE };

/* Make a table of these regions the wanted one; in postcopy what is added must be watched first. */
static int replace_table(struct vql_call *c, struct vql_region *const regions[], size_t n,
                         enum purpose purpose)
{
        struct vql_mem_table *t;
        int err = vql_mem_table_new(regions, n, &t, c->e);

        if (err < 0)
                return err;
        err = check_log_reach(c->s, t, c->e);
        if (err < 0) {
                vql_mem_table_put(t);
                return err;
        }
        if (listening(c) && (purpose == ADD || c->s->arriving)) {
                vql_postcopy_announce(c, t);
                return 0;
        }
        c->old.mem = c->s->mem;
        c->s->mem = t;
        c->changes |= VQL_CHANGE_MEMORY;
        return 0;
}

/* In postcopy the request comes back with our addresses in place of the front-end's. */
static void reply_table(struct vql_call *c)
{
        struct vql_wire_mem_table w;

        memcpy(&w, c->in->body, c->in->size);
        for (uint32_t i = 0; i < c->body.table.n; i++)
                w.region[i].uva = vql_postcopy_place(c->s, w.region[i].gpa);
        vql_call_reply(c, &w, c->in->size);
}

static void reply_slot(struct vql_call *c)
{
        struct vql_wire_mem_slot w;

        memcpy(&w, c->in->body, sizeof(w));
        w.region.uva = vql_postcopy_place(c->s, w.region.gpa);
        vql_call_reply(c, &w, sizeof(w));
}

int vql_handle_set_mem_table(struct vql_call *c)
{
        struct vql_region *regions[VQL_WIRE_TABLE_REGIONS] = { NULL };
        uint32_t n = c->body.table.n;
        int err = 0;

        for (uint32_t i = 0; i < n && err == 0; i++)
                err = vql_region_map(&c->body.table.region[i], c->in->fds[i], c->s->broken_fd,
                                     &regions[i], c->e);
        if (err == 0)
                err = replace_table(c, regions, n, ADD);
        for (uint32_t i = 0; i < n; i++)
                vql_region_put(regions[i]);
        if (err == 0 && listening(c))
                reply_table(c);
        return err;
}

/* The regions of the newest table; returns their number. */
static size_t current_regions(const struct vql_session *s,
                              struct vql_region *regions[VQL_MEM_MAX_REGIONS])
{
        const struct vql_mem_table *t = s->arriving ? s->arriving : s->mem;
        size_t n = t ? vql_mem_table_count(t) : 0;

        for (size_t i = 0; i < n; i++)
                regions[i] = vql_mem_table_region(t, i);
        return n;
}

static int add_region(struct vql_call *c)
{
        struct vql_region *regions[VQL_MEM_MAX_REGIONS];
        size_t n = current_regions(c->s, regions);
        struct vql_region *added;
        int err;

        for (size_t i = 0; i < n; i++) {
                if (vql_region_repeat(regions[i], &c->body.region, c->in->fds[0]))
                        return 0;
        }
        if (n >= c->s->offer->max_mem_slots || n >= VQL_MEM_MAX_REGIONS)
                return vql_fail(c->e, E2BIG, "all %zu memory slots are in use", n);
        err = vql_region_map(&c->body.region, c->in->fds[0], c->s->broken_fd, &added, c->e);
        if (err < 0)
                return err;
        regions[n] = added;
        err = replace_table(c, regions, n + 1, ADD);
        vql_region_put(added);
        return err;
}

int vql_handle_add_mem_reg(struct vql_call *c)
{
        int err = add_region(c);

        if (err == 0 && listening(c))
                reply_slot(c);
        return err;
}

/* mmap_offset does not count: QEMU sends 0 there when it removes a region. */
static bool same_place(const struct vql_region_desc *a, const struct vql_region_desc *b)
{
        return a->gpa == b->gpa && a->uva == b->uva && a->size == b->size;
}

int vql_handle_rem_mem_reg(struct vql_call *c)
{
        struct vql_region *regions[VQL_MEM_MAX_REGIONS];
        size_t n = current_regions(c->s, regions), at = 0;
        const struct vql_region_desc *d = &c->body.region;

        while (at < n && !same_place(vql_region_desc(regions[at]), d))
                at++;
        if (at == n)
                return vql_fail(c->e, ENOENT,
                                "no region of 0x%llx bytes at guest address 0x%llx and "
                                "front-end address 0x%llx",
                                (unsigned long long)d->size, (unsigned long long)d->gpa,
                                (unsigned long long)d->uva);
        if (!vql_region_retract(regions[at]))
                return 0;
        memmove(&regions[at], &regions[at + 1], (n - at - 1) * sizeof(regions[0]));
        return replace_table(c, regions, n - 1, REMOVE);
}
