/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_DRIVER_H
#define FRONTEND_DRIVER_H

/*
 * The driver's side of one virtqueue, split (virtio 1.2, 2.7) or packed (2.8), behind one
 * interface. It keeps books: each buffer is outstanding exactly once, and whatever the device does
 * that the specification forbids comes back as -EBADMSG with a sentence in `error`.
 *
 * Life of a buffer: fe_driver_add() writes descriptors that the device cannot see yet,
 * fe_driver_publish() shows all of them at once, fe_driver_kick() notifies if the device wants it,
 * fe_driver_get() takes one back.  Between add and publish a test may spoil the descriptors
 * (fe_driver_desc()).
 *
 * A driver belongs to one thread.  It needs no socket: give it a memory and any device.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/virtio_ring.h>

#include "frontend/memory.h"
#include "frontend/text.h"

enum { FE_MAX_RING = 32768, FE_MAX_SEGS = 1024 };

/* Which free descriptor (split) or buffer id (packed) is taken next. */
enum fe_pick {
        FE_PICK_LIFO, /* the one freed last, as Linux does */
        FE_PICK_FIFO,
        FE_PICK_RANDOM, /* chains lie scattered over the table */
};

struct fe_driver_params {
        struct fe_memory *mem; /* borrowed */
        int region;            /* where the ring lies; FE_ANY_REGION */
        uint16_t size;         /* split: a power of two; packed: 1 to 32768 */
        bool packed;
        bool event_idx, in_order; /* as negotiated */
        bool guard;               /* paint and check buffers: see fe_driver_get() */
        enum fe_pick pick;
        uint32_t seed;     /* of FE_PICK_RANDOM */
        uint16_t start;    /* split: index of the first buffer; packed: slot */
        bool start_wrap_0; /* packed: start in a lap whose wrap counter is 0 */
};

/* One piece of a buffer.  Device-readable pieces come before device-writable ones. */
struct fe_seg {
        uint64_t gpa;
        uint32_t len;
        bool write;      /* device-writable */
        uint16_t canary; /* painted bytes before and after it, 0: none; see fe_seg_alloc() */
};

/* A buffer to be added. */
struct fe_chain {
        const struct fe_seg *segs;
        unsigned int n;
        uint64_t table; /* GPA of an indirect table of n descriptors (16-byte aligned), or 0: direct
                         */
        void *cookie;   /* comes back with the buffer */
};

/* A buffer that came back. */
struct fe_done {
        void *cookie;
        uint16_t id;  /* split: head; packed: buffer id */
        uint32_t len; /* used length; of a buffer skipped in an in-order batch: all its writable
                         bytes */
        bool skipped; /* no used element of its own (IN_ORDER) */
};

/* A position as the vhost-user protocol encodes it, in parts. */
struct fe_position {
        uint16_t avail, used;
        bool avail_wrap, used_wrap; /* packed */
};

struct fe_driver;

int fe_driver_new(const struct fe_driver_params *params, struct fe_driver **ret_driver,
                  struct fe_text *ret_error);
void fe_driver_free(struct fe_driver *d); /* NULL is fine */
/* Forget all buffers and start again at params->start, as a driver does after a device reset. */
void fe_driver_restart(struct fe_driver *d);
const struct fe_driver_params *fe_driver_params(const struct fe_driver *d);
const char *fe_driver_error(const struct fe_driver *d);

/* GPAs of the three areas, for SET_VRING_ADDR: descriptors, driver area, device area. */
struct fe_areas {
        uint64_t desc, driver, device;
};
struct fe_areas fe_driver_areas(const struct fe_driver *d);
/* Pointers to them, for devices inside a test and for spoilers. */
struct fe_area_pointers {
        union {
                struct vring_desc *desc;
                struct vring_packed_desc *packed;
        };
        union {
                struct vring_avail *avail;
                struct vring_packed_desc_event *driver_event;
        };
        union {
                struct vring_used *used;
                struct vring_packed_desc_event *device_event;
        };
};
struct fe_area_pointers fe_driver_pointers(const struct fe_driver *d);

/* ---- buffers to the device ---- */

/* How many descriptors are free (an indirect buffer takes one, and one id). */
uint16_t fe_driver_free_slots(const struct fe_driver *d);
/* How many buffers the device has. */
uint16_t fe_driver_outstanding(const struct fe_driver *d);

/*
 * Write a buffer's descriptors.  0 and *ret_id (may be NULL); -ENOSPC no room; -EINVAL not a buffer
 * that a right driver may offer (n 0, longer than the ring, a length of 4 GiB and more).
 */
int fe_driver_add(struct fe_driver *d, const struct fe_chain *chain, uint16_t *ret_id);
/* Show all buffers added since the last time. */
void fe_driver_publish(struct fe_driver *d);
/* Does the device want to be notified of what was published since the last call?  Exact: flags or
 * event index, whatever was negotiated. */
bool fe_driver_kick_due(struct fe_driver *d);
/* publish; then, if a kick is due, write `kick_fd`.  1 kicked, 0 not wanted, -errno of write. */
int fe_driver_kick(struct fe_driver *d, int kick_fd);

/* ---- buffers from the device ---- */

/*
 * Take the next buffer back: 1 and *ret_done, 0 nothing there, -EBADMSG the device broke a rule:
 * unknown id, id not outstanding (returned twice), out of order, used length larger than the
 * writable part, used index ahead of what was published; with `guard` also: bytes of a readable
 * part changed, bytes changed behind the used length or around the buffer.
 * After -EBADMSG the driver stays usable only for fe_driver_restart().
 */
int fe_driver_get(struct fe_driver *d, struct fe_done *ret_done);
/* Is there something to get? */
bool fe_driver_pending(const struct fe_driver *d);

/* Interrupts.  Enable returns true if something is pending already (no interrupt will come for
 * it).  `after` asks for an interrupt only when the next used element and that many further ones
 * (packed: slots, fewer than the ring has) are there; more than 0 needs event_idx. */
bool fe_driver_calls_on(struct fe_driver *d, uint16_t after);
void fe_driver_calls_off(struct fe_driver *d);

/*
 * Sleep until something is pending, by interrupt alone: enable, look once, wait on `call_fd`.
 * 0 pending; -ETIMEDOUT nothing came; -ETIME nothing came, and yet something is pending: the device
 * has missed to interrupt.  Leaves interrupts off.
 */
int fe_driver_wait(struct fe_driver *d, int call_fd, int timeout_ms);

/* ---- positions ---- */

uint32_t fe_position_encode(const struct fe_position *p, bool packed);
struct fe_position fe_position_decode(uint32_t num, bool packed);
/* Where a device stands that has returned all that it took, by what the ring says now, got or not:
 * the position to start it at, and what GET_VRING_BASE has to tell. */
struct fe_position fe_driver_position(const struct fe_driver *d);

/* ---- for spoilers ---- */

/* A descriptor in place.  Pointers are into guest memory (or to the flags that publish will
 * store).  Exactly one of next and id is not NULL. */
struct fe_desc {
        uint64_t *addr;
        uint32_t *len;
        uint16_t *flags;
        uint16_t *next; /* split */
        uint16_t *id;   /* packed */
};
/* Descriptor i of the buffer added last: of its indirect table, if it has one. */
int fe_driver_desc(struct fe_driver *d, unsigned int i, struct fe_desc *ret_desc);
/* The ring descriptor that points to the indirect table, or the head of a direct buffer. */
struct fe_desc fe_driver_head(struct fe_driver *d);
/* How many ring descriptors or table entries the buffer added last has. */
unsigned int fe_driver_last_len(const struct fe_driver *d);
/* Split: store any avail index.  Packed: make `n` slots after the last published look available. */
void fe_driver_jump(struct fe_driver *d, uint16_t n);

/* ---- helpers for segments ---- */

/* A guarded buffer of len bytes in `region` (or FE_ANY_REGION).  -ENOSPC. */
int fe_seg_alloc(struct fe_memory *m, int region, uint32_t len, bool write, struct fe_seg *ret_seg);
/* Copy into a buffer's segments, or out of them from byte `skip` on.  Number of bytes copied. */
size_t fe_segs_write(const struct fe_memory *m, const struct fe_seg *segs, unsigned int n,
                     const void *from, size_t len);
size_t fe_segs_read(const struct fe_memory *m, const struct fe_seg *segs, unsigned int n,
                    size_t skip, void *to, size_t len);

#endif
