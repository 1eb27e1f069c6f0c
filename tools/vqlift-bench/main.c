/* SPDX-License-Identifier: BSD-3-Clause */
/* vqlift-bench: vqlift's datapath and DPDK's vhost library, alternating on the same rings. */

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>

#include "vqlift-bench/rig.h"

enum { DEFAULT_ROUNDS = 12, WARM_UP = 32, MBUFS = 8191, MAX_SAMPLES = 1 << 16 };

static unsigned int rounds = DEFAULT_ROUNDS;
static double samples[BACKENDS][MAX_SAMPLES];

static int by_value(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q)
{
        qsort(v, n, sizeof(*v), by_value);
        return v[(size_t)((double)(n - 1) * q)];
}

/* What two readings of the clock cost by themselves. */
static uint64_t clock_cost(void)
{
        uint64_t least = UINT64_MAX;

        for (int i = 0; i < 1000; i++) {
                uint64_t t = rte_rdtsc_precise();

                t = rte_rdtsc_precise() - t;
                least = RTE_MIN(least, t);
        }
        return least;
}

static int measure_block(struct rig *r, enum backend b, unsigned int bursts, uint64_t clock,
                         size_t *n)
{
        int rc = rig_use(r, b);

        for (unsigned int i = 0; rc >= 0 && i < WARM_UP + bursts; i++) {
                uint64_t tsc;

                rc = rig_burst(r, i == 0, &tsc);
                if (rc == 0)
                        rc = -EIO;
                if (rc > 0 && i >= WARM_UP && *n < MAX_SAMPLES)
                        samples[b][(*n)++] = (double)(tsc > clock ? tsc - clock : 0) / rc;
        }
        return rc;
}

static int measure(const struct cell *c, struct rte_mempool *pool, double *ret_vq, double *ret_rte)
{
        const uint64_t clock = clock_cost();
        size_t n[BACKENDS] = { 0 };
        struct rig *r;
        int rc = rig_new(c, pool, &r);

        if (rc < 0)
                return rc;
        for (unsigned int round = 0; rc >= 0 && round < rounds; round++)
                for (enum backend b = 0; rc >= 0 && b < BACKENDS; b++)
                        rc = measure_block(r, b, 6400 / c->burst / (c->size > 2000 ? 4 : 1), clock,
                                           &n[b]);
        rig_free(r);
        if (rc < 0)
                return rc;
        *ret_vq = quantile(samples[BACKEND_VQLIFT], n[BACKEND_VQLIFT], 0.5);
        *ret_rte = quantile(samples[BACKEND_RTE_VHOST], n[BACKEND_RTE_VHOST], 0.5);
        return 0;
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                { "direction", required_argument, NULL, 'd' },
                { "ring", required_argument, NULL, 'r' },
                { "mergeable", required_argument, NULL, 'm' },
                { "layout", required_argument, NULL, 'l' },
                { "size", required_argument, NULL, 's' },
                { "burst", required_argument, NULL, 'b' },
                { "ring-size", required_argument, NULL, 'n' },
                { "rounds", required_argument, NULL, 'R' },
                { 0 },
        };
        char *eal[] = { argv[0],
                        (char *)"--no-huge",
                        (char *)"-m",
                        (char *)"256",
                        (char *)"--no-shconf",
                        (char *)"--no-pci",
                        (char *)"--iova-mode=va",
                        (char *)"--no-telemetry",
                        (char *)"--log-level=*:error" };
        struct cell_choice choice = { 0 };
        struct rte_mempool *pool;
        double log_sum = 0, least = 1e9;
        size_t done = 0;
        struct cell c;
        int o;

        while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (o) {
                case 'd':
                        choice.direction = optarg;
                        break;
                case 'r':
                        choice.ring = optarg;
                        break;
                case 'm':
                        choice.mergeable = optarg;
                        break;
                case 'l':
                        choice.layout = optarg;
                        break;
                case 's':
                        choice.size = (uint32_t)atoi(optarg);
                        break;
                case 'b':
                        choice.burst = (uint16_t)atoi(optarg);
                        break;
                case 'n':
                        choice.ring_size = (uint16_t)atoi(optarg);
                        break;
                case 'R':
                        rounds = (unsigned int)atoi(optarg);
                        break;
                default:
                        return 2;
                }
        }
        if (rte_eal_init((int)RTE_DIM(eal), eal) < 0)
                return 1;
        pool = rte_pktmbuf_pool_create("bench", MBUFS, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
        printf("%-8s %-16s %-4s %-9s %6s %6s %6s %9s %9s %7s\n", "dir", "ring", "mrg", "layout",
               "size", "burst", "ring", "vqlift", "rte", "ratio");
        for (size_t i = 0; cell_get(&choice, i, &c); i++) {
                double vq = 0, rte = 0;
                int rc = measure(&c, pool, &vq, &rte);

                printf("%-8s %-16s %-4s %-9s %6u %6u %6u ", cell_direction(&c), cell_ring(&c),
                       c.mergeable ? "on" : "off", cell_layout_name(&c), c.size, c.burst, c.ring);
                if (rc < 0) {
                        printf("failed: %s\n", strerror(-rc));
                        continue;
                }
                printf("%9.1f %9.1f %7.2f\n", vq, rte, rte / vq);
                fflush(stdout);
                log_sum += log(rte / vq);
                least = RTE_MIN(least, rte / vq);
                done++;
        }
        if (done)
                printf("geometric mean %.2f, least %.2f over %zu cells\n",
                       exp(log_sum / (double)done), least, done);
        return 0;
}
