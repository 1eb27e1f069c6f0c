/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_VIRTIO_PCI_RIG_H
#define TESTS_UNIT_VIRTIO_PCI_RIG_H

/*
 * The driver virtio_pci, on a model of its device behind a fake of the kernel's VFIO, with a guest
 * in front: memory at its physical addresses, and rings that the front-end's driver side owns.
 * A test says what the device is, opens it, and in the end rig_free() finds whatever was not
 * released and whatever the driver did wrong.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "drivers/virtio_pci/virtio_pci.h"
#include "fake_vfio.h"
#include "frontend/driver.h"
#include "frontend/memory.h"
#include "virtio_pci_model.h"

enum { RIG_QUEUES = 16, RIG_MAPS = 8, RIG_BUFFERS = 4096, RIG_FRAME = 100, RIG_TIMEOUT_MS = 1000 };

#define RIG_ADDRESS  "0000:65:00.2"
#define RIG_ADDRESS2 "0000:65:00.3"

struct rig {
        struct model model;
        struct rig *host; /* whose kernel and guest it shares; itself if it has its own */
        struct fake_vfio fake;
        struct fake_vfio_device *fake_device;
        struct vql_vfio_place place;
        struct vql_vfio *vfio;
        struct vql_dev dev;
        struct vql_dev_caps caps;
        bool open;
        struct fe_memory *mem;
        struct vql_map maps[RIG_MAPS];
        size_t n_maps;
        struct fe_driver *ring[RIG_QUEUES];
        int call[RIG_QUEUES];
        struct fe_seg segs[RIG_BUFFERS];
        size_t n_segs;
        unsigned int next_frame;
        struct vql_error e;
};

struct rig *rig_new(void);
/* A further device on the same host, of the same guest; to be freed first. */
struct rig *rig_new_beside(struct rig *host);
/* Closes, and fails the test if something is left or the model has noted anything. */
void rig_free(struct rig *r);
/* The same, where the model was broken on purpose. */
void rig_drop(struct rig *r);

/* Each returns what the driver returned. */
int rig_open(struct rig *r, const char *args);
void rig_close(struct rig *r);
int rig_map(struct rig *r);
int rig_negotiate(struct rig *r, uint64_t features);
/* A new ring, and the queue on it. */
int rig_vq_start(struct rig *r, uint16_t q, uint16_t size);
/* The same ring again from its first position, as after a stop. */
int rig_vq_restart(struct rig *r, uint16_t q);
int rig_start(struct rig *r);
int rig_vq_stop(struct rig *r, uint16_t q, struct vql_stop *ret_stop);
int rig_ctrl_pairs(struct rig *r, uint16_t pairs);

/* open, map, negotiate everything (`packed`: rings, too), start the first `queues`: 0 or the first
 * error. */
int rig_run(struct rig *r, bool packed, uint16_t queues);

/* Features that a guest takes: all but packed rings unless wanted. */
uint64_t rig_features(const struct rig *r, bool packed);

/* Offer n receive buffers, or n frames to be sent, on the queue's ring; kicks. */
void rig_offer(struct rig *r, uint16_t q, unsigned int n);
/* Take back what is done; frames received are compared with those sent.  Number of buffers. */
unsigned int rig_reap(struct rig *r, uint16_t q);
/* n frames around the pair, one after the other, all of them looked at. */
void rig_exchange(struct rig *r, uint16_t pair, unsigned int n);
/* How often the queue's eventfd was signalled since the last time. */
uint64_t rig_calls(const struct rig *r, uint16_t q);
/* Kinds of events that are there, as a mask of 1 << vql_event_kind; is the event fd readable? */
uint32_t rig_events(struct rig *r);
bool rig_has_events(const struct rig *r);

#endif
