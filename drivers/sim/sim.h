/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_DRIVERS_SIM_SIM_H
#define VQLIFT_DRIVERS_SIM_SIM_H

/*
 * The simulated NIC, as tests see it: a device like any other, and what can go wrong with it can be
 * made to go wrong.  Each knob is an argument of open, too ("prefetch=8,shuffle=1"); the README
 * says what they do.
 *
 * Threads: any, while the device is open.
 */

#include <stdbool.h>
#include <stdint.h>

#include "vqlift/driver.h"

/* X(name, lowest value, highest value, what it is) */
#define VQL_SIM_KNOBS(X)                                                                \
        X(prefetch, 0, 1024, "buffers that a queue takes ahead of their use")           \
        X(shuffle, 0, 1, "buffers come back in any order")                              \
        X(batch, 0, 1, "with IN_ORDER: one used element for all buffers of a burst")    \
        X(repeat, 0, 1, "a stop that is not orderly comes after the next packet left")  \
        X(stop_ms, 0, 60000, "how long a queue goes on when it is told to stop")        \
        X(lose_irq, 0, 1000000, "each so-manieth interrupt is lost")                    \
        X(stuck_after, 0, 1000000000, "a queue stands still after so many buffers")     \
        X(break_after, 0, 1000000000, "the device needs a reset after so many buffers") \
        X(gone_after, 0, 1000000000, "the device is gone after so many buffers")        \
        X(vectors, 0, 257, "how many interrupts there are")                             \
        X(tell_off, -1, 1, "how far the positions told are from the right ones")        \
        X(maps, 0, 1000000, "how many maps it holds")                                   \
        X(refuse_start, 0, 1, "the device does not start")

#define VQL_SIM_KNOB_ENUM(name, least, most, what) VQL_SIM_KNOB_##name,
enum vql_sim_knob { VQL_SIM_KNOBS(VQL_SIM_KNOB_ENUM) VQL_SIM_KNOB_COUNT };
#undef VQL_SIM_KNOB_ENUM

/* 0 turns a knob off.  Counts ("after so many") begin anew. */
void vql_sim_set(struct vql_dev *d, enum vql_sim_knob knob, int32_t value);
/* Plug the cable in or out. */
void vql_sim_link(struct vql_dev *d, bool up);
/* The host wants the device back: VQL_EVENT_REMOVE. */
void vql_sim_want_back(struct vql_dev *d);
/* It needs a reset, or is gone, from now on. */
void vql_sim_break(struct vql_dev *d);
void vql_sim_pull_out(struct vql_dev *d);

#endif
