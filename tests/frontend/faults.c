/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/faults.h"

#include <errno.h>
#include <string.h>

#include <linux/virtio_net.h>

#include "frontend/net.h"

enum { BIG = 65536 };

#define NOWHERE (UINT64_C(1) << 60)

/* ---- buffers ---- */

static void fill_packet(struct fe_fault_room *room)
{
        for (unsigned int i = 0; i < FE_FAULT_PACKET; i++)
                room->packet[i] = (uint8_t)(i * 13 + 7);
        memset(room->packet, 0x02, 12);
        room->packet[12] = FE_NOISE_TYPE >> 8;
        room->packet[13] = FE_NOISE_TYPE & 0xff;
}

/* Header and packet as a right driver offers them, in two pieces. */
static void arrange_right(struct fe_fault_room *room)
{
        static const uint8_t header[12];
        uint32_t first = (uint32_t)room->header + 20;

        fe_memory_write(room->mem, room->at, header, room->header);
        fe_memory_write(room->mem, room->at + room->header, room->packet, FE_FAULT_PACKET);
        room->seg[0] = (struct fe_seg){ .gpa = room->at, .len = first, .write = room->rx };
        room->seg[1] = (struct fe_seg){
                .gpa = room->at + first,
                .len = (uint32_t)room->header + FE_FAULT_PACKET - first,
                .write = room->rx,
        };
        room->n = 2;
}

int fe_fault_room_init(struct fe_fault_room *room, struct fe_memory *m, int region, bool rx,
                       size_t header)
{
        int err;

        *room = (struct fe_fault_room){ .mem = m, .rx = rx, .header = header };
        fill_packet(room);
        err = fe_memory_alloc(m, region, FE_FAULT_PACKET + 64, 64, &room->at);
        if (err == 0)
                err = fe_memory_alloc(m, region, BIG, 64, &room->big);
        if (err == 0)
                err = fe_memory_alloc(m, region, 16 * FE_FAULT_SEGS, 16, &room->table);
        return err;
}

static void arrange_short(struct fe_fault_room *room)
{
        room->seg[0].len = (uint32_t)room->header - 1;
        room->n = 1;
}

static void arrange_header_only(struct fe_fault_room *room)
{
        room->seg[0].len = (uint32_t)room->header;
        room->n = 1;
}

static void arrange_empty(struct fe_fault_room *room)
{
        room->seg[0].len = 0;
        room->n = 1;
}

static void arrange_bytewise(struct fe_fault_room *room)
{
        uint32_t n = (uint32_t)room->header;

        for (uint32_t i = 0; i < n; i++)
                room->seg[i] = (struct fe_seg){ .gpa = room->at + i, .len = 1 };
        room->seg[n] = (struct fe_seg){ .gpa = room->at + n, .len = FE_FAULT_PACKET };
        room->n = n + 1;
}

static void arrange_zero_between(struct fe_fault_room *room)
{
        room->seg[2] = room->seg[1];
        room->seg[1].len = 0;
        room->n = 3;
}

static void arrange_two_bigs(struct fe_fault_room *room)
{
        room->seg[1] = (struct fe_seg){ .gpa = room->big, .len = BIG };
        room->seg[2] = room->seg[1];
        room->n = 3;
}

static void set_header(struct fe_fault_room *room, const struct virtio_net_hdr *h)
{
        fe_memory_write(room->mem, room->at, h, sizeof(*h));
}

static void arrange_csum_start(struct fe_fault_room *room)
{
        set_header(room, &(struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                   .csum_start = FE_FAULT_PACKET,
                                                   .csum_offset = 16 });
}

static void arrange_csum_offset(struct fe_fault_room *room)
{
        set_header(room, &(struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                   .csum_start = 34,
                                                   .csum_offset = 65535 });
}

static void arrange_gso_size(struct fe_fault_room *room)
{
        set_header(room, &(struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                   .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
                                                   .hdr_len = 54,
                                                   .csum_start = 34,
                                                   .csum_offset = 16 });
}

static void arrange_gso_type(struct fe_fault_room *room)
{
        set_header(room, &(struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                   .gso_type = 0x55,
                                                   .gso_size = 100,
                                                   .hdr_len = 54,
                                                   .csum_start = 34,
                                                   .csum_offset = 16 });
}

/* The packet is not IPv4, let alone TCP. */
static void arrange_gso_not_tcp(struct fe_fault_room *room)
{
        set_header(room, &(struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                   .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
                                                   .gso_size = 100,
                                                   .hdr_len = 54,
                                                   .csum_start = 34,
                                                   .csum_offset = 16 });
}

/* ---- descriptors ---- */

static struct fe_desc desc(struct fe_driver *d, unsigned int i)
{
        struct fe_desc v;

        /* All faults touch descriptors that their buffer has. */
        return fe_driver_desc(d, i, &v) == 0 ? v : fe_driver_head(d);
}

static void head_outside(struct fe_driver *d, const struct fe_fault_room *room)
{
        struct fe_area_pointers at = fe_driver_pointers(d);
        uint16_t size = fe_driver_params(d)->size;

        (void)room;
        at.avail->ring[at.avail->idx % size] = size;
}

static void next_outside(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).next = fe_driver_params(d)->size;
}

static void next_far_outside(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).next = 65535;
}

/* The second descriptor points to itself.  It is short, lest the packet be too long before it is
 * too long a chain. */
static void loop_to_itself(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).next = *desc(d, 0).next;
        *desc(d, 1).flags |= VRING_DESC_F_NEXT;
        *desc(d, 1).len = 1;
}

/* The same with length 0, so that byte counts do not grow at all. */
static void empty_loop(struct fe_driver *d, const struct fe_fault_room *room)
{
        loop_to_itself(d, room);
        *desc(d, 1).len = 0;
}

static void loop_in_table(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).next = 0;
        *desc(d, 1).flags |= VRING_DESC_F_NEXT;
}

static void next_behind_table(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).next = (uint16_t)fe_driver_last_len(d);
}

/* Every slot of the packed ring is available and none is the last of its chain. */
static void endless_chain(struct fe_driver *d, const struct fe_fault_room *room)
{
        struct vring_packed_desc *ring = fe_driver_pointers(d).packed;
        uint16_t size = fe_driver_params(d)->size;

        *desc(d, 1).flags |= VRING_DESC_F_NEXT;
        fe_driver_jump(d, (uint16_t)(size - 2));
        for (unsigned int i = 0; i < size; i++) {
                if (&ring[i].len == desc(d, 0).len || &ring[i].len == desc(d, 1).len)
                        continue;
                ring[i].addr = room->at;
                ring[i].len = 1;
                ring[i].flags |= VRING_DESC_F_NEXT | (room->rx ? VRING_DESC_F_WRITE : 0);
        }
        *desc(d, 0).flags |= VRING_DESC_F_NEXT;
}

static void table_empty(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *fe_driver_head(d).len = 0;
}

static void table_odd(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *fe_driver_head(d).len = 2 * 16 + 4;
}

static void table_less_than_one(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *fe_driver_head(d).len = 8;
}

static void table_endless(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *fe_driver_head(d).len = 0xfffffff0;
}

static void table_nested(struct fe_driver *d, const struct fe_fault_room *room)
{
        struct fe_desc v = desc(d, 0);

        *v.addr = room->table;
        *v.len = 32;
        *v.flags |= VRING_DESC_F_INDIRECT;
}

static void table_and_next(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *fe_driver_head(d).flags |= VRING_DESC_F_NEXT;
}

/* The flag means nothing beside INDIRECT: the device ignores it (2.7.5.3.2, 2.8.7). */
static void table_and_write(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *fe_driver_head(d).flags |= VRING_DESC_F_WRITE;
}

static void table_nowhere(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *fe_driver_head(d).addr = NOWHERE;
}

static void table_over_the_end(struct fe_driver *d, const struct fe_fault_room *room)
{
        uint64_t last = fe_memory_end(room->mem) - 16;
        uint8_t entry[16];

        fe_memory_read(room->mem, room->table, entry, sizeof(entry));
        fe_memory_write(room->mem, last, entry, sizeof(entry));
        *fe_driver_head(d).addr = last;
}

static void address_nowhere(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).addr = NOWHERE;
}

static void header_nowhere(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).addr = NOWHERE;
}

static void address_wraps(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).addr = UINT64_MAX - 10;
}

static void address_over_the_end(struct fe_driver *d, const struct fe_fault_room *room)
{
        *desc(d, 1).addr = fe_memory_end(room->mem) - 1;
}

static void length_endless(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 1).len = UINT32_MAX;
}

static void nowhere_but_empty(struct fe_driver *d, const struct fe_fault_room *room)
{
        struct fe_desc v = desc(d, 1);

        (void)room;
        *v.addr = NOWHERE;
        *v.len = 0;
}

static void wrong_direction(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).flags ^= VRING_DESC_F_WRITE;
        *desc(d, 1).flags ^= VRING_DESC_F_WRITE;
}

static void readable_behind_writable(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        *desc(d, 0).flags |= VRING_DESC_F_WRITE;
        *desc(d, 1).flags = (uint16_t)(*desc(d, 1).flags & ~VRING_DESC_F_WRITE);
}

/* From the last published index, which is as far as the device can have come: one entry more than
 * the ring has. */
static void index_jump(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        fe_driver_jump(d, (uint16_t)(fe_driver_params(d)->size + 1));
}

static void index_back(struct fe_driver *d, const struct fe_fault_room *room)
{
        (void)room;
        fe_driver_jump(d, UINT16_MAX);
}

/* ---- the table ---- */

#define BOTH_WAYS .tx = true, .rx = true
#define TX        .tx = true
#define RX        .rx = true
#define SPLIT     .formats = FE_FOR_SPLIT
#define PACKED    .formats = FE_FOR_PACKED
#define ANY_RING  .formats = FE_FOR_BOTH
#define TABLE     .table = true, .needs = FE_NEEDS_INDIRECT
#define OFFLOADS  .needs = FE_NEEDS_OFFLOADS
#define SHOWN     .shown = true
#define BREAKS    .effect = FE_BREAKS_RING
#define RETURNED  .effect = FE_RETURNED
#define ACCEPTED  .effect = FE_ACCEPTED
#define SURVIVED  .effect = FE_ANY

const struct fe_ring_fault fe_ring_faults[] = {
        { "head outside the table", SPLIT, BOTH_WAYS, BREAKS, .spoil = head_outside },
        { "next outside the table", SPLIT, BOTH_WAYS, BREAKS, .spoil = next_outside },
        { "next far outside", SPLIT, BOTH_WAYS, BREAKS, .spoil = next_far_outside },
        { "loop", SPLIT, TX, BREAKS, .spoil = loop_to_itself },
        { "loop of empty descriptors", SPLIT, BOTH_WAYS, BREAKS, .spoil = empty_loop },
        { "loop in a table", SPLIT, TX, TABLE, BREAKS, .spoil = loop_in_table },
        { "next behind the table", SPLIT, BOTH_WAYS, TABLE, BREAKS, .spoil = next_behind_table },
        { "endless chain", PACKED, BOTH_WAYS, BREAKS, .spoil = endless_chain },
        { "index one too far", SPLIT, BOTH_WAYS, BREAKS, SHOWN, .spoil = index_jump },
        { "index back by one", SPLIT, BOTH_WAYS, BREAKS, SHOWN, .spoil = index_back },
        { "table of length 0", ANY_RING, BOTH_WAYS, TABLE, BREAKS, .spoil = table_empty },
        { "table of 8 bytes", ANY_RING, BOTH_WAYS, TABLE, BREAKS, .spoil = table_less_than_one },
        { "table of 36 bytes", ANY_RING, BOTH_WAYS, TABLE, BREAKS, .spoil = table_odd },
        { "table of 4 GiB", ANY_RING, BOTH_WAYS, TABLE, SURVIVED, .spoil = table_endless },
        { "table in a table", ANY_RING, BOTH_WAYS, TABLE, BREAKS, .spoil = table_nested },
        { "table and next", ANY_RING, BOTH_WAYS, TABLE, BREAKS, .spoil = table_and_next },
        { "table marked writable", ANY_RING, TX, TABLE, ACCEPTED, .spoil = table_and_write },
        { "table nowhere", ANY_RING, BOTH_WAYS, TABLE, BREAKS, .spoil = table_nowhere },
        { "table over the end", ANY_RING, BOTH_WAYS, TABLE, BREAKS, .spoil = table_over_the_end },
        { "buffer nowhere", ANY_RING, BOTH_WAYS, BREAKS, .spoil = address_nowhere },
        { "header nowhere", ANY_RING, BOTH_WAYS, BREAKS, .spoil = header_nowhere },
        { "buffer nowhere, in a table", ANY_RING, BOTH_WAYS, TABLE, BREAKS,
          .spoil = address_nowhere },
        { "buffer wraps", ANY_RING, BOTH_WAYS, BREAKS, .spoil = address_wraps },
        { "buffer over the end", ANY_RING, BOTH_WAYS, BREAKS, .spoil = address_over_the_end },
        { "buffer of 4 GiB", ANY_RING, BOTH_WAYS, SURVIVED, .spoil = length_endless },
        { "empty buffer nowhere", ANY_RING, BOTH_WAYS, SURVIVED, .spoil = nowhere_but_empty },
        { "wrong direction", ANY_RING, BOTH_WAYS, BREAKS, .spoil = wrong_direction },
        { "readable behind writable", ANY_RING, BOTH_WAYS, BREAKS,
          .spoil = readable_behind_writable },
        { "shorter than the header", ANY_RING, TX, RETURNED, .arrange = arrange_short },
        { "header and nothing else", ANY_RING, TX, RETURNED, .arrange = arrange_header_only },
        { "empty", ANY_RING, TX, RETURNED, .arrange = arrange_empty },
        { "no room for the header", ANY_RING, RX, SURVIVED, .arrange = arrange_short },
        { "no room at all", ANY_RING, RX, SURVIVED, .arrange = arrange_empty },
        { "header byte by byte", ANY_RING, TX, ACCEPTED, .arrange = arrange_bytewise },
        { "an empty piece", ANY_RING, TX, ACCEPTED, .arrange = arrange_zero_between },
        { "128 KiB", ANY_RING, TX, RETURNED, .arrange = arrange_two_bigs },
        { "csum_start behind the packet", ANY_RING, TX, OFFLOADS, RETURNED,
          .arrange = arrange_csum_start },
        { "csum_offset behind the packet", ANY_RING, TX, OFFLOADS, RETURNED,
          .arrange = arrange_csum_offset },
        { "gso_size 0", ANY_RING, TX, OFFLOADS, RETURNED, .arrange = arrange_gso_size },
        { "unknown gso_type", ANY_RING, TX, OFFLOADS, RETURNED, .arrange = arrange_gso_type },
        { "gso of what is not TCP", ANY_RING, TX, OFFLOADS, RETURNED,
          .arrange = arrange_gso_not_tcp },
};
const size_t fe_ring_fault_count = sizeof(fe_ring_faults) / sizeof(fe_ring_faults[0]);

int fe_fault_inject(const struct fe_ring_fault *f, struct fe_driver *d, struct fe_fault_room *room)
{
        struct fe_chain c;
        int err;

        arrange_right(room);
        if (f->arrange)
                f->arrange(room);
        c = (struct fe_chain){
                .segs = room->seg,
                .n = room->n,
                .table = f->table ? room->table : 0,
                .cookie = room,
        };
        err = fe_driver_add(d, &c, NULL);
        if (err < 0)
                return err;
        if (f->spoil)
                f->spoil(d, room);
        if (!f->shown)
                fe_driver_publish(d);
        return 0;
}
