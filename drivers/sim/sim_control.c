/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "drivers/sim/sim_impl.h"
#include "virtqueue/features.h"

/* Where an Ethernet frame has what. */
enum {
        FRAME_MIN = 14,
        FRAME_TYPE = 12,
        FRAME_VLAN = 14,
        TYPE_VLAN = 0x8100,
        VLAN_MASK = 0xfff,
};

static uint16_t get_le16(const uint8_t *p)
{
        return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get_le32(const uint8_t *p)
{
        return get_le16(p) | (uint32_t)get_le16(p + 2) << 16;
}

/* virtio 1.2, 5.1.6.5: one pair, its own address, all else refused. */
void vql_sim_filter_reset(struct sim *s)
{
        s->filter = (struct sim_filter){ .pairs = vql_has(s->features, VIRTIO_NET_F_MQ)
                                                          ? 1
                                                          : s->args.pairs };
        memcpy(s->filter.mac, s->args.mac, SIM_MAC_BYTES);
}

/* ---- which packets pass ---- */

static bool has_mode(const struct sim *s, unsigned int mode)
{
        return vql_has(s->filter.modes, mode);
}

static bool is_listed(const uint8_t list[][SIM_MAC_BYTES], uint16_t n, const uint8_t *mac)
{
        for (uint16_t i = 0; i < n; i++)
                if (memcmp(list[i], mac, SIM_MAC_BYTES) == 0)
                        return true;
        return false;
}

static bool address_passes(const struct sim *s, const uint8_t *mac)
{
        static const uint8_t broadcast[SIM_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
        const struct sim_filter *f = &s->filter;

        if (has_mode(s, VIRTIO_NET_CTRL_RX_PROMISC))
                return true;
        if (memcmp(mac, broadcast, SIM_MAC_BYTES) == 0)
                return !has_mode(s, VIRTIO_NET_CTRL_RX_NOBCAST);
        if (mac[0] & 1)
                return has_mode(s, VIRTIO_NET_CTRL_RX_ALLMULTI) ||
                       (!has_mode(s, VIRTIO_NET_CTRL_RX_NOMULTI) &&
                        is_listed(f->multicast, f->n_multicast, mac));
        return has_mode(s, VIRTIO_NET_CTRL_RX_ALLUNI) ||
               (!has_mode(s, VIRTIO_NET_CTRL_RX_NOUNI) &&
                (memcmp(mac, f->mac, SIM_MAC_BYTES) == 0 ||
                 is_listed(f->unicast, f->n_unicast, mac)));
}

static bool vlan_passes(const struct sim *s, const uint8_t *packet, size_t n)
{
        uint16_t vlan;

        if (n < FRAME_VLAN + 2 || (packet[FRAME_TYPE] << 8 | packet[FRAME_TYPE + 1]) != TYPE_VLAN)
                return true;
        vlan = (packet[FRAME_VLAN] << 8 | packet[FRAME_VLAN + 1]) & VLAN_MASK;
        return vql_has(s->filter.vlans[vlan / 8], vlan % 8);
}

bool vql_sim_filter_passes(const struct sim *s, const uint8_t *packet, size_t n)
{
        if (n < FRAME_MIN)
                return false;
        if (vql_has(s->features, VIRTIO_NET_F_CTRL_VLAN) && !vlan_passes(s, packet, n))
                return false;
        return !vql_has(s->features, VIRTIO_NET_F_CTRL_RX) || address_passes(s, packet);
}

/* ---- commands ---- */

struct command {
        uint8_t cls, code;
        const uint8_t *data;
        uint32_t n;
};

static int set_mode(struct sim *s, const struct command *c)
{
        const unsigned int most = vql_has(s->features, VIRTIO_NET_F_CTRL_RX_EXTRA)
                                          ? VIRTIO_NET_CTRL_RX_NOBCAST
                                          : VIRTIO_NET_CTRL_RX_ALLMULTI;

        if (c->n != 1 || c->code > most)
                return -EIO;
        s->filter.modes &= (uint8_t)~vql_bit(c->code);
        if (c->data[0])
                s->filter.modes |= (uint8_t)vql_bit(c->code);
        return 0;
}

/* One of the two tables of TABLE_SET: its bytes, or -EIO. */
static int read_table(const uint8_t *data, uint32_t n, uint8_t ret_list[][SIM_MAC_BYTES],
                      uint16_t *ret_n)
{
        uint32_t entries;

        if (n < 4)
                return -EIO;
        entries = get_le32(data);
        if (entries > SIM_MAC_TABLE || n - 4 < entries * SIM_MAC_BYTES)
                return -EIO;
        memcpy(ret_list, data + 4, (size_t)entries * SIM_MAC_BYTES);
        *ret_n = (uint16_t)entries;
        return (int)(4 + entries * SIM_MAC_BYTES);
}

static int set_mac_tables(struct sim *s, const struct command *c)
{
        struct sim_filter next = s->filter;
        int first = read_table(c->data, c->n, next.unicast, &next.n_unicast);
        int second;

        if (first < 0)
                return first;
        second = read_table(c->data + first, c->n - (uint32_t)first, next.multicast,
                            &next.n_multicast);
        if (second < 0 || (uint32_t)(first + second) != c->n)
                return -EIO;
        s->filter = next;
        return 0;
}

static int set_mac(struct sim *s, const struct command *c)
{
        if (c->code == VIRTIO_NET_CTRL_MAC_TABLE_SET)
                return set_mac_tables(s, c);
        if (c->code != VIRTIO_NET_CTRL_MAC_ADDR_SET || c->n != SIM_MAC_BYTES ||
            !vql_has(s->features, VIRTIO_NET_F_CTRL_MAC_ADDR))
                return -EIO;
        memcpy(s->filter.mac, c->data, SIM_MAC_BYTES);
        return 0;
}

static int set_vlan(struct sim *s, const struct command *c)
{
        uint16_t vlan;

        if (c->n != 2 || c->code > VIRTIO_NET_CTRL_VLAN_DEL)
                return -EIO;
        vlan = get_le16(c->data);
        if (vlan >= SIM_VLANS)
                return -EIO;
        s->filter.vlans[vlan / 8] &= (uint8_t)~vql_bit(vlan % 8);
        if (c->code == VIRTIO_NET_CTRL_VLAN_ADD)
                s->filter.vlans[vlan / 8] |= (uint8_t)vql_bit(vlan % 8);
        return 0;
}

static int set_pairs(struct sim *s, const struct command *c)
{
        uint16_t pairs;

        if (c->n != 2 || c->code != VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET)
                return -EIO;
        pairs = get_le16(c->data);
        if (pairs < 1 || pairs > s->args.pairs)
                return -EIO;
        s->filter.pairs = pairs;
        return 0;
}

static int execute(struct sim *s, const struct command *c)
{
        static const struct {
                uint8_t cls, feature;
                int (*set)(struct sim *s, const struct command *c);
        } classes[] = {
                { VIRTIO_NET_CTRL_RX, VIRTIO_NET_F_CTRL_RX, set_mode },
                { VIRTIO_NET_CTRL_MAC, VIRTIO_NET_F_CTRL_RX, set_mac },
                { VIRTIO_NET_CTRL_VLAN, VIRTIO_NET_F_CTRL_VLAN, set_vlan },
                { VIRTIO_NET_CTRL_MQ, VIRTIO_NET_F_MQ, set_pairs },
        };

        for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
                if (classes[i].cls == c->cls && vql_has(s->features, classes[i].feature))
                        return classes[i].set(s, c);
        return -EIO;
}

int vql_sim_ctrl(struct vql_dev *d, uint8_t cls, uint8_t command, const void *data, uint32_t n,
                 struct vql_error *e)
{
        const struct command c = { cls, command, data, n };
        struct sim *s = d->priv;
        int err;

        if (!(s->caps.flags & VQL_DEV_CTRL))
                return vql_fail(e, ENOTSUP, "%s: no control commands", d->address);
        vql_sim_lock(s);
        err = vql_sim_check_health(s, e);
        if (!err) {
                err = execute(s, &c);
                if (err < 0)
                        vql_fail(e, EIO, "%s: refuses command %u of class %u with %u bytes",
                                 d->address, command, cls, n);
        }
        vql_sim_unlock(s);
        /* Queues of pairs that were just turned on have packets to look for. */
        vql_sim_wake(s);
        return err;
}

/* ---- configuration ---- */

int vql_sim_cfg_read(struct vql_dev *d, uint32_t offset, void *ret_bytes, uint32_t n)
{
        struct sim *s = d->priv;
        struct virtio_net_config config = { 0 };
        int err;

        if (offset > sizeof(config) || n > sizeof(config) - offset)
                return -EINVAL;
        vql_sim_lock(s);
        err = s->health == SIM_GONE ? -ENODEV : 0;
        memcpy(config.mac, s->filter.mac, SIM_MAC_BYTES);
        config.status = s->link_up ? VIRTIO_NET_S_LINK_UP : 0;
        config.max_virtqueue_pairs = s->args.pairs;
        config.mtu = s->args.mtu;
        vql_sim_unlock(s);
        if (!err)
                memcpy(ret_bytes, (const uint8_t *)&config + offset, n);
        return err;
}
