/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DRIVERS_VIRTIO_PCI_H
#define DRIVERS_VIRTIO_PCI_H

/*
 * Any modern virtio network function, as the specification has it, through VFIO.  This header is
 * what the files of this folder share; others see the table vql_driver_virtio_pci alone.
 */

#include "base/error.h"
#include "drivers/virtio_pci/args.h"
#include "drivers/virtio_pci/virtio_pci_regs.h"
#include "vfio/device.h"
#include "vqlift/driver.h"

extern const struct vql_driver vql_driver_virtio_pci;

/* One of the structures of 4.1.4; `region` is NULL where the function has none. */
struct vpci_window {
        struct vql_vfio_region *region;
        uint32_t bar;
        uint64_t at, length;
};

enum vpci_queue_use {
        VPCI_QUEUE_OFF,     /* not enabled since the device was reset */
        VPCI_QUEUE_PARKED,  /* enabled, on a ring of ours that stays empty */
        VPCI_QUEUE_STARTED, /* enabled, on the caller's ring */
        VPCI_QUEUE_STOPPED, /* held in queue reset */
};

struct vpci_queue {
        enum vpci_queue_use use;
        uint16_t max;        /* largest size */
        uint16_t notify_off; /* in units of the multiplier */
        int irq_fd;          /* borrowed; -1: none */
        struct vql_dev_ring ring;
};

/* Memory of ours that the device reaches: rings of control and of parked queues, commands. */
struct vpci_memory {
        uint8_t *va; /* NULL: not there */
        uint64_t bytes;
        uint64_t iova;
        struct vql_range window; /* of IOVAs, for this */
        enum { VPCI_MEMORY_UNMAPPED, VPCI_MEMORY_MAPPED } state;
};

enum vpci_control_state {
        VPCI_CONTROL_OFF,
        VPCI_CONTROL_READY,
        VPCI_CONTROL_STUCK, /* a command got no answer: its buffer is the device's until reset */
};

struct vpci_control {
        enum vpci_control_state state;
        uint16_t queue; /* VQL_NO_QUEUE: the device has none */
        uint16_t size;
        uint16_t next; /* split: available index; packed: slot */
        uint8_t wrap;
};

struct vpci_vectors {
        uint16_t n;        /* enabled; 0: none yet */
        int config_fd;     /* of a vector that is the configuration's alone */
        int queue_fd;      /* of all vectors that have more than one user */
        int config_irq_fd; /* borrowed: the caller's for the configuration */
};

struct vpci_news {
        int epoll_fd;
        int raise_fd; /* readable: `pending` has something */
        int req_fd;
        int err_fd;
        uint32_t pending; /* bits of vql_event_kind */
        uint32_t told;    /* what holds on and is told once */
        uint8_t generation;
        uint8_t config[VPCI_NET_STATUS_END];
};

struct vql_vpci {
        struct vql_dev *dev;
        struct vql_vpci_args args;
        struct vql_vfio_device *vfio;
        struct vpci_window windows[VPCI_STRUCTURES];
        uint32_t multiplier;
        uint64_t offered; /* by the device */
        uint64_t own;     /* of these, what the driver itself needs */
        uint64_t agreed;  /* 0: not negotiated */
        struct vql_dev_caps caps;
        /* Data queues, and in the last place the control queue whatever its number. */
        struct vpci_queue queues[VQL_DEV_MAX_QUEUES];
        struct vpci_control control;
        struct vpci_memory memory;
        struct vpci_vectors vectors;
        struct vpci_news news;
};

static inline struct vpci_queue *vql_vpci_queue(struct vql_vpci *v, uint16_t q)
{
        return &v->queues[q == v->control.queue ? VQL_DEV_MAX_QUEUES - 1 : q];
}

/* caps.c: find the structures.  -ENODEV something is missing or does not fit. */
int vql_vpci_windows_find(struct vql_vpci *v, struct vql_error *e);

/* negotiate.c: the status register.  Both wait until the deadline for a reset. */
int vql_vpci_device_reset(struct vql_vpci *v, uint64_t deadline_ns, struct vql_error *e);
/* Reset, and go on until FEATURES_OK; sets offered and agreed.  -EINVAL the device does not want
 * these features. */
int vql_vpci_handshake(struct vql_vpci *v, uint64_t features, uint64_t deadline_ns,
                       struct vql_error *e);
int vql_vpci_features_read(struct vql_vpci *v, uint64_t *ret_offered, struct vql_error *e);
void vql_vpci_status_add(struct vql_vpci *v, uint8_t bits);
/*
 * Is the device there and well?  Its read is not posted, so what the device wrote to memory before
 * is visible afterwards, and what was written to registers has arrived.  -ENODEV, -EIO.
 */
int vql_vpci_check(struct vql_vpci *v, struct vql_error *e);
/* `ret`, unless the check fails: a strange value that was read explains itself then. */
int vql_vpci_blame(struct vql_vpci *v, int ret, struct vql_error *e);

/* queue.c */
int vql_vpci_queue_enable(struct vql_vpci *v, uint16_t q, const struct vql_dev_ring *ring,
                          struct vql_error *e);
int vql_vpci_vq_start(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                      const struct vql_position *at, struct vql_error *e);
int vql_vpci_vq_stop(struct vql_dev *d, uint16_t q, uint32_t timeout_ms, struct vql_stop *ret_stop,
                     struct vql_error *e);
void vql_vpci_vq_kick(struct vql_dev *d, uint16_t q);
int vql_vpci_queues_park(struct vql_vpci *v, struct vql_error *e);
/* Where the rings stand of a device that was reset; all queues are off then. */
void vql_vpci_queues_collect(struct vql_vpci *v, struct vql_stop *ret_stops);
void vql_vpci_queues_forget(struct vql_vpci *v);

/* vectors.c */
int vql_vpci_vectors_plan(struct vql_vpci *v, struct vql_error *e);
int vql_vpci_vectors_arm(struct vql_vpci *v, struct vql_error *e);
void vql_vpci_vectors_disarm(struct vql_vpci *v);
/* Tell the device the vector of queue q, which is selected, or of the configuration. */
int vql_vpci_vector_assign(struct vql_vpci *v, uint16_t q, struct vql_error *e);
int vql_vpci_vq_irq(struct vql_dev *d, uint16_t q, int fd, struct vql_error *e);
/* Is the configuration's vector its own? */
bool vql_vpci_vectors_config_alone(const struct vql_vpci *v);
/* The vectors with several users fired: signal them all. */
void vql_vpci_vectors_forward(const struct vql_vpci *v);

/* memory.c */
enum vpci_memory_part { VPCI_MEMORY_CONTROL, VPCI_MEMORY_PARK, VPCI_MEMORY_COMMAND };
enum { VPCI_PART_BYTES = 4096, VPCI_COMMAND_BYTES = 8192 };
/* Take a window of IOVAs out of caps.ranges, and the memory. */
int vql_vpci_memory_new(struct vql_vpci *v, struct vql_error *e);
void vql_vpci_memory_free(struct vql_vpci *v);
int vql_vpci_memory_map(struct vql_vpci *v, struct vql_error *e);
void vql_vpci_memory_unmap(struct vql_vpci *v);
uint8_t *vql_vpci_memory_va(const struct vql_vpci *v, enum vpci_memory_part part);
uint64_t vql_vpci_memory_iova(const struct vql_vpci *v, enum vpci_memory_part part);
/* A ring in a part of the memory, of the format agreed on. */
struct vql_dev_ring vql_vpci_memory_layout(const struct vql_vpci *v, enum vpci_memory_part part,
                                           uint16_t size);
/* The same, zeroed. */
struct vql_dev_ring vql_vpci_memory_ring(struct vql_vpci *v, enum vpci_memory_part part,
                                         uint16_t size);

/* dma.c */
int vql_vpci_dma_update(struct vql_dev *d, const struct vql_map *del, size_t n_del,
                        const struct vql_map *add, size_t n_add, struct vql_error *e);

/* control.c */
int vql_vpci_control_start(struct vql_vpci *v, struct vql_error *e);
int vql_vpci_ctrl(struct vql_dev *d, uint8_t cls, uint8_t command, const void *data, uint32_t n,
                  struct vql_error *e);

/* config.c */
int vql_vpci_config_read(struct vql_vpci *v, uint32_t offset, void *ret_bytes, uint32_t n,
                         struct vql_error *e);
int vql_vpci_cfg_read(struct vql_dev *d, uint32_t offset, void *ret_bytes, uint32_t n);

/* events.c */
int vql_vpci_news_new(struct vql_vpci *v, struct vql_error *e);
void vql_vpci_news_free(struct vql_vpci *v);
/* The host's REQ and ERR interrupts, as far as its kernel has them. */
int vql_vpci_news_arm(struct vql_vpci *v, struct vql_error *e);
void vql_vpci_news_disarm(struct vql_vpci *v);
/* Note what the configuration is, so that a change is seen. */
void vql_vpci_news_settle(struct vql_vpci *v);
void vql_vpci_news_raise(struct vql_vpci *v, enum vql_event_kind kind);
void vql_vpci_news_forget(struct vql_vpci *v);
size_t vql_vpci_events(struct vql_dev *d, struct vql_event *ret_events, size_t n);

/* doorbell.c */
/* From the start of the notification structure. */
uint64_t vql_vpci_doorbell_at(struct vql_vpci *v, uint16_t q);
bool vql_vpci_doorbell_fits(struct vql_vpci *v, uint16_t q);
int vql_vpci_vq_doorbell(struct vql_dev *d, uint16_t q, struct vql_doorbell *ret_doorbell);

/* survey.c: what the function can do; fills caps.  The device is reset afterwards. */
int vql_vpci_survey(struct vql_vpci *v, struct vql_error *e);

#endif
