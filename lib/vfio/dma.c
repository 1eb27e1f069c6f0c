/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/dma.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vfio/device_impl.h"
#include "vfio/plan.h"

int vql_vfio_dma_limits(struct vql_vfio_device *d, struct vql_vfio_limits *ret_limits,
                        struct vql_error *e)
{
        struct vql_vfio_container *c = d->container;
        int ret;

        pthread_mutex_lock(&c->mutex);
        ret = vql_vfio_container_limits(c, ret_limits, e);
        pthread_mutex_unlock(&c->mutex);
        return ret;
}

/* A change under way: the tables as they will be. */
struct change {
        struct vql_vfio_device *device;
        struct vql_vfio_limits limits;
        uint64_t first_id; /* of what is new */
        struct vql_vfio_table maps, all;
};

static void change_free(struct change *ch)
{
        vql_vfio_table_free(&ch->maps);
        vql_vfio_table_free(&ch->all);
}

static int change_begin(struct change *ch, struct vql_vfio_device *d, size_t n_add,
                        struct vql_error *e)
{
        struct vql_vfio_container *c = d->container;

        *ch = (struct change){ .device = d, .first_id = c->next_id };
        if (c->state == VQL_CONTAINER_LOST)
                return vql_fail(e, ENOTRECOVERABLE,
                                "%s: what is mapped is uncertain since an earlier failure: close "
                                "the device",
                                d->address);
        if (vql_vfio_table_copy(&d->maps, n_add, &ch->maps) < 0 ||
            vql_vfio_table_copy(&c->table, n_add, &ch->all) < 0)
                return vql_fail(e, ENOMEM, "out of memory");
        return vql_vfio_container_limits(c, &ch->limits, e);
}

static int check_shape(const struct change *ch, const struct vql_vfio_map *m, struct vql_error *e)
{
        uint64_t page = ch->limits.page_size, last;

        if (!m->len)
                return vql_fail(e, EINVAL, "map of IOVA %#" PRIx64 " is empty", m->iova);
        if ((m->iova | m->len | (uintptr_t)m->va) & (page - 1))
                return vql_fail(e, EINVAL,
                                "map of IOVA %#" PRIx64 ", %" PRIu64 " bytes at %p: expected "
                                "multiples of the IOMMU's page size %" PRIu64,
                                m->iova, m->len, m->va, page);
        if (__builtin_add_overflow(m->iova, m->len - 1, &last) ||
            __builtin_add_overflow((uintptr_t)m->va, m->len - 1, &last))
                return vql_fail(e, EINVAL, "map of IOVA %#" PRIx64 ", %" PRIu64 " bytes wraps",
                                m->iova, m->len);
        return 0;
}

/* "0x0..0xfedfffff, 0xfef00000..0x7fffffffff" */
static void name_ranges(const struct vql_vfio_limits *limits, char *ret_text, size_t n)
{
        size_t used = 0;

        ret_text[0] = '\0';
        for (uint16_t i = 0; i < limits->n_ranges && used < n; i++)
                used += (size_t)snprintf(ret_text + used, n - used, "%s%#" PRIx64 "..%#" PRIx64,
                                         i ? ", " : "", limits->ranges[i].first,
                                         limits->ranges[i].last);
}

static int check_range(const struct change *ch, const struct vql_vfio_map *m, struct vql_error *e)
{
        const struct vql_vfio_limits *limits = &ch->limits;
        uint64_t last = m->iova + (m->len - 1);
        char ranges[160];

        for (uint16_t i = 0; i < limits->n_ranges; i++)
                if (m->iova >= limits->ranges[i].first && last <= limits->ranges[i].last)
                        return 0;
        if (!limits->n_ranges)
                return 0;
        name_ranges(limits, ranges, sizeof(ranges));
        return vql_fail(e, ERANGE,
                        "IOVAs %#" PRIx64 "..%#" PRIx64 " cannot be mapped, expected inside %s",
                        m->iova, last, ranges);
}

static bool equal(const struct vql_vfio_map *a, const struct vql_vfio_map *b)
{
        return a->iova == b->iova && a->len == b->len && a->va == b->va &&
               a->writable == b->writable;
}

/* A shared entry whose address was this device's takes that of another one that has it: this
 * process may unmap ours as soon as we return. */
static void change_address(const struct change *ch, struct vql_vfio_entry *shared)
{
        struct vql_vfio_device *d = ch->device->container->devices;

        for (; d; d = d->next_in_container) {
                const struct vql_vfio_entry *theirs = NULL;

                if (d != ch->device)
                        theirs = vql_vfio_table_find(&d->maps, shared->map.iova);
                if (theirs && vql_vfio_entry_same_memory(theirs, shared)) {
                        shared->map.va = theirs->map.va;
                        return;
                }
        }
}

static int change_delete(struct change *ch, const struct vql_vfio_map *m, struct vql_error *e)
{
        struct vql_vfio_entry *mine = vql_vfio_table_find(&ch->maps, m->iova);
        struct vql_vfio_entry *shared = vql_vfio_table_find(&ch->all, m->iova);

        if (!mine || !shared || !equal(&mine->map, m))
                return vql_fail(e, EINVAL,
                                "IOVA %#" PRIx64 ", %" PRIu64 " bytes at %p: %s has no such map",
                                m->iova, m->len, m->va, ch->device->address);
        vql_vfio_table_remove(&ch->maps, mine);
        if (--shared->users)
                change_address(ch, shared);
        else
                vql_vfio_table_remove(&ch->all, shared);
        return 0;
}

static int identify(const struct change *ch, struct vql_vfio_entry *entry, struct vql_error *e)
{
        const struct vql_vfio_sys *sys = ch->device->vfio->place.sys;
        int ret = sys->identify(sys->arg, entry->map.va, entry->map.len, &entry->file);

        if (ret < 0)
                return vql_fail(e, -ret, "the memory at %p cannot be looked up: %s", entry->map.va,
                                strerror(-ret));
        return 0;
}

static int change_add(struct change *ch, const struct vql_vfio_map *m, struct vql_error *e)
{
        struct vql_vfio_entry entry = { .map = *m, .users = 1 };
        int ret = check_shape(ch, m, e);

        if (ret == 0)
                ret = check_range(ch, m, e);
        if (ret == 0)
                ret = identify(ch, &entry, e);
        return ret < 0 ? ret : vql_vfio_table_insert(&ch->maps, &entry, e);
}

/* What the device will have, for the container. */
static int change_publish(struct change *ch, const struct vql_vfio_map *m, struct vql_error *e)
{
        struct vql_vfio_entry entry = *vql_vfio_table_find(&ch->maps, m->iova);
        struct vql_vfio_entry *shared = vql_vfio_table_find(&ch->all, m->iova);

        if (shared && vql_vfio_entry_same_memory(shared, &entry)) {
                shared->users++;
                return 0;
        }
        entry.id = ch->device->container->next_id++;
        return vql_vfio_table_insert(&ch->all, &entry, e);
}

/*
 * Devices share a container because they have the same guest's memory; they get it one after the
 * other, so for a while one has more of it.  Anything else is another guest, who must not come in.
 * A device whose guest has left has nothing that tells the next one from a stranger.
 */
static int check_company(const struct change *ch, bool was_empty, struct vql_error *e)
{
        const struct vql_vfio_device *d = ch->device->container->devices;

        if (!vql_vfio_table_files(&ch->maps))
                return 0;
        for (; d; d = d->next_in_container) {
                if (d == ch->device || !vql_vfio_table_files(&d->maps))
                        continue;
                if (!was_empty && (vql_vfio_table_files_within(&d->maps, &ch->maps) ||
                                   vql_vfio_table_files_within(&ch->maps, &d->maps)))
                        continue;
                return vql_fail(e, EXDEV,
                                "%s shares its container with %s, whose guest has other memory: it "
                                "must move out first",
                                ch->device->address, d->address);
        }
        return 0;
}

/* Each map is one for the kernel, so that it can go without its neighbours; only if there are more
 * of them than the kernel takes, those side by side are joined. */
static int fit_entries(struct change *ch, struct vql_error *e)
{
        if (vql_vfio_table_pieces(&ch->all) > ch->limits.entries)
                vql_vfio_table_join(&ch->all, ch->first_id);
        if (vql_vfio_table_pieces(&ch->all) > ch->limits.entries)
                return vql_fail(e, ENOSPC,
                                "%zu maps, the IOMMU takes %" PRIu32
                                ": raise dma_entry_limit of vfio_iommu_type1",
                                vql_vfio_table_pieces(&ch->all), ch->limits.entries);
        return 0;
}

/* Before anything is unmapped, what comes first is there beside all that was. */
static bool has_room(const struct change *ch, const struct vql_vfio_plan *plan)
{
        size_t maps = vql_vfio_table_pieces(&ch->device->container->table);

        for (size_t i = 0; i < plan->n && plan->steps[i].kind == VQL_STEP_MAP; i++)
                maps++;
        return maps <= ch->limits.entries;
}

static int carry_out(struct change *ch, enum vql_vfio_order order, struct vql_error *e)
{
        struct vql_vfio_container *c = ch->device->container;
        struct vql_vfio_plan plan = { 0 };
        int ret = vql_vfio_plan_make(&c->table, &ch->all, order, &plan);

        if (ret < 0)
                return vql_fail(e, ENOMEM, "out of memory");
        if (order == VQL_PLAN_COME_FIRST && !has_room(ch, &plan))
                ret = vql_fail(e, ENOSPC, "no room for what comes beside what goes");
        else
                ret = vql_vfio_plan_run(&plan, c, e);
        vql_vfio_plan_free(&plan);
        return ret;
}

/* The other order needs less memory and fewer entries for a moment, but what went first might not
 * come back. */
static int change_commit(struct change *ch, bool deletes, struct vql_error *e)
{
        struct vql_vfio_container *c = ch->device->container;
        int ret = carry_out(ch, VQL_PLAN_COME_FIRST, e);
        struct vql_vfio_table old;

        if (deletes && (ret == -ENOMEM || ret == -ENOSPC))
                ret = carry_out(ch, VQL_PLAN_GO_FIRST, e);
        if (ret < 0)
                return ret;
        old = c->table;
        c->table = ch->all;
        ch->all = old;
        old = ch->device->maps;
        ch->device->maps = ch->maps;
        ch->maps = old;
        return 0;
}

static int change_fill(struct change *ch, const struct vql_vfio_map *del, size_t n_del,
                       const struct vql_vfio_map *add, size_t n_add, struct vql_error *e)
{
        bool was_empty;
        int ret = 0;

        for (size_t i = 0; i < n_del && ret == 0; i++)
                ret = change_delete(ch, &del[i], e);
        was_empty = !vql_vfio_table_files(&ch->maps);
        for (size_t i = 0; i < n_add && ret == 0; i++)
                ret = change_add(ch, &add[i], e);
        if (ret == 0)
                ret = check_company(ch, was_empty, e);
        for (size_t i = 0; i < n_add && ret == 0; i++)
                ret = change_publish(ch, &add[i], e);
        return ret < 0 ? ret : fit_entries(ch, e);
}

int vql_vfio_dma_update(struct vql_vfio_device *d, const struct vql_vfio_map *del, size_t n_del,
                        const struct vql_vfio_map *add, size_t n_add, struct vql_error *e)
{
        struct vql_vfio_container *c = d->container;
        struct change ch;
        int ret;

        pthread_mutex_lock(&c->mutex);
        ret = change_begin(&ch, d, n_add, e);
        if (ret == 0)
                ret = change_fill(&ch, del, n_del, add, n_add, e);
        if (ret == 0)
                ret = change_commit(&ch, n_del > 0, e);
        change_free(&ch);
        pthread_mutex_unlock(&c->mutex);
        return ret;
}

void vql_vfio_dma_clear(struct vql_vfio_device *d)
{
        struct vql_vfio_container *c = d->container;
        struct vql_error e = { "" };
        struct change ch;
        bool others;
        int ret;

        pthread_mutex_lock(&c->mutex);
        others = c->devices != d || d->next_in_container;
        ret = change_begin(&ch, d, 0, &e);
        for (size_t i = 0; i < d->maps.n && ret == 0; i++)
                ret = change_delete(&ch, &d->maps.entries[i].map, &e);
        if (ret == 0)
                ret = change_commit(&ch, true, &e);
        /* The last one's maps go with the container, or are gone by now: a host that has taken a
         * device back drops them together with its group. */
        if (ret < 0 && others && c->state != VQL_CONTAINER_LOST) {
                c->state = VQL_CONTAINER_LOST;
                vql_log(d->vfio->place.log, LOG_ERR, "%s: its maps remain: %s", d->address, e.text);
        }
        change_free(&ch);
        pthread_mutex_unlock(&c->mutex);
}
