/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/machine.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <rte_common.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_version.h>

#include "vqlift-bench/prefix.h"
#include "vqlift-bench/rte.h"

enum {
        MBUFS = 4095,
        MBUF_CACHE = 256,
        HUGE_PAGES_MIN = 12, /* of 2 MiB, for the packet buffers */
};

static int free_huge_pages(void)
{
        FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
        int n = 0;

        if (f) {
                if (fscanf(f, "%d", &n) != 1)
                        n = 0;
                fclose(f);
        }
        return n;
}

/* The first two CPUs that this process may use. */
static int choose_cpus(struct machine *m)
{
        cpu_set_t set;

        if (sched_getaffinity(0, sizeof(set), &set) < 0)
                return -errno;
        m->cpu = m->guest_cpu = -1;
        for (int cpu = 0; cpu < CPU_SETSIZE && m->guest_cpu < 0; cpu++) {
                if (!CPU_ISSET(cpu, &set))
                        continue;
                if (m->cpu < 0)
                        m->cpu = cpu;
                else
                        m->guest_cpu = cpu;
        }
        return 0;
}

/* DPDK 22.11 refuses --in-memory beside --no-huge; --no-shconf keeps it off the file system, too.
 */
static int start_dpdk(const char *program, const struct machine *m)
{
        char cpu[16];
        const char *const huge[] = { program,
                                     "-l",
                                     cpu,
                                     "--no-pci",
                                     "--iova-mode=va",
                                     "--no-telemetry",
                                     "--log-level=*:error",
                                     "--in-memory" };
        const char *const plain[] = { program,
                                      "-l",
                                      cpu,
                                      "--no-pci",
                                      "--iova-mode=va",
                                      "--no-telemetry",
                                      "--log-level=*:error",
                                      "--no-shconf",
                                      "--no-huge",
                                      "-m",
                                      "64" };
        const char *const *from = m->huge ? huge : plain;
        const int argc = m->huge ? RTE_DIM(huge) : RTE_DIM(plain);
        char *argv[RTE_DIM(plain)];

        snprintf(cpu, sizeof(cpu), "%d", m->cpu);
        for (int i = 0; i < argc; i++)
                argv[i] = (char *)(uintptr_t)from[i];
        return rte_eal_init(argc, argv) < 0 ? -rte_errno : 0;
}

static void read_model(char *ret_model, size_t size)
{
        FILE *f = fopen("/proc/cpuinfo", "re");
        char line[256];

        snprintf(ret_model, size, "unknown");
        while (f && fgets(line, sizeof(line), f)) {
                const char *value = strchr(line, ':');

                if (strncmp(line, "model name", 10) != 0 || !value)
                        continue;
                snprintf(ret_model, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
                break;
        }
        if (f)
                fclose(f);
}

int machine_start(const char *program, struct machine *ret_machine)
{
        struct machine m = { .huge = free_huge_pages() >= HUGE_PAGES_MIN };
        int rc = choose_cpus(&m);

        if (rc == 0)
                rc = start_dpdk(program, &m);
        if (rc == 0) {
                m.pool = rte_pktmbuf_pool_create("bench", MBUFS, MBUF_CACHE, 0,
                                                 RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
                rc = m.pool ? 0 : -rte_errno;
        }
        if (rc == 0)
                rc = rte_peer_listen();
        if (rc < 0) {
                fprintf(stderr, "vqlift-bench: DPDK does not start: %s\n", strerror(-rc));
                return rc;
        }
        read_model(m.model, sizeof(m.model));
        prefix_library(m.rte_vhost, sizeof(m.rte_vhost));
        snprintf(m.dpdk, sizeof(m.dpdk), "%s", rte_version());
        *ret_machine = m;
        return 0;
}

void machine_stop(struct machine *m)
{
        rte_peer_unlisten();
        rte_mempool_free(m->pool);
        rte_eal_cleanup();
}
