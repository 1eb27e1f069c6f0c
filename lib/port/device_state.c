/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/device_state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_hash_crc.h>

#include "base/bits.h"
#include "virtqueue/features.h"

#define MAGIC          UINT32_C(0x53444c56) /* "VLDS" */
#define VHOST_FEATURES (vql_bit(VQL_F_LOG_ALL) | vql_bit(VQL_F_PROTOCOL_FEATURES))

enum { DEVICE_NET = 1 };

struct header {
        uint32_t magic;
        uint16_t version, device;
        uint64_t features;
        uint16_t mtu, n_rings;
        uint32_t zero;
};

struct record {
        uint16_t index, zero;
        uint8_t state[VQL_QUEUE_STATE_BYTES];
};

static_assert(sizeof(struct header) == 24, "header of a device state");
static_assert(sizeof(struct record) == 28, "ring of a device state");
static_assert(sizeof(struct header) + VQL_MAX_RINGS * sizeof(struct record) + sizeof(uint32_t) <=
                      VQL_STATE_MAX_BYTES,
              "a device state outgrew its limit");

uint64_t vql_guest_features(uint64_t features)
{
        return features & ~VHOST_FEATURES;
}

static uint32_t checksum(const uint8_t *bytes, size_t n)
{
        return rte_cpu_to_le_32(rte_hash_crc(bytes, (uint32_t)n, UINT32_MAX));
}

size_t vql_device_state_write(const struct vql_device_state *d,
                              uint8_t ret_bytes[VQL_STATE_MAX_BYTES])
{
        const struct header h = {
                .magic = rte_cpu_to_le_32(MAGIC),
                .version = rte_cpu_to_le_16(VQL_DEVICE_STATE_VERSION),
                .device = rte_cpu_to_le_16(DEVICE_NET),
                .features = rte_cpu_to_le_64(d->features),
                .mtu = rte_cpu_to_le_16(d->mtu),
                .n_rings = rte_cpu_to_le_16(d->n_rings),
        };
        size_t n = sizeof(h);
        uint32_t sum;

        memcpy(ret_bytes, &h, sizeof(h));
        for (uint16_t i = 0; i < d->n_rings; i++) {
                struct record r = { .index = rte_cpu_to_le_16(d->ring[i].index) };

                vql_queue_state_write(&d->ring[i].state, r.state);
                memcpy(ret_bytes + n, &r, sizeof(r));
                n += sizeof(r);
        }
        sum = checksum(ret_bytes, n);
        memcpy(ret_bytes + n, &sum, sizeof(sum));
        return n + sizeof(sum);
}

/* The header, in our byte order, of a stream that has the length which it says, undamaged. */
static int read_header(const uint8_t *bytes, size_t n, struct header *ret_header,
                       struct vql_error *e)
{
        struct header h = { 0 };
        uint32_t sum;
        size_t expected;

        memcpy(&h, bytes, n < sizeof(h) ? n : sizeof(h));
        if (n < sizeof(h.magic) || rte_le_to_cpu_32(h.magic) != MAGIC)
                return vql_fail(e, EBADMSG, "%zu bytes that are not a device state of vqlift", n);
        h.version = rte_le_to_cpu_16(h.version);
        if (n >= sizeof(h) && h.version != VQL_DEVICE_STATE_VERSION)
                return vql_fail(e, EBADMSG, "device state of version %u, expected %d", h.version,
                                VQL_DEVICE_STATE_VERSION);
        h.device = rte_le_to_cpu_16(h.device);
        h.features = rte_le_to_cpu_64(h.features);
        h.mtu = rte_le_to_cpu_16(h.mtu);
        h.n_rings = rte_le_to_cpu_16(h.n_rings);
        expected = sizeof(h) + h.n_rings * sizeof(struct record) + sizeof(sum);
        if (n < sizeof(h) || n != expected)
                return vql_fail(e, EBADMSG, "device state of %zu bytes, expected %zu with %u rings",
                                n, expected, h.n_rings);
        memcpy(&sum, bytes + n - sizeof(sum), sizeof(sum));
        if (sum != checksum(bytes, n - sizeof(sum)))
                return vql_fail(e, EBADMSG, "device state with checksum 0x%08x, expected 0x%08x",
                                rte_le_to_cpu_32(sum),
                                rte_le_to_cpu_32(checksum(bytes, n - sizeof(sum))));
        *ret_header = h;
        return 0;
}

static int check_header(const struct header *h, struct vql_error *e)
{
        if (h->device != DEVICE_NET || h->zero != 0)
                return vql_fail(e, EBADMSG, "state of device type %u, expected %d", h->device,
                                DEVICE_NET);
        if (h->n_rings > VQL_MAX_RINGS)
                return vql_fail(e, EBADMSG, "state of %u rings, expected at most %d", h->n_rings,
                                VQL_MAX_RINGS);
        if (h->mtu != 0 && h->mtu < VQL_MTU_MIN)
                return vql_fail(e, EBADMSG, "state with MTU %u, expected at least %d", h->mtu,
                                VQL_MTU_MIN);
        return 0;
}

/* A ring's record: indices ascend, so that none is there twice. */
static int read_ring(const uint8_t *bytes, struct vql_device_state *d, struct vql_error *e)
{
        const int last = d->n_rings ? d->ring[d->n_rings - 1].index : -1;
        struct vql_device_ring *ring = &d->ring[d->n_rings];
        struct vql_error what;
        struct record r;

        memcpy(&r, bytes, sizeof(r));
        ring->index = rte_le_to_cpu_16(r.index);
        if (ring->index <= last || ring->index >= VQL_MAX_RINGS || r.zero != 0)
                return vql_fail(e, EBADMSG, "state of ring %u behind that of %d, expected %d to %d",
                                ring->index, last, last + 1, VQL_MAX_RINGS - 1);
        if (vql_queue_state_read(r.state, &ring->state, &what) < 0)
                return vql_fail(e, EBADMSG, "ring %u: %.200s", ring->index, what.text);
        if (ring->state.packed != vql_has(d->features, VIRTIO_F_RING_PACKED))
                return vql_fail(e, EBADMSG, "ring %u: state of a %s ring, against the features",
                                ring->index, ring->state.packed ? "packed" : "split");
        d->n_rings++;
        return 0;
}

int vql_device_state_read(const uint8_t *bytes, size_t n, struct vql_device_state *ret_state,
                          struct vql_error *e)
{
        struct header h = { 0 };
        int rc = read_header(bytes, n, &h, e);

        if (rc == 0)
                rc = check_header(&h, e);
        if (rc < 0)
                return rc;
        *ret_state = (struct vql_device_state){ .features = h.features, .mtu = h.mtu };
        for (uint16_t i = 0; i < h.n_rings && rc == 0; i++)
                rc = read_ring(bytes + sizeof(h) + i * sizeof(struct record), ret_state, e);
        return rc;
}

/* Size and position of a ring that stands somewhere; false: it does not. */
static bool standing(const struct vql_session *s, uint16_t index, uint16_t *ret_size,
                     uint32_t *ret_base)
{
        const struct vql_vring *v = &s->vring[index];
        const bool before = !s->features_set || v->loaded;

        *ret_size = (uint16_t)(before ? v->reset_num : v->num);
        *ret_base = before ? v->reset_base : v->base;
        return *ret_size > 0 && (before || v->base_set);
}

int vql_device_state_of(const struct vql_session *s, struct vql_device_state *ret_state,
                        struct vql_error *e)
{
        const uint64_t features = s->features_set ? s->features : s->reset_features;
        struct vql_device_state d = { .features = vql_guest_features(features), .mtu = s->mtu };

        for (uint16_t i = 0; i < s->offer->max_rings; i++) {
                struct vql_device_ring *r = &d.ring[d.n_rings];
                uint16_t size;
                uint32_t base;
                int rc;

                if (!standing(s, i, &size, &base))
                        continue;
                r->index = i;
                rc = vql_queue_state_from_base(base, vql_has(features, VIRTIO_F_RING_PACKED), size,
                                               &r->state, e);
                if (rc < 0)
                        return rc;
                d.n_rings++;
        }
        *ret_state = d;
        return 0;
}

/* Name the first feature of a set that is not empty. */
static int refuse_bit(struct vql_error *e, uint64_t set, const char *why)
{
        const unsigned int bit = (unsigned int)__builtin_ctzll(set);
        const char *name = vql_feature_name(bit);

        return vql_fail(e, EINVAL, "bit %u (%s) %s", bit, name ? name : "unknown", why);
}

static int check_features(const struct vql_device_state *d, const struct vql_session *s,
                          struct vql_error *e)
{
        const uint64_t surplus = d->features & ~vql_guest_features(s->offer->features);
        const uint64_t differ = d->features ^ vql_guest_features(s->features);

        if (surplus)
                return refuse_bit(e, surplus, "is not offered");
        if (s->features_set && differ)
                return refuse_bit(e, differ, "differs from what was acknowledged here");
        return 0;
}

static int check_mtu(const struct vql_device_state *d, const struct vql_session *s,
                     struct vql_error *e)
{
        if (d->mtu == 0)
                return 0;
        if (s->mtu != 0 && s->mtu != d->mtu)
                return vql_fail(e, EINVAL, "MTU %u, expected %u as set here", d->mtu, s->mtu);
        return s->ops->set_mtu(s->host, d->mtu, e);
}

static int check_ring(const struct vql_device_ring *r, const struct vql_session *s,
                      struct vql_error *e)
{
        const uint32_t num = r->index < s->offer->max_rings ? s->vring[r->index].num : 0;

        if (r->index >= s->offer->max_rings)
                return vql_fail(e, EINVAL, "ring %u, expected below %u", r->index,
                                s->offer->max_rings);
        if (num != 0 && num != r->state.size)
                return vql_fail(e, EINVAL, "ring %u: size %u, expected %u as set here", r->index,
                                r->state.size, num);
        /* Who took them is gone, and a position does not tell which they are. */
        if (r->state.in_flight > 0)
                return vql_fail(e, EINVAL, "ring %u: %u in flight, expected none", r->index,
                                r->state.in_flight);
        return 0;
}

int vql_device_state_fits(const struct vql_device_state *d, const struct vql_session *s,
                          struct vql_error *e)
{
        int rc = check_features(d, s, e);

        if (rc == 0)
                rc = check_mtu(d, s, e);
        for (uint16_t i = 0; i < d->n_rings && rc == 0; i++)
                rc = check_ring(&d->ring[i], s, e);
        return rc;
}

/* What a reset, or another state, left of a ring. */
static void forget_loaded(struct vql_vring *v)
{
        v->reset_num = 0;
        if (!v->loaded)
                return;
        v->base = 0;
        v->base_set = false;
        v->loaded = false;
}

void vql_device_state_give(const struct vql_device_state *d, struct vql_session *s)
{
        s->reset_features = d->features;
        if (d->mtu != 0)
                s->mtu = d->mtu;
        for (uint16_t i = 0; i < s->offer->max_rings; i++)
                forget_loaded(&s->vring[i]);
        for (uint16_t i = 0; i < d->n_rings; i++) {
                const struct vql_device_ring *r = &d->ring[i];
                struct vql_vring *v = &s->vring[r->index];

                v->reset_num = r->state.size;
                v->base = v->reset_base = vql_queue_state_to_base(&r->state);
                v->base_set = true;
                v->loaded = true;
        }
}

int vql_device_state_holds(const struct vql_session *s, uint16_t index, struct vql_error *e)
{
        const struct vql_vring *v = &s->vring[index];
        const uint64_t differ = vql_guest_features(s->features ^ s->reset_features);

        if (!v->loaded)
                return 0;
        if (v->num != v->reset_num)
                return vql_fail(e, EINVAL,
                                "ring %u: size %u, expected %u as in the state that was loaded",
                                index, v->num, v->reset_num);
        if (differ)
                return refuse_bit(e, differ, "differs from the state that was loaded");
        return 0;
}
