/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the function has its virtio structures (virtio 1.2, 4.1.4).  There may be several of a
 * type, in the order that the device prefers: the first that can be used counts.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "drivers/virtio_pci/virtio_pci.h"
#include "vfio/pci.h"

/* What a type is called, how long it is at least, and how its first byte is aligned. */
static const struct structure {
        const char *name;
        uint8_t cap_bytes;
        uint64_t least, align;
        bool needed;
} structures[VPCI_STRUCTURES] = {
        [VPCI_COMMON] = { "common configuration", VPCI_CAP_BYTES, VPCI_COMMON_BYTES, 4, true },
        [VPCI_NOTIFY] = { "notification", VPCI_CAP_NOTIFY_BYTES, VPCI_DOORBELL_BYTES, 2, true },
        /* Used by INTx alone; known so that a doorbell page does not hold it. */
        [VPCI_ISR] = { "ISR", VPCI_CAP_BYTES, 1, 1, false },
        [VPCI_DEVICE] = { "device configuration", VPCI_CAP_BYTES, VPCI_NET_STATUS_END, 4, true },
};

/* A capability as the function has it, checked by nobody. */
struct raw_cap {
        uint8_t at, length, type, bar;
        uint32_t offset, bytes, multiplier;
};

static int read_cap(struct vql_vfio_device *d, uint8_t at, struct raw_cap *ret_cap)
{
        struct raw_cap c = { .at = at };
        int ret = vql_vfio_pci_read8(d, at + VPCI_CAP_LEN, &c.length);

        if (!ret)
                ret = vql_vfio_pci_read8(d, at + VPCI_CAP_TYPE, &c.type);
        if (ret || c.length < VPCI_CAP_BYTES || at + c.length > PCI_CFG_SPACE_SIZE) {
                c.type = 0; /* cut off: nothing in it can be believed */
                *ret_cap = c;
                return ret;
        }
        ret = vql_vfio_pci_read8(d, at + VPCI_CAP_BAR, &c.bar);
        if (!ret)
                ret = vql_vfio_pci_read32(d, at + VPCI_CAP_OFFSET, &c.offset);
        if (!ret)
                ret = vql_vfio_pci_read32(d, at + VPCI_CAP_LENGTH, &c.bytes);
        if (!ret && c.type == VPCI_NOTIFY && c.length >= VPCI_CAP_NOTIFY_BYTES)
                ret = vql_vfio_pci_read32(d, at + VPCI_CAP_MULTIPLIER, &c.multiplier);
        if (!ret)
                *ret_cap = c;
        return ret;
}

static bool is_wanted(const struct vql_vpci *v, const struct raw_cap *c)
{
        return c->type > 0 && c->type < VPCI_STRUCTURES && !v->windows[c->type].region &&
               c->length >= structures[c->type].cap_bytes && c->bar < VPCI_CAP_BARS;
}

/* -ENODEV: the function went away; all else means that this instance is no good. */
static int try_cap(struct vql_vpci *v, const struct raw_cap *c)
{
        const struct structure *s = &structures[c->type];
        struct vql_vfio_region *region;
        int ret = vql_vfio_device_region(v->vfio, c->bar, &region, NULL);

        if (ret)
                return vql_vfio_device_gone(v->vfio) ? -ENODEV : 0;
        if (c->bytes < s->least || c->offset % s->align ||
            (uint64_t)c->offset + c->bytes > vql_vfio_region_size(region))
                return 0;
        v->windows[c->type] = (struct vpci_window){ region, c->bar, c->offset, c->bytes };
        if (c->type == VPCI_NOTIFY)
                v->multiplier = c->multiplier;
        return 0;
}

static int walk(struct vql_vpci *v, struct vql_error *e)
{
        struct raw_cap c;
        uint8_t at = 0;
        int ret;

        /* A circle of them would never end by itself. */
        for (int n = 0; n < VPCI_CAPS_MAX; n++) {
                ret = vql_vfio_pci_capability(v->vfio, PCI_CAP_ID_VNDR, at, &at, e);
                if (ret == -ENOENT)
                        return 0;
                if (!ret)
                        ret = read_cap(v->vfio, at, &c);
                if (!ret && is_wanted(v, &c))
                        ret = try_cap(v, &c);
                if (ret)
                        return ret;
        }
        return vql_fail(e, EBADMSG, "%s: the list of capabilities is a circle",
                        vql_vfio_device_address(v->vfio));
}

static int check_needed(const struct vql_vpci *v, struct vql_error *e)
{
        for (unsigned int type = 0; type < VPCI_STRUCTURES; type++) {
                if (structures[type].needed && !v->windows[type].region)
                        return vql_fail(e, ENODEV,
                                        "%s: no usable capability for the %s of virtio 1.0 or "
                                        "later, expected a BAR with at least %llu bytes of it",
                                        vql_vfio_device_address(v->vfio), structures[type].name,
                                        (unsigned long long)structures[type].least);
        }
        return 0;
}

int vql_vpci_windows_find(struct vql_vpci *v, struct vql_error *e)
{
        int ret = walk(v, e);

        if (!ret)
                ret = check_needed(v, e);
        else if (ret != -EBADMSG)
                vql_fail(e, -ret, "%s: cannot read its capabilities",
                         vql_vfio_device_address(v->vfio));
        /* All or none: who sees one of them may use it. */
        if (ret)
                memset(v->windows, 0, sizeof(v->windows));
        return ret == -EBADMSG ? -ENODEV : ret;
}
