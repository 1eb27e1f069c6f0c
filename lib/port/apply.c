/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include <errno.h>
#include <unistd.h>

#include <rte_arp.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "base/bits.h"
#include "port/leftover.h"
#include "port/paths.h"
#include "port/position.h"
#include "virtqueue/features.h"

static bool session_packed(const struct vql_session *s)
{
        return vql_has(s->features, VIRTIO_F_RING_PACKED);
}

/* Where a packed ring begins instead of where the front-end says, if that is somewhere else. */
static bool find_position(struct vql_port *p, uint16_t index, struct vql_cursor *ret_at)
{
        struct vql_packed_ring ring;
        unsigned int returned;

        if (!vql_position_find(p->session, p->journal, index, &ring, ret_at))
                return false;
        returned = vql_position_settle(&ring, ret_at);
        vql_log(&p->log, LOG_NOTICE,
                "ring %u: the front-end lost the position, going on at slot %u, wrap %u, after "
                "%u buffers that were passed over",
                index, ret_at->used, ret_at->used_wrap, returned);
        return true;
}

/* What the front-end's in-flight region knows of a ring that it wants to run. */
static int find_leftover(const struct vql_session *s, uint16_t index, struct vql_leftover *ret_left,
                         struct vql_error *e)
{
        const struct vql_vring *v = &s->vring[index];
        const bool packed = session_packed(s);
        struct vql_inflight_ring ring = { .size = (uint16_t)v->num };
        const struct vring_used *used = vql_mem_uva(s->mem, v->used_uva, sizeof(*used), NULL);

        ring.desc = vql_mem_uva(s->mem, v->desc_uva, v->num * sizeof(*ring.desc), NULL);
        *ret_left = (struct vql_leftover){ .found = false };
        /* A ring outside memory, misaligned, or of a bad size is refused where it starts. */
        if (!ring.desc || !used || vql_ring_size_check(v->num, packed, NULL) < 0 ||
            (uintptr_t)ring.desc % vql_area_align(VQL_AREA_DESC, packed) != 0 ||
            (uintptr_t)used % vql_area_align(VQL_AREA_DEVICE, packed) != 0)
                return 0;
        if (!packed)
                ring.used_idx = __atomic_load_n(&used->idx, __ATOMIC_ACQUIRE);
        return vql_leftover_find(s, index, &ring, ret_left, e);
}

/* From now on the ring's position outlives us: in the front-end's region if there is one, and for
 * packed rings else in the journal. */
static void record_ring(struct vql_port *p, uint16_t index, const struct vql_leftover *left)
{
        const struct vql_vring *v = &p->session->vring[index];
        struct vql_queue *q = &p->rings[index].q;
        const struct vql_cursor now = vql_queue_cursor(q);

        if (left->n > 0)
                vql_log(&p->log, LOG_NOTICE,
                        "ring %u: %u buffers that another back-end left in flight are returned",
                        index, left->n);
        if (vql_leftover_return(left, p->session, index, q))
                vql_journal_end(p->journal, index);
        else if (q->packed)
                q->position =
                        vql_journal_begin(p->journal, index, v->desc_uva, (uint16_t)v->num, &now);
}

/* A new region while the ring runs: it begins with where the ring stands. */
static int record_anew(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        (void)e;
        record_ring(p, index, &(const struct vql_leftover){ .found = false });
        return 0;
}

/* Start a wanted ring, at the front-end's position or, if that is lost, at the recorded one. */
static int start_ring(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        const struct vql_session *s = p->session;
        const struct vql_vring *v = &s->vring[index];
        struct vql_ring *r = &p->rings[index];
        struct vql_cursor found, *at = NULL;
        struct vql_leftover left;
        int rc = find_leftover(s, index, &left, e);

        if (rc < 0)
                return rc;
        if (left.found)
                at = &left.at;
        else if (session_packed(s) && find_position(p, index, &found))
                at = &found;
        rc = vql_ring_start(r, s, index, at, e);
        if (rc == 0) {
                r->start_base = v->base;
                record_ring(p, index, &left);
        }
        vql_leftover_fini(&left);
        if (rc < 0)
                return rc;
        vql_log(&p->log, LOG_DEBUG, "ring %u: started, size %u, %s (%s)", index, v->num,
                r->instance->name, r->set->name);
        return 0;
}

/* From now on the session knows where a ring stands, whatever it was told before. */
static void tell_position(struct vql_session *s, uint16_t index,
                          const struct vql_queue_state *state)
{
        struct vql_vring *v = &s->vring[index];

        v->base = vql_queue_state_to_base(state);
        v->base_set = true;
        v->loaded = false;
}

/* Stop a ring and give its position to the session, so that it can start there again. */
static void stop_ring(struct vql_port *p, uint16_t index)
{
        struct vql_ring *r = &p->rings[index];
        struct vql_session *s = p->session;
        struct vql_queue_state state;

        if (r->state == VQL_RING_STOPPED)
                return;
        vql_paths_end_ring(p, index);
        state = vql_ring_stop(r);
        tell_position(s, index, &state);
        if (s->inflight)
                vql_inflight_settle(s->inflight, index, &state.at);
        vql_log(&p->log, LOG_DEBUG, "ring %u: stopped at 0x%08x", index, s->vring[index].base);
}

static void break_ring(struct vql_port *p, uint16_t index, const char *why)
{
        const uint64_t one = 1;
        int err_fd = p->session->vring[index].err_fd;

        vql_paths_end_ring(p, index);
        vql_ring_move(&p->rings[index], VQL_RING_BROKEN);
        vql_log(&p->log, LOG_WARNING, "ring %u: stopped until the guest resets it: %s", index, why);
        if (err_fd >= 0 && write(err_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
                vql_log(&p->log, LOG_WARNING, "ring %u: error eventfd: %m", index);
}

/* New addresses or size for a running ring: is it the ring that already runs? */
static bool ring_changed(struct vql_port *p, uint16_t index)
{
        struct vql_ring *r = &p->rings[index];
        const struct vql_session *s = p->session;
        const struct vql_vring *v = &s->vring[index];

        return v->num != r->q.size ||
               vql_mem_uva(s->mem, v->desc_uva, 1, NULL) != (void *)r->q.desc ||
               vql_mem_uva(s->mem, v->avail_uva, 1, NULL) != (void *)r->q.avail ||
               vql_mem_uva(s->mem, v->used_uva, 1, NULL) != (void *)r->q.used;
}

/* Start again in place: where it stands, or where the front-end put it meanwhile. */
static int restart_ring(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        struct vql_vring *v = &p->session->vring[index];
        const uint32_t wanted = v->base;
        const bool moved = wanted != p->rings[index].start_base;

        stop_ring(p, index);
        if (moved)
                v->base = wanted;
        return start_ring(p, index, e);
}

/* One ring towards what its session wants. */
static int settle_ring(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        struct vql_ring *r = &p->rings[index];

        if (!vql_ring_wanted(p->session, index)) {
                stop_ring(p, index);
                return 0;
        }
        if (r->state == VQL_RING_STOPPED)
                return start_ring(p, index, e);
        if (r->state == VQL_RING_BROKEN)
                return 0;
        if (ring_changed(p, index))
                return restart_ring(p, index, e);
        /* Enabled or disabled, another call fd, another log address: the ring goes on. */
        r->q.call_fd = p->session->vring[index].call_fd;
        vql_paths_route(p, index);
        return vql_ring_remap(r, p->session, index, e);
}

/* Other features on a running ring: the same position goes on under them, unless the format does
 * not allow it. */
static int change_features(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        struct vql_ring *r = &p->rings[index];
        struct vql_session *s = p->session;
        const uint64_t differ = (r->q.features ^ s->features) & ~vql_bit(VQL_F_LOG_ALL);
        struct vql_queue_state state;

        if (differ == 0) {
                vql_ring_select(r, s);
                return 0;
        }
        if (vql_has(differ, VIRTIO_F_RING_PACKED)) {
                stop_ring(p, index);
                return vql_fail(e, EBUSY, "ring %u: RING_PACKED changed while the ring ran", index);
        }
        vql_paths_end_ring(p, index);
        state = vql_ring_stop(r);
        tell_position(s, index, &state);
        return start_ring(p, index, e);
}

static int each_running(struct vql_port *p,
                        int (*fn)(struct vql_port *p, uint16_t index, struct vql_error *e),
                        struct vql_error *e)
{
        int first = 0;

        for (uint16_t i = 0; i < p->offer.max_rings; i++) {
                int rc = p->rings[i].state == VQL_RING_RUNNING ? fn(p, i, e) : 0;

                if (rc < 0) {
                        stop_ring(p, i);
                        first = first ? first : rc;
                }
        }
        return first;
}

static int remap_ring(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        return vql_ring_remap(&p->rings[index], p->session, index, e);
}

static int settle_all(struct vql_port *p, struct vql_error *e)
{
        int first = 0;

        for (uint16_t i = 0; i < p->offer.max_rings; i++) {
                int rc = settle_ring(p, i, e);

                first = first ? first : rc;
        }
        return first;
}

static int change_memory(struct vql_port *p, struct vql_error *e)
{
        int rc = 0, settled;

        vql_paths_end_memory(p);
        if (p->session->mem)
                rc = each_running(p, remap_ring, e);
        settled = settle_all(p, rc ? NULL : e);
        return rc ? rc : settled;
}

static void stop_all(struct vql_port *p)
{
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                stop_ring(p, i);
}

/* A device reset: the session keeps the positions for questions, the rings begin anew. */
static void reset_all(struct vql_port *p)
{
        stop_all(p);
        for (uint16_t i = 0; i < p->offer.max_rings; i++)
                vql_journal_end(p->journal, i);
        vql_paths_forgive(p);
}

static int apply_parked(struct vql_port *p, unsigned int changes, uint16_t ring,
                        struct vql_error *e)
{
        int rc = 0;

        if (changes & VQL_CHANGE_RESET)
                reset_all(p);
        if (changes & VQL_CHANGE_RING_STOP) {
                stop_ring(p, ring);
                vql_journal_end(p->journal, ring);
                return 0;
        }
        if (changes & VQL_CHANGE_MEMORY)
                rc = change_memory(p, e);
        if (rc == 0 && (changes & VQL_CHANGE_INFLIGHT))
                rc = each_running(p, record_anew, e);
        if (rc == 0 && (changes & (VQL_CHANGE_FEATURES | VQL_CHANGE_LOG)))
                rc = each_running(p, change_features, e);
        if (rc == 0 && (changes & VQL_CHANGE_FEATURES))
                rc = settle_all(p, e);
        if (rc == 0 && (changes & (VQL_CHANGE_RING | VQL_CHANGE_CALL)))
                rc = settle_ring(p, ring, e);
        return rc;
}

static int apply(void *host, unsigned int changes, uint16_t ring, struct vql_error *e)
{
        struct vql_port *p = host;
        int rc, resumed;

        vql_port_park(p);
        rc = apply_parked(p, changes, ring, e);
        resumed = vql_port_resume(p, rc ? NULL : e);
        return rc ? rc : resumed;
}

/* RARP "request reverse" of a station for itself, as switches learn from it (RFC 903). */
static bool fill_rarp(struct rte_mbuf *m, const uint8_t mac[6])
{
        const uint16_t len = RTE_ETHER_MIN_LEN - RTE_ETHER_CRC_LEN;
        struct rte_ether_hdr *eth = (struct rte_ether_hdr *)rte_pktmbuf_append(m, len);
        struct rte_arp_hdr *arp;

        if (!eth)
                return false;
        memset(eth, 0, len);
        memset(&eth->dst_addr, 0xff, sizeof(eth->dst_addr));
        memcpy(&eth->src_addr, mac, sizeof(eth->src_addr));
        eth->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_RARP);
        arp = (struct rte_arp_hdr *)(eth + 1);
        arp->arp_hardware = rte_cpu_to_be_16(RTE_ARP_HRD_ETHER);
        arp->arp_protocol = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
        arp->arp_hlen = RTE_ETHER_ADDR_LEN;
        arp->arp_plen = sizeof(uint32_t);
        arp->arp_opcode = rte_cpu_to_be_16(RTE_ARP_OP_REVREQUEST);
        memcpy(&arp->arp_data.arp_sha, mac, sizeof(arp->arp_data.arp_sha));
        memcpy(&arp->arp_data.arp_tha, mac, sizeof(arp->arp_data.arp_tha));
        return true;
}

static int send_rarp(void *host, const uint8_t mac[6], struct vql_error *e)
{
        struct vql_port *p = host;
        struct rte_mbuf *m;

        m = rte_pktmbuf_alloc(p->pool);
        if (!m || !fill_rarp(m, mac)) {
                rte_pktmbuf_free(m);
                return vql_fail(e, ENOMEM, "SEND_RARP: out of packet buffers");
        }
        /* One that still waits is as good as the new one, but for its station.  A guest that is not
         * started yet may be announced, too: then it waits for the first ring. */
        rte_pktmbuf_free(atomic_exchange(&p->lanes[0]->inject, m));
        if (p->n_attached > 0)
                vql_worker_wake(p->lane_worker[0]);
        return 0;
}

static int set_mtu(void *host, uint16_t mtu, struct vql_error *e)
{
        const struct vql_port *p = host;

        if (!p->uplink)
                return 0;
        return vql_uplink_check_mtu(p->uplink, mtu, e);
}

const struct vql_session_host vql_port_session_host = {
        .apply = apply,
        .send_rarp = send_rarp,
        .set_mtu = set_mtu,
        .save_state = vql_port_save_state,
        .load_state = vql_port_load_state,
};

void vql_port_stop_rings(struct vql_port *p)
{
        vql_port_park(p);
        stop_all(p);
}

void vql_port_handle_faults(struct vql_port *p)
{
        vql_port_park(p);
        vql_paths_look(p);
        for (uint16_t i = 0; i < p->offer.max_rings; i++) {
                struct vql_ring *r = &p->rings[i];

                if (r->state == VQL_RING_RUNNING && r->q.fault != VQL_FAULT_NONE)
                        break_ring(p, i, vql_fault_name((enum vql_fault)r->q.fault));
        }
        (void)vql_port_resume(p, NULL);
}
