/* SPDX-License-Identifier: BSD-3-Clause */
#include "vfio/device_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vfio/file.h"
#include "vfio/irq.h"
#include "vfio/pci.h"

int vql_vfio_device_ioctl(const struct vql_vfio_device *d, unsigned long request, void *p)
{
        const struct vql_vfio_sys *sys = d->vfio->place.sys;

        return sys->ioctl(sys->arg, d->fd, request, p);
}

static void close_fd(const struct vql_vfio_device *d, int *fd)
{
        const struct vql_vfio_sys *sys = d->vfio->place.sys;

        if (*fd >= 0)
                sys->close(sys->arg, *fd);
        *fd = -1;
}

/* What the host says before the kernel is asked: its answers have no sentences. */
static int check_host(struct vql_vfio_device *d, struct vql_error *e)
{
        struct vql_pci_info info = { 0 };
        int ret = vql_pci_info(d->vfio->place.sysfs, d->address, &info, e);

        if (ret < 0)
                return ret;
        if (!vql_pci_driver_is_vfio(info.driver))
                return vql_fail(e, ENODEV,
                                "%s is bound to driver \"%s\", expected vfio-pci: driverctl "
                                "set-override %s vfio-pci",
                                d->address, info.driver, d->address);
        if (info.iommu_group < 0)
                return vql_fail(e, ENODEV,
                                "%s has no IOMMU group: switch the IOMMU on in the firmware and "
                                "boot with intel_iommu=on or the like",
                                d->address);
        if (info.no_iommu)
                return vql_fail(e, ENOTSUP,
                                "%s is in VFIO's mode without IOMMU, in which a guest could make "
                                "it write anywhere: boot with the IOMMU on",
                                d->address);
        d->group = info.iommu_group;
        return 0;
}

static int check_viable(const struct vql_vfio_device *d, struct vql_error *e)
{
        const struct vql_vfio_sys *sys = d->vfio->place.sys;
        struct vfio_group_status status = { .argsz = sizeof(status) };
        char stranger[1][VQL_PCI_ADDRESS_BYTES] = { "" };
        int ret = sys->ioctl(sys->arg, d->group_fd, VFIO_GROUP_GET_STATUS, &status);

        if (ret < 0)
                return vql_fail(e, -ret, "VFIO_GROUP_GET_STATUS: %s", strerror(-ret));
        if (status.flags & VFIO_GROUP_FLAGS_VIABLE)
                return 0;
        ret = vql_pci_group_strangers(d->vfio->place.sysfs, d->group, stranger, 1);
        return vql_fail(e, EBUSY,
                        "IOMMU group %d of %s has %d more functions that the host uses: driverctl "
                        "set-override %s vfio-pci",
                        d->group, d->address, ret, ret > 0 ? stranger[0] : "ADDRESS");
}

static int open_group(struct vql_vfio_device *d, struct vql_error *e)
{
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%d", d->vfio->place.dev, d->group);
        d->group_fd = vql_vfio_file_open(d->vfio->place.sys, path, e);
        return d->group_fd < 0 ? d->group_fd : check_viable(d, e);
}

/* The kernel's answer to a wrong or missing token is the same. */
static int refuse_device(const struct vql_vfio_device *d, int err, struct vql_error *e)
{
        if (err == EACCES)
                return vql_fail(e, err,
                                "%s: the owner of its physical function has set a VF token, and "
                                "%s",
                                d->address, d->vf_token ? "it is another" : "none was given");
        return vql_fail(e, err, "%s: VFIO_GROUP_GET_DEVICE_FD: %s", d->address, strerror(err));
}

static int open_file(struct vql_vfio_device *d, struct vql_error *e)
{
        const struct vql_vfio_sys *sys = d->vfio->place.sys;
        char name[128];
        int fd;

        snprintf(name, sizeof(name), d->vf_token ? "%s vf_token=%s" : "%s", d->address,
                 d->vf_token);
        fd = sys->ioctl(sys->arg, d->group_fd, VFIO_GROUP_GET_DEVICE_FD, name);
        if (fd < 0)
                return refuse_device(d, -fd, e);
        d->fd = fd;
        return 0;
}

static int check_device(struct vql_vfio_device *d, struct vql_error *e)
{
        struct vfio_device_info info = { .argsz = sizeof(info) };
        int ret = vql_vfio_device_ioctl(d, VFIO_DEVICE_GET_INFO, &info);

        if (ret < 0)
                return vql_fail(e, -ret, "%s: VFIO_DEVICE_GET_INFO: %s", d->address,
                                strerror(-ret));
        if (!(info.flags & VFIO_DEVICE_FLAGS_PCI) ||
            info.num_regions <= VFIO_PCI_CONFIG_REGION_INDEX)
                return vql_fail(e, ENOTSUP, "%s is not a PCI function to VFIO", d->address);
        d->flags = info.flags;
        return 0;
}

int vql_vfio_device_enter(struct vql_vfio_device *d, struct vql_error *e)
{
        int ret = open_file(d, e);

        if (ret == 0)
                ret = check_device(d, e);
        for (uint32_t i = 0; i < VFIO_PCI_NUM_REGIONS && ret == 0; i++)
                if (d->regions[i])
                        ret = vql_vfio_region_open(d->regions[i], i, e);
        return ret;
}

void vql_vfio_device_leave(struct vql_vfio_device *d)
{
        for (uint32_t i = 0; i < VFIO_PCI_NUM_REGIONS; i++)
                if (d->regions[i])
                        vql_vfio_region_close(d->regions[i]);
        close_fd(d, &d->fd);
}

void vql_vfio_device_link(struct vql_vfio_device *d, struct vql_vfio_container *c)
{
        d->container = c;
        d->next_in_container = c->devices;
        c->devices = d;
}

void vql_vfio_device_unlink(struct vql_vfio_device *d)
{
        struct vql_vfio_device **link = &d->container->devices;

        while (*link != d)
                link = &(*link)->next_in_container;
        *link = d->next_in_container;
        d->container = NULL;
}

/* The caller holds the context's mutex. */
static int move_in(struct vql_vfio_device *d, struct vql_error *e)
{
        struct vql_vfio_container *c = NULL;
        int ret = vql_vfio_container_new(d->vfio, &c, e);

        if (ret < 0)
                return ret;
        ret = vql_vfio_container_attach(c, d->group_fd, e);
        if (ret < 0)
                vql_vfio_container_free(c);
        else
                vql_vfio_device_link(d, c);
        return ret;
}

/* The caller holds the context's mutex.  The container goes before the group, which the kernel
 * lets out only when no device of it is open. */
static void move_out(struct vql_vfio_device *d)
{
        struct vql_vfio_container *c = d->container;

        if (!c)
                return;
        vql_vfio_dma_clear(d);
        pthread_mutex_lock(&c->mutex);
        vql_vfio_device_unlink(d);
        vql_vfio_container_detach(c, d->group_fd);
        pthread_mutex_unlock(&c->mutex);
        if (!c->devices)
                vql_vfio_container_free(c);
}

static int open_parts(struct vql_vfio_device *d, struct vql_error *e)
{
        const struct vql_vfio_sys *sys = d->vfio->place.sys;
        struct vql_vfio_region *config;
        int ret = check_host(d, e);

        if (ret < 0)
                return ret;
        d->gone_fd = sys->eventfd(sys->arg);
        if (d->gone_fd < 0)
                return vql_fail(e, -d->gone_fd, "eventfd: %s", strerror(-d->gone_fd));
        ret = open_group(d, e);
        if (ret < 0)
                return ret;
        pthread_mutex_lock(&d->vfio->mutex);
        ret = move_in(d, e);
        pthread_mutex_unlock(&d->vfio->mutex);
        if (ret == 0)
                ret = vql_vfio_device_enter(d, e);
        return ret < 0 ? ret : vql_vfio_device_region(d, VFIO_PCI_CONFIG_REGION_INDEX, &config, e);
}

static struct vql_vfio_device *device_new(struct vql_vfio *v, const char *address,
                                          const char *vf_token)
{
        struct vql_vfio_device *d = calloc(1, sizeof(*d));

        if (!d)
                return NULL;
        d->vfio = v;
        d->group = d->group_fd = d->fd = d->gone_fd = -1;
        memcpy(d->address, address, sizeof(d->address));
        if (!vf_token)
                return d;
        d->vf_token = strdup(vf_token);
        if (d->vf_token)
                return d;
        free(d);
        return NULL;
}

int vql_vfio_device_open(struct vql_vfio *v, const char *address, const char *vf_token,
                         struct vql_vfio_device **ret_device, struct vql_error *e)
{
        char full[VQL_PCI_ADDRESS_BYTES] = "";
        struct vql_vfio_device *d;
        int ret;

        if (vql_pci_address(address, full) < 0)
                return vql_fail(e, EINVAL, "\"%.64s\" is not a PCI address, expected 0000:65:00.2",
                                address);
        if (vf_token && strlen(vf_token) != 36)
                return vql_fail(e, EINVAL, "a VF token is a UUID of 36 characters");
        d = device_new(v, full, vf_token);
        if (!d)
                return vql_fail(e, ENOMEM, "out of memory");
        ret = open_parts(d, e);
        if (ret < 0) {
                vql_vfio_device_close(d);
                return ret;
        }
        *ret_device = d;
        return 0;
}

/* Bus mastering goes first: what the device still does ends before anything is taken from it. */
static void silence(struct vql_vfio_device *d)
{
        if (d->fd < 0 || !d->regions[VFIO_PCI_CONFIG_REGION_INDEX])
                return;
        vql_vfio_pci_command(d, 0, PCI_COMMAND_MASTER, NULL);
        for (uint32_t i = 0; i < VFIO_PCI_NUM_IRQS; i++)
                vql_vfio_irq_disable(d, i);
}

void vql_vfio_device_close(struct vql_vfio_device *d)
{
        if (!d)
                return;
        silence(d);
        vql_vfio_device_leave(d);
        pthread_mutex_lock(&d->vfio->mutex);
        move_out(d);
        pthread_mutex_unlock(&d->vfio->mutex);
        close_fd(d, &d->group_fd);
        close_fd(d, &d->gone_fd);
        for (size_t i = 0; i < VFIO_PCI_NUM_REGIONS; i++)
                free(d->regions[i]);
        vql_vfio_table_free(&d->maps);
        free(d->vf_token);
        free(d);
}

bool vql_vfio_device_can_reset(const struct vql_vfio_device *d)
{
        return d->flags & VFIO_DEVICE_FLAGS_RESET;
}

int vql_vfio_device_reset(struct vql_vfio_device *d, struct vql_error *e)
{
        uint16_t command = 0;
        int ret;

        if (!vql_vfio_device_can_reset(d))
                return vql_fail(e, ENOTSUP, "%s cannot be reset by itself", d->address);
        ret = vql_vfio_pci_read16(d, PCI_COMMAND, &command);
        if (ret == 0)
                ret = vql_vfio_device_ioctl(d, VFIO_DEVICE_RESET, NULL);
        if (ret < 0)
                return vql_fail(e, -ret, "%s: VFIO_DEVICE_RESET: %s", d->address, strerror(-ret));
        /* Without memory decoding, the next access to a mapped register would be the last. */
        return vql_vfio_pci_command(d, command & PCI_COMMAND_MEMORY, PCI_COMMAND_MASTER, e);
}

bool vql_vfio_device_gone(const struct vql_vfio_device *d)
{
        /* Relaxed: it says nothing of other memory. */
        return atomic_load_explicit(&d->gone, memory_order_relaxed);
}

void vql_vfio_device_set_gone(struct vql_vfio_device *d)
{
        uint64_t one = 1;
        ssize_t n;

        if (atomic_exchange_explicit(&d->gone, true, memory_order_relaxed))
                return;
        /* It only fails when the counter is full, and then the reader has been told. */
        n = write(d->gone_fd, &one, sizeof(one));
        (void)n;
}

int vql_vfio_device_check(struct vql_vfio_device *d, struct vql_error *e)
{
        uint32_t class_revision = UINT32_MAX;

        /* Vendor and device ID come from the kernel's memory; the class comes from the device, and
         * none is all ones. */
        vql_vfio_pci_read32(d, PCI_CLASS_REVISION, &class_revision);
        if (class_revision == UINT32_MAX)
                vql_vfio_device_set_gone(d);
        if (!vql_vfio_device_gone(d))
                return 0;
        return vql_fail(e, ENODEV, "%s is gone: it does not answer any more", d->address);
}

int vql_vfio_device_gone_fd(const struct vql_vfio_device *d)
{
        return d->gone_fd;
}

int vql_vfio_device_fd(const struct vql_vfio_device *d)
{
        return d->fd;
}

const char *vql_vfio_device_address(const struct vql_vfio_device *d)
{
        return d->address;
}

int vql_vfio_device_region(struct vql_vfio_device *d, uint32_t index,
                           struct vql_vfio_region **ret_region, struct vql_error *e)
{
        struct vql_vfio_region *r;
        int ret;

        if (index >= VFIO_PCI_NUM_REGIONS)
                return vql_fail(e, EINVAL, "%s: no region %u, expected 0 to %u", d->address, index,
                                (unsigned int)VFIO_PCI_NUM_REGIONS - 1);
        if (d->regions[index]) {
                *ret_region = d->regions[index];
                return 0;
        }
        r = calloc(1, sizeof(*r));
        if (!r)
                return vql_fail(e, ENOMEM, "out of memory");
        r->device = d;
        ret = vql_vfio_region_open(r, index, e);
        if (ret < 0) {
                free(r);
                return ret;
        }
        *ret_region = d->regions[index] = r;
        return 0;
}
