/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "vqlift-bench/content.h"
#include "vqlift-bench/guest.h"
#include "vqlift-bench/limit.h"
#include "vqlift-bench/pair.h"
#include "vqlift-bench/rte.h"

struct rig {
        struct cell cell;
        struct rte_mempool *pool;
        struct rte_peer *peer;
        struct fe_frontend *fe;
        struct guest *guest;
        struct pair *pair; /* NULL in mode alternate */
        struct backend_vqlift vqlift, control;
        struct backend_rte rte;
        struct backend backend[CONTENDERS];
        struct limit *limit;
        enum contender turn;
        uint64_t taken;  /* buffers that the back-ends used since the beginning */
        uint32_t serial; /* of the next packet that a back-end moves */
        struct rte_mbuf *pkts[CELL_MAX_BURST]; /* to the guest: sent over and over */
};

/* ---- life cycle ---- */

/* A packet of the cell's size in as many mbufs as it takes. */
static int make_packet(struct rig *r, struct rte_mbuf **ret_packet)
{
        struct rte_mbuf *head = rte_pktmbuf_alloc(r->pool), *last = head;

        while (last) {
                const uint32_t left = r->cell.size - head->pkt_len;

                last->data_len = (uint16_t)RTE_MIN((uint32_t)rte_pktmbuf_tailroom(last), left);
                head->pkt_len += last->data_len;
                if (head->pkt_len == r->cell.size)
                        break;
                last->next = rte_pktmbuf_alloc(r->pool);
                last = last->next;
                head->nb_segs++;
        }
        *ret_packet = head;
        return last ? 0 : -ENOMEM;
}

static int make_packets(struct rig *r, struct rte_mbuf **pkts, uint16_t n)
{
        int rc = 0;

        for (uint16_t i = 0; i < n && rc == 0; i++)
                rc = make_packet(r, &pkts[i]);
        return rc;
}

static int open_backends(struct rig *r, const struct rig_params *p)
{
        int rc = backend_vqlift_open(r->guest, &r->vqlift);

        if (rc == 0 && p->control)
                rc = backend_vqlift_open(r->guest, &r->control);
        if (rc < 0)
                return rc;
        r->backend[CONTENDER_VQLIFT] = backend_vqlift("vqlift", r->guest, &r->vqlift);
        r->backend[CONTENDER_OTHER] = p->control ? backend_vqlift("control", r->guest, &r->control)
                                                 : backend_rte(&r->rte);
        for (enum contender i = 0; p->wrap && i < CONTENDER_LIMIT; i++)
                r->backend[i] = p->wrap(&r->backend[i]);
        r->backend[CONTENDER_LIMIT] = r->backend[CONTENDER_VQLIFT];
        return 0;
}

static int set_up(struct rig *r, const struct rig_params *p)
{
        int rc = rte_peer_new(&r->peer, &r->fe);

        if (rc == 0)
                rc = guest_new(&r->cell, r->fe, &r->guest);
        if (rc < 0)
                return rc;
        r->rte = (struct backend_rte){ r->peer, r->pool, r->guest->ring, r->cell.packed };
        rc = open_backends(r, p);
        if (rc == 0)
                rc = rte_peer_wait(r->peer);
        if (rc == 0 && r->cell.to_guest)
                rc = make_packets(r, r->pkts, r->cell.burst);
        if (rc == 0)
                rc = limit_new(r->guest, &r->limit);
        if (rc == 0 && r->cell.pair)
                rc = pair_new(r->guest, p->machine->guest_cpu, &r->pair);
        return rc;
}

int rig_new(const struct rig_params *params, struct rig **ret_rig)
{
        struct rig *r = calloc(1, sizeof(*r));
        int rc;

        if (!r)
                return -ENOMEM;
        r->cell = params->cell;
        r->pool = params->machine->pool;
        r->vqlift = (struct backend_vqlift){ .pool = r->pool, .set = params->set };
        r->control = (struct backend_vqlift){ .pool = r->pool, .set = params->control };
        rc = set_up(r, params);
        if (rc < 0) {
                rig_free(r);
                return rc;
        }
        *ret_rig = r;
        return 0;
}

void rig_free(struct rig *r)
{
        if (!r)
                return;
        pair_free(r->pair);
        limit_free(r->limit);
        for (unsigned int i = 0; i < CELL_MAX_BURST; i++)
                rte_pktmbuf_free(r->pkts[i]);
        backend_vqlift_close(&r->control);
        backend_vqlift_close(&r->vqlift);
        fe_frontend_free(r->fe);
        rte_peer_free(r->peer);
        guest_free(r->guest);
        free(r);
}

/* ---- turns ---- */

int rig_use(struct rig *r, enum contender who)
{
        const struct fe_position at = fe_driver_position(r->guest->driver);
        const struct backend *b = &r->backend[who];

        r->turn = who;
        return b->seek(b->arg, fe_position_encode(&at, r->cell.packed));
}

void rig_run(struct rig *r)
{
        if (r->pair)
                pair_run(r->pair);
}

int rig_quiet(struct rig *r)
{
        return r->pair ? pair_quiet(r->pair) : 0;
}

double rig_round_trip(struct rig *r)
{
        return r->pair ? pair_round_trip(r->pair) : 0;
}

/* ---- bursts ---- */

/* The bare copy.  From the guest it goes to those packet buffers that the pool gives next: the ones
 * that a back-end would get. */
static void timed_limit(struct rig *r, uint16_t n, uint64_t *ret_tsc)
{
        struct rte_mbuf *fresh[CELL_MAX_BURST] = { NULL };
        struct rte_mbuf **pkts = r->cell.to_guest ? r->pkts : fresh;
        uint64_t begin;

        if (r->cell.to_guest || make_packets(r, fresh, n) == 0) {
                limit_prepare(r->limit, r->taken, pkts, n);
                begin = rte_rdtsc_precise();
                limit_run(r->limit);
                *ret_tsc = rte_rdtsc_precise() - begin;
        }
        rte_pktmbuf_free_bulk(fresh, n);
}

static uint16_t timed_move(struct rig *r, struct rte_mbuf **pkts, uint16_t n, uint64_t *ret_tsc)
{
        const struct backend *b = &r->backend[r->turn];
        uint64_t begin;

        if (r->turn == CONTENDER_LIMIT) {
                timed_limit(r, n, ret_tsc);
                return b->move(b->arg, pkts, n);
        }
        begin = rte_rdtsc_precise();
        n = b->move(b->arg, pkts, n);
        *ret_tsc = rte_rdtsc_precise() - begin;
        return n;
}

static int move_to_guest(struct rig *r, uint16_t n, bool whole, uint64_t *ret_tsc)
{
        for (uint16_t i = 0; i < n; i++)
                content_write_mbuf(r->pkts[i], r->serial++, whole);
        return timed_move(r, r->pkts, n, ret_tsc) == n ? 0 : -EIO;
}

static int move_from_guest(struct rig *r, uint16_t n, bool whole, uint64_t *ret_tsc)
{
        struct rte_mbuf *pkts[CELL_MAX_BURST] = { NULL };
        const uint16_t got = timed_move(r, pkts, n, ret_tsc);
        int rc = got == n ? 0 : -EIO;

        for (uint16_t i = 0; i < got && rc == 0; i++)
                if (!content_matches_mbuf(pkts[i], r->cell.size, r->serial++, whole))
                        rc = -EBADMSG;
        rte_pktmbuf_free_bulk(pkts, got);
        return rc;
}

static int move(struct rig *r, uint16_t n, bool whole, uint64_t *ret_tsc)
{
        int rc = r->cell.to_guest ? move_to_guest(r, n, whole, ret_tsc)
                                  : move_from_guest(r, n, whole, ret_tsc);

        r->taken += (uint64_t)n * guest_buffers_of_packet(&r->cell);
        return rc;
}

/* The driver works in this thread, before and after the back-end. */
static int burst_here(struct rig *r, bool whole, uint64_t *ret_tsc)
{
        const struct guest_manner manner = { .whole = whole };
        const int expected = r->cell.burst * (int)guest_buffers_of_packet(&r->cell);
        int rc = r->cell.to_guest ? 0 : guest_send(r->guest, r->cell.burst, manner);

        if (rc == 0)
                rc = move(r, r->cell.burst, whole, ret_tsc);
        if (rc == 0)
                rc = guest_reap(r->guest, r->guest->buffers, manner);
        if (rc >= 0)
                rc = rc == expected ? 0 : -EIO;
        return rc;
}

int rig_burst(struct rig *r, uint64_t *ret_tsc)
{
        const uint64_t buffers = (uint64_t)r->cell.burst * guest_buffers_of_packet(&r->cell);
        int rc;

        if (!r->pair)
                return burst_here(r, false, ret_tsc);
        rc = pair_wait_given(r->pair, r->taken + buffers);
        return rc < 0 ? rc : move(r, r->cell.burst, false, ret_tsc);
}

/* ---- checks ---- */

/* Move what the guest's thread left in the ring, so that all that follows is new. */
static int drain(struct rig *r)
{
        const struct guest_manner manner = { 0 };
        uint64_t ticks;
        int rc = 0;

        while (rc == 0 && !r->cell.to_guest && r->taken < r->guest->given)
                rc = move(r,
                          (uint16_t)RTE_MIN((uint64_t)CELL_MAX_BURST, r->guest->given - r->taken),
                          false, &ticks);
        if (rc == 0)
                rc = guest_reap(r->guest, r->guest->buffers, manner);
        return rc < 0 ? rc : 0;
}

int rig_check(struct rig *r, enum contender who)
{
        const unsigned int bursts =
                RTE_MAX(1u, r->guest->buffers / guest_buffers_of_packet(&r->cell) / r->cell.burst);
        uint64_t ticks;
        int rc = rig_use(r, who);

        if (rc >= 0)
                rc = drain(r);
        for (unsigned int i = 0; rc >= 0 && i < bursts; i++)
                rc = burst_here(r, true, &ticks);
        return rc < 0 ? rc : 0;
}
