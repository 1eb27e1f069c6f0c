/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BURST_H
#define VQLIFT_BURST_H

/*
 * The burst datapath without ports and sockets: for programs that have a transport of their own and
 * want vqlift to move packets between DPDK's packet buffers and a guest's rings.
 *
 * A queue is used by one thread at a time.  DPDK's environment must be running.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vql_burst_queue;

/* One region of guest memory, as in vhost-user's SET_MEM_TABLE. */
struct vql_burst_region {
        uint64_t gpa;         /* guest physical address */
        uint64_t size;        /* bytes */
        uint64_t uva;         /* address in the space that ring addresses are given in */
        uint64_t mmap_offset; /* where the region starts in its file */
        int fd;               /* the file; the caller keeps it */
};

struct vql_burst_params {
        size_t size; /* of this struct */
        const struct vql_burst_region *regions;
        unsigned int n_regions;
        uint64_t features; /* as the driver acknowledged them */
        bool to_guest;     /* a receive queue of the guest */
        uint16_t ring_size;
        uint64_t desc, driver, device; /* the ring's areas, in the space of uva */
        uint32_t base;                 /* position, in the encoding of SET_VRING_BASE */
        int call_fd;                   /* eventfd to interrupt the guest with, or -1 */
};

/*
 * Map the memory and make the queue ready.  -EINVAL, -EFAULT (a ring area outside of memory),
 * -ENXIO (a file too short), -ENOMEM; `ret_error` (may be NULL), a buffer of n bytes, gets the
 * sentence.
 */
int vql_burst_open(const struct vql_burst_params *params, struct vql_burst_queue **ret_queue,
                   char *ret_error, size_t n);
void vql_burst_close(struct vql_burst_queue *b); /* NULL is fine */

/*
 * Copy up to n (at most 32) packets into the guest's buffers.  Returns how many were dealt with, in
 * order: copied, or dropped because they fit no buffer.  The caller keeps and frees all of them.
 */
uint16_t vql_burst_enqueue(struct vql_burst_queue *b, struct rte_mbuf **pkts, uint16_t n);
/* Take up to n (at most 32) packets out of the guest's buffers, into buffers from `pool`. */
uint16_t vql_burst_dequeue(struct vql_burst_queue *b, struct rte_mempool *pool,
                           struct rte_mbuf **pkts, uint16_t n);

/* The position, in the encoding of GET_VRING_BASE, and another one to go on at. */
uint32_t vql_burst_position(const struct vql_burst_queue *b);
int vql_burst_set_position(struct vql_burst_queue *b, uint32_t base);
/* 0, or a number that vql_burst_fault_name() explains: the ring's content was bad. */
unsigned int vql_burst_fault(const struct vql_burst_queue *b);
const char *vql_burst_fault_name(unsigned int fault);
/* The datapath instance in use, for people. */
const char *vql_burst_instance(const struct vql_burst_queue *b);

#ifdef __cplusplus
}
#endif

#endif
