/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_REF_DEVICE_H
#define FUNC_REF_DEVICE_H

/*
 * A device's side of one ring, split or packed: plain, slow, written from virtio 1.2 sections 2.7
 * and 2.8 alone, to try the test front-end's drivers on.
 */

#include <stdbool.h>
#include <stdint.h>

#include "frontend/driver.h"

enum ref_fault {
        REF_OK,
        REF_AVAIL_INDEX, /* more available than the ring holds */
        REF_DESC_INDEX,
        REF_DESC_LOOP,
        REF_ADDRESS,
        REF_DIRECTION, /* readable behind writable */
        REF_INDIRECT,
};

struct ref_device {
        const struct fe_memory *mem;
        struct fe_area_pointers at;
        uint16_t size;
        bool packed, event_idx, in_order;
        uint16_t avail, used; /* split: free-running; packed: slots */
        bool avail_wrap, used_wrap;
        uint16_t old_used; /* at the last ref_call_due() */
        bool old_used_wrap;
        unsigned int used_since; /* split: elements; packed: slots */
        enum ref_fault fault;
};

struct ref_chain {
        uint16_t id;
        uint16_t n_desc; /* slots of the ring */
        unsigned int n;
        struct fe_seg segs[FE_MAX_RING];
};

void ref_init(struct ref_device *v, const struct fe_driver *d);
/* Take the next buffer: 1, 0 none, -1 v->fault says why not. */
int ref_take(struct ref_device *v, struct ref_chain *ret_chain);
/* Return a buffer; `skipped` slots or elements before it belong to buffers that an in-order device
 * returns with it. */
void ref_return(struct ref_device *v, uint16_t id, uint16_t n_desc, uint32_t len,
                unsigned int skipped);
/* Does the driver want an interrupt for what was returned since the last call? */
bool ref_call_due(struct ref_device *v);
/* Ask for a kick when the buffer `after` slots (split: buffers) from here is available; or ask for
 * none. */
void ref_kicks_on(struct ref_device *v, uint16_t after);
void ref_kicks_off(struct ref_device *v);

#endif
