/* SPDX-License-Identifier: BSD-3-Clause */
#include "sw-fallback/burst.h"

#include <rte_common.h>

#include "base/bits.h"
#include "sw-fallback/dequeue.h"
#include "sw-fallback/enqueue.h"
#include "virtqueue/features.h"

/* X(function name, text name, packed, mergeable, offloads, logging) */
#define ENQUEUE_INSTANCES(X)                                                            \
        X(split_rx, "split-rx", false, false, false, false)                             \
        X(split_rx_l, "split-rx-logging", false, false, false, true)                    \
        X(split_rx_o, "split-rx-offloads", false, false, true, false)                   \
        X(split_rx_ol, "split-rx-offloads-logging", false, false, true, true)           \
        X(split_rx_m, "split-rx-mergeable", false, true, false, false)                  \
        X(split_rx_ml, "split-rx-mergeable-logging", false, true, false, true)          \
        X(split_rx_mo, "split-rx-mergeable-offloads", false, true, true, false)         \
        X(split_rx_mol, "split-rx-mergeable-offloads-logging", false, true, true, true) \
        X(packed_rx, "packed-rx", true, false, false, false)                            \
        X(packed_rx_l, "packed-rx-logging", true, false, false, true)                   \
        X(packed_rx_o, "packed-rx-offloads", true, false, true, false)                  \
        X(packed_rx_ol, "packed-rx-offloads-logging", true, false, true, true)          \
        X(packed_rx_m, "packed-rx-mergeable", true, true, false, false)                 \
        X(packed_rx_ml, "packed-rx-mergeable-logging", true, true, false, true)         \
        X(packed_rx_mo, "packed-rx-mergeable-offloads", true, true, true, false)        \
        X(packed_rx_mol, "packed-rx-mergeable-offloads-logging", true, true, true, true)

#define DEQUEUE_INSTANCES(X)                                                  \
        X(split_tx, "split-tx", false, false, false, false)                   \
        X(split_tx_l, "split-tx-logging", false, false, false, true)          \
        X(split_tx_o, "split-tx-offloads", false, false, true, false)         \
        X(split_tx_ol, "split-tx-offloads-logging", false, false, true, true) \
        X(packed_tx, "packed-tx", true, false, false, false)                  \
        X(packed_tx_l, "packed-tx-logging", true, false, false, true)         \
        X(packed_tx_o, "packed-tx-offloads", true, false, true, false)        \
        X(packed_tx_ol, "packed-tx-offloads-logging", true, false, true, true)

#define TRAITS(is_rx, is_packed, is_mergeable, has_offloads, is_logging)     \
        {                                                                    \
                .packed = is_packed, .rx = is_rx, .mergeable = is_mergeable, \
                .offloads = has_offloads, .logging = is_logging,             \
        }

#define DEFINE_ENQUEUE(fn, text, packed, mergeable, offloads, logging)                             \
        static __rte_noinline uint16_t fn(struct vql_queue *q, struct rte_mbuf **pkts, uint16_t n) \
        {                                                                                          \
                const struct vql_traits t = TRAITS(true, packed, mergeable, offloads, logging);    \
                                                                                                   \
                return vql_enqueue(q, t, pkts, n);                                                 \
        }

#define DEFINE_DEQUEUE(fn, text, packed, mergeable, offloads, logging)                           \
        static __rte_noinline uint16_t fn(struct vql_queue *q, struct rte_mempool *pool,         \
                                          struct rte_mbuf **pkts, uint16_t n)                    \
        {                                                                                        \
                const struct vql_traits t = TRAITS(false, packed, mergeable, offloads, logging); \
                                                                                                 \
                return vql_dequeue(q, t, pool, pkts, n);                                         \
        }

ENQUEUE_INSTANCES(DEFINE_ENQUEUE)
DEQUEUE_INSTANCES(DEFINE_DEQUEUE)

#define ENQUEUE_ROW(fn, text, packed, mergeable, offloads, logging)     \
        { .name = text,                                                 \
          .traits = TRAITS(true, packed, mergeable, offloads, logging), \
          .enqueue = fn },
#define DEQUEUE_ROW(fn, text, packed, mergeable, offloads, logging)      \
        { .name = text,                                                  \
          .traits = TRAITS(false, packed, mergeable, offloads, logging), \
          .dequeue = fn },

const struct vql_instance vql_instances[] = { ENQUEUE_INSTANCES(ENQUEUE_ROW)
                                                      DEQUEUE_INSTANCES(DEQUEUE_ROW) };
const size_t vql_instance_count = RTE_DIM(vql_instances);

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

const struct vql_instance *vql_burst_select(struct vql_queue *q)
{
        const struct vql_traits want = queue_traits(q);

        for (size_t i = 0; i < vql_instance_count; i++) {
                const struct vql_instance *v = &vql_instances[i];

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
