/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "drivers/sim/sim_impl.h"
#include "virtqueue/features.h"

enum { SHUFFLE_OF = 4, FRAME_OVERHEAD = 18 /* Ethernet header and a VLAN tag */ };

/* ---- buffers ahead of their use ---- */

/* Take buffers until there are `n`, or no more; the number there are, or -errno. */
static int take_up_to(struct sim_queue *q, unsigned int n)
{
        while (q->ring.count < n && q->ring.count < q->ring.where.size) {
                int rc = vql_sim_ring_take(&q->ring);

                if (rc < 0)
                        return rc;
                if (!rc)
                        break;
        }
        return q->ring.count;
}

/* Chance needs something to choose from. */
static unsigned int prefetch(const struct sim *s)
{
        const unsigned int n = (unsigned int)s->args.knob[VQL_SIM_KNOB_prefetch];

        return s->args.knob[VQL_SIM_KNOB_shuffle] && n < SHUFFLE_OF ? SHUFFLE_OF : n;
}

static uint32_t next_random(struct sim *s)
{
        s->random ^= s->random << 13;
        s->random ^= s->random >> 17;
        s->random ^= s->random << 5;
        return s->random;
}

/* Of the first `n` buffers taken, let chance decide which one comes first. */
static void shuffle(struct sim *s, struct sim_queue *q, unsigned int n)
{
        for (uint16_t i = 0; s->args.knob[VQL_SIM_KNOB_shuffle] && i + 1u < n; i++) {
                struct sim_chain *a = vql_sim_ring_taken(&q->ring, i);
                struct sim_chain *b =
                        vql_sim_ring_taken(&q->ring, (uint16_t)(i + next_random(s) % (n - i)));
                const struct sim_chain swap = *a;

                *a = *b;
                *b = swap;
        }
}

/* ---- from the driver to the wire ---- */

static int gather(const struct sim *s, const struct sim_chain *c, uint8_t *ret_bytes)
{
        size_t done = 0;

        for (uint32_t i = 0; i < c->n; i++) {
                int err = vql_sim_memory_read(&s->mem, c->seg[i].iova, ret_bytes + done,
                                              c->seg[i].len);

                if (err < 0)
                        return err;
                done += c->seg[i].len;
        }
        return 0;
}

/* The header is of no use here: no offload is offered. */
static int send_chain(struct sim *s, struct sim_queue *q, const struct sim_chain *c)
{
        uint8_t bytes[SIM_HEADER_BYTES + SIM_PACKET_BYTES];
        const struct sim_wire *w = &s->wire[q->index / 2];
        int err;

        if (c->bytes <= SIM_HEADER_BYTES || c->bytes > sizeof(bytes)) {
                sim_count(q, SIM_STAT_dropped, 1);
                return 0;
        }
        err = gather(s, c, bytes);
        if (err < 0)
                return err;
        if (vql_sim_wire_send(w, bytes + SIM_HEADER_BYTES, c->bytes - SIM_HEADER_BYTES)) {
                sim_count(q, SIM_STAT_packets, 1);
                sim_count(q, SIM_STAT_bytes, c->bytes - SIM_HEADER_BYTES);
        } else {
                sim_count(q, SIM_STAT_dropped, 1);
        }
        return 0;
}

static void give_back_sent(struct sim *s, struct sim_queue *q, uint16_t n)
{
        shuffle(s, q, n);
        if (n > 1 && s->args.knob[VQL_SIM_KNOB_batch] && vql_has(s->features, VIRTIO_F_IN_ORDER))
                vql_sim_ring_return_batch(&q->ring, n);
        else
                vql_sim_ring_return(&q->ring, n);
}

int vql_sim_transmit(struct sim *s, struct sim_queue *q, unsigned int most)
{
        int rc = take_up_to(q, most + prefetch(s));
        int broken = rc < 0 ? rc : 0;
        uint16_t n = 0;

        /* What came before an impossible buffer is still in order. */
        while (n < q->ring.count && n < most) {
                rc = send_chain(s, q, vql_sim_ring_taken(&q->ring, n));
                if (rc < 0) {
                        broken = rc;
                        break;
                }
                n++;
        }
        give_back_sent(s, q, n);
        return broken ? broken : n;
}

bool vql_sim_transmit_untold(struct sim *s, struct sim_queue *q)
{
        return take_up_to(q, 1) > 0 && send_chain(s, q, vql_sim_ring_taken(&q->ring, 0)) == 0;
}

/* ---- from the wire to the driver ---- */

/* How many of the buffers taken a packet fills; 0: not enough were taken. */
static uint16_t buffers_for(struct sim_queue *q, uint64_t bytes, unsigned int most)
{
        uint64_t room = 0;

        for (uint16_t n = 0; n < q->ring.count && n < most; n++) {
                room += vql_sim_ring_taken(&q->ring, n)->bytes;
                if (room >= bytes)
                        return (uint16_t)(n + 1);
        }
        return 0;
}

struct source {
        const uint8_t *header, *packet;
        size_t done, bytes; /* of both together */
};

/* Header and packet are one run of bytes: the next of them, at most `n`. */
static const uint8_t *next_piece(const struct source *from, size_t *io_n)
{
        size_t left = from->bytes - from->done;
        const uint8_t *at = from->packet + from->done - SIM_HEADER_BYTES;

        if (from->done < SIM_HEADER_BYTES) {
                left = SIM_HEADER_BYTES - from->done;
                at = from->header + from->done;
        }
        if (*io_n > left)
                *io_n = left;
        return at;
}

static int fill_segment(const struct sim *s, const struct sim_seg *seg, struct source *from)
{
        for (size_t here = 0; here < seg->len && from->done < from->bytes;) {
                size_t n = seg->len - here;
                const uint8_t *piece = next_piece(from, &n);
                int err = vql_sim_memory_write(&s->mem, seg->iova + here, piece, n);

                if (err < 0)
                        return err;
                here += n;
                from->done += n;
        }
        return 0;
}

static int fill_chain(const struct sim *s, struct sim_chain *c, struct source *from)
{
        const size_t before = from->done;
        int err = 0;

        for (uint32_t i = 0; !err && i < c->n; i++)
                err = fill_segment(s, &c->seg[i], from);
        c->written = (uint32_t)(from->done - before);
        return err;
}

/* Give the packet that is pending to the driver in `n` buffers. */
static int deliver(struct sim *s, struct sim_queue *q, uint16_t n)
{
        struct sim_wire *w = &s->wire[q->index / 2];
        const struct virtio_net_hdr_v1 header = { .num_buffers = n };
        struct source from = {
                .header = (const uint8_t *)&header,
                .packet = w->packet,
                .bytes = SIM_HEADER_BYTES + w->pending,
        };
        int err = 0;

        for (uint16_t i = 0; !err && i < n; i++)
                err = fill_chain(s, vql_sim_ring_taken(&q->ring, i), &from);
        if (err < 0)
                return err;
        vql_sim_ring_return(&q->ring, n);
        sim_count(q, SIM_STAT_packets, 1);
        sim_count(q, SIM_STAT_bytes, w->pending);
        w->pending = 0;
        return n;
}

static void drop_pending(struct sim_queue *q, struct sim_wire *w)
{
        sim_count(q, SIM_STAT_dropped, 1);
        w->pending = 0;
}

/* The packet that is pending: buffers used, 0 none are there yet or it was dropped, -errno. */
static int place_packet(struct sim *s, struct sim_queue *q)
{
        struct sim_wire *w = &s->wire[q->index / 2];
        const bool merge = vql_has(s->features, VIRTIO_NET_F_MRG_RXBUF);
        const unsigned int most = merge ? q->ring.where.size : 1;
        const uint64_t bytes = SIM_HEADER_BYTES + w->pending;
        uint16_t n = buffers_for(q, bytes, most);

        while (!n && q->ring.count < most) {
                int rc = vql_sim_ring_take(&q->ring);

                if (rc < 0)
                        return rc;
                if (!rc)
                        break;
                n = buffers_for(q, bytes, most);
        }
        if (n)
                return deliver(s, q, n);
        /* All that the driver can offer at a time is too little. */
        if (q->ring.count == most || vql_sim_ring_holds_all(&q->ring))
                drop_pending(q, w);
        return 0;
}

/* Have a packet, or say that there is none. */
static bool fetch_packet(struct sim *s, struct sim_queue *q)
{
        struct sim_wire *w = &s->wire[q->index / 2];

        if (q->index / 2 >= s->filter.pairs)
                return false;
        while (!w->pending) {
                if (!vql_sim_wire_receive(w))
                        return false;
                if (w->pending > (size_t)s->args.mtu + FRAME_OVERHEAD ||
                    !vql_sim_filter_passes(s, w->packet, w->pending))
                        drop_pending(q, w);
        }
        return true;
}

int vql_sim_receive(struct sim *s, struct sim_queue *q)
{
        int moved = 0;

        if (take_up_to(q, prefetch(s)) < 0)
                return -EBADMSG;
        for (unsigned int i = 0; i < SIM_BURST && fetch_packet(s, q); i++) {
                int n;

                shuffle(s, q, q->ring.count);
                n = place_packet(s, q);
                if (n < 0)
                        return n;
                moved += n;
                if (s->wire[q->index / 2].pending)
                        break;
        }
        /* Whoever waits for a buffer asks to be told of it, and then looks once more. */
        if (s->wire[q->index / 2].pending && !moved) {
                vql_sim_ring_ask_kicks(&q->ring, true);
                return vql_sim_ring_has(&q->ring) ? place_packet(s, q) : 0;
        }
        return moved;
}
