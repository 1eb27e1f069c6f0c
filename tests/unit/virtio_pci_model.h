/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_VIRTIO_PCI_MODEL_H
#define TESTS_UNIT_VIRTIO_PCI_MODEL_H

/*
 * A virtio network function at the level of its registers, for a driver under test: configuration
 * space with capabilities, one BAR, queues that it walks when it is kicked (what is sent on a pair
 * is received there), a control queue.  It is written from the specification alone, knows nothing
 * of the driver, and notes the first thing that the driver does wrong (`wrong`).
 *
 * It lives behind three functions (model_read, model_write, model_reset) and asks for two: memory
 * at an IOVA, and an interrupt.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        MODEL_BAR = 4,
        MODEL_CONFIG_REGION = 7,
        MODEL_BAR_BYTES = 0x4000,
        MODEL_COMMON_AT = 0,
        MODEL_ISR_AT = 0x1000,
        MODEL_DEVICE_AT = 0x2000,
        MODEL_NOTIFY_AT = 0x3000,
        MODEL_MAX_QUEUES = 17,
        MODEL_MAX_TRACE = 512,
        MODEL_MAX_COMMANDS = 32,
        MODEL_NO_VECTOR = 0xffff,
};

struct model_queue {
        uint16_t size, vector;
        bool enabled, resetting;
        uint64_t desc, driver, device;
        uint16_t avail, used; /* positions; packed: slots */
        uint8_t avail_wrap, used_wrap;
};

/* One write of a common configuration field, for tests of the order. */
struct model_write {
        uint8_t field;
        uint16_t queue; /* selected then */
        uint64_t value;
};

struct model_command {
        uint8_t cls, command;
        uint32_t bytes;
        uint8_t data[64];
};

struct model_faults {
        uint64_t ones_from;        /* this access and all after it read as ones; 0: never */
        uint64_t needs_reset_from; /* this access, or the first after it that finds the device not
                                    * in reset, finds it broken; 0: never */
        uint32_t reset_reads;      /* status reads until a reset is over; UINT32_MAX: never is */
        uint32_t queue_reset_reads;
        uint16_t shrinks_size; /* what queue_size reads as after a write; 0: as written */
        uint16_t vectors;      /* taken; more are refused.  0: as many as the table has */
        bool refuses_features;
        bool config_moves; /* each look at the generation finds another one */
        bool ignores_control;
        bool refuses_control;
        bool stalls; /* does not look at its data queues */
        bool resists_flr;
};

struct model {
        /* What it is, set before it is used. */
        uint64_t features;
        uint16_t pairs, max_size, table; /* table: MSI-X vectors */
        uint16_t n_queues;               /* as the register says */
        uint32_t multiplier;
        uint8_t mac[6];
        uint16_t mtu;
        struct model_faults faults;
        void *(*memory)(void *arg, uint64_t iova, uint64_t bytes, bool write);
        void (*interrupt)(void *arg, uint16_t vector);
        void *arg;

        uint8_t pci[256];
        uint64_t accesses;
        char wrong[160];
        struct model_write trace[MODEL_MAX_TRACE];
        size_t n_trace;
        struct model_command commands[MODEL_MAX_COMMANDS];
        size_t n_commands;
        uint64_t sent, received, dropped, kicks, flrs;

        uint8_t status, generation;
        uint16_t link;
        uint32_t device_select, driver_select, words[4], reset_left, queue_reset_left;
        uint16_t config_vector, select, active_pairs;
        struct model_queue queues[MODEL_MAX_QUEUES];
};

/* Two pairs, MQ and a control queue, RING_RESET, 64 slots, five vectors more than needed. */
void model_init(struct model *m);
/* Write the capabilities again, after features and the like were changed. */
void model_write_pci(struct model *m);
/* The place of the capability with this type in configuration space, for tests that bend it. */
uint8_t *model_cap(struct model *m, uint8_t type);

int model_read(void *arg, uint32_t region, uint64_t at, void *ret_bytes, size_t n);
int model_write(void *arg, uint32_t region, uint64_t at, const void *bytes, size_t n);
int model_reset(void *arg);

/* The device's own doing. */
void model_set_link(struct model *m, bool up);
void model_break(struct model *m);
/* Look at all rings, as it does when it is kicked. */
void model_run(struct model *m);

uint16_t model_control_queue(const struct model *m);
uint64_t model_agreed(const struct model *m);
/* Notes what the driver did wrong, unless something was noted before. */
void model_wrong(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* virtio_pci_model_rings.c: walk queue q. */
void model_walk(struct model *m, uint16_t q);

#endif
