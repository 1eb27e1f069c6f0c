/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_vfio.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_vfio_host.h"

void fake_vfio_wrong(struct fake_vfio *f, const char *what)
{
        if (!f->wrong)
                f->wrong = what;
}

/* Is it this call that fails? */
static bool fails(struct fake_vfio *f, unsigned long request)
{
        f->calls++;
        if (!f->fail_at || (f->fail_request && f->fail_request != request))
                return false;
        return --f->fail_at == 0;
}

static int open_group(struct fake_vfio *f, int group)
{
        for (size_t i = 0; i < f->n_devices; i++) {
                struct fake_vfio_device *d = &f->devices[i];

                if (d->group != group)
                        continue;
                if (d->group_open)
                        return -EBUSY;
                d->group_open = true;
                return FAKE_FD_GROUP + (int)i;
        }
        return -ENOENT;
}

static int open_container(struct fake_vfio *f)
{
        for (int i = 0; i < FAKE_VFIO_CONTAINERS; i++)
                if (!f->containers[i].open) {
                        f->containers[i] = (struct fake_vfio_container){ .open = true };
                        return FAKE_FD_CONTAINER + i;
                }
        return -EMFILE;
}

static int do_open(struct fake_vfio *f, const char *path)
{
        const char *name = path + strlen(f->dev) + 1;
        char *end;
        long group = strtol(name, &end, 10);

        if (strncmp(path, f->dev, strlen(f->dev)) != 0)
                return -ENOENT;
        if (strcmp(name, "vfio") == 0)
                return open_container(f);
        return end == name || *end ? -ENOENT : open_group(f, (int)group);
}

static int fake_open(void *arg, const char *path, int flags)
{
        struct fake_vfio *f = arg;
        int ret;

        (void)flags;
        pthread_mutex_lock(&f->mutex);
        ret = fails(f, 0) ? -f->fail_errno : do_open(f, path);
        pthread_mutex_unlock(&f->mutex);
        return ret;
}

static bool is(int fd, int kind, size_t n)
{
        return fd >= kind && fd < kind + (int)n;
}

static void close_container(struct fake_vfio *f, struct fake_vfio_container *c)
{
        if (!c->open || c->groups)
                fake_vfio_wrong(f, "a container was closed with groups in it, or twice");
        free(c->maps);
        *c = (struct fake_vfio_container){ 0 };
}

static void close_group(struct fake_vfio *f, struct fake_vfio_device *d)
{
        if (!d->group_open || d->open)
                fake_vfio_wrong(f, "a group was closed with its device open, or twice");
        d->group_open = false;
        if (d->container >= 0)
                fake_vfio_leave(f, d);
}

static void close_device(struct fake_vfio *f, struct fake_vfio_device *d)
{
        if (!d->open)
                fake_vfio_wrong(f, "a device was closed twice");
        d->open = false;
        memset(d->enabled, 0, sizeof(d->enabled));
}

static int fake_close(void *arg, int fd)
{
        struct fake_vfio *f = arg;

        pthread_mutex_lock(&f->mutex);
        if (is(fd, FAKE_FD_CONTAINER, FAKE_VFIO_CONTAINERS)) {
                close_container(f, &f->containers[fd - FAKE_FD_CONTAINER]);
        } else if (is(fd, FAKE_FD_GROUP, f->n_devices)) {
                close_group(f, &f->devices[fd - FAKE_FD_GROUP]);
        } else if (is(fd, FAKE_FD_DEVICE, f->n_devices)) {
                close_device(f, &f->devices[fd - FAKE_FD_DEVICE]);
        } else {
                f->n_eventfds--;
                close(fd);
        }
        pthread_mutex_unlock(&f->mutex);
        return 0;
}

static int do_ioctl(struct fake_vfio *f, int fd, unsigned long request, void *p)
{
        if (is(fd, FAKE_FD_CONTAINER, FAKE_VFIO_CONTAINERS))
                return fake_vfio_container_ioctl(f, fd - FAKE_FD_CONTAINER, request, p);
        if (is(fd, FAKE_FD_GROUP, f->n_devices))
                return fake_vfio_group_ioctl(f, &f->devices[fd - FAKE_FD_GROUP], request, p);
        if (is(fd, FAKE_FD_DEVICE, f->n_devices) && f->devices[fd - FAKE_FD_DEVICE].open)
                return fake_vfio_device_ioctl(&f->devices[fd - FAKE_FD_DEVICE], request, p);
        fake_vfio_wrong(f, "an ioctl on a file that is not open");
        return -EBADF;
}

static int fake_ioctl(void *arg, int fd, unsigned long request, void *p)
{
        struct fake_vfio *f = arg;
        int ret;

        pthread_mutex_lock(&f->mutex);
        ret = fails(f, request) ? -f->fail_errno : do_ioctl(f, fd, request, p);
        pthread_mutex_unlock(&f->mutex);
        return ret;
}

/* The device whose register is meant, or NULL. */
static struct fake_vfio_device *find_register(struct fake_vfio *f, int fd, size_t n,
                                              uint64_t offset)
{
        uint64_t index = offset >> 40, at = offset & ((UINT64_C(1) << 40) - 1);
        struct fake_vfio_device *d;

        if (!is(fd, FAKE_FD_DEVICE, f->n_devices) || !f->devices[fd - FAKE_FD_DEVICE].open ||
            index >= VFIO_PCI_NUM_REGIONS) {
                fake_vfio_wrong(f, "an access to a file that is no open device");
                return NULL;
        }
        d = &f->devices[fd - FAKE_FD_DEVICE];
        if ((n != 1 && n != 2 && n != 4) || at % n || at + n > d->regions[index].size) {
                fake_vfio_wrong(f, "an access of unnatural width, or outside");
                return NULL;
        }
        return d;
}

static int do_read(struct fake_vfio_device *d, uint32_t region, uint64_t at, void *bytes, size_t n)
{
        if (d->gone) {
                memset(bytes, 0xff, n);
                return 0;
        }
        if (d->read)
                return d->read(d->arg, region, at, bytes, n);
        if (region == VFIO_PCI_CONFIG_REGION_INDEX)
                memcpy(bytes, d->config + at, n);
        else if (pread(d->regions[region].memory, bytes, n, (off_t)at) != (ssize_t)n)
                return -EIO;
        return 0;
}

static int do_write(struct fake_vfio_device *d, uint32_t region, uint64_t at, const void *bytes,
                    size_t n)
{
        if (d->gone)
                return 0;
        if (d->write)
                return d->write(d->arg, region, at, bytes, n);
        if (region == VFIO_PCI_CONFIG_REGION_INDEX)
                memcpy(d->config + at, bytes, n);
        else if (pwrite(d->regions[region].memory, bytes, n, (off_t)at) != (ssize_t)n)
                return -EIO;
        return 0;
}

static ssize_t fake_pread(void *arg, int fd, void *ret_bytes, size_t n, uint64_t offset)
{
        struct fake_vfio *f = arg;
        struct fake_vfio_device *d;
        ssize_t ret = -EIO;

        pthread_mutex_lock(&f->mutex);
        d = find_register(f, fd, n, offset);
        if (fails(f, 0))
                ret = -f->fail_errno;
        else if (d)
                ret = do_read(d, (uint32_t)(offset >> 40), offset & 0xffffffffff, ret_bytes, n);
        pthread_mutex_unlock(&f->mutex);
        return ret < 0 ? ret : (ssize_t)n;
}

static ssize_t fake_pwrite(void *arg, int fd, const void *bytes, size_t n, uint64_t offset)
{
        struct fake_vfio *f = arg;
        struct fake_vfio_device *d;
        ssize_t ret = -EIO;

        pthread_mutex_lock(&f->mutex);
        d = find_register(f, fd, n, offset);
        if (fails(f, 0))
                ret = -f->fail_errno;
        else if (d)
                ret = do_write(d, (uint32_t)(offset >> 40), offset & 0xffffffffff, bytes, n);
        pthread_mutex_unlock(&f->mutex);
        return ret < 0 ? ret : (ssize_t)n;
}

static bool overlaps_msix(const struct fake_vfio_device *d, uint32_t region, uint64_t at,
                          size_t len)
{
        /* The table that fake_vfio_add() has put at 0x2000 of BAR 4. */
        return region == VFIO_PCI_BAR4_REGION_INDEX && !d->regions[region].msix_mappable &&
               at < 0x3000 && at + len > 0x2000;
}

static int fake_mmap(void *arg, int fd, size_t len, uint64_t offset, void **ret_va)
{
        struct fake_vfio *f = arg;
        uint32_t region = (uint32_t)(offset >> 40);
        uint64_t at = offset & 0xffffffffff;
        struct fake_vfio_device *d = &f->devices[fd - FAKE_FD_DEVICE];
        int ret;

        pthread_mutex_lock(&f->mutex);
        if (overlaps_msix(d, region, at, len) || !d->regions[region].mappable)
                fake_vfio_wrong(f, "a mapping of what must not be mapped");
        ret = fails(f, 0) ? -f->fail_errno
                          : vql_vfio_linux.mmap(NULL, d->regions[region].memory, len, at, ret_va);
        f->n_mmaps += ret == 0;
        pthread_mutex_unlock(&f->mutex);
        return ret;
}

static int fake_munmap(void *arg, void *va, size_t len)
{
        struct fake_vfio *f = arg;

        pthread_mutex_lock(&f->mutex);
        f->n_mmaps--;
        pthread_mutex_unlock(&f->mutex);
        return munmap(va, len);
}

static int fake_eventfd(void *arg)
{
        struct fake_vfio *f = arg;
        int ret;

        pthread_mutex_lock(&f->mutex);
        ret = fails(f, 0) ? -f->fail_errno : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        f->n_eventfds += ret >= 0;
        pthread_mutex_unlock(&f->mutex);
        return ret;
}

static int fake_identify(void *arg, const void *va, uint64_t len, struct vql_vfio_file *ret_file)
{
        struct fake_vfio *f = arg;
        bool failing;

        pthread_mutex_lock(&f->mutex);
        failing = fails(f, 0);
        pthread_mutex_unlock(&f->mutex);
        return failing ? -f->fail_errno : vql_vfio_linux.identify(NULL, va, len, ret_file);
}

void fake_vfio_init(struct fake_vfio *f)
{
        *f = (struct fake_vfio){
                .sys = { fake_open, fake_close, fake_ioctl, fake_pread, fake_pwrite, fake_mmap,
                         fake_munmap, fake_eventfd, fake_identify, f },
                .page_size = 4096,
                .entry_limit = 65535,
                .memlock = UINT64_MAX,
                .fail_errno = ENXIO,
                .n_ranges = 2,
                .ranges = { { 0, 0xfedfffff }, { 0xfef00000, (UINT64_C(1) << 48) - 1 } },
        };
        pthread_mutex_init(&f->mutex, NULL);
        snprintf(f->root, sizeof(f->root), "/tmp/vql-fake-vfio-XXXXXX");
        assert_non_null(mkdtemp(f->root));
        snprintf(f->dev, sizeof(f->dev), "%s/dev", f->root);
        snprintf(f->sysfs, sizeof(f->sysfs), "%s/sys", f->root);
        fake_vfio_put(f, "bus/pci/devices/", NULL);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

void fake_vfio_fini(struct fake_vfio *f)
{
        for (size_t i = 0; i < f->n_devices; i++) {
                assert_false(f->devices[i].open);
                assert_false(f->devices[i].group_open);
                for (size_t k = 0; k < VFIO_PCI_NUM_REGIONS; k++)
                        if (f->devices[i].regions[k].memory >= 0)
                                close(f->devices[i].regions[k].memory);
        }
        for (size_t i = 0; i < FAKE_VFIO_CONTAINERS; i++)
                assert_false(f->containers[i].open);
        assert_int_equal(f->n_mmaps, 0);
        assert_int_equal(f->n_eventfds, 0);
        if (f->wrong)
                fail_msg("%s", f->wrong);
        pthread_mutex_destroy(&f->mutex);
        nftw(f->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct vql_vfio_place fake_vfio_place(const struct fake_vfio *f)
{
        return (struct vql_vfio_place){ &f->sys, f->dev, f->sysfs, NULL };
}

/* A file in sysfs with all the folders on its way; a link if the text begins with "->". */
void fake_vfio_put(const struct fake_vfio *f, const char *path, const char *text)
{
        char full[512];
        FILE *file;

        snprintf(full, sizeof(full), "%s/%s", f->sysfs, path);
        for (char *slash = strchr(full + strlen(f->root) + 1, '/'); slash;
             slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                mkdir(full, 0700);
                *slash = '/';
        }
        if (!text)
                return;
        unlink(full);
        if (strncmp(text, "->", 2) == 0) {
                assert_int_equal(symlink(text + 2, full), 0);
                return;
        }
        file = fopen(full, "we");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void put(const struct fake_vfio_device *d, const char *name, const char *text)
{
        char path[128];

        snprintf(path, sizeof(path), "bus/pci/devices/%s/%s", d->address, name);
        fake_vfio_put(d->host, path, text);
}

void fake_vfio_bind(struct fake_vfio_device *d, const char *driver)
{
        char link[64];

        snprintf(link, sizeof(link), "->../../drivers/%s", driver);
        put(d, "driver", link);
}

static void make_sysfs(struct fake_vfio_device *d)
{
        char text[96], path[96];

        put(d, "vendor", "0x1af4\n");
        put(d, "device", "0x1041\n");
        put(d, "class", "0x020000\n");
        put(d, "revision", "0x01\n");
        put(d, "numa_node", "-1\n");
        snprintf(text, sizeof(text), "->../../../kernel/iommu_groups/%d", d->group);
        put(d, "iommu_group", text);
        snprintf(path, sizeof(path), "kernel/iommu_groups/%d/devices/%s", d->group, d->address);
        snprintf(text, sizeof(text), "->../../../../bus/pci/devices/%s", d->address);
        fake_vfio_put(d->host, path, text);
        fake_vfio_bind(d, "vfio-pci");
        fake_vfio_put(d->host, "bus/pci/drivers/vfio-pci/", NULL);
}

/* Vendor, class, and a list of capabilities: power management at 0x40, MSI-X at 0x50. */
static const uint8_t usual_config[] = {
        [0x00] = 0xf4, [0x01] = 0x1a, [0x02] = 0x41, [0x03] = 0x10, [0x06] = 0x10, [0x08] = 0x01,
        [0x0b] = 0x02, [0x34] = 0x40, [0x40] = 0x01, [0x41] = 0x50, [0x50] = 0x11, [0x52] = 0x03,
        [0x54] = 0x04, [0x55] = 0x20, [0x58] = 0x04, [0x59] = 0x30, [0x5b] = 0x00,
};

struct fake_vfio_device *fake_vfio_add(struct fake_vfio *f, const char *address, int group)
{
        struct fake_vfio_device *d = &f->devices[f->n_devices++];

        *d = (struct fake_vfio_device){
                .host = f,
                .group = group,
                .viable = true,
                .can_reset = true,
                .container = -1,
                .irqs = { [VFIO_PCI_MSIX_IRQ_INDEX] = 4,
                          [VFIO_PCI_ERR_IRQ_INDEX] = 1,
                          [VFIO_PCI_REQ_IRQ_INDEX] = 1 },
                .vectors_left = FAKE_VFIO_VECTORS,
                .regions = { [VFIO_PCI_CONFIG_REGION_INDEX] = { .size = FAKE_VFIO_CONFIG_BYTES } },
        };
        snprintf(d->address, sizeof(d->address), "%s", address);
        memcpy(d->config, usual_config, sizeof(usual_config));
        for (size_t i = 0; i < VFIO_PCI_NUM_REGIONS; i++)
                d->regions[i].memory = -1;
        make_sysfs(d);
        return d;
}

void fake_vfio_region(struct fake_vfio_device *d, uint32_t index, uint64_t size)
{
        struct fake_vfio_region *r = &d->regions[index];

        r->size = size;
        r->mappable = true;
        r->memory = memfd_create("vql-fake-bar", MFD_CLOEXEC);
        assert_true(r->memory >= 0);
        assert_int_equal(ftruncate(r->memory, (off_t)size), 0);
}

void fake_vfio_remove(struct fake_vfio_device *d)
{
        pthread_mutex_lock(&d->host->mutex);
        d->gone = true;
        for (size_t i = 0; i < VFIO_PCI_NUM_REGIONS; i++)
                if (d->regions[i].memory >= 0 && ftruncate(d->regions[i].memory, 0) < 0)
                        fake_vfio_wrong(d->host, "a BAR cannot be taken away");
        pthread_mutex_unlock(&d->host->mutex);
}
