/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver_lies.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "drivers/drivers.h"
#include "drivers/sim/sim.h"

/* What a liar remembers, from one call to the next; the driver under way. */
static struct {
        struct vql_driver driver;
        _Atomic unsigned int calls;
        struct vql_dev_ring ring[2];
} lies;

static const struct vql_dev_ops *honest(void)
{
        return &vql_driver_sim.ops;
}

/* ---- life ---- */

static int open_for_all(struct vql_dev *d, const char *args, struct vql_error *e)
{
        int err = honest()->open(d, args, e);

        if (err != -EBUSY)
                return err;
        snprintf(d->address, sizeof(d->address), "sim-other");
        return honest()->open(d, args, e);
}

static void growing_caps(struct vql_dev *d, struct vql_dev_caps *ret_caps)
{
        honest()->caps(d, ret_caps);
        if (lies.calls++)
                ret_caps->features &= ret_caps->features - 1;
}

static int agree_to_all(struct vql_dev *d, uint64_t features, struct vql_error *e)
{
        struct vql_dev_caps caps;

        honest()->caps(d, &caps);
        return honest()->negotiate(d, features & caps.features, e);
}

static int no_reset(struct vql_dev *d, struct vql_error *e)
{
        (void)d;
        (void)e;
        return 0;
}

static int forgetful_reset(struct vql_dev *d, struct vql_error *e)
{
        honest()->close(d);
        return honest()->open(d, "size=64", e);
}

/* ---- queues ---- */

static int start_at_once(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                         const struct vql_position *at, struct vql_error *e)
{
        int err = honest()->vq_start(d, q, ring, at, e);

        return err ? err : honest()->start(d, e);
}

static int start_anywhere(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                          const struct vql_position *at, struct vql_error *e)
{
        int err = honest()->vq_start(d, q, ring, at, e);

        return err == -ENOTSUP || err == -EINVAL ? 0 : err;
}

static int start_and_remember(struct vql_dev *d, uint16_t q, const struct vql_dev_ring *ring,
                              const struct vql_position *at, struct vql_error *e)
{
        lies.ring[q] = *ring;
        return honest()->vq_start(d, q, ring, at, e);
}

static int stop_and_go_on(struct vql_dev *d, uint16_t q, uint32_t ms, struct vql_stop *ret_stop,
                          struct vql_error *e)
{
        int err = honest()->vq_stop(d, q, ms, ret_stop, e);

        return err ? err : honest()->vq_start(d, q, &lies.ring[q], &ret_stop->at, e);
}

static int suspend_and_go_on(struct vql_dev *d, uint32_t ms, struct vql_stop *ret_stops,
                             struct vql_error *e)
{
        int err = honest()->suspend(d, ms, ret_stops, e);

        for (uint16_t q = 0; !err && q < 2; q++)
                err = honest()->vq_start(d, q, &lies.ring[q], &ret_stops[q].at, e);
        return err ? err : honest()->start(d, e);
}

static int stop_in_any_case(struct vql_dev *d, uint16_t q, uint32_t ms, struct vql_stop *ret_stop,
                            struct vql_error *e)
{
        int err = honest()->vq_stop(d, q, ms, ret_stop, e);

        return err == -ENOTSUP ? 0 : err;
}

static int suspend_most(struct vql_dev *d, uint32_t ms, struct vql_stop *ret_stops,
                        struct vql_error *e)
{
        int err = honest()->suspend(d, ms, ret_stops, e);

        ret_stops[1].stopped = false;
        return err;
}

static void kick_to_death(struct vql_dev *d, uint16_t q)
{
        if (lies.calls++ == 500)
                vql_sim_break(d);
        honest()->vq_kick(d, q);
}

static int first_interrupt_holds(struct vql_dev *d, uint16_t q, int fd, struct vql_error *e)
{
        return q == 1 && lies.calls++ ? 0 : honest()->vq_irq(d, q, fd, e);
}

/* ---- memory ---- */

static int one_by_one(struct vql_dev *d, const struct vql_map *del, size_t n_del,
                      const struct vql_map *add, size_t n_add, struct vql_error *e)
{
        int err = 0;

        for (size_t i = 0; !err && i < n_del; i++)
                err = honest()->dma_update(d, &del[i], 1, NULL, 0, e);
        for (size_t i = 0; !err && i < n_add; i++)
                err = honest()->dma_update(d, NULL, 0, &add[i], 1, e);
        return err;
}

static int never_let_go(struct vql_dev *d, const struct vql_map *del, size_t n_del,
                        const struct vql_map *add, size_t n_add, struct vql_error *e)
{
        (void)del;
        (void)n_del;
        return honest()->dma_update(d, NULL, 0, add, n_add, e);
}

static void eight_maps(struct vql_dev *d, struct vql_dev_caps *ret_caps)
{
        honest()->caps(d, ret_caps);
        ret_caps->map_limit = 8;
}

static int no_log(struct vql_dev *d, const struct vql_dev_log *log, struct vql_error *e)
{
        (void)log;
        return honest()->log_set(d, NULL, e);
}

static int log_for_ever(struct vql_dev *d, const struct vql_dev_log *log, struct vql_error *e)
{
        return log ? honest()->log_set(d, log, e) : 0;
}

static int log_all(struct vql_dev *d, const struct vql_dev_log *log, struct vql_error *e)
{
        if (log)
                memset(log->bitmap, 0xff, log->bytes);
        return honest()->log_set(d, log, e);
}

/* ---- news and the rest ---- */

static int one_configuration(struct vql_dev *d, uint32_t offset, void *ret_bytes, uint32_t n)
{
        int err = honest()->cfg_read(d, offset, ret_bytes, n);

        memset(ret_bytes, 1, n);
        return err;
}

static size_t no_events(struct vql_dev *d, struct vql_event *ret_events, size_t n)
{
        honest()->events(d, ret_events, n);
        return 0;
}

/* Whoever looks finds something. */
static size_t events_for_ever(struct vql_dev *d, struct vql_event *ret_events, size_t n)
{
        size_t found = honest()->events(d, ret_events, n);

        if (found)
                vql_sim_want_back(d);
        return found;
}

static int suspend_in_any_case(struct vql_dev *d, uint32_t ms, struct vql_stop *ret_stops,
                               struct vql_error *e)
{
        int err = honest()->suspend(d, ms, ret_stops, e);

        return err == -EIO || err == -ENODEV ? -EINVAL : err;
}

static int obey_all(struct vql_dev *d, uint8_t cls, uint8_t command, const void *data, uint32_t n,
                    struct vql_error *e)
{
        honest()->ctrl(d, cls, command, data, n, e);
        return 0;
}

static size_t too_many_values(struct vql_dev *d, uint16_t q, uint64_t *ret_values, size_t n)
{
        size_t written = honest()->stats(d, q, ret_values, n);

        ret_values[written] = 0;
        return written;
}

static size_t one_value(struct vql_dev *d, uint16_t q, uint64_t *ret_values, size_t n)
{
        return honest()->stats(d, q, ret_values, n ? 1 : 0);
}

static bool match_nothing(const char *address)
{
        (void)address;
        return false;
}

/* X(check, what it does wrong, arguments, assignments) */
#define QUEUE_LIES(X)                                                                            \
        X("one-owner", "opens a device twice", "", ops.open = open_for_all)                      \
        X("caps", "changes its abilities", "", ops.caps = growing_caps)                          \
        X("caps", "does not know its device", "", match = match_nothing)                         \
        X("features", "agrees to what it has not", "", ops.negotiate = agree_to_all)             \
        X("reset", "ignores a reset", "", ops.reset = no_reset)                                  \
        X("reset", "forgets maps in a reset", "", ops.reset = forgetful_reset)                   \
        X("moves", "loses each fifth interrupt", "lose_irq=5", name = "sim")                     \
        X("moves", "stands still after a while", "stuck_after=100", name = "sim")                \
        X("start", "runs before the device does", "", ops.vq_start = start_at_once)              \
        X("positions", "starts anywhere", "", ops.vq_start = start_anywhere)                     \
        X("positions", "starts anywhere", "without=seek", ops.vq_start = start_anywhere)         \
        X("quiet", "goes on after a stop", "", ops.vq_start = start_and_remember;                \
          lies.driver.ops.vq_stop = stop_and_go_on; lies.driver.ops.suspend = suspend_and_go_on) \
        X("quiet", "goes on after suspend", "without=live", ops.vq_start = start_and_remember;   \
          lies.driver.ops.suspend = suspend_and_go_on)                                           \
        X("quiet", "does not stop all queues", "without=live", ops.suspend = suspend_most)       \
        X("position", "is off by one", "tell_off=1", name = "sim")                               \
        X("position", "is off by one", "tell_off=-1", name = "sim")                              \
        X("live", "stops what it cannot stop", "without=live", ops.vq_stop = stop_in_any_case)   \
        X("live", "is off by one", "tell_off=-1", name = "sim")                                  \
        X("late", "starts late what cannot be late", "without=late",                             \
          ops.vq_start = start_anywhere)                                                         \
        X("kicks", "breaks after many kicks", "", ops.vq_kick = kick_to_death)                   \
        X("interrupts", "keeps the first descriptor", "", ops.vq_irq = first_interrupt_holds)
#define OTHER_LIES(X)                                                                          \
        X("maps", "changes maps one by one", "", ops.dma_update = one_by_one)                  \
        X("maps", "keeps maps", "", ops.dma_update = never_let_go)                             \
        X("map-limit", "takes more maps than it says", "", ops.caps = eight_maps)              \
        X("out-of-reach", "keeps maps", "", ops.dma_update = never_let_go)                     \
        X("log", "logs nothing", "", ops.log_set = no_log)                                     \
        X("log", "logs all memory", "", ops.log_set = log_all)                                 \
        X("log", "goes on logging", "", ops.log_set = log_for_ever)                            \
        X("configuration", "shows an old configuration", "", ops.cfg_read = one_configuration) \
        X("configuration", "has no news", "", ops.events = no_events)                          \
        X("broken", "is not broken", "", ops.suspend = suspend_in_any_case)                    \
        X("gone", "is not gone", "", ops.suspend = suspend_in_any_case)                        \
        X("wanted-back", "repeats its news", "", ops.events = events_for_ever)                 \
        X("bad-ring", "has no news", "", ops.events = no_events)                               \
        X("bad-rings", "has no news", "", ops.events = no_events)                              \
        X("commands", "obeys all commands", "", ops.ctrl = obey_all)                           \
        X("commands", "shows an old configuration", "", ops.cfg_read = one_configuration)      \
        X("counters", "writes a value too many", "", ops.stats = too_many_values)              \
        X("counters", "has one value for all names", "", ops.stats = one_value)

#define CASE(check_, what_, args_, assignment)                                      \
        if (at++ == i) {                                                            \
                lies.driver.assignment;                                             \
                *ret_lie = (struct conf_lie){ check_, what_, args_, &lies.driver }; \
                return true;                                                        \
        }

bool conf_lie_get(size_t i, struct conf_lie *ret_lie)
{
        size_t at = 0;

        memset(&lies, 0, sizeof(lies));
        lies.driver = vql_driver_sim;
        QUEUE_LIES(CASE)
        OTHER_LIES(CASE)
        return false;
}
