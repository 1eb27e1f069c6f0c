/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * One set of instances.  This file is compiled once for each instruction set, and by the bench once
 * for each idea that it leaves out: VQL_SET is the set's name.
 */

#include "sw-fallback/burst.h"

#include <rte_common.h>

#include "sw-fallback/dequeue.h"
#include "sw-fallback/enqueue.h"

#ifndef VQL_SET
#error "VQL_SET names the set"
#endif

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

static const struct vql_instance rows[] = { ENQUEUE_INSTANCES(ENQUEUE_ROW)
                                                    DEQUEUE_INSTANCES(DEQUEUE_ROW) };

#define JOIN(a, b)  a##b
#define SYMBOL(set) JOIN(vql_set_, set)

extern const struct vql_instance_set SYMBOL(VQL_SET);
const struct vql_instance_set SYMBOL(VQL_SET) = {
        .name = RTE_STR(VQL_SET),
        .rows = rows,
        .count = RTE_DIM(rows),
};
