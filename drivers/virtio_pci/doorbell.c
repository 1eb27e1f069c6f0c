/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells (virtio 1.2, 4.1.4.4).  The page of one may be given away, for a guest to write to, if
 * there is nothing on it but doorbells of this function: what a guest can do there is to kick its
 * own queues.
 */
#include <errno.h>
#include <unistd.h>

#include "drivers/virtio_pci/virtio_pci.h"
#include "vfio/pci.h"

uint64_t vql_vpci_doorbell_at(struct vql_vpci *v, uint16_t q)
{
        return (uint64_t)vql_vpci_queue(v, q)->notify_off * v->multiplier;
}

static bool overlaps(const struct vpci_window *w, uint32_t bar, uint64_t at, uint64_t bytes)
{
        return w->region && w->bar == bar && w->at < at + bytes && at < w->at + w->length;
}

/* MSI-X tables are the kernel's; their pages are mapped by no VFIO that lets a guest in. */
static bool has_msix(const struct vql_vpci *v, uint32_t bar, uint64_t at, uint64_t bytes)
{
        struct vql_vfio_msix m;
        struct vpci_window table, pba;

        if (vql_vfio_pci_msix(v->vfio, &m, NULL))
                return false;
        table = (struct vpci_window){ v->windows[VPCI_NOTIFY].region, m.table_bar, m.table_at,
                                      UINT64_C(16) * m.vectors };
        pba = (struct vpci_window){ v->windows[VPCI_NOTIFY].region, m.pba_bar, m.pba_at,
                                    (m.vectors + UINT64_C(63)) / 64 * 8 };
        return overlaps(&table, bar, at, bytes) || overlaps(&pba, bar, at, bytes);
}

/* The page of queue q's doorbell, from the start of the BAR. */
static uint64_t page_of(struct vql_vpci *v, uint16_t q, uint64_t page)
{
        return (v->windows[VPCI_NOTIFY].at + vql_vpci_doorbell_at(v, q)) / page * page;
}

bool vql_vpci_doorbell_fits(struct vql_vpci *v, uint16_t q)
{
        const struct vpci_window *w = &v->windows[VPCI_NOTIFY];
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = page_of(v, q, page);

        if (at < w->at || at + page > w->at + w->length ||
            !vql_vfio_region_mapped(w->region, at, page) || has_msix(v, w->bar, at, page))
                return false;
        for (unsigned int type = 0; type < VPCI_STRUCTURES; type++) {
                if (type != VPCI_NOTIFY && overlaps(&v->windows[type], w->bar, at, page))
                        return false;
        }
        return true;
}

int vql_vpci_vq_doorbell(struct vql_dev *d, uint16_t q, struct vql_doorbell *ret_doorbell)
{
        struct vql_vpci *v = d->priv;
        const struct vpci_window *w = &v->windows[VPCI_NOTIFY];
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at;

        if (q >= v->caps.queues)
                return -EINVAL;
        if (!vql_vpci_doorbell_fits(v, q))
                return -ENOTSUP;
        at = page_of(v, q, page);
        *ret_doorbell = (struct vql_doorbell){
                .fd = vql_vfio_device_fd(v->vfio),
                .offset = vql_vfio_region_offset(w->region) + at,
                .length = page,
                .at = (uint32_t)(w->at + vql_vpci_doorbell_at(v, q) - at),
                .width = VPCI_DOORBELL_BYTES,
                .value = q,
        };
        return 0;
}
