/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include <rte_common.h>

#include "base/bits.h"
#include "sw-fallback/burst.h"
#include "virtqueue/features.h"

#ifdef __x86_64__
extern const struct vql_instance_set vql_set_avx512, vql_set_avx2;
#endif
extern const struct vql_instance_set vql_set_baseline;

const struct vql_instance_set *const vql_instance_sets[] = {
#ifdef __x86_64__
        &vql_set_avx512,
        &vql_set_avx2,
#endif
        &vql_set_baseline,
};
const size_t vql_instance_set_count = RTE_DIM(vql_instance_sets);

#ifdef __x86_64__

/* Must cover what sw-fallback/meson.build lets the compiler use. */
static bool has_avx2(void)
{
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2");
}

/* VBMI2 is not used: CPUs without it slow down where they meet 512-bit moves. */
static bool has_avx512(void)
{
        return has_avx2() && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vbmi2");
}

bool vql_instance_set_runs(const struct vql_instance_set *set)
{
        if (set == &vql_set_avx512)
                return has_avx512();
        return set != &vql_set_avx2 || has_avx2();
}

#else

bool vql_instance_set_runs(const struct vql_instance_set *set)
{
        (void)set;
        return true;
}

#endif

const struct vql_instance_set *vql_instance_set_best(void)
{
        for (size_t i = 0; i < vql_instance_set_count - 1; i++)
                if (vql_instance_set_runs(vql_instance_sets[i]))
                        return vql_instance_sets[i];
        return &vql_set_baseline;
}

static struct vql_traits queue_traits(const struct vql_queue *q)
{
        /* All segmentation features depend on the checksum feature of their direction. */
        const unsigned int checksum = q->rx ? VIRTIO_NET_F_GUEST_CSUM : VIRTIO_NET_F_CSUM;

        return (struct vql_traits){
                .packed = q->packed,
                .rx = q->rx,
                .mergeable = q->rx && vql_has(q->features, VIRTIO_NET_F_MRG_RXBUF),
                .offloads = vql_has(q->features, checksum),
                .logging = q->log != NULL,
        };
}

const struct vql_instance *vql_burst_select(struct vql_queue *q, const struct vql_instance_set *set)
{
        const struct vql_traits want = queue_traits(q);

        for (size_t i = 0; i < set->count; i++) {
                const struct vql_instance *v = &set->rows[i];

                if (memcmp(&v->traits, &want, sizeof(want)) != 0)
                        continue;
                if (q->rx)
                        q->enqueue = v->enqueue;
                else
                        q->dequeue = v->dequeue;
                return v;
        }
        return NULL;
}
