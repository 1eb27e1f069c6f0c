/* SPDX-License-Identifier: BSD-3-Clause */
/* vqlift-bench: vqlift's datapath and DPDK's vhost library, taking turns on the same rings. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <rte_common.h>
#include <rte_eal.h>
#include <rte_mbuf.h>

#include "vqlift-bench/measure.h"
#include "vqlift-bench/options.h"

enum { MBUFS = 8191, MBUF_CACHE = 256 };

/* Of the ratios of all cells that were measured. */
struct summary {
        double log_sum, least;
        size_t cells, failed;
};

static struct rte_mempool *start_dpdk(char *program)
{
        char *argv[] = { program,
                         (char *)"--no-huge",
                         (char *)"-m",
                         (char *)"256",
                         (char *)"--no-shconf",
                         (char *)"--no-pci",
                         (char *)"--iova-mode=va",
                         (char *)"--no-telemetry",
                         (char *)"--log-level=*:error" };

        if (rte_eal_init((int)RTE_DIM(argv), argv) < 0)
                return NULL;
        return rte_pktmbuf_pool_create("bench", MBUFS, MBUF_CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                       SOCKET_ID_ANY);
}

static void print_head(void)
{
        printf("%-8s %-16s %-9s %-9s %6s %6s %6s %9s %9s %6s\n", "", "ring", "mergeable", "layout",
               "bytes", "burst", "ring", "vqlift", "rte_vhost", "ratio");
}

static void run_cell(const struct cell *c, unsigned int rounds, struct rte_mempool *pool,
                     struct summary *sum)
{
        struct measurement m;
        int rc = measure_cell(c, rounds, pool, &m);
        double ratio;

        printf("%-8s %-16s %-9s %-9s %6u %6u %6u ", cell_direction(c), cell_ring(c),
               c->mergeable ? "on" : "off", cell_layout_name(c), c->size, c->burst, c->ring);
        if (rc < 0) {
                printf("failed: %s\n", strerror(-rc));
                sum->failed++;
                return;
        }
        ratio = m.median[BACKEND_RTE_VHOST] / m.median[BACKEND_VQLIFT];
        printf("%9.1f %9.1f %6.2f\n", m.median[BACKEND_VQLIFT], m.median[BACKEND_RTE_VHOST], ratio);
        fflush(stdout);
        sum->log_sum += log(ratio);
        sum->least = RTE_MIN(sum->least, ratio);
        sum->cells++;
}

int main(int argc, char **argv)
{
        struct summary sum = { .least = INFINITY };
        struct rte_mempool *pool;
        struct options o;
        struct cell c;
        int rc = options_parse(argc, argv, &o);

        if (rc != 0)
                return rc < 0 ? 2 : 0;
        pool = start_dpdk(argv[0]);
        if (!pool)
                return 1;
        print_head();
        for (size_t i = 0; cell_get(&o.cells, i, &c); i++)
                run_cell(&c, o.rounds, pool, &sum);
        if (sum.cells)
                printf("%zu cells: geometric mean %.2f, least %.2f\n", sum.cells,
                       exp(sum.log_sum / (double)sum.cells), sum.least);
        return sum.cells > 0 && sum.failed == 0 ? 0 : 1;
}
