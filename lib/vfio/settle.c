/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>

#include "vfio/device_impl.h"
#include "vfio/plan.h"

/*
 * Moving between containers.  A group is in one at a time and leaves it only while its device is
 * closed, so the device is closed and opened again.  The caller of everything here holds the
 * context's mutex.
 */

static bool same_guest(const struct vql_vfio_device *a, const struct vql_vfio_device *b)
{
        return vql_vfio_table_files_within(&a->maps, &b->maps) &&
               vql_vfio_table_files_within(&b->maps, &a->maps);
}

/* All who live there are of the device's guest: while they get or lose memory one after the other,
 * nobody moves in.  The caller holds c->mutex. */
static bool is_home(const struct vql_vfio_container *c, const struct vql_vfio_device *d)
{
        const struct vql_vfio_device *other = c->devices;

        for (; other; other = other->next_in_container)
                if (!same_guest(d, other))
                        return false;
        return c->devices && c != d->container && c->state == VQL_CONTAINER_READY;
}

/* Returned with its mutex held, or NULL. */
static struct vql_vfio_container *find_home(const struct vql_vfio_device *d)
{
        struct vql_vfio_container *c = d->vfio->containers;

        for (; c; c = c->next) {
                pthread_mutex_lock(&c->mutex);
                if (is_home(c, d))
                        return c;
                pthread_mutex_unlock(&c->mutex);
        }
        return NULL;
}

static bool lives_alone(const struct vql_vfio_device *d)
{
        return d->container->devices == d && !d->next_in_container;
}

/* The container's table with what the device has, too. */
static int merge(const struct vql_vfio_device *d, struct vql_vfio_container *c,
                 struct vql_vfio_table *ret_table, struct vql_error *e)
{
        int ret = vql_vfio_table_copy(&c->table, d->maps.n, ret_table);

        for (size_t i = 0; i < d->maps.n && ret == 0; i++) {
                struct vql_vfio_entry entry = d->maps.entries[i];
                struct vql_vfio_entry *shared = vql_vfio_table_find(ret_table, entry.map.iova);

                if (shared && vql_vfio_entry_same_memory(shared, &entry)) {
                        shared->users++;
                        continue;
                }
                entry.id = c->next_id++;
                ret = vql_vfio_table_insert(ret_table, &entry, e);
        }
        return ret;
}

/* Without a device the kernel has dropped all maps of its container. */
static int return_home(struct vql_vfio_device *d, struct vql_vfio_container *c, struct vql_error *e)
{
        int ret = vql_vfio_container_attach(c, d->group_fd, e);

        for (size_t i = 0, n; i < c->table.n && ret == 0; i += n) {
                n = vql_vfio_table_piece(&c->table, i);
                ret = vql_vfio_plan_map(c, &c->table.entries[i], n, e);
        }
        vql_vfio_device_link(d, c);
        if (ret < 0)
                c->state = VQL_CONTAINER_LOST;
        return ret;
}

/* Leave one container and enter the other, where the device's own maps are made already.  1, or 0
 * if it is back. */
static int change_container(struct vql_vfio_device *d, struct vql_vfio_container *to,
                            struct vql_error *e)
{
        struct vql_vfio_container *from = d->container;
        struct vql_error why = { "" };

        vql_vfio_device_leave(d);
        vql_vfio_device_unlink(d);
        vql_vfio_container_detach(from, d->group_fd);
        if (vql_vfio_container_attach(to, d->group_fd, &why) < 0) {
                vql_log(d->vfio->place.log, LOG_NOTICE,
                        "%s: the guest's memory is pinned once more for it: %s", d->address,
                        why.text);
                return return_home(d, from, e);
        }
        vql_vfio_device_link(d, to);
        vql_vfio_container_free(from);
        return 1;
}

static int open_again(struct vql_vfio_device *d, int ret, struct vql_error *e)
{
        struct vql_error why = { "" };

        if (ret < 0 && e)
                why = *e;
        if (ret >= 0 && vql_vfio_device_enter(d, &why) == 0)
                return ret;
        vql_vfio_device_set_gone(d);
        return vql_fail(e, ENODEV, "%s was lost while it changed containers: %.160s", d->address,
                        why.text);
}

/* The caller holds to->mutex. */
static int join(struct vql_vfio_device *d, struct vql_vfio_container *to, struct vql_error *e)
{
        struct vql_vfio_table all = { 0 };
        struct vql_vfio_plan plan = { 0 };
        struct vql_error why = { "out of memory" };
        int ret = merge(d, to, &all, &why);

        if (ret == 0)
                ret = vql_vfio_plan_make(&to->table, &all, VQL_PLAN_COME_FIRST, &plan);
        if (ret == 0)
                ret = vql_vfio_plan_run(&plan, to, &why);
        if (ret < 0) {
                vql_log(d->vfio->place.log, LOG_NOTICE,
                        "%s: the guest's memory is pinned once more for it: %s", d->address,
                        why.text);
                ret = 0;
                goto done;
        }
        ret = change_container(d, to, e);
        if (ret == 1) {
                struct vql_vfio_table old = to->table;

                to->table = all;
                all = old;
        } else {
                vql_vfio_plan_undo(&plan, to, NULL);
        }
        ret = open_again(d, ret, e);
done:
        vql_vfio_plan_free(&plan);
        vql_vfio_table_free(&all);
        return ret;
}

static int add_again(struct vql_vfio_device *d, const struct vql_vfio_table *maps,
                     struct vql_error *e)
{
        int ret = 0;

        for (size_t i = 0; i < maps->n && ret == 0; i++)
                ret = vql_vfio_dma_update(d, NULL, 0, &maps->entries[i].map, 1, e);
        return ret;
}

/* From a container with others to a new one. */
static int leave(struct vql_vfio_device *d, struct vql_error *e)
{
        struct vql_vfio_container *from = d->container, *to = NULL;
        struct vql_vfio_table maps = { 0 };
        int ret;

        if (vql_vfio_table_copy(&d->maps, 0, &maps) < 0)
                return vql_fail(e, ENOMEM, "out of memory");
        ret = vql_vfio_container_new(d->vfio, &to, e);
        if (ret < 0)
                goto done;
        vql_vfio_device_leave(d);
        vql_vfio_dma_clear(d);
        pthread_mutex_lock(&from->mutex);
        vql_vfio_device_unlink(d);
        vql_vfio_container_detach(from, d->group_fd);
        pthread_mutex_unlock(&from->mutex);
        ret = vql_vfio_container_attach(to, d->group_fd, e);
        vql_vfio_device_link(d, to);
        if (ret == 0)
                ret = add_again(d, &maps, e);
        if (ret < 0)
                to->state = VQL_CONTAINER_LOST;
        ret = open_again(d, ret < 0 ? ret : 1, e);
done:
        vql_vfio_table_free(&maps);
        return ret;
}

static int settle(struct vql_vfio_device *d, struct vql_error *e)
{
        struct vql_vfio_container *home;
        int ret;

        if (!lives_alone(d))
                return vql_vfio_table_files(&d->maps) ? 0 : leave(d, e);
        home = vql_vfio_table_files(&d->maps) ? find_home(d) : NULL;
        if (!home)
                return 0;
        ret = join(d, home, e);
        pthread_mutex_unlock(&home->mutex);
        return ret;
}

int vql_vfio_dma_settle(struct vql_vfio_device *d, struct vql_error *e)
{
        int ret;

        for (size_t i = 0; i < VFIO_PCI_NUM_IRQS; i++)
                if (d->irqs[i])
                        return vql_fail(e, EBUSY, "%s: its interrupts are enabled", d->address);
        pthread_mutex_lock(&d->vfio->mutex);
        ret = settle(d, e);
        pthread_mutex_unlock(&d->vfio->mutex);
        return ret;
}
