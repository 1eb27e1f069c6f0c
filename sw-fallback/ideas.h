/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_SW_FALLBACK_IDEAS_H
#define VQLIFT_SW_FALLBACK_IDEAS_H

/*
 * What makes bursts fast, one bit an idea.  The product has all of them; the bench compiles sets of
 * instances without one each, to show what it brings (vqlift-bench --control).
 */

#include <stdbool.h>

enum vql_idea {
        VQL_IDEA_BATCH = 1,    /* take, copy and return chains in runs, not one after the other */
        VQL_IDEA_PREFETCH = 2, /* of buffers, while the rest of the run is taken */
        VQL_IDEA_HEADER = 4,   /* a header that has a line for itself is compared, not stored */
        VQL_IDEA_RAW_MBUF = 8, /* packets from raw buffers: what has no meaning is not reset */
};

#ifndef VQL_IDEAS_OFF
#define VQL_IDEAS_OFF 0
#endif

static inline bool vql_idea(enum vql_idea i)
{
        return !((unsigned int)VQL_IDEAS_OFF & (unsigned int)i);
}

#endif
