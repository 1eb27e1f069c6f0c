/* SPDX-License-Identifier: BSD-3-Clause */
#include "oracle_twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "oracle_peer.h"

enum {
        RING_BYTES = 512 << 10, /* region 0: the rings */
        RX_BYTES = 16 << 10,    /* for one buffer, with its table */
        TX_BYTES = 80 << 10,
        GAP = 24, /* most bytes between two pieces */
        BASE = 1 << 20,
};

/* Pages of the regions that hold the buffers, adjacent in the guest's space and apart elsewhere. */
static const uint32_t regions[] = { 100, 1, 251, 300, 399, 101 };
enum { REGIONS = sizeof(regions) / sizeof(regions[0]) };

static_assert(TWIN_BUFFERS * (RX_BYTES + TX_BYTES) == 1152 * FE_PAGE, "regions hold the buffers");

/* ---- numbers ---- */

uint32_t twin_random(struct twin *w, uint32_t below)
{
        w->random ^= w->random << 13;
        w->random ^= w->random >> 7;
        w->random ^= w->random << 17;
        return (uint32_t)((w->random * UINT64_C(0x2545f4914f6cdd1d) >> 32) * below >> 32);
}

uint32_t twin_between(struct twin *w, uint32_t lo, uint32_t hi)
{
        return lo + twin_random(w, hi - lo + 1);
}

bool twin_once_in(struct twin *w, uint32_t n)
{
        return twin_random(w, n) == 0;
}

void twin_fail(const struct twin *w, int line, const char *fmt, ...)
{
        const struct twin_scenario *s = &w->s;
        va_list ap;

        fprintf(stderr, "%s%s%s%s, features %#jx, ring %u, start %u%s\nline %d: ",
                s->packed ? "packed" : "split", s->mergeable ? ", mergeable" : "",
                s->in_order ? ", in order" : "", s->event_idx ? ", event index" : "",
                (uintmax_t)s->features, s->ring, s->start, s->wrap_0 ? " wrap 0" : "", line);
        va_start(ap, fmt);
        vfprintf(stderr, fmt, ap);
        va_end(ap);
        fprintf(stderr, "\nto repeat: --seed %ju --scenario %u\n", (uintmax_t)s->seed, s->number);
        fail();
        abort();
}

/* ---- the guests ---- */

static void make_memory(struct twin *w, unsigned int guest)
{
        struct fe_region_spec spec[1 + REGIONS] = { { .gpa = BASE, .size = RING_BYTES } };
        uint64_t gpa = BASE + RING_BYTES;

        for (unsigned int i = 0; i < REGIONS; i++) {
                const uint64_t size = (uint64_t)regions[i] * FE_PAGE;

                /* The border keeps the rings out. */
                spec[1 + i] = (struct fe_region_spec){ .gpa = gpa, .size = size, .border = size };
                gpa += size;
        }
        assert_int_equal(fe_memory_new(spec, 1 + REGIONS, &w->mem[guest]), 0);
        fe_memory_paint(w->mem[guest], BASE, gpa - BASE);
}

/* The guest of rte_vhost: a whole front-end on a socket. */
static void make_theirs(struct twin *w)
{
        const struct fe_setup setup = {
                .mem = w->mem[THEIRS],
                .features = w->s.features,
                .required = w->s.features,
                .ring_size = w->s.ring,
                .start = w->s.start,
                .start_wrap_0 = w->s.wrap_0,
                .pick = w->s.pick,
        };

        TWIN_CHECK(w, oracle_connect(&w->fe) == 0, "rte_vhost: no connection");
        TWIN_CHECK(w, fe_frontend_setup(w->fe, &setup) == 0, "rte_vhost: %s",
                   fe_frontend_error(w->fe));
        TWIN_CHECK(w, oracle_wait_ready(&w->vid) == 0, "rte_vhost: device is not ready");
        for (unsigned int i = 0; i < DIRECTIONS; i++) {
                w->ring[i].driver[THEIRS] = w->fe->ring[i].driver;
                w->ring[i].call_fd[THEIRS] = w->fe->ring[i].call_fd;
        }
}

/* The same driver over our guest's memory. */
static void make_driver(struct twin *w, unsigned int direction)
{
        struct twin_ring *r = &w->ring[direction];
        struct fe_driver_params p = *fe_driver_params(r->driver[THEIRS]);
        struct fe_areas ours, theirs = fe_driver_areas(r->driver[THEIRS]);
        struct fe_text error;

        p.mem = w->mem[OURS];
        TWIN_CHECK(w, fe_driver_new(&p, &r->driver[OURS], &error) == 0, "%s", error.s);
        ours = fe_driver_areas(r->driver[OURS]);
        TWIN_CHECK(w, memcmp(&ours, &theirs, sizeof(ours)) == 0, "the rings lie apart");
        r->call_fd[OURS] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        assert_true(r->call_fd[OURS] >= 0);
}

static void make_ours(struct twin *w, unsigned int direction)
{
        struct twin_ring *r = &w->ring[direction];
        const struct fe_memory *m = w->mem[OURS];
        struct vql_burst_region region[1 + REGIONS];
        struct fe_areas at;
        struct fe_position position;
        struct vql_burst_params p;
        char error[256];

        make_driver(w, direction);
        at = fe_driver_areas(r->driver[OURS]);
        position = fe_driver_position(r->driver[OURS]);
        for (unsigned int i = 0; i < 1 + REGIONS; i++) {
                const struct fe_region_spec *s = &m->region[i].spec;

                region[i] = (struct vql_burst_region){ s->gpa, s->size, s->uva, s->offset,
                                                       m->region[i].fd };
        }
        p = (struct vql_burst_params){
                .size = sizeof(p),
                .regions = region,
                .n_regions = 1 + REGIONS,
                .features = w->s.features,
                .to_guest = direction == RX,
                .ring_size = w->s.ring,
                .desc = fe_memory_uva(m, at.desc, 1),
                .driver = fe_memory_uva(m, at.driver, 1),
                .device = fe_memory_uva(m, at.device, 1),
                .base = fe_position_encode(&position, w->s.packed),
                .call_fd = r->call_fd[OURS],
        };
        TWIN_CHECK(w, vql_burst_open(&p, &r->queue, error, sizeof(error)) == 0, "%s", error);
}

void twin_init(struct twin *w, const struct twin_scenario *s)
{
        memset(w, 0, sizeof(*w));
        w->s = *s;
        w->random = (s->seed * 1000 + s->number) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        w->hdr_len = s->features & (FE_BIT(VIRTIO_F_VERSION_1) | FE_BIT(VIRTIO_NET_F_MRG_RXBUF))
                             ? 12
                             : 10;
        for (unsigned int g = 0; g < GUESTS; g++)
                make_memory(w, g);
        make_theirs(w);
        for (unsigned int d = 0; d < DIRECTIONS; d++) {
                make_ours(w, d);
                for (unsigned int g = 0; g < GUESTS; g++)
                        twin_interrupted(w, d, g);
        }
}

void twin_fini(struct twin *w)
{
        for (unsigned int d = 0; d < DIRECTIONS; d++) {
                vql_burst_close(w->ring[d].queue);
                fe_driver_free(w->ring[d].driver[OURS]);
                close(w->ring[d].call_fd[OURS]);
        }
        fe_frontend_free(w->fe);
        TWIN_CHECK(w, oracle_wait_gone() == 0, "rte_vhost keeps the guest");
        for (unsigned int g = 0; g < GUESTS; g++)
                fe_memory_free(w->mem[g]);
}

/* ---- buffers ---- */

struct twin_chain *twin_chain(struct twin_ring *r, uint32_t number)
{
        return &r->chain[number % TWIN_BUFFERS];
}

/* Cut `bytes` into n pieces, none empty as long as there are enough. */
static void cut(struct twin *w, struct fe_seg *seg, unsigned int n, uint32_t bytes)
{
        for (unsigned int i = 0; i < n; i++) {
                const uint32_t most = bytes > n - 1 - i ? bytes - (n - 1 - i) : bytes;

                seg[i].len = i + 1 == n ? bytes : twin_between(w, 1, most);
                bytes -= seg[i].len;
        }
}

/*
 * A header that is cut has a piece that begins with its end and goes on with payload: rte_vhost
 * counts on the second piece to hold what the first one lacks.
 */
static void shape(struct twin *w, struct twin_chain *c, uint32_t bytes, unsigned int room)
{
        enum twin_header header = (enum twin_header)twin_random(w, HEADER_SHAPES);
        const unsigned int most = room < 8 ? room : 8;
        uint32_t first = header == HEADER_CUT ? twin_between(w, 1, w->hdr_len - 1) : w->hdr_len;
        unsigned int n = twin_once_in(w, 2) ? 1 : twin_between(w, 1, most);

        c->bytes = bytes;
        if (header == HEADER_WITH || most < 3 || bytes <= 2 * w->hdr_len) {
                c->n = bytes <= 2 * w->hdr_len ? 1 : n;
                cut(w, c->seg, c->n, bytes - w->hdr_len);
                c->seg[0].len += w->hdr_len;
                return;
        }
        n = n > most - 1 ? most - 1 : n;
        c->seg[0].len = first;
        c->n = 1 + n;
        cut(w, &c->seg[1], n, bytes - w->hdr_len);
        c->seg[1].len += w->hdr_len - first;
}

/* Behind the header, where both let an empty piece pass. */
static void insert_empty(struct twin *w, struct twin_chain *c)
{
        const unsigned int at = twin_between(w, 1, c->n);

        memmove(&c->seg[at + 1], &c->seg[at], (c->n - at) * sizeof(c->seg[0]));
        c->seg[at] = (struct fe_seg){ 0 };
        c->n++;
}

static void place(struct twin *w, unsigned int direction, struct twin_chain *c, bool indirect)
{
        const uint32_t number = w->ring[direction].added % TWIN_BUFFERS;
        uint64_t at = BASE + RING_BYTES + (uint64_t)number * (RX_BYTES + TX_BYTES);

        at += direction == TX ? RX_BYTES : 0;
        c->table = indirect ? at : 0;
        at += indirect ? 16ull * TWIN_SEGS : 0;
        for (unsigned int i = 0; i < c->n; i++) {
                at += twin_random(w, GAP);
                c->seg[i].gpa = at;
                c->seg[i].write = direction == RX;
                at += c->seg[i].len;
        }
}

/* What is in a buffer before it is offered: equal in both guests. */
static void fill(struct twin *w, const struct twin_chain *c, const uint8_t *payload)
{
        static uint8_t bytes[TWIN_PACKET + 12];

        memset(bytes, 0, w->hdr_len);
        memcpy(bytes + w->hdr_len, payload, c->bytes - w->hdr_len);
        for (unsigned int g = 0; g < GUESTS; g++)
                fe_segs_write(w->mem[g], c->seg, c->n, bytes, c->bytes);
}

/* Make equal what is in a buffer behind its first `used` bytes. */
static void paint_from(struct twin *w, const struct twin_chain *c, uint32_t used)
{
        for (unsigned int i = 0; i < c->n; i++) {
                const uint32_t here = used < c->seg[i].len ? used : c->seg[i].len;

                for (unsigned int g = 0; g < GUESTS; g++)
                        fe_memory_paint(w->mem[g], c->seg[i].gpa + here, c->seg[i].len - here);
                used -= here;
        }
}

/*
 * How many descriptors a buffer may have.  rte_vhost takes no table that is as long as a packed
 * ring; and in a packed ring that is full it may take a buffer twice for one packet, so that one
 * slot stays free there.
 */
static unsigned int room_for(struct twin *w, unsigned int direction, bool indirect)
{
        const unsigned int spare = w->s.packed && direction == RX;
        const unsigned int slots = fe_driver_free_slots(w->ring[direction].driver[OURS]);

        if (slots <= spare)
                return 0;
        return indirect ? w->s.ring - 1u : slots - spare;
}

bool twin_add(struct twin *w, unsigned int direction, uint32_t bytes, const uint8_t *payload)
{
        struct twin_ring *r = &w->ring[direction];
        const bool plain = direction == RX && w->s.plain_rx;
        const bool indirect =
                !plain && w->s.features & FE_BIT(VIRTIO_RING_F_INDIRECT_DESC) && twin_once_in(w, 3);
        unsigned int room = room_for(w, direction, indirect);
        struct twin_chain *c = twin_chain(r, r->added);
        uint16_t id[GUESTS];

        if (r->added - r->got == TWIN_BUFFERS || room == 0)
                return false;
        room = plain ? 1 : room < TWIN_SEGS ? room : TWIN_SEGS;
        memset(c, 0, sizeof(*c));
        shape(w, c, bytes, room);
        if (c->n < room && twin_once_in(w, 8))
                insert_empty(w, c);
        place(w, direction, c, indirect);
        if (payload)
                fill(w, c, payload);
        else
                paint_from(w, c, 0);
        for (unsigned int g = 0; g < GUESTS; g++) {
                const struct fe_chain chain = { c->seg, c->n, c->table,
                                                (void *)(uintptr_t)r->added };

                TWIN_CHECK(w, fe_driver_add(r->driver[g], &chain, &id[g]) == 0, "add: %s",
                           fe_driver_error(r->driver[g]));
        }
        TWIN_CHECK(w, id[OURS] == id[THEIRS], "ids %u and %u", id[OURS], id[THEIRS]);
        r->added++;
        return true;
}

void twin_publish(struct twin *w, unsigned int direction)
{
        struct twin_ring *r = &w->ring[direction];

        for (unsigned int g = 0; g < GUESTS; g++)
                fe_driver_publish(r->driver[g]);
        r->published = r->added;
}

void twin_toggle_calls(struct twin *w, unsigned int direction)
{
        struct twin_ring *r = &w->ring[direction];
        const bool off = twin_once_in(w, 3);
        const uint16_t after =
                w->s.event_idx && twin_once_in(w, 2) ? (uint16_t)twin_random(w, w->s.ring) : 0;

        for (unsigned int g = 0; g < GUESTS; g++) {
                if (off)
                        fe_driver_calls_off(r->driver[g]);
                else
                        fe_driver_calls_on(r->driver[g], after);
        }
}

bool twin_interrupted(struct twin *w, unsigned int direction, unsigned int guest)
{
        uint64_t count;

        return read(w->ring[direction].call_fd[guest], &count, sizeof(count)) > 0;
}

/*
 * Without MRG_RXBUF the device sets num_buffers to 1 (virtio 1.2, 5.1.6.4.1).  We do, and rte_vhost
 * leaves there what it finds.
 */
static void settle_count(struct twin *w, const struct twin_chain *c)
{
        uint8_t header[12];

        if (w->s.mergeable || w->hdr_len != sizeof(header))
                return;
        fe_segs_read(w->mem[OURS], c->seg, c->n, 0, header, sizeof(header));
        TWIN_CHECK(w, header[10] == 1 && header[11] == 0, "num_buffers is %u",
                   header[10] | header[11] << 8);
        fe_segs_read(w->mem[THEIRS], c->seg, c->n, 0, header, 10);
        fe_segs_write(w->mem[THEIRS], c->seg, c->n, header, sizeof(header));
}

uint32_t twin_take(struct twin *w, unsigned int direction, unsigned int guest)
{
        struct twin_ring *r = &w->ring[direction];
        int got;

        for (;;) {
                struct fe_done *done = &r->done[guest][r->taken[guest] % TWIN_BUFFERS];

                got = fe_driver_get(r->driver[guest], done);
                TWIN_CHECK(w, got >= 0, "%s: %s", guest == OURS ? "vqlift" : "rte_vhost",
                           fe_driver_error(r->driver[guest]));
                if (got == 0)
                        return r->taken[guest];
                r->taken[guest]++;
        }
}

static void compare_done(struct twin *w, const struct fe_done *a, const struct fe_done *b)
{
        TWIN_CHECK(w, a->cookie == b->cookie && a->id == b->id,
                   "buffer %ju with id %u from vqlift, %ju with id %u from rte_vhost",
                   (uintmax_t)(uintptr_t)a->cookie, a->id, (uintmax_t)(uintptr_t)b->cookie, b->id);
        TWIN_CHECK(w, a->len == b->len, "buffer %ju: length %u from vqlift, %u from rte_vhost",
                   (uintmax_t)(uintptr_t)a->cookie, a->len, b->len);
}

void twin_get(struct twin *w, unsigned int direction, bool soiled)
{
        struct twin_ring *r = &w->ring[direction];
        const uint32_t ours = twin_take(w, direction, OURS);
        const uint32_t theirs = twin_take(w, direction, THEIRS);

        TWIN_CHECK(w, ours == theirs, "%u buffers from vqlift, %u from rte_vhost", ours - r->got,
                   theirs - r->got);
        for (; r->got != ours; r->got++) {
                const struct fe_done *done = &r->done[OURS][r->got % TWIN_BUFFERS];
                struct twin_chain *c = twin_chain(r, r->got);

                compare_done(w, done, &r->done[THEIRS][r->got % TWIN_BUFFERS]);
                if (direction == RX)
                        settle_count(w, c);
                if (soiled)
                        paint_from(w, c, done->len);
        }
        for (uint32_t i = r->got; soiled && i != r->added; i++)
                paint_from(w, twin_chain(r, i), 0);
}

/* ---- comparison ---- */

/*
 * When a device wants to be kicked is its own affair: the bench's peer turns kicks off, the burst
 * interface leaves them as they are.
 */
static void blank_wishes(const struct twin *w, unsigned int guest, uint8_t *rings)
{
        for (unsigned int d = 0; d < DIRECTIONS; d++) {
                const struct fe_areas at = fe_driver_areas(w->ring[d].driver[guest]);
                uint8_t *device = rings + (at.device - BASE);

                if (w->s.packed) {
                        memset(device, 0, sizeof(struct vring_packed_desc_event));
                        continue;
                }
                memset(device, 0, sizeof(uint16_t)); /* flags */
                memset(device + 4 + sizeof(struct vring_used_elem) * w->s.ring, 0,
                       sizeof(uint16_t)); /* avail_event */
        }
}

/*
 * A used descriptor without WRITE flag, as all are of the ring from the guest, has a length that is
 * reserved, and so are NEXT and INDIRECT in any used descriptor (virtio 1.2, 2.8.5, 2.8.6): we
 * store 0, rte_vhost at times leaves what it finds.
 */
static void blank_reserved(const struct twin *w, unsigned int guest, uint8_t *rings)
{
        const struct fe_areas at = fe_driver_areas(w->ring[TX].driver[guest]);
        const uint16_t state = 1 << VRING_PACKED_DESC_F_AVAIL | 1 << VRING_PACKED_DESC_F_USED;
        struct vring_packed_desc d;

        for (unsigned int i = 0; w->s.packed && i < w->s.ring; i++) {
                uint8_t *bytes = rings + (at.desc - BASE) + i * sizeof(d);

                memcpy(&d, bytes, sizeof(d));
                if ((d.flags & state) == state || (d.flags & state) == 0) {
                        d.len = 0;
                        d.flags &= state | VRING_DESC_F_WRITE;
                }
                memcpy(bytes, &d, sizeof(d));
        }
}

/*
 * In order, rte_vhost returns several buffers from the guest with one element of a packed ring; we
 * write one for each.  The drivers' books are compared then (twin_get()), the descriptors are not.
 */
static void blank_batches(const struct twin *w, unsigned int guest, uint8_t *rings)
{
        const struct fe_areas at = fe_driver_areas(w->ring[TX].driver[guest]);

        if (w->s.packed && w->s.in_order)
                memset(rings + (at.desc - BASE), 0, sizeof(struct vring_packed_desc) * w->s.ring);
}

static uint64_t first_difference(const uint8_t *a, const uint8_t *b, uint64_t n)
{
        uint64_t i = 0;

        while (i < n && a[i] == b[i])
                i++;
        return i;
}

static void compare_bytes(struct twin *w, const uint8_t *const bytes[GUESTS], uint64_t gpa,
                          uint64_t n)
{
        uint64_t at;

        if (memcmp(bytes[OURS], bytes[THEIRS], n) == 0)
                return;
        at = first_difference(bytes[OURS], bytes[THEIRS], n);
        twin_fail(w, __LINE__, "memory at %#jx: %#x by vqlift, %#x by rte_vhost",
                  (uintmax_t)(gpa + at), bytes[OURS][at], bytes[THEIRS][at]);
}

void twin_compare(struct twin *w)
{
        static uint8_t rings[GUESTS][RING_BYTES];
        const uint8_t *bytes[GUESTS] = { rings[OURS], rings[THEIRS] };

        for (unsigned int g = 0; g < GUESTS; g++) {
                memcpy(rings[g], w->mem[g]->region[0].va, RING_BYTES);
                blank_wishes(w, g, rings[g]);
                blank_reserved(w, g, rings[g]);
                blank_batches(w, g, rings[g]);
        }
        compare_bytes(w, bytes, BASE, RING_BYTES);
        for (unsigned int i = 1; i < 1 + REGIONS; i++) {
                for (unsigned int g = 0; g < GUESTS; g++)
                        bytes[g] = w->mem[g]->region[i].va;
                compare_bytes(w, bytes, w->mem[OURS]->region[i].spec.gpa,
                              w->mem[OURS]->region[i].spec.size);
        }
}
