/* SPDX-License-Identifier: BSD-3-Clause */
#include "bare_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/bits.h"
#include "sw-fallback/burst.h"
#include "virtqueue/features.h"

enum { MOST_REGIONS = 8 };

struct vql_mem_table *bare_table_new(const struct fe_memory *m)
{
        struct vql_region *regions[MOST_REGIONS];
        struct vql_mem_table *table;
        struct vql_error e;

        assert_in_range(m->n, 1, MOST_REGIONS);
        for (unsigned int i = 0; i < m->n; i++) {
                const struct fe_region_spec *s = &m->region[i].spec;
                const struct vql_region_desc desc = { s->gpa, s->size, s->uva, s->offset };

                assert_int_equal(vql_region_map(&desc, m->region[i].fd, -1, &regions[i], &e), 0);
        }
        assert_int_equal(vql_mem_table_new(regions, m->n, &table, &e), 0);
        for (unsigned int i = 0; i < m->n; i++)
                vql_region_put(regions[i]);
        return table;
}

static uint64_t ring_features(const struct fe_driver_params *d)
{
        return (d->packed ? vql_bit(VIRTIO_F_RING_PACKED) : 0) |
               (d->event_idx ? vql_bit(VIRTIO_RING_F_EVENT_IDX) : 0) |
               (d->in_order ? vql_bit(VIRTIO_F_IN_ORDER) : 0);
}

void bare_queue_init(struct vql_queue *q, const struct bare_params *p)
{
        const struct fe_driver_params *d = fe_driver_params(p->d);
        const struct fe_areas areas = fe_driver_areas(p->d);
        const uint64_t gpa[] = { areas.desc, areas.driver, areas.device };
        const uint8_t wrap = d->packed && !d->start_wrap_0;
        struct vql_queue_params params = {
                .desc_gpa = areas.desc,
                .device_gpa = areas.device,
                .mem = p->table,
                .features = p->features | ring_features(d),
                .state.at = { d->start, d->start, wrap, wrap },
                .state.size = d->size,
                .rx = p->rx,
                .call_fd = p->call_fd,
        };

        for (int i = 0; i < VQL_AREA_COUNT; i++) {
                uint64_t len = vql_area_bytes((enum vql_ring_area)i, d->size, d->packed);
                uint64_t uva = fe_memory_uva(d->mem, gpa[i], len);

                params.area[i] = vql_mem_uva(p->table, uva, len, NULL);
                assert_non_null(params.area[i]);
        }
        vql_queue_init(q, &params);
        q->log = p->log;
        assert_non_null(vql_burst_select(q, p->set ? p->set : vql_instance_set_best()));
}
