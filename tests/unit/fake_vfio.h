/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_FAKE_VFIO_H
#define TESTS_UNIT_FAKE_VFIO_H

/*
 * A kernel with VFIO, for lib/vfio: containers with a type 1 IOMMU, groups, and devices that a test
 * makes of callbacks or of plain memory.  It is as strict as the real one, keeps count of what it
 * has handed out, and fails where it is told to.  Its sysfs is a real folder of its own.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/vfio.h>

#include "vfio/dma.h"
#include "vfio/vfio.h"

enum {
        FAKE_VFIO_DEVICES = 4,
        FAKE_VFIO_CONTAINERS = 8,
        FAKE_VFIO_RANGES = 20,
        FAKE_VFIO_AREAS = 3,
        FAKE_VFIO_VECTORS = 2048,
        FAKE_VFIO_CONFIG_BYTES = 256,
};

struct fake_vfio;

struct fake_vfio_region {
        uint64_t size; /* 0: there is none */
        bool mappable; /* then it is the memory of `memory`, else the callbacks' */
        bool msix_mappable;
        int memory; /* memfd of `size` bytes, made by fake_vfio_region() */
        size_t n_areas;
        struct vfio_region_sparse_mmap_area areas[FAKE_VFIO_AREAS];
};

struct fake_vfio_device {
        struct fake_vfio *host;
        char address[16];
        int group;
        bool viable, can_reset, gone;
        const char *token; /* UUID that opening it needs, or NULL */
        struct fake_vfio_region regions[VFIO_PCI_NUM_REGIONS];
        uint32_t irqs[VFIO_PCI_NUM_IRQS]; /* vectors that it has */
        uint32_t vectors_left;            /* of the host, for MSI-X */
        /* Registers; NULL: the configuration space is `config`, other regions are memory. */
        int (*read)(void *arg, uint32_t region, uint64_t at, void *ret_bytes, size_t n);
        int (*write)(void *arg, uint32_t region, uint64_t at, const void *bytes, size_t n);
        int (*reset)(void *arg);
        void *arg;
        uint8_t config[FAKE_VFIO_CONFIG_BYTES];

        /* What has happened. */
        int container; /* -1: the group is in none */
        bool group_open, open;
        unsigned int resets; /* by VFIO_DEVICE_RESET */
        uint32_t enabled[VFIO_PCI_NUM_IRQS];
        int fds[VFIO_PCI_NUM_IRQS][FAKE_VFIO_VECTORS];
};

struct fake_vfio_container {
        bool open, iommu;
        unsigned int groups;
        size_t n_maps;
        struct vfio_iommu_type1_dma_map *maps;
};

struct fake_vfio {
        struct vql_vfio_sys sys;
        char root[64]; /* of dev and sysfs */
        char dev[80], sysfs[80];
        pthread_mutex_t mutex;
        size_t n_devices;
        struct fake_vfio_device devices[FAKE_VFIO_DEVICES];
        struct fake_vfio_container containers[FAKE_VFIO_CONTAINERS];

        /* What the kernel is like. */
        int api_version;
        bool no_type1, no_available, no_info;
        uint64_t page_size;
        uint32_t entry_limit;
        uint64_t memlock;    /* bytes */
        bool takes_anything; /* as memory, also what is none */
        size_t n_ranges;
        struct vfio_iova_range ranges[FAKE_VFIO_RANGES];

        /* Failures: the n-th call from now on (1: the next), any or of one ioctl; 0: none. */
        unsigned int fail_at;
        unsigned long fail_request;
        int fail_errno;
        uint64_t unmap_less; /* bytes that the next unmap leaves, of the end */

        unsigned int calls, maps, unmaps; /* so far */
        size_t n_mmaps;                   /* right now */
        size_t n_eventfds;
        const char *wrong; /* what lib/vfio did that no kernel would stand, or NULL */
};

void fake_vfio_init(struct fake_vfio *f);
/* Fails the test if anything is still open or mapped, or something was wrong. */
void fake_vfio_fini(struct fake_vfio *f);
/* The place for vql_vfio_new(). */
struct vql_vfio_place fake_vfio_place(const struct fake_vfio *f);

/* Bound to vfio-pci, with a configuration space, MSI-X of 4 vectors in BAR 4, ERR and REQ. */
struct fake_vfio_device *fake_vfio_add(struct fake_vfio *f, const char *address, int group);
/* Give it a BAR of plain memory. */
void fake_vfio_region(struct fake_vfio_device *d, uint32_t index, uint64_t size);
/* In sysfs. */
void fake_vfio_bind(struct fake_vfio_device *d, const char *driver);
void fake_vfio_put(const struct fake_vfio *f, const char *path, const char *text);

/* As from the bus: memory at an IOVA, NULL if the IOMMU stops it; an interrupt. */
void *fake_vfio_memory(const struct fake_vfio_device *d, uint64_t iova, uint64_t len, bool write);
void fake_vfio_interrupt(const struct fake_vfio_device *d, uint32_t index, uint32_t vector);
/* Surprise removal: registers read as ones, mapped ones raise SIGBUS. */
void fake_vfio_remove(struct fake_vfio_device *d);
/* The container that it is in, or NULL. */
struct fake_vfio_container *fake_vfio_container(const struct fake_vfio_device *d);

#endif
