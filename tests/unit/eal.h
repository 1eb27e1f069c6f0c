/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TESTS_UNIT_EAL_H
#define VQLIFT_TESTS_UNIT_EAL_H

/*
 * DPDK's environment for one test program.  It can be started once a process.  DPDK 22.11 refuses
 * --in-memory beside --no-huge; --no-shconf keeps it off the file system as well.
 */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* DPDK's own log is kept quiet: tests provoke errors.  VQLIFT_TEST_EAL_LOG=8 shows it. */
static inline int test_eal_start(void)
{
        const char *level = getenv("VQLIFT_TEST_EAL_LOG");
        cpu_set_t cpus;
        int err;
        char log[32];
        char *argv[] = { (char *)"test",
                         (char *)"--no-huge",
                         (char *)"-m",
                         (char *)"256",
                         (char *)"--no-shconf",
                         (char *)"--no-pci",
                         (char *)"--iova-mode=va",
                         (char *)"--no-telemetry",
                         log,
                         NULL };

        snprintf(log, sizeof(log), "--log-level=%s", level ? level : "1");
        /* It pins this thread, and threads made later would inherit that: all on one CPU. */
        if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
                return -errno;
        err = rte_eal_init(9, argv) < 0 ? -rte_errno : 0;
        sched_setaffinity(0, sizeof(cpus), &cpus);
        return err;
}

/* A pool of packet buffers; n of them with `room` bytes behind the headroom, 0 for none at all. */
static inline struct rte_mempool *test_pool(const char *name, unsigned int n, uint16_t room)
{
        uint16_t bytes = room ? (uint16_t)(room + RTE_PKTMBUF_HEADROOM) : 0;
        struct rte_mempool *pool = rte_pktmbuf_pool_create(name, n, 0, 0, bytes, SOCKET_ID_ANY);

        assert_non_null(pool);
        return pool;
}

#endif
