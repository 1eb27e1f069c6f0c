/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FUNC_CONFORMANCE_RIG_H
#define FUNC_CONFORMANCE_RIG_H

/* An open device, one pair of its queues in our hands, and its wire.  A requirement that does not
 * hold ends the check (conf_fail), and the rig is taken down by whoever runs the checks. */

#include <setjmp.h>

#include "driver_conformance.h"
#include "frontend/driver.h"
#include "port/device.h"

enum {
        CONF_BUFFERS = 64,
        CONF_RX = 0,
        CONF_TX = 1,
};

struct conf_buffer {
        struct fe_seg seg;
        uint64_t table;
        bool busy;
};

struct conf_line {
        struct rig *rig;
        uint16_t index;
        struct fe_driver *d;
        int call_fd;
        struct conf_buffer buffer[CONF_BUFFERS];
        uint32_t offered;  /* frames, by number: put on the ring, or on the wire */
        uint32_t arrived;  /* at the other end */
        uint32_t returned; /* buffers */
};

struct rig {
        const struct conf_target *t;
        struct conf_ring ring; /* as far as the device can have it */
        struct vql_device *dev;
        struct fe_memory *mem;
        struct vql_map map[16];
        size_t n_maps;
        struct conf_line line[2];
        uint32_t random, check;
        uint8_t mac[6];
        int patience_ms, quiet_ms;
        uint8_t *written; /* a bit for each page that received packets lie in; NULL: nobody asks */
        bool repeated;    /* a stop said that a packet may come twice */
        jmp_buf out;
        char doing[64]; /* what a failure was about, or nothing */
        char why[256];
};

_Noreturn void conf_fail(struct rig *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The device cannot do what the check is about. */
_Noreturn void conf_skip(struct rig *r);
#define conf_require(r, condition, ...)              \
        do {                                         \
                if (!(condition))                    \
                        conf_fail((r), __VA_ARGS__); \
        } while (0)

enum { CONF_FAILED = 1, CONF_SKIPPED = 2 };

/* Open the device and make memory and both rings; nothing is negotiated yet. */
void conf_open(struct rig *r);
void conf_close(struct rig *r);

uint64_t conf_features(const struct rig *r);
struct vql_dev_ring conf_ring_of(const struct conf_line *l);
/* Where its ring driver stands. */
struct vql_position conf_position(const struct conf_line *l);
void conf_negotiate(struct rig *r);
void conf_map(struct rig *r);
int conf_vq_start(struct conf_line *l, const struct vql_position *at, struct vql_error *e);
/* Both queues where their rings stand, and the device if it does not run; kicked. */
void conf_start(struct rig *r);
/* All of it: maps, features, interrupts, both queues; running and kicked. */
void conf_go(struct rig *r);
/* ---- stop and go (conformance_stop.c) ---- */

/* Stop both, live or together, and check what the driver says of them. */
void conf_stop(struct rig *r, struct vql_stop ret_stops[2]);
/* Go on from there: where they stopped, or with new rings if the device cannot. */
void conf_resume(struct rig *r, const struct vql_stop stops[2]);
/* The same when nobody asked where they stand, which only buffers in order can tell. */
void conf_resume_after_reset(struct rig *r);
/* Check one stop against the ring. */
void conf_check_stop(struct conf_line *l, const struct vql_stop *s);

/* Offer up to `n` buffers (to send: with the next frames in them), and kick if that is wanted. */
unsigned int conf_offer(struct conf_line *l, unsigned int n);
/* Take back what is there; number of buffers. */
unsigned int conf_reap(struct conf_line *l);
/* The same, but wait for something, by interrupt alone. */
void conf_await_some(struct conf_line *l);
/* Until `n` further frames made it through and all that was sent is returned. */
void conf_send(struct rig *r, unsigned int n);
void conf_receive(struct rig *r, unsigned int n);
/* Put the next frame on the wire; take those that came out of it. */
void conf_wire_put(struct rig *r);
bool conf_wire_take(struct rig *r, int timeout_ms);
/* Nothing moves: no buffer comes back, no interrupt comes, although there is work and kicks. */
void conf_expect_quiet(struct rig *r);
uint32_t conf_random(struct rig *r, uint32_t below);
void conf_irq(struct conf_line *l, int fd);

#endif
