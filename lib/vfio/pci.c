/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/pci.h"

#include <errno.h>

#include "vfio/device_impl.h"

enum {
        CAPABILITIES_MAX = 48, /* of 4 bytes each in the 192 behind the header */
        CAPABILITIES_FROM = PCI_STD_HEADER_SIZEOF,
};

static struct vql_vfio_region *config(const struct vql_vfio_device *d)
{
        return d->regions[VFIO_PCI_CONFIG_REGION_INDEX];
}

static int check(const struct vql_vfio_device *d, uint32_t at, uint32_t width)
{
        if (at % width || at + (uint64_t)width > config(d)->size)
                return -EINVAL;
        return vql_vfio_device_gone(d) ? -ENODEV : 0;
}

/* The access itself may be what shows that the device is gone. */
static int outcome(const struct vql_vfio_device *d)
{
        return vql_vfio_device_gone(d) ? -ENODEV : 0;
}

int vql_vfio_pci_read8(struct vql_vfio_device *d, uint32_t at, uint8_t *ret_value)
{
        int ret = check(d, at, 1);
        uint8_t value;

        if (ret < 0)
                return ret;
        value = vql_vfio_read8(config(d), at);
        ret = outcome(d);
        if (ret == 0)
                *ret_value = value;
        return ret;
}

int vql_vfio_pci_read16(struct vql_vfio_device *d, uint32_t at, uint16_t *ret_value)
{
        int ret = check(d, at, 2);
        uint16_t value;

        if (ret < 0)
                return ret;
        value = vql_vfio_read16(config(d), at);
        ret = outcome(d);
        if (ret == 0)
                *ret_value = value;
        return ret;
}

int vql_vfio_pci_read32(struct vql_vfio_device *d, uint32_t at, uint32_t *ret_value)
{
        int ret = check(d, at, 4);
        uint32_t value;

        if (ret < 0)
                return ret;
        value = vql_vfio_read32(config(d), at);
        ret = outcome(d);
        if (ret == 0)
                *ret_value = value;
        return ret;
}

int vql_vfio_pci_write8(struct vql_vfio_device *d, uint32_t at, uint8_t value)
{
        int ret = check(d, at, 1);

        if (ret < 0)
                return ret;
        vql_vfio_write8(config(d), at, value);
        return outcome(d);
}

int vql_vfio_pci_write16(struct vql_vfio_device *d, uint32_t at, uint16_t value)
{
        int ret = check(d, at, 2);

        if (ret < 0)
                return ret;
        vql_vfio_write16(config(d), at, value);
        return outcome(d);
}

int vql_vfio_pci_write32(struct vql_vfio_device *d, uint32_t at, uint32_t value)
{
        int ret = check(d, at, 4);

        if (ret < 0)
                return ret;
        vql_vfio_write32(config(d), at, value);
        return outcome(d);
}

int vql_vfio_pci_command(struct vql_vfio_device *d, uint16_t set, uint16_t clear,
                         struct vql_error *e)
{
        uint16_t wanted, value = 0;
        int ret = vql_vfio_pci_read16(d, PCI_COMMAND, &value);

        wanted = (uint16_t)((value & ~clear) | set);
        if (ret == 0)
                ret = vql_vfio_pci_write16(d, PCI_COMMAND, wanted);
        if (ret == 0)
                ret = vql_vfio_pci_read16(d, PCI_COMMAND, &value);
        if (ret < 0)
                return vql_fail(e, ENODEV, "%s is gone", d->address);
        /* A function that is gone has all bits set, those that were to be cleared, too. */
        if (value == UINT16_MAX && vql_vfio_device_check(d, e) < 0)
                return -ENODEV;
        if ((value & (set | clear)) != (wanted & (set | clear)))
                return vql_fail(e, EIO, "%s: command register is %#x after writing %#x", d->address,
                                value, wanted);
        return 0;
}

/* Id and next pointer of a capability. */
static int read_header(struct vql_vfio_device *d, uint8_t at, uint8_t *ret_id, uint8_t *ret_next)
{
        uint16_t header = 0;
        int ret = vql_vfio_pci_read16(d, at, &header);

        if (ret < 0)
                return ret;
        *ret_id = (uint8_t)(header & 0xff);
        *ret_next = (uint8_t)(header >> 8 & ~3);
        return 0;
}

static int first_capability(struct vql_vfio_device *d, uint8_t *ret_at)
{
        uint16_t status = 0;
        uint8_t at = 0;
        int ret = vql_vfio_pci_read16(d, PCI_STATUS, &status);

        if (ret == 0 && status & PCI_STATUS_CAP_LIST)
                ret = vql_vfio_pci_read8(d, PCI_CAPABILITY_LIST, &at);
        if (ret == 0)
                *ret_at = (uint8_t)(at & ~3);
        return ret;
}

int vql_vfio_pci_capability(struct vql_vfio_device *d, uint8_t id, uint8_t after, uint8_t *ret_at,
                            struct vql_error *e)
{
        uint8_t at = 0, found = 0;
        int ret = after ? read_header(d, after & 0xfc, &found, &at) : first_capability(d, &at);

        for (int steps = 0; ret == 0 && at && steps < CAPABILITIES_MAX; steps++) {
                uint8_t here = at;

                if (here < CAPABILITIES_FROM)
                        return vql_fail(e, EBADMSG,
                                        "%s: capability at %#x, expected behind the header",
                                        d->address, here);
                ret = read_header(d, here, &found, &at);
                if (ret == 0 && found == id) {
                        *ret_at = here;
                        return 0;
                }
        }
        if (ret < 0)
                return vql_fail(e, -ret, "%s: the capabilities cannot be read", d->address);
        if (at)
                return vql_fail(e, EBADMSG, "%s: the list of capabilities is a circle", d->address);
        return vql_fail(e, ENOENT, "%s has no%s capability %#x", d->address,
                        after ? " further" : "", id);
}

int vql_vfio_pci_msix(struct vql_vfio_device *d, struct vql_vfio_msix *ret_msix,
                      struct vql_error *e)
{
        uint8_t at = 0;
        uint16_t flags = 0;
        uint32_t table = 0, pba = 0;
        int ret = vql_vfio_pci_capability(d, PCI_CAP_ID_MSIX, 0, &at, e);

        if (ret < 0)
                return ret;
        if (at > PCI_CFG_SPACE_SIZE - PCI_CAP_MSIX_SIZEOF)
                return vql_fail(e, EBADMSG, "%s: MSI-X capability at %#x ends outside", d->address,
                                at);
        ret = vql_vfio_pci_read16(d, at + PCI_MSIX_FLAGS, &flags);
        if (ret == 0)
                ret = vql_vfio_pci_read32(d, at + PCI_MSIX_TABLE, &table);
        if (ret == 0)
                ret = vql_vfio_pci_read32(d, at + PCI_MSIX_PBA, &pba);
        if (ret < 0)
                return vql_fail(e, -ret, "%s: the MSI-X capability cannot be read", d->address);
        if ((table & PCI_MSIX_TABLE_BIR) > 5 || (pba & PCI_MSIX_PBA_BIR) > 5)
                return vql_fail(e, EBADMSG, "%s: MSI-X in BARs %u and %u, expected 0 to 5",
                                d->address, table & PCI_MSIX_TABLE_BIR, pba & PCI_MSIX_PBA_BIR);
        *ret_msix = (struct vql_vfio_msix){
                .vectors = (uint16_t)((flags & PCI_MSIX_FLAGS_QSIZE) + 1),
                .table_bar = table & PCI_MSIX_TABLE_BIR,
                .pba_bar = pba & PCI_MSIX_PBA_BIR,
                .table_at = table & PCI_MSIX_TABLE_OFFSET,
                .pba_at = pba & PCI_MSIX_PBA_OFFSET,
        };
        return 0;
}
