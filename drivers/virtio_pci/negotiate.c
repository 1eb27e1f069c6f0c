/* SPDX-License-Identifier: BSD-3-Clause */
/* The device status register and what goes with it (virtio 1.2, 2.1, 2.2 and 3.1.1). */
#include <errno.h>

#include "base/bits.h"
#include "drivers/virtio_pci/regs.h"
#include "drivers/virtio_pci/wait.h"

/* A status of ones: the function is gone, or its registers are. */
static int fail_ones(struct vql_vpci *v, struct vql_error *e)
{
        int ret = vql_vfio_device_check(v->vfio, e);

        if (ret)
                return ret;
        vql_vpci_news_raise(v, VQL_EVENT_BROKEN);
        return vql_fail(e, EIO, "%s: the registers read as ones although the function is there",
                        vql_vfio_device_address(v->vfio));
}

static int read_status(struct vql_vpci *v, uint8_t *ret_status, struct vql_error *e)
{
        uint8_t status = vpci_get8(v, VPCI_STATUS);

        if (status == VPCI_ONES)
                return fail_ones(v, e);
        if (status & VPCI_NEEDS_RESET) {
                vql_vpci_news_raise(v, VQL_EVENT_BROKEN);
                return vql_fail(e, EIO, "%s: the device has failed and needs a reset (status %#x)",
                                vql_vfio_device_address(v->vfio), status);
        }
        *ret_status = status;
        return 0;
}

int vql_vpci_check(struct vql_vpci *v, struct vql_error *e)
{
        uint8_t status;

        return read_status(v, &status, e);
}

int vql_vpci_blame(struct vql_vpci *v, int ret, struct vql_error *e)
{
        int check = vql_vpci_check(v, e);

        return check ? check : ret;
}

int vql_vpci_device_reset(struct vql_vpci *v, uint64_t deadline_ns, struct vql_error *e)
{
        uint8_t status;

        vpci_put8(v, VPCI_STATUS, 0);
        v->agreed = 0;
        /* 4.1.4.3.2: until it reads as 0 the device may still be at work. */
        while ((status = vpci_get8(v, VPCI_STATUS)) != 0) {
                if (status == VPCI_ONES)
                        return fail_ones(v, e);
                if (!vpci_pause(v, deadline_ns))
                        return vql_fail(e, ETIMEDOUT,
                                        "%s: reset is not over in time, status %#x, expected 0",
                                        vql_vfio_device_address(v->vfio), status);
        }
        return 0;
}

/* The driver's bits are added and never taken away but by a reset; NEEDS_RESET is the device's. */
void vql_vpci_status_add(struct vql_vpci *v, uint8_t bits)
{
        uint8_t status = vpci_get8(v, VPCI_STATUS) & (uint8_t)~VPCI_NEEDS_RESET;

        vpci_put8(v, VPCI_STATUS, status | bits);
}

int vql_vpci_features_read(struct vql_vpci *v, uint64_t *ret_offered, struct vql_error *e)
{
        uint32_t low, high;
        int ret;

        vpci_put32(v, VPCI_DEVICE_FEATURE_SELECT, 0);
        low = vpci_get32(v, VPCI_DEVICE_FEATURE);
        vpci_put32(v, VPCI_DEVICE_FEATURE_SELECT, 1);
        high = vpci_get32(v, VPCI_DEVICE_FEATURE);
        ret = vql_vpci_check(v, e);
        if (!ret)
                *ret_offered = (uint64_t)high << 32 | low;
        return ret;
}

static void features_write(struct vql_vpci *v, uint64_t features)
{
        for (uint32_t word = 0; word < VPCI_FEATURE_WORDS; word++) {
                uint64_t bits = word < 2 ? features >> (32 * word) : 0;

                vpci_put32(v, VPCI_DRIVER_FEATURE_SELECT, word);
                vpci_put32(v, VPCI_DRIVER_FEATURE, (uint32_t)bits);
        }
}

/* Steps 2 to 6 of 3.1.1. */
static int agree(struct vql_vpci *v, uint64_t features, struct vql_error *e)
{
        uint8_t status = 0;
        int ret;

        vql_vpci_status_add(v, VPCI_ACKNOWLEDGE);
        vql_vpci_status_add(v, VPCI_DRIVER);
        ret = vql_vpci_features_read(v, &v->offered, e);
        if (ret)
                return ret;
        if (features & ~v->offered)
                return vql_fail(e, EINVAL, "%s: features %#llx are not among those offered, %#llx",
                                vql_vfio_device_address(v->vfio),
                                (unsigned long long)(features & ~v->offered),
                                (unsigned long long)v->offered);
        features_write(v, features);
        vql_vpci_status_add(v, VPCI_FEATURES_OK);
        ret = read_status(v, &status, e);
        if (ret)
                return ret;
        if (!(status & VPCI_FEATURES_OK))
                return vql_fail(e, EINVAL, "%s: the device does not want the features %#llx",
                                vql_vfio_device_address(v->vfio), (unsigned long long)features);
        return 0;
}

int vql_vpci_handshake(struct vql_vpci *v, uint64_t features, uint64_t deadline_ns,
                       struct vql_error *e)
{
        int ret = vql_vpci_device_reset(v, deadline_ns, e);

        if (!ret)
                ret = agree(v, features, e);
        if (!ret)
                v->agreed = features;
        return ret;
}
