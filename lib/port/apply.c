/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/port.h"

#include <errno.h>
#include <unistd.h>

#include <rte_arp.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "base/bits.h"
#include "virtqueue/features.h"

static bool session_packed(const struct vql_session *s)
{
        return vql_has(s->features, VIRTIO_F_RING_PACKED);
}

/*
 * Nothing is marked as returned in a new ring.  In one that was in use something is, except when
 * the ring is about to begin an odd lap; and then its position is the initial one.
 */
static bool was_in_use(const struct vring_packed_desc *ring, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                if (__atomic_load_n(&ring[i].flags, __ATOMIC_ACQUIRE) & VQL_PACKED_USED)
                        return true;
        }
        return false;
}

/*
 * Has the front-end lost a packed ring's position?  QEMU hands over 0 or the initial position for a
 * ring in mid-flight after its back-end went away; and a front-end that broke off may have looked
 * at the ring while we were still returning buffers: then the slot that it names is marked as
 * returned.
 */
static bool position_lost(const struct vql_vring *v, const struct vring_packed_desc *ring)
{
        struct vql_cursor at;
        uint16_t flags;

        if (v->base == 0)
                return true;
        if (v->base == VQL_PACKED_INITIAL)
                return was_in_use(ring, v->num);
        if (vql_cursor_decode(v->base, true, (uint16_t)v->num, &at, NULL) < 0)
                return false;
        flags = __atomic_load_n(&ring[at.used].flags, __ATOMIC_ACQUIRE);
        return vql_packed_is_used(flags, at.used_wrap);
}

/* The recorded position of a packed ring whose front-end has lost it; see journal.h. */
static bool find_position(const struct vql_port *p, uint16_t index, struct vql_cursor *ret_at)
{
        const struct vql_vring *v = &p->session->vring[index];
        const struct vring_packed_desc *ring =
                vql_mem_uva(p->session->mem, v->desc_uva, v->num * sizeof(*ring), NULL);
        struct vql_cursor c[2];
        uint16_t flags;

        if (!ring || !position_lost(v, ring) ||
            vql_journal_find(p->journal, index, v->desc_uva, (uint16_t)v->num, c) < 0)
                return false;
        flags = __atomic_load_n(&ring[c[1].used].flags, __ATOMIC_ACQUIRE);
        *ret_at = vql_packed_is_used(flags, c[1].used_wrap) ? c[0] : c[1];
        return true;
}

/* Start a wanted ring, at the front-end's position or, if that is lost, at the recorded one. */
static int start_ring(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        const struct vql_session *s = p->session;
        const struct vql_vring *v = &s->vring[index];
        struct vql_ring *r = &p->rings[index];
        struct vql_cursor found, *at = NULL;
        int rc;

        if (session_packed(s) && find_position(p, index, &found)) {
                vql_log(&p->log, LOG_NOTICE,
                        "ring %u: the front-end lost the position, going on at slot %u, wrap %u",
                        index, found.used, found.used_wrap);
                at = &found;
        }
        rc = vql_ring_start(r, s, index, at, e);
        if (rc < 0)
                return rc;
        r->start_base = v->base;
        if (session_packed(s)) {
                struct vql_cursor now = vql_queue_cursor(&r->q);

                r->q.position =
                        vql_journal_begin(p->journal, index, v->desc_uva, (uint16_t)v->num, &now);
        }
        vql_log(&p->log, LOG_DEBUG, "ring %u: started, size %u, %s", index, v->num,
                r->instance->name);
        return 0;
}

/* Stop a ring and give its position to the session, so that it can start there again. */
static void stop_ring(struct vql_port *p, uint16_t index)
{
        struct vql_ring *r = &p->rings[index];
        struct vql_session *s = p->session;
        struct vql_cursor at;

        if (r->state == VQL_RING_STOPPED)
                return;
        at = vql_ring_stop(r);
        s->vring[index].base = vql_cursor_encode(&at, r->q.packed);
        if (s->inflight)
                vql_inflight_settle(s->inflight, index, &at);
        vql_log(&p->log, LOG_DEBUG, "ring %u: stopped at 0x%08x", index, s->vring[index].base);
}

static void break_ring(struct vql_port *p, uint16_t index, const char *why)
{
        const uint64_t one = 1;
        int err_fd = p->session->vring[index].err_fd;

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
        return vql_ring_remap(r, p->session, index, e);
}

/* Other features on a running ring: the same position goes on under them, unless the format does
 * not allow it. */
static int change_features(struct vql_port *p, uint16_t index, struct vql_error *e)
{
        struct vql_ring *r = &p->rings[index];
        struct vql_session *s = p->session;
        const uint64_t differ = (r->q.features ^ s->features) & ~vql_bit(VQL_F_LOG_ALL);
        struct vql_cursor at;

        if (differ == 0) {
                vql_ring_select(r, s);
                return 0;
        }
        if (vql_has(differ, VIRTIO_F_RING_PACKED)) {
                stop_ring(p, index);
                return vql_fail(e, EBUSY, "ring %u: RING_PACKED changed while the ring ran", index);
        }
        at = vql_ring_stop(r);
        s->vring[index].base = vql_cursor_encode(&at, r->q.packed);
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

        if (p->n_attached == 0)
                return vql_fail(e, ENOTCONN, "SEND_RARP: no ring runs");
        m = rte_pktmbuf_alloc(p->pool);
        if (!m || !fill_rarp(m, mac)) {
                rte_pktmbuf_free(m);
                return vql_fail(e, ENOMEM, "SEND_RARP: out of packet buffers");
        }
        /* One that still waits is as good as the new one, but for its station. */
        rte_pktmbuf_free(atomic_exchange(&p->lanes[0]->inject, m));
        vql_worker_wake(p->lane_worker[0]);
        return 0;
}

static int set_mtu(void *host, uint16_t mtu, struct vql_error *e)
{
        struct vql_port *p = host;

        return vql_uplink_check_mtu(p->uplink, mtu, e);
}

const struct vql_session_host vql_port_session_host = {
        .apply = apply,
        .send_rarp = send_rarp,
        .set_mtu = set_mtu,
};

void vql_port_stop_rings(struct vql_port *p)
{
        vql_port_park(p);
        stop_all(p);
}

void vql_port_handle_faults(struct vql_port *p)
{
        vql_port_park(p);
        for (uint16_t i = 0; i < p->offer.max_rings; i++) {
                struct vql_ring *r = &p->rings[i];

                if (r->state == VQL_RING_RUNNING && r->q.fault != VQL_FAULT_NONE)
                        break_ring(p, i, vql_fault_name((enum vql_fault)r->q.fault));
        }
        (void)vql_port_resume(p, NULL);
}
