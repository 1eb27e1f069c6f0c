/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/lanes.h"

#include <errno.h>
#include <malloc.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "base/bits.h"
#include "frontend/driver.h"
#include "port/ring.h"
#include "sw-fallback/uplink.h"
#include "sw-fallback/worker.h"
#include "virtqueue/features.h"
#include "vqlift-bench/sample.h"

enum {
        LINE = 64,
        ROOM = 128, /* of a buffer */
        RING = 256,
        HEADER = 12,
        BYTES = 64,     /* of a packet */
        ROUNDS = 4000,  /* of the worker, in a measurement */
        WARM_UP = 1000, /* that are not counted before */
        MEMORY = 16 << 20,
        WAIT_SECONDS = 60,
};

/* One guest with its port. */
struct member {
        struct fe_driver *driver[2]; /* of the ring to it, and of that from it */
        struct vql_ring *ring[2];    /* the same rings for the worker */
        struct vql_uplink *uplink;
        struct vql_lane *lane;
        int kick_fd;
        bool attached;
};

struct lanes {
        struct vql_ring busy; /* of member 0, from the guest */
        struct lanes_params p;
        struct fe_memory *mem;
        struct vql_mem_table *table;
        struct vql_worker *worker;
        struct member *member; /* the busy one, and idle ones */
        unsigned int n;
        double bytes_per_queue;

        /* the busy guest's, in the worker's thread */
        vql_dequeue_fn *dequeue;
        struct fe_seg seg[VQL_BURST];
        uint64_t left; /* the clock when the last burst ended; 0: none yet */
        _Atomic(bool) measuring;
        unsigned int seen; /* rounds since measuring began */
        double ticks[ROUNDS];
        sem_t done;
};

/* ---- the busy guest ---- */

/* Take back all buffers and give them again: the worker finds a full burst each time. */
static void refill(struct lanes *l)
{
        struct fe_driver *d = l->member[0].driver[1];
        struct fe_done done;
        int rc;

        do {
                rc = fe_driver_get(d, &done);
        } while (rc == 1);
        for (unsigned int i = 0; i < VQL_BURST; i++) {
                const struct fe_chain chain = { .segs = &l->seg[i], .n = 1 };

                if (fe_driver_add(d, &chain, NULL) < 0)
                        break;
        }
        fe_driver_publish(d);
}

static void note(struct lanes *l, double ticks)
{
        if (!atomic_load_explicit(&l->measuring, memory_order_acquire))
                return;
        if (l->seen >= WARM_UP)
                l->ticks[l->seen - WARM_UP] = ticks;
        if (++l->seen == WARM_UP + ROUNDS) {
                atomic_store(&l->measuring, false);
                sem_post(&l->done);
        }
}

/* What the worker calls in place of the burst. */
static uint16_t serve(struct vql_queue *q, struct rte_mempool *pool, struct rte_mbuf **pkts,
                      uint16_t n)
{
        struct lanes *l = (struct lanes *)((char *)q - offsetof(struct lanes, busy.q));
        const uint64_t others = l->left ? rte_rdtsc_precise() - l->left : 0;
        uint64_t begin;
        uint16_t got;

        refill(l);
        begin = rte_rdtsc_precise();
        got = l->dequeue(q, pool, pkts, n);
        l->left = rte_rdtsc_precise();
        if (got > 0)
                note(l, (double)(others + l->left - begin) / got);
        return got;
}

static int make_packets(struct lanes *l)
{
        for (unsigned int i = 0; i < VQL_BURST; i++) {
                uint64_t gpa;
                int rc = fe_memory_alloc(l->mem, FE_ANY_REGION, ROOM, LINE, &gpa);

                if (rc < 0)
                        return rc;
                memset(fe_memory_at(l->mem, gpa, ROOM), 0, ROOM);
                l->seg[i] = (struct fe_seg){ .gpa = gpa, .len = HEADER + BYTES };
        }
        return 0;
}

/* ---- guests ---- */

static int make_guest(struct lanes *l, struct member *m)
{
        const struct fe_driver_params p = {
                .mem = l->mem,
                .region = FE_ANY_REGION,
                .size = RING,
                .packed = l->p.packed,
                .pick = FE_PICK_FIFO,
        };
        struct fe_text error;
        int rc = 0;

        m->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (m->kick_fd < 0)
                return -errno;
        for (int i = 0; i < 2 && rc == 0; i++) {
                rc = fe_driver_new(&p, &m->driver[i], &error);
                if (rc == 0)
                        fe_driver_calls_off(m->driver[i]);
        }
        return rc;
}

static int make_memory(struct lanes *l)
{
        const struct fe_region_spec spec = { .size = MEMORY };
        struct vql_region_desc desc = { .size = MEMORY };
        struct vql_region *region;
        struct vql_error e;
        int rc = fe_memory_new(&spec, 1, &l->mem);

        if (rc < 0)
                return rc;
        desc.uva = l->mem->region[0].spec.uva;
        rc = vql_region_map(&desc, l->mem->region[0].fd, -1, &region, &e);
        if (rc < 0)
                return rc;
        rc = vql_mem_table_new(&region, 1, &l->table, &e);
        vql_region_put(region);
        return rc;
}

/* ---- ports ---- */

static void start_ring(const struct lanes *l, struct vql_ring *r, const struct fe_driver *d,
                       bool rx)
{
        const struct fe_areas at = fe_driver_areas(d);
        const uint64_t gpa[VQL_AREA_COUNT] = { at.desc, at.driver, at.device };
        struct vql_queue_params p = {
                .mem = l->table,
                .features = vql_bit(VIRTIO_F_VERSION_1) |
                            (l->p.packed ? vql_bit(VIRTIO_F_RING_PACKED) : 0),
                .state.at = { 0, 0, l->p.packed, l->p.packed },
                .state.size = RING,
                .rx = rx,
                .call_fd = -1,
        };

        for (int i = 0; i < VQL_AREA_COUNT; i++)
                p.area[i] = vql_mem_uva(l->table, fe_memory_uva(l->mem, gpa[i], 1), 1, NULL);
        vql_queue_init(&r->q, &p);
        vql_burst_select(&r->q, vql_instance_set_best());
}

static struct vql_ring *make_ring(void)
{
        struct vql_ring *r = aligned_alloc(LINE, sizeof(*r));

        if (r)
                memset(r, 0, sizeof(*r));
        return r;
}

/* What the product has of a guest with one queue pair, as lib/port makes it. */
static int make_port(struct lanes *l, struct member *m)
{
        const bool busy = m == l->member;

        m->lane = calloc(1, sizeof(*m->lane));
        m->ring[0] = make_ring();
        m->ring[1] = busy ? &l->busy : make_ring();
        if (!m->lane || !m->ring[0] || !m->ring[1])
                return -ENOMEM;
        for (int i = 0; i < 2; i++)
                start_ring(l, m->ring[i], m->driver[i], i == 0);
        m->lane->uplink = m->uplink;
        m->lane->pool = l->p.machine->pool;
        m->lane->fault_fd = -1;
        m->lane->tx[m->lane->n_tx++] = (struct vql_lane_ring){ &m->ring[1]->q, m->kick_fd, false };
        /* What the busy guest sends comes back from the loopback, and ends there. */
        if (!busy)
                m->lane->rx[m->lane->n_rx++] = (struct vql_lane_ring){ &m->ring[0]->q, -1, false };
        return 0;
}

static int make_uplink(const struct lanes *l, struct member *m)
{
        const struct vql_uplink_params p = {
                .name = "bench",
                .spec = "loopback",
                .queues = 1,
                .pool = l->p.machine->pool,
        };
        struct vql_error e;
        int rc = vql_uplink_open(&p, &m->uplink, &e);

        if (rc < 0)
                fprintf(stderr, "vqlift-bench: %s\n", e.text);
        return rc;
}

static int attach(struct lanes *l, struct member *m)
{
        struct vql_error e;
        int rc = vql_worker_attach(l->worker, m->lane, &e);

        m->attached = rc == 0;
        if (rc < 0)
                fprintf(stderr, "vqlift-bench: %s\n", e.text);
        return rc;
}

static void detach(struct lanes *l, struct member *m)
{
        if (m->attached)
                vql_worker_detach(l->worker, m->lane);
        m->attached = false;
}

int lanes_attach_idle(struct lanes *l)
{
        int rc = 0;

        for (unsigned int i = 1; i < l->n && rc == 0; i++)
                rc = attach(l, &l->member[i]);
        return rc;
}

void lanes_detach_idle(struct lanes *l)
{
        for (unsigned int i = 1; i < l->n; i++)
                detach(l, &l->member[i]);
}

/* ---- life cycle ---- */

static int make_guests(struct lanes *l)
{
        int rc = make_memory(l);

        l->member = calloc(l->n, sizeof(*l->member));
        if (!l->member)
                return -ENOMEM;
        for (unsigned int i = 0; i < l->n; i++)
                l->member[i].kick_fd = -1;
        for (unsigned int i = 0; i < l->n && rc == 0; i++) {
                rc = make_guest(l, &l->member[i]);
                if (rc == 0)
                        rc = make_uplink(l, &l->member[i]);
        }
        return rc == 0 ? make_packets(l) : rc;
}

/* All ports attached once: the memory that they take shows between. */
static int make_ports(struct lanes *l)
{
        const size_t before = mallinfo2().uordblks;
        int rc = 0;

        for (unsigned int i = 1; i < l->n && rc == 0; i++)
                rc = make_port(l, &l->member[i]);
        if (rc == 0)
                rc = lanes_attach_idle(l);
        l->bytes_per_queue = (double)(mallinfo2().uordblks - before) / l->p.idle;
        lanes_detach_idle(l);
        if (rc == 0)
                rc = make_port(l, &l->member[0]);
        return rc;
}

static int set_up(struct lanes *l)
{
        const struct vql_worker_params worker = { .cpu = l->p.machine->cpu };
        struct vql_error e;
        int rc = make_guests(l);

        if (rc == 0)
                rc = vql_worker_new(&worker, &l->worker, &e);
        if (rc == 0)
                rc = make_ports(l);
        if (rc < 0)
                return rc;
        l->dequeue = l->busy.q.dequeue;
        l->busy.q.dequeue = serve;
        return attach(l, &l->member[0]);
}

int lanes_new(const struct lanes_params *params, struct lanes **ret_lanes)
{
        struct lanes *l = aligned_alloc(LINE, RTE_ALIGN_CEIL(sizeof(*l), (size_t)LINE));
        int rc;

        if (!l)
                return -ENOMEM;
        memset(l, 0, sizeof(*l));
        l->p = *params;
        l->n = 1 + params->idle / 2;
        sem_init(&l->done, 0, 0);
        rc = set_up(l);
        if (rc < 0) {
                fprintf(stderr, "vqlift-bench: idle: %s\n", strerror(-rc));
                lanes_free(l);
                return rc;
        }
        *ret_lanes = l;
        return 0;
}

static void free_member(struct lanes *l, struct member *m)
{
        detach(l, m);
        for (int i = 0; i < 2; i++) {
                fe_driver_free(m->driver[i]);
                if (m->ring[i] != &l->busy)
                        free(m->ring[i]);
        }
        vql_uplink_close(m->uplink);
        free(m->lane);
        if (m->kick_fd >= 0)
                close(m->kick_fd);
}

void lanes_free(struct lanes *l)
{
        if (!l)
                return;
        for (unsigned int i = 0; l->member && i < l->n; i++)
                free_member(l, &l->member[i]);
        vql_worker_free(l->worker);
        vql_mem_table_put(l->table);
        fe_memory_free(l->mem);
        sem_destroy(&l->done);
        free(l->member);
        free(l);
}

/* ---- measuring ---- */

int lanes_measure(struct lanes *l, double *ret_ticks)
{
        struct timespec until;

        l->seen = 0;
        atomic_store_explicit(&l->measuring, true, memory_order_release);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WAIT_SECONDS;
        while (sem_timedwait(&l->done, &until) < 0)
                if (errno != EINTR)
                        return -errno;
        *ret_ticks = sample_median(l->ticks, ROUNDS);
        return 0;
}

double lanes_bytes_per_queue(const struct lanes *l)
{
        return l->bytes_per_queue;
}
