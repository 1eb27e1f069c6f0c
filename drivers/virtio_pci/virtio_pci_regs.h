/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRIVERS_VIRTIO_PCI_REGS_H
#define DRIVERS_VIRTIO_PCI_REGS_H

/*
 * What a virtio function looks like from the PCI bus (virtio 1.2, 4.1).  Everything is
 * little-endian.  <linux/virtio_pci.h> has most of these, but that of older kernels lacks fields.
 */

/* 4.1.2: identification. */
enum {
        VPCI_VENDOR = 0x1af4,
        VPCI_MODERN_NET = 0x1041,       /* 0x1040 plus the virtio device id */
        VPCI_TRANSITIONAL_NET = 0x1000, /* the subsystem device id has the virtio device id */
        VPCI_DEVICE_ID_NET = 1,
        VPCI_VENDOR_INTEL = 0x8086, /* as subsystem vendor: a class with registers of its own */
};

/* 4.1.4: where a structure is; offsets in its capability. */
enum {
        VPCI_CAP_LEN = 2,
        VPCI_CAP_TYPE = 3,
        VPCI_CAP_BAR = 4,
        VPCI_CAP_OFFSET = 8,
        VPCI_CAP_LENGTH = 12,
        VPCI_CAP_MULTIPLIER = 16, /* of a notification capability */
        VPCI_CAP_BYTES = 16,
        VPCI_CAP_NOTIFY_BYTES = 20,
        VPCI_CAP_BARS = 6,  /* higher numbers are reserved */
        VPCI_CAPS_MAX = 48, /* as many of four bytes have room behind the header */
};

/* 4.1.4: cfg_type. */
enum vpci_structure {
        VPCI_COMMON = 1,
        VPCI_NOTIFY = 2,
        VPCI_ISR = 3,
        VPCI_DEVICE = 4,
        VPCI_STRUCTURES, /* further types are of no use here */
};

/* 4.1.4.3: common configuration, with the width of each field. */
enum vpci_common {
        VPCI_DEVICE_FEATURE_SELECT = 0x00, /* 32 */
        VPCI_DEVICE_FEATURE = 0x04,        /* 32 */
        VPCI_DRIVER_FEATURE_SELECT = 0x08, /* 32 */
        VPCI_DRIVER_FEATURE = 0x0c,        /* 32 */
        VPCI_CONFIG_VECTOR = 0x10,         /* 16 */
        VPCI_NUM_QUEUES = 0x12,            /* 16 */
        VPCI_STATUS = 0x14,                /* 8 */
        VPCI_GENERATION = 0x15,            /* 8 */
        VPCI_QUEUE_SELECT = 0x16,          /* 16 */
        VPCI_QUEUE_SIZE = 0x18,            /* 16 */
        VPCI_QUEUE_VECTOR = 0x1a,          /* 16 */
        VPCI_QUEUE_ENABLE = 0x1c,          /* 16 */
        VPCI_QUEUE_NOTIFY_OFF = 0x1e,      /* 16 */
        VPCI_QUEUE_DESC = 0x20,            /* 64, written as two of 32 */
        VPCI_QUEUE_DRIVER = 0x28,          /* 64 */
        VPCI_QUEUE_DEVICE = 0x30,          /* 64 */
        VPCI_COMMON_BYTES = 0x38,
        VPCI_QUEUE_RESET = 0x3a, /* 16, with RING_RESET */
        VPCI_COMMON_RESET_BYTES = 0x3c,
};

enum {
        VPCI_NO_VECTOR = 0xffff,
        VPCI_FEATURE_WORDS = 4,  /* written; features above 63 exist and must not be left over */
        VPCI_DOORBELL_BYTES = 2, /* 4.1.5.2, without NOTIFICATION_DATA */
};

/* 2.1: device status. */
enum vpci_status {
        VPCI_ACKNOWLEDGE = 1,
        VPCI_DRIVER = 2,
        VPCI_DRIVER_OK = 4,
        VPCI_FEATURES_OK = 8,
        VPCI_NEEDS_RESET = 64,
        VPCI_ONES = 0xff, /* what a read from nowhere gives; it is no valid status */
};

/* 5.1.4: configuration of a network device. */
enum vpci_net_config {
        VPCI_NET_STATUS_END = 8, /* MAC address and status */
        VPCI_NET_MAX_PAIRS = 8,  /* 16, with MQ */
        VPCI_NET_MAX_PAIRS_END = 10,
        VPCI_NET_BYTES = 28, /* what 1.2 has */
};

/* Bits of the transport that <linux/virtio_config.h> of older kernels lacks. */
#ifndef VIRTIO_F_RING_RESET
#define VIRTIO_F_RING_RESET 40
#endif

#endif
