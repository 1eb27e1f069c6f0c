/* SPDX-License-Identifier: BSD-3-Clause */
/* Device configuration: one consistent view (virtio 1.2, 2.5.3), fields in their widths (5.1.4). */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "drivers/virtio_pci/regs.h"

enum { TRIES = 1000 };

static const struct field {
        uint8_t at, width;
} fields[] = {
        { 0, 1 },  { 1, 1 },  { 2, 1 },  { 3, 1 },  { 4, 1 },  { 5, 1 },  { 6, 2 },  { 8, 2 },
        { 10, 2 }, { 12, 4 }, { 16, 1 }, { 17, 1 }, { 18, 2 }, { 20, 4 }, { 24, 4 },
};

static void read_field(const struct vpci_window *w, const struct field *f, uint8_t *image)
{
        uint64_t at = w->at + f->at;
        uint32_t value;

        if (f->width == 1)
                value = vql_vfio_read8(w->region, at);
        else if (f->width == 2)
                value = vql_vfio_read16(w->region, at);
        else
                value = vql_vfio_read32(w->region, at);
        value = htole32(value);
        memcpy(image + f->at, &value, f->width);
}

/* All fields that have a byte in [first, end). */
static void read_fields(const struct vpci_window *w, uint32_t first, uint32_t end, uint8_t *image)
{
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
                const struct field *f = &fields[i];

                if (f->at < end && f->at + f->width > first && f->at + f->width <= w->length)
                        read_field(w, f, image);
        }
}

int vql_vpci_config_read(struct vql_vpci *v, uint32_t offset, void *ret_bytes, uint32_t n,
                         struct vql_error *e)
{
        const struct vpci_window *w = &v->windows[VPCI_DEVICE];
        uint64_t have = w->length < VPCI_NET_BYTES ? w->length : VPCI_NET_BYTES;
        uint8_t image[VPCI_NET_BYTES] = { 0 };
        int ret;

        if ((uint64_t)offset + n > have)
                return vql_fail(e, EINVAL, "configuration bytes %u to %u, expected them below %u",
                                offset, offset + n, (unsigned int)have);
        for (int i = 0; i < TRIES; i++) {
                uint8_t before = vpci_get8(v, VPCI_GENERATION);

                read_fields(w, offset, offset + n, image);
                if (vpci_get8(v, VPCI_GENERATION) != before)
                        continue;
                /* In RESET there is no status to be well. */
                ret = vql_vpci_check(v, e);
                if (!ret)
                        memcpy(ret_bytes, image + offset, n);
                return ret;
        }
        return vql_fail(e, EIO, "%s: the configuration did not stand still for %d looks",
                        vql_vfio_device_address(v->vfio), TRIES);
}

int vql_vpci_cfg_read(struct vql_dev *d, uint32_t offset, void *ret_bytes, uint32_t n)
{
        return vql_vpci_config_read(d->priv, offset, ret_bytes, n, NULL);
}
