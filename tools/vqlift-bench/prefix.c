/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqlift-bench/prefix.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "librte_vhost.so."

/* ---- the one that is loaded ---- */

struct loaded {
        char *path;
        size_t size;
};

static int note_library(struct dl_phdr_info *info, size_t size, void *arg)
{
        const struct loaded *l = arg;

        (void)size;
        if (!strstr(info->dlpi_name, "/" LIBRARY))
                return 0;
        snprintf(l->path, l->size, "%s", info->dlpi_name);
        return 1;
}

void prefix_library(char *ret_path, size_t size)
{
        struct loaded l = { ret_path, size };

        snprintf(ret_path, size, "unknown");
        dl_iterate_phdr(note_library, &l);
}

static const char *base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* ---- the other one ---- */

/* The first file of the pattern below the prefix: its folder, and the name of a library. */
static int find(const char *prefix, const char *name, char *ret_path)
{
        static const char *const folders[] = { "lib/*-linux-gnu", "lib64", "lib" };
        char pattern[PATH_MAX];
        int rc = -ENOENT;

        for (size_t i = 0; rc < 0 && i < sizeof(folders) / sizeof(folders[0]); i++) {
                glob_t g;

                if ((size_t)snprintf(pattern, sizeof(pattern), "%s/%s/%s", prefix, folders[i],
                                     name) >= sizeof(pattern))
                        return -ENAMETOOLONG;
                if (glob(pattern, 0, NULL, &g) == 0) {
                        snprintf(ret_path, PATH_MAX, "%s", g.gl_pathv[0]);
                        globfree(&g);
                        rc = 0;
                }
        }
        return rc;
}

static int restart_with(const char *library, char **argv)
{
        const int folder = (int)(base_name(library) - library);
        const char *before = getenv("LD_LIBRARY_PATH");
        char path[2 * PATH_MAX];

        snprintf(path, sizeof(path), "%.*s%s%s", folder, library, before ? ":" : "",
                 before ? before : "");
        if (setenv("LD_LIBRARY_PATH", path, 1) == 0)
                execv("/proc/self/exe", argv);
        fprintf(stderr, "vqlift-bench: cannot start again: %s\n", strerror(errno));
        return -errno;
}

static int complain(const char *prefix, const char *expected)
{
        char other[PATH_MAX];

        if (find(prefix, LIBRARY "*", other) < 0) {
                fprintf(stderr,
                        "vqlift-bench: --rte-vhost-prefix: no %s* in %s/lib, lib64 or "
                        "lib/<triplet>\n",
                        LIBRARY, prefix);
                return -ENOENT;
        }
        fprintf(stderr,
                "vqlift-bench: --rte-vhost-prefix: found %s, expected %s: its binary interface is "
                "another one; build vqlift against that DPDK (PKG_CONFIG_PATH) to compare with "
                "it\n",
                other, expected);
        return -ENOEXEC;
}

int prefix_enter(const char *prefix, char **argv)
{
        char loaded[PATH_MAX], is[PATH_MAX], library[PATH_MAX], wanted[PATH_MAX];

        prefix_library(loaded, sizeof(loaded));
        if (find(prefix, base_name(loaded), library) < 0)
                return complain(prefix, base_name(loaded));
        if (!realpath(loaded, is) || !realpath(library, wanted))
                return -errno;
        if (strcmp(is, wanted) == 0)
                return 0;
        /* The loader was told already, and took another one. */
        if (getenv("VQLIFT_BENCH_RESTARTED")) {
                fprintf(stderr, "vqlift-bench: --rte-vhost-prefix: the loader takes %s, not %s\n",
                        is, wanted);
                return -ENOEXEC;
        }
        setenv("VQLIFT_BENCH_RESTARTED", "1", 1);
        return restart_with(library, argv);
}
