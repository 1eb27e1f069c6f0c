/* SPDX-License-Identifier: BSD-3-Clause */
#include "conformance_rig.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "virtqueue/features.h"

enum {
        HEADER = 12,
        MARK_AT = 14,
        TABLE = 64, /* bytes of an indirect one */
        FRAME_MIN = 60,
        FRAME_MAX = 1514,
        BUFFER = 2048,
        MERGED_BUFFER = 700,
        ETHERTYPE = 0x88b5, /* IEEE 802: for experiments */
        IN_FLIGHT = 24,     /* frames on the wire that nobody has taken yet */
};

/* ---- outcomes ---- */

void conf_fail(struct rig *r, const char *fmt, ...)
{
        va_list ap;

        int n = snprintf(r->why, sizeof(r->why), "%s", r->doing);

        va_start(ap, fmt);
        vsnprintf(r->why + n, sizeof(r->why) - (size_t)n, fmt, ap);
        va_end(ap);
        longjmp(r->out, CONF_FAILED);
}

void conf_skip(struct rig *r)
{
        longjmp(r->out, CONF_SKIPPED);
}

uint32_t conf_random(struct rig *r, uint32_t below)
{
        r->random ^= r->random << 13;
        r->random ^= r->random >> 17;
        r->random ^= r->random << 5;
        return r->random % below;
}

/* ---- life ---- */

/* The log is about pages: none holds a buffer and something else. */
static void open_buffers(struct conf_line *l, uint32_t bytes)
{
        struct rig *r = l->rig;
        const uint64_t pitch = bytes + 40; /* so that some lie across two pages */
        uint64_t tables, buffers;

        conf_require(r,
                     fe_memory_alloc(r->mem, FE_ANY_REGION, CONF_BUFFERS * TABLE, 16, &tables) ==
                                     0 &&
                             fe_memory_alloc(r->mem, FE_ANY_REGION,
                                             (CONF_BUFFERS * pitch | (FE_PAGE - 1)) + 1, FE_PAGE,
                                             &buffers) == 0,
                     "no memory for buffers");
        for (unsigned int i = 0; i < CONF_BUFFERS; i++)
                l->buffer[i] = (struct conf_buffer){
                        .seg = { buffers + i * pitch, bytes, l->index == CONF_RX, 0 },
                        .table = tables + i * TABLE,
                };
}

static void open_line(struct rig *r, uint16_t index)
{
        const bool merged = r->ring.mergeable && r->ring.size >= 8;
        const struct fe_driver_params params = {
                .mem = r->mem,
                .region = FE_ANY_REGION,
                .size = r->ring.size,
                .packed = r->ring.packed,
                .event_idx = r->ring.event_idx,
                .in_order = r->ring.in_order,
                .guard = true,
                .pick = FE_PICK_RANDOM,
                .seed = r->ring.seed,
                .start = r->ring.start,
                .start_wrap_0 = r->ring.start_wrap_0,
        };
        struct conf_line *l = &r->line[index];
        struct fe_text why;

        l->rig = r;
        l->index = index;
        l->call_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        conf_require(r, l->call_fd >= 0, "eventfd: %s", strerror(errno));
        conf_require(r, fe_driver_new(&params, &l->d, &why) == 0, "ring: %s", why.s);
        open_buffers(l, index == CONF_RX && merged ? MERGED_BUFFER : BUFFER);
}

static void fit_ring(struct rig *r)
{
        const uint64_t features = vql_device_caps(r->dev)->features;
        struct conf_ring *g = &r->ring;

        if (g->packed && !vql_has(features, VIRTIO_F_RING_PACKED))
                conf_skip(r);
        if (!vql_device_can(r->dev, VQL_DEV_SEEK))
                g->start = g->start_wrap_0 = 0;
        g->event_idx &= vql_has(features, VIRTIO_RING_F_EVENT_IDX);
        g->in_order &= vql_has(features, VIRTIO_F_IN_ORDER);
        g->indirect &= vql_has(features, VIRTIO_RING_F_INDIRECT_DESC);
        g->mergeable &= vql_has(features, VIRTIO_NET_F_MRG_RXBUF);
}

void conf_open(struct rig *r)
{
        struct vql_error e = { "" };

        r->random = r->ring.seed * 2654435761u | 1;
        for (int i = 0; i < 2; i++)
                r->line[i] = (struct conf_line){ .call_fd = -1 };
        conf_require(r, fe_memory_new_layout(FE_PC, &r->mem) == 0, "no memory");
        conf_require(
                r, vql_device_open(r->t->driver, r->t->address, r->t->args, NULL, &r->dev, &e) == 0,
                "open: %s", e.text);
        conf_require(r, vql_device_cfg_read(r->dev, 0, r->mac, sizeof(r->mac)) == 0,
                     "the address cannot be read");
        fit_ring(r);
        for (uint16_t i = 0; i < 2; i++)
                open_line(r, i);
}

void conf_close(struct rig *r)
{
        vql_device_close(r->dev);
        r->dev = NULL;
        for (int i = 0; i < 2; i++) {
                fe_driver_free(r->line[i].d);
                r->line[i].d = NULL;
                if (r->line[i].call_fd >= 0)
                        close(r->line[i].call_fd);
        }
        fe_memory_free(r->mem);
        r->mem = NULL;
}

uint64_t conf_features(const struct rig *r)
{
        const struct conf_ring *g = &r->ring;
        const uint64_t wanted = vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_NET_F_MAC) |
                                vql_bit(VIRTIO_NET_F_STATUS) |
                                (g->packed ? vql_bit(VIRTIO_F_RING_PACKED) : 0) |
                                (g->event_idx ? vql_bit(VIRTIO_RING_F_EVENT_IDX) : 0) |
                                (g->in_order ? vql_bit(VIRTIO_F_IN_ORDER) : 0) |
                                (g->indirect ? vql_bit(VIRTIO_RING_F_INDIRECT_DESC) : 0) |
                                (g->mergeable ? vql_bit(VIRTIO_NET_F_MRG_RXBUF) : 0);

        return wanted & vql_device_caps(r->dev)->features;
}

void conf_negotiate(struct rig *r)
{
        struct vql_error e = { "" };

        conf_require(r, vql_device_negotiate(r->dev, conf_features(r), &e) == 0, "negotiate: %s",
                     e.text);
}

void conf_map(struct rig *r)
{
        struct vql_error e = { "" };
        const struct vql_device_maps maps = { .add = r->map, .n_add = r->mem->n };

        for (unsigned int i = 0; i < r->mem->n; i++)
                r->map[i] = (struct vql_map){
                        .iova = r->mem->region[i].spec.gpa,
                        .len = r->mem->region[i].spec.size,
                        .va = r->mem->region[i].va,
                        .writable = true,
                };
        r->n_maps = r->mem->n;
        conf_require(r, vql_device_dma_update(r->dev, &maps, &e) == 0, "maps: %s", e.text);
}

struct vql_dev_ring conf_ring_of(const struct conf_line *l)
{
        const struct fe_areas areas = fe_driver_areas(l->d);
        const struct fe_area_pointers at = fe_driver_pointers(l->d);
        const bool packed = l->rig->ring.packed;

        return (struct vql_dev_ring){
                .desc = areas.desc,
                .driver = areas.driver,
                .device = areas.device,
                .device_va = packed ? (const void *)at.packed : (const void *)at.used,
                .size = l->rig->ring.size,
                .packed = packed,
        };
}

struct vql_position conf_position(const struct conf_line *l)
{
        const struct fe_position p = fe_driver_position(l->d);
        const bool packed = l->rig->ring.packed;

        return (struct vql_position){
                .avail = p.used,
                .used = p.used,
                .avail_wrap = packed && p.used_wrap,
                .used_wrap = packed && p.used_wrap,
        };
}

int conf_vq_start(struct conf_line *l, const struct vql_position *at, struct vql_error *e)
{
        const struct vql_dev_ring ring = conf_ring_of(l);

        return vql_device_vq_start(l->rig->dev, l->index, &ring, at, e);
}

void conf_irq(struct conf_line *l, int fd)
{
        struct vql_error e = { "" };

        conf_require(l->rig, vql_device_vq_irq(l->rig->dev, l->index, fd, &e) == 0,
                     "queue %u: interrupt: %s", l->index, e.text);
}

void conf_start(struct rig *r)
{
        struct vql_error e = { "" };

        for (uint16_t i = 0; i < 2; i++) {
                const struct vql_position at = conf_position(&r->line[i]);

                conf_require(r, conf_vq_start(&r->line[i], &at, &e) == 0, "queue %u: start: %s", i,
                             e.text);
        }
        if (vql_device_life(r->dev) != VQL_DEVICE_RUN)
                conf_require(r, vql_device_start(r->dev, &e) == 0, "start: %s", e.text);
        for (uint16_t i = 0; i < 2; i++)
                vql_device_vq_kick(r->dev, i);
}

void conf_go(struct rig *r)
{
        conf_map(r);
        conf_negotiate(r);
        for (uint16_t i = 0; i < 2; i++)
                conf_irq(&r->line[i], r->line[i].call_fd);
        conf_start(r);
}

/* ---- frames: each has a number, which all of its bytes depend on ---- */

/* Behind the Ethernet header: whose frame it is, and its number. */
struct mark {
        uint32_t check, number;
};

static size_t frame_make(const struct rig *r, uint32_t number, bool tx, uint8_t *ret_frame)
{
        const size_t n = FRAME_MIN + (number * 2246822519u >> 8) % (FRAME_MAX - FRAME_MIN + 1);
        static const uint8_t sender[6] = { 0x02, 'v', 'q', 't', 's', 't' };
        const struct mark mark = { r->check, number };

        /* To the device: to its own address; from it: to everybody. */
        memset(ret_frame, 0xff, 6);
        if (!tx)
                memcpy(ret_frame, r->mac, 6);
        memcpy(ret_frame + 6, sender, 6);
        ret_frame[12] = ETHERTYPE >> 8;
        ret_frame[13] = ETHERTYPE & 0xff;
        memcpy(ret_frame + MARK_AT, &mark, sizeof(mark));
        for (size_t i = MARK_AT + sizeof(mark); i < n; i++)
                ret_frame[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
        return n;
}

static struct mark mark_of(const uint8_t *frame)
{
        struct mark m;

        memcpy(&m, frame + MARK_AT, sizeof(m));
        return m;
}

/* There may be frames of others, and of checks before this one. */
static bool is_ours(const struct rig *r, const uint8_t *frame, size_t n)
{
        return n >= FRAME_MIN && frame[12] == ETHERTYPE >> 8 && frame[13] == (ETHERTYPE & 0xff) &&
               mark_of(frame).check == r->check;
}

static void expect_frame(struct rig *r, bool tx, const uint8_t *frame, size_t n)
{
        struct conf_line *l = &r->line[tx ? CONF_TX : CONF_RX];
        uint8_t right[FRAME_MAX];
        size_t len = frame_make(r, l->arrived, tx, right);
        const uint32_t number = mark_of(frame).number;

        if (tx && r->repeated && number + 1 == l->arrived) {
                r->repeated = false;
                return;
        }
        conf_require(r, number == l->arrived, "%s frame %u arrived, expected %u",
                     tx ? "sent" : "received", number, l->arrived);
        conf_require(r, n == len && memcmp(frame, right, n) == 0,
                     "%s frame %u of %zu bytes differs from the %zu that it had",
                     tx ? "sent" : "received", number, n, len);
        l->arrived++;
}

bool conf_wire_take(struct rig *r, int timeout_ms)
{
        uint8_t frame[FRAME_MAX + 64];
        ssize_t n = r->t->wire.receive(r->t->wire.arg, 0, frame, sizeof(frame), timeout_ms);

        conf_require(r, n >= 0, "wire: %s", strerror((int)-n));
        if (n && is_ours(r, frame, (size_t)n))
                expect_frame(r, true, frame, (size_t)n);
        return n > 0;
}

void conf_wire_put(struct rig *r)
{
        uint8_t frame[FRAME_MAX];
        size_t n = frame_make(r, r->line[CONF_RX].offered, false, frame);
        int err = r->t->wire.send(r->t->wire.arg, 0, frame, n);

        conf_require(r, err == 0, "wire: %s", strerror(-err));
        r->line[CONF_RX].offered++;
}

/* ---- buffers ---- */

static struct conf_buffer *free_buffer(struct conf_line *l)
{
        for (int i = 0; i < CONF_BUFFERS; i++)
                if (!l->buffer[i].busy)
                        return &l->buffer[i];
        return NULL;
}

/* One buffer in up to three pieces, in the ring or in a table. */
static bool add_buffer(struct conf_line *l, struct conf_buffer *b, uint32_t len)
{
        struct rig *r = l->rig;
        const unsigned int most = r->ring.size < 3 ? r->ring.size : 3;
        const unsigned int n = 1 + conf_random(r, most);
        struct fe_seg segs[3];
        struct fe_chain chain = { .segs = segs, .n = n, .cookie = b };
        uint32_t done = 0;
        int err;

        for (unsigned int i = 0; i < n; i++) {
                const uint32_t left = len - done, rest = n - i - 1;
                const uint32_t here = rest ? 1 + conf_random(r, left - rest) : left;

                segs[i] = (struct fe_seg){ b->seg.gpa + done, here, b->seg.write, 0 };
                done += here;
        }
        if (r->ring.indirect && conf_random(r, 2))
                chain.table = b->table;
        err = fe_driver_add(l->d, &chain, NULL);
        conf_require(r, err == 0 || err == -ENOSPC, "ring: %s", fe_driver_error(l->d));
        b->busy = err == 0;
        return b->busy;
}

static uint32_t prepare_frame(struct conf_line *l, struct conf_buffer *b)
{
        uint8_t bytes[HEADER + FRAME_MAX] = { 0 };
        const size_t n = HEADER + frame_make(l->rig, l->offered, true, bytes + HEADER);

        fe_segs_write(l->rig->mem, &b->seg, 1, bytes, n);
        return (uint32_t)n;
}

unsigned int conf_offer(struct conf_line *l, unsigned int n)
{
        unsigned int done = 0;

        for (struct conf_buffer *b; done < n && (b = free_buffer(l)); done++) {
                const bool tx = l->index == CONF_TX;
                const uint32_t len = tx ? prepare_frame(l, b) : b->seg.len;

                if (!add_buffer(l, b, len))
                        break;
                l->offered += tx;
        }
        fe_driver_publish(l->d);
        if (done && fe_driver_kick_due(l->d))
                vql_device_vq_kick(l->rig->dev, l->index);
        return done;
}

/* Pages that the device wrote to, by its own account of the buffer. */
static void note_written(struct rig *r, const struct conf_buffer *b, uint32_t len)
{
        for (uint64_t at = b->seg.gpa; r->written && at < b->seg.gpa + len;
             at = (at | (FE_PAGE - 1)) + 1)
                r->written[at / FE_PAGE / 8] |= (uint8_t)(1u << at / FE_PAGE % 8);
}

static void next_buffer(struct conf_line *l, struct fe_done *ret_done)
{
        int rc = fe_driver_get(l->d, ret_done);
        struct conf_buffer *b;

        conf_require(l->rig, rc == 1, "queue %u: %s", l->index,
                     rc < 0 ? fe_driver_error(l->d) : "a packet without all of its buffers");
        b = ret_done->cookie;
        b->busy = false;
        note_written(l->rig, b, ret_done->len);
        l->returned++;
}

/* Put a packet together from its buffers; all of them are there as soon as the first one is. */
static unsigned int take_packet(struct conf_line *l)
{
        struct rig *r = l->rig;
        uint8_t bytes[HEADER + FRAME_MAX + BUFFER];
        struct virtio_net_hdr_v1 header;
        size_t done = 0;
        unsigned int n = 0;

        do {
                const struct conf_buffer *b;
                struct fe_done d;

                next_buffer(l, &d);
                b = d.cookie;
                conf_require(r, done + d.len <= sizeof(bytes), "a packet of %zu bytes",
                             done + d.len);
                done += fe_segs_read(r->mem, &b->seg, 1, 0, bytes + done, d.len);
                if (!n)
                        memcpy(&header, bytes, sizeof(header));
        } while (++n < header.num_buffers);
        conf_require(r,
                     done > HEADER && header.num_buffers == n && !header.flags && !header.gso_type,
                     "a packet of %zu bytes in %u buffers, its header says %u", done, n,
                     header.num_buffers);
        if (is_ours(r, bytes + HEADER, done - HEADER))
                expect_frame(r, false, bytes + HEADER, done - HEADER);
        return n;
}

unsigned int conf_reap(struct conf_line *l)
{
        unsigned int n = 0;

        while (fe_driver_pending(l->d)) {
                struct fe_done d;

                if (l->index == CONF_RX) {
                        n += take_packet(l);
                        continue;
                }
                next_buffer(l, &d);
                conf_require(l->rig, d.len == 0 || d.skipped,
                             "a sent buffer came back with %u bytes written", d.len);
                n++;
        }
        return n;
}

void conf_await_some(struct conf_line *l)
{
        int err;

        if (conf_reap(l))
                return;
        err = fe_driver_wait(l->d, l->call_fd, l->rig->patience_ms);

        conf_require(l->rig, err == 0, "queue %u: %s", l->index,
                     err == -ETIME ? "a buffer came back without an interrupt"
                                   : "nothing came back");
        conf_reap(l);
}

void conf_send(struct rig *r, unsigned int n)
{
        struct conf_line *l = &r->line[CONF_TX];
        const uint32_t end = l->offered + n;

        while (l->offered != end || fe_driver_outstanding(l->d)) {
                if (l->offered != end && l->offered - l->arrived < IN_FLIGHT)
                        conf_offer(l,
                                   1 + conf_random(r, end - l->offered < 8 ? end - l->offered : 8));
                if (fe_driver_outstanding(l->d))
                        conf_await_some(l);
                while (conf_wire_take(r, 0))
                        ;
                if (l->offered != l->arrived && !fe_driver_outstanding(l->d))
                        conf_wire_take(r, r->patience_ms);
        }
        while (l->arrived != end)
                conf_require(r, conf_wire_take(r, r->patience_ms), "%u sent frames did not arrive",
                             end - l->arrived);
}

void conf_receive(struct rig *r, unsigned int n)
{
        struct conf_line *l = &r->line[CONF_RX];
        const uint32_t end = l->offered + n;

        while (l->arrived != end) {
                conf_offer(l, CONF_BUFFERS);
                while (l->offered != end && l->offered - l->arrived < IN_FLIGHT)
                        conf_wire_put(r);
                conf_await_some(l);
        }
}
