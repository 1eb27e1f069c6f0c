/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "conformance_checks.h"
#include "conformance_rig.h"

enum { PAGES = 64, PAGE = 4096, FRAMES = 40, MOST_MERGED = 3, LOG_BYTES = 1 << 18 /* for 8 GiB */ };

/* ---- maps ---- */

static int update(struct rig *r, const struct vql_device_maps *m)
{
        struct vql_error e = { "" };

        return vql_device_dma_update(r->dev, m, &e);
}

/* Memory of our own, far behind the guest's. */
static struct vql_map extra_map(struct rig *r)
{
        void *va = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        conf_require(r, va != MAP_FAILED, "no memory");
        return (struct vql_map){
                .iova = ((fe_memory_end(r->mem) >> 30) + 1) << 30,
                .len = (uint64_t)PAGES * PAGE,
                .va = va,
                .writable = true,
        };
}

/* Whether a map is there shows when it is to come or go. */
static void expect_absent(struct rig *r, const struct vql_map *m, const char *after)
{
        int err = update(r, &(struct vql_device_maps){ .add = m, .n_add = 1 });

        conf_require(r, err == 0, "%s, a map that should not be there is: adding it gives %d",
                     after, err);
        conf_require(r, update(r, &(struct vql_device_maps){ .del = m, .n_del = 1 }) == 0,
                     "a map that was added cannot be removed");
}

static void maps_change_as_one(struct rig *r)
{
        const struct vql_map extra = extra_map(r);
        struct vql_map part = extra, both[2] = { extra, extra };
        int err;

        conf_go(r);
        conf_send(r, FRAMES);
        /* The second of these is there already. */
        both[1] = r->map[0];
        err = update(r, &(struct vql_device_maps){ .add = both, .n_add = 2 });
        conf_require(r, err < 0, "a map that overlaps another is accepted");
        expect_absent(r, &extra, "after a refusal");
        err = update(r, &(struct vql_device_maps){
                                .del = &extra, .n_del = 1, .add = &extra, .n_add = 1 });
        conf_require(r, err < 0, "a map that was never added is removed");
        expect_absent(r, &extra, "after a refusal");
        conf_require(r, update(r, &(struct vql_device_maps){ .add = &extra, .n_add = 1 }) == 0,
                     "a further map is refused");
        part.len /= 2;
        err = update(r, &(struct vql_device_maps){ .del = &part, .n_del = 1 });
        conf_require(r, err < 0, "half of a map is removed");
        conf_send(r, FRAMES);
        conf_receive(r, FRAMES);
        conf_require(r, update(r, &(struct vql_device_maps){ .del = &extra, .n_del = 1 }) == 0,
                     "a map cannot be removed");
        munmap(extra.va, extra.len);
        conf_send(r, FRAMES);
        conf_receive(r, FRAMES);
}

static void maps_are_limited(struct rig *r)
{
        const uint32_t limit = vql_device_caps(r->dev)->map_limit;
        struct vql_map m = extra_map(r);
        uint32_t n = 0;
        int err = 0;

        munmap(m.va, m.len);
        if (!limit || limit > 1024)
                conf_skip(r);
        m.len = PAGE;
        m.va = r->mem->region[0].va;
        for (; n <= limit && !err; n++, m.iova += 2ull * PAGE)
                err = update(r, &(struct vql_device_maps){ .add = &m, .n_add = 1 });
        conf_require(r, err == -ENOSPC && n == limit + 1, "map %u of %u answers %d", n, limit, err);
}

/* Fill the ring with buffers in that memory, behind those that are on it. */
static void offer_all(struct conf_line *rx, const struct vql_map *m)
{
        struct fe_seg seg = { .gpa = m->iova, .len = 2048, .write = true };
        const struct fe_chain chain = { .segs = &seg, .n = 1, .cookie = &rx->buffer[0] };

        while (fe_driver_free_slots(rx->d))
                conf_require(rx->rig, fe_driver_add(rx->d, &chain, NULL) == 0, "ring: %s",
                             fe_driver_error(rx->d));
        fe_driver_publish(rx->d);
        vql_device_vq_kick(rx->rig->dev, CONF_RX);
}

/* A buffer in memory that is gone: the device may complain, but it must not write there. */
static void gone_is_out_of_reach(struct rig *r)
{
        struct conf_line *rx = &r->line[CONF_RX];
        struct vql_map extra;
        unsigned int before;
        uint32_t end;

        if (r->t->fragile)
                conf_skip(r);
        extra = extra_map(r);
        memset(extra.va, 0x5a, extra.len);
        conf_go(r);
        conf_receive(r, FRAMES);
        conf_require(r, update(r, &(struct vql_device_maps){ .add = &extra, .n_add = 1 }) == 0,
                     "a map is refused");
        conf_require(r, update(r, &(struct vql_device_maps){ .del = &extra, .n_del = 1 }) == 0,
                     "a map cannot be removed");
        before = fe_driver_outstanding(rx->d);
        end = rx->returned + before;
        offer_all(rx, &extra);
        for (unsigned int i = 0; i < before + 2; i++)
                conf_wire_put(r);
        /* The last of the good ones may be part of a packet that needs a bad one, too. */
        while (rx->returned + MOST_MERGED < end)
                conf_await_some(rx);
        conf_send(r, FRAMES);
        for (uint64_t i = 0; i < extra.len; i++)
                conf_require(r, ((const uint8_t *)extra.va)[i] == 0x5a,
                             "byte %#llx of memory that was taken away is written",
                             (unsigned long long)i);
        munmap(extra.va, extra.len);
}

/* ---- log ---- */

/* The device has the log, too. */
static uint8_t load(const uint8_t *p)
{
        return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* What was written has to be in the log, and from a device that is software, nothing else. */
static void expect_logged(struct rig *r, const struct vql_dev_log *log)
{
        const bool exact = vql_device_can(r->dev, VQL_DEV_CPU_DMA);
        unsigned int written = 0;

        for (uint64_t page = 0; page < 8 * log->bytes; page++) {
                const bool is_logged = (load(&log->bitmap[page / 8]) >> page % 8) & 1;
                const bool is_written = (r->written[page / 8] >> page % 8) & 1;

                conf_require(r, is_logged || !is_written,
                             "page %#llx was written and is not logged", (unsigned long long)page);
                conf_require(r, is_written || !is_logged || !exact,
                             "page %#llx is logged and was not written", (unsigned long long)page);
                written += is_written;
        }
        conf_require(r, written > 0, "nothing was written");
}

static void log_and_compare(struct rig *r, const struct vql_dev_log *log)
{
        struct vql_error e = { "" };

        conf_require(r, vql_device_log_set(r->dev, log, &e) == 0, "log: %s", e.text);
        conf_receive(r, 3);
        conf_send(r, 5);
        conf_require(r, vql_device_log_sync(r->dev) == 0, "the log cannot be finished");
        expect_logged(r, log);
        conf_receive(r, FRAMES);
        conf_require(r, vql_device_log_sync(r->dev) == 0, "the log cannot be finished");
        expect_logged(r, log);
        conf_require(r, vql_device_log_set(r->dev, NULL, &e) == 0, "log off: %s", e.text);
        for (uint64_t i = 0; i < log->bytes; i++)
                __atomic_store_n(&log->bitmap[i], 0, __ATOMIC_RELAXED);
        conf_receive(r, FRAMES);
        for (uint64_t i = 0; i < log->bytes; i++)
                conf_require(r, !load(&log->bitmap[i]), "a log that was taken away is written");
}

static void written_pages_are_logged(struct rig *r)
{
        static uint8_t bits[2][LOG_BYTES];
        const struct vql_dev_log log = { bits[0], LOG_BYTES };

        if (!vql_device_can(r->dev, VQL_DEV_LOG))
                conf_skip(r);
        conf_require(r, fe_memory_end(r->mem) / FE_PAGE / 8 < LOG_BYTES, "the log is too short");
        memset(bits, 0, sizeof(bits));
        conf_go(r);
        conf_receive(r, FRAMES);
        conf_send(r, FRAMES);
        r->written = bits[1];
        log_and_compare(r, &log);
}

const struct conf_check conf_memory_checks[] = {
        { "maps", maps_change_as_one },
        { "map-limit", maps_are_limited },
        { "out-of-reach", gone_is_out_of_reach },
        { "log", written_pages_are_logged },
        { NULL, NULL },
};
