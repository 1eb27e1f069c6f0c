/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/net.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_BUFFERS = 256, DEFAULT_BYTES = 2048, MAX_PIECES = 20, BEFORE_BORDER = 100 };

struct buffer {
        struct fe_seg seg[MAX_PIECES];
        unsigned int n;
        uint64_t table; /* 0: direct */
        struct buffer *next;
};

struct fe_net {
        struct fe_net_params p;
        size_t header;
        bool mergeable;
        struct fe_ring *rx, *tx;
        struct buffer *buffers; /* all of them */
        struct buffer *rx_free, *tx_free;
        unsigned int unreaped;
        struct fe_text error;
};

static int64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- buffers ---- */

static int add_piece(struct fe_net *n, struct buffer *b, uint32_t len, bool write)
{
        return fe_seg_alloc(n->p.fe->setup.mem, n->p.region, len, write, &b->seg[b->n++]);
}

/* The header in a piece of its own or in front of the first one. */
static int shape_buffer(struct fe_net *n, struct buffer *b, bool write)
{
        unsigned int pieces = write ? 1 : n->p.tx_segs;
        uint32_t header = (uint32_t)n->header;
        uint32_t len = write ? n->p.rx_bytes - header : (n->p.tx_bytes + pieces - 1) / pieces;
        int err = 0;

        if (n->p.split_header)
                err = add_piece(n, b, header, write);
        for (unsigned int i = 0; err == 0 && i < pieces; i++)
                err = add_piece(n, b, len + (i == 0 && !n->p.split_header ? header : 0), write);
        if (err == 0 && n->p.indirect && fe_has(n->p.fe->features, VIRTIO_RING_F_INDIRECT_DESC))
                err = fe_memory_alloc(n->p.fe->setup.mem, n->p.region, 16 * MAX_PIECES, 16,
                                      &b->table);
        return err;
}

/* Move a buffer's last piece to where some of it is in one region and the rest in the next. */
static void lay_across(struct fe_net *n, struct buffer *b, unsigned int cross)
{
        if (cross > 0)
                b->seg[b->n - 1].gpa =
                        fe_memory_cross(n->p.fe->setup.mem, cross - 1, BEFORE_BORDER);
}

static void put_free(struct buffer **list, struct buffer *b)
{
        b->next = *list;
        *list = b;
}

static int make_buffers(struct fe_net *n)
{
        n->buffers = calloc(2 * n->p.buffers, sizeof(*n->buffers));
        if (!n->buffers)
                return -ENOMEM;
        for (unsigned int i = 0; i < 2 * n->p.buffers; i++) {
                bool rx = i < n->p.buffers;
                int err = shape_buffer(n, &n->buffers[i], rx);

                if (err < 0)
                        return err;
                put_free(rx ? &n->rx_free : &n->tx_free, &n->buffers[i]);
        }
        lay_across(n, &n->buffers[0], n->p.cross_rx);
        lay_across(n, &n->buffers[n->p.buffers], n->p.cross_tx);
        return 0;
}

static void fill_defaults(struct fe_net *n)
{
        unsigned int size = fe_driver_params(n->rx->driver)->size;

        if (n->p.buffers == 0)
                n->p.buffers = size < DEFAULT_BUFFERS ? size : DEFAULT_BUFFERS;
        if (n->p.rx_bytes == 0)
                n->p.rx_bytes = DEFAULT_BYTES;
        if (n->p.tx_bytes == 0)
                n->p.tx_bytes = DEFAULT_BYTES;
        if (n->p.tx_segs == 0)
                n->p.tx_segs = 1;
}

int fe_net_new(const struct fe_net_params *params, struct fe_net **ret_net)
{
        struct fe_net *n = calloc(1, sizeof(*n));
        uint64_t features = params->fe->features;
        int err;

        if (!n)
                return -ENOMEM;
        n->p = *params;
        n->rx = &params->fe->ring[2 * params->pair];
        n->tx = &params->fe->ring[2 * params->pair + 1];
        n->mergeable = fe_has(features, VIRTIO_NET_F_MRG_RXBUF);
        n->header = n->mergeable || fe_has(features, VIRTIO_F_VERSION_1) ? 12 : 10;
        fill_defaults(n);
        err = n->p.tx_segs + 1 > MAX_PIECES || n->p.rx_bytes <= n->header ? -EINVAL
                                                                          : make_buffers(n);
        if (err < 0) {
                fe_net_free(n);
                return err;
        }
        *ret_net = n;
        return 0;
}

void fe_net_free(struct fe_net *n)
{
        if (!n)
                return;
        free(n->buffers);
        free(n);
}

const char *fe_net_error(const struct fe_net *n)
{
        return n->error.s;
}

size_t fe_net_header(const struct fe_net *n)
{
        return n->header;
}

unsigned int fe_net_unreaped(const struct fe_net *n)
{
        return n->unreaped;
}

void fe_net_reset(struct fe_net *n)
{
        n->rx_free = NULL;
        n->tx_free = NULL;
        n->unreaped = 0;
        for (unsigned int i = 0; i < 2 * n->p.buffers; i++)
                put_free(i < n->p.buffers ? &n->rx_free : &n->tx_free, &n->buffers[i]);
}

/* ---- to the device ---- */

int fe_net_refill(struct fe_net *n)
{
        int posted = 0, err = 0;

        while (n->rx_free) {
                struct buffer *b = n->rx_free;
                const struct fe_chain c = { b->seg, b->n, b->table, b };

                err = fe_driver_add(n->rx->driver, &c, NULL);
                if (err < 0)
                        break;
                n->rx_free = b->next;
                posted++;
        }
        if (err < 0 && err != -ENOSPC)
                return fe_fail(&n->error, -err, "%s", fe_driver_error(n->rx->driver));
        err = posted > 0 ? fe_driver_kick(n->rx->driver, n->rx->kick_fd) : 0;
        return err < 0 ? err : posted;
}

/* Spread header and packet over the buffer; *ret_segs are as many pieces as it took, cut. */
static unsigned int fill(struct fe_net *n, const struct buffer *b, const void *header,
                         const void *packet, size_t len, struct fe_seg *ret_segs)
{
        const struct fe_memory *m = n->p.fe->setup.mem;
        size_t pieces = n->p.tx_segs, at = 0, share = (len + pieces - 1) / pieces;
        unsigned int used = 0;

        if (n->p.split_header) {
                ret_segs[used] = b->seg[used];
                fe_memory_write(m, b->seg[used++].gpa, header, n->header);
        }
        do {
                struct fe_seg *s = &ret_segs[used];
                size_t here = len - at < share ? len - at : share, before = 0;

                *s = b->seg[used++];
                if (used == 1) {
                        fe_memory_write(m, s->gpa, header, n->header);
                        before = n->header;
                }
                fe_memory_write(m, s->gpa + before, (const uint8_t *)packet + at, here);
                s->len = (uint32_t)(before + here);
                at += here;
        } while (at < len);
        return used;
}

int fe_net_put(struct fe_net *n, const struct virtio_net_hdr *hdr, const void *packet, size_t len)
{
        struct virtio_net_hdr_mrg_rxbuf header = { 0 };
        struct buffer *b = n->tx_free;
        struct fe_seg segs[MAX_PIECES];
        struct fe_chain c;
        int err;

        if (!b)
                return -EAGAIN;
        if (len > n->p.tx_bytes)
                return fe_fail(&n->error, EMSGSIZE, "a packet of %zu bytes, room for %u", len,
                               n->p.tx_bytes);
        if (hdr)
                header.hdr = *hdr;
        c = (struct fe_chain){ segs, fill(n, b, &header, packet, len, segs), b->table, b };
        err = fe_driver_add(n->tx->driver, &c, NULL);
        if (err == -ENOSPC)
                return -EAGAIN;
        if (err < 0)
                return fe_fail(&n->error, -err, "%s", fe_driver_error(n->tx->driver));
        n->tx_free = b->next;
        n->unreaped++;
        return 0;
}

int fe_net_kick(struct fe_net *n)
{
        int err = fe_driver_kick(n->tx->driver, n->tx->kick_fd);

        return err < 0 ? err : 0;
}

int fe_net_send(struct fe_net *n, const struct virtio_net_hdr *hdr, const void *packet, size_t len)
{
        int err = fe_net_put(n, hdr, packet, len);

        return err < 0 ? err : fe_net_kick(n);
}

/* ---- from the device ---- */

static int take(struct fe_net *n, struct fe_ring *r, struct fe_done *ret_done)
{
        int got = fe_driver_get(r->driver, ret_done);

        if (got < 0)
                return fe_fail(&n->error, -got, "ring %td: %s", r - n->p.fe->ring,
                               fe_driver_error(r->driver));
        return got;
}

int fe_net_reap(struct fe_net *n)
{
        struct fe_done done;
        int got, reaped = 0;

        while ((got = take(n, n->tx, &done)) > 0) {
                put_free(&n->tx_free, done.cookie);
                n->unreaped--;
                reaped++;
        }
        return got < 0 ? got : reaped;
}

/* Bytes of one receive buffer from `skip` on. */
static size_t copy_out(const struct fe_net *n, const struct fe_done *done, size_t skip, void *to,
                       size_t room)
{
        const struct buffer *b = done->cookie;
        size_t len = done->len - skip;

        return fe_segs_read(n->p.fe->setup.mem, b->seg, b->n, skip, to, len < room ? len : room);
}

/* The next receive buffer with something in it. */
static int take_received(struct fe_net *n, struct fe_done *ret_done)
{
        int got = take(n, n->rx, ret_done);

        while (got > 0 && ret_done->len == 0 && n->p.unused_ok) {
                put_free(&n->rx_free, ret_done->cookie);
                got = take(n, n->rx, ret_done);
        }
        return got;
}

int fe_net_receive(struct fe_net *n, struct virtio_net_hdr *hdr, void *packet, size_t *len)
{
        struct virtio_net_hdr_mrg_rxbuf h = { .num_buffers = 1 };
        struct fe_done done;
        size_t at = 0;
        int got = take_received(n, &done);

        if (got <= 0)
                return got;
        if (done.len < n->header)
                return fe_fail(&n->error, EBADMSG, "a receive buffer of %u bytes, header %zu",
                               done.len, n->header);
        copy_out(n, &done, 0, &h, n->header);
        at = copy_out(n, &done, n->header, packet, *len);
        put_free(&n->rx_free, done.cookie);
        if (n->header == sizeof(h) && h.num_buffers == 0)
                return fe_fail(&n->error, EBADMSG, "num_buffers is 0");
        if (!n->mergeable && n->header == sizeof(h) && h.num_buffers != 1)
                return fe_fail(&n->error, EBADMSG, "num_buffers %u without MRG_RXBUF",
                               h.num_buffers);
        for (unsigned int i = 1; i < h.num_buffers; i++) {
                got = take(n, n->rx, &done);
                if (got < 0)
                        return got;
                if (got == 0)
                        return fe_fail(&n->error, EBADMSG, "num_buffers %u, only %u there",
                                       h.num_buffers, i);
                at += copy_out(n, &done, 0, (uint8_t *)packet + at, *len - at);
                put_free(&n->rx_free, done.cookie);
        }
        if (hdr)
                *hdr = h.hdr;
        *len = at;
        return 1;
}

/* ---- waiting ---- */

static bool pending(const struct fe_net *n)
{
        return fe_driver_pending(n->rx->driver) || fe_driver_pending(n->tx->driver);
}

/* Sleep on both call fds until there is something or time is up. */
static bool sleep_on_calls(struct fe_net *n, int64_t end)
{
        struct pollfd p[2] = { { .fd = n->rx->call_fd, .events = POLLIN },
                               { .fd = n->tx->call_fd, .events = POLLIN } };
        uint64_t count;

        for (;;) {
                int64_t left = end - now_ms();

                if (left <= 0 || poll(p, 2, (int)left) == 0)
                        return false;
                for (unsigned int i = 0; i < 2; i++)
                        if (p[i].revents & POLLIN && read(p[i].fd, &count, sizeof(count)) < 0 &&
                            errno != EAGAIN)
                                return false;
                if (pending(n))
                        return true;
        }
}

int fe_net_wait(struct fe_net *n, int timeout_ms)
{
        bool rx = fe_driver_calls_on(n->rx->driver, 0);
        bool tx = fe_driver_calls_on(n->tx->driver, 0);
        bool there = rx || tx || sleep_on_calls(n, now_ms() + timeout_ms);

        fe_driver_calls_off(n->rx->driver);
        fe_driver_calls_off(n->tx->driver);
        if (there)
                return 0;
        if (pending(n))
                return fe_fail(&n->error, ETIME, "used buffers, but no interrupt within %d ms",
                               timeout_ms);
        return -ETIMEDOUT;
}
