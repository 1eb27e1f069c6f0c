/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_BENCH_PVP_OPTIONS_H
#define VQLIFT_BENCH_PVP_OPTIONS_H

#include <stdbool.h>

enum { PVP_SIZES_MAX = 16, PVP_SIZE_MIN = 64, PVP_SIZE_MAX = 1518 };

/* A ring format and how much of it the guest asks for. */
struct pvp_ring {
        const char *name;
        bool packed, in_order, by_default;
};
enum { PVP_RINGS = 4 };
extern const struct pvp_ring pvp_rings[PVP_RINGS];

struct pvp_options {
        bool ring[PVP_RINGS];
        bool mergeable[2]; /* off, on */
        unsigned int size[PVP_SIZES_MAX], sizes;
        unsigned int rounds;
        double seconds; /* of a sample */
        bool json;
        int guest_cpu, backend_cpu;
        const char *testpmd, *vqliftd; /* programs */
};

/* 0; 1 if --help was asked for and printed; -EINVAL with a line on stderr. */
int pvp_options_parse(int argc, char **argv, struct pvp_options *ret_options);

#endif
