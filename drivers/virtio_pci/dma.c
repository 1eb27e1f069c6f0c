/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>

#include "drivers/virtio_pci/virtio_pci.h"
#include "vfio/dma.h"

static void copy_maps(struct vql_vfio_map *to, const struct vql_map *from, size_t n)
{
        for (size_t i = 0; i < n; i++)
                to[i] = (struct vql_vfio_map){ from[i].iova, from[i].len, from[i].va,
                                               from[i].writable };
}

/* The window is not among caps.ranges, but the IOMMU would take it. */
static int check_window(const struct vql_vpci *v, const struct vql_map *m, struct vql_error *e)
{
        const struct vql_range *w = &v->memory.window;

        if (m->iova > w->last || m->iova + (m->len - 1) < w->first)
                return 0;
        return vql_fail(e, ERANGE,
                        "a map of %#llx bytes at %#llx, but %#llx to %#llx is the driver's",
                        (unsigned long long)m->len, (unsigned long long)m->iova,
                        (unsigned long long)w->first, (unsigned long long)w->last);
}

int vql_vpci_dma_update(struct vql_dev *d, const struct vql_map *del, size_t n_del,
                        const struct vql_map *add, size_t n_add, struct vql_error *e)
{
        struct vql_vpci *v = d->priv;
        struct vql_vfio_map *maps = calloc(n_del + n_add + 1, sizeof(*maps));
        int ret = maps ? 0 : vql_fail(e, ENOMEM, "no memory for %zu maps", n_del + n_add);

        for (size_t i = 0; i < n_add && !ret; i++)
                ret = check_window(v, &add[i], e);
        if (!ret) {
                copy_maps(maps, del, n_del);
                copy_maps(maps + n_del, add, n_add);
                ret = vql_vfio_dma_update(v->vfio, maps, n_del, maps + n_del, n_add, e);
        }
        free(maps);
        return ret;
}
