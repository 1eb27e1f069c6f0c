/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/driver.h"

int fe_seg_alloc(struct fe_memory *m, int region, uint32_t len, bool write, struct fe_seg *ret_seg)
{
        uint64_t gpa;
        int err = fe_memory_alloc(m, region, (uint64_t)len + 2 * FE_CANARY, 1, &gpa);

        if (err < 0)
                return err;
        *ret_seg = (struct fe_seg){
                .gpa = gpa + FE_CANARY,
                .len = len,
                .write = write,
                .canary = FE_CANARY,
        };
        return 0;
}

size_t fe_segs_write(const struct fe_memory *m, const struct fe_seg *segs, unsigned int n,
                     const void *from, size_t len)
{
        const uint8_t *src = from;
        size_t done = 0;

        for (unsigned int i = 0; i < n && done < len; i++) {
                size_t here = len - done < segs[i].len ? len - done : segs[i].len;

                if (fe_memory_write(m, segs[i].gpa, src + done, here) < 0)
                        break;
                done += here;
        }
        return done;
}

size_t fe_segs_read(const struct fe_memory *m, const struct fe_seg *segs, unsigned int n,
                    size_t skip, void *to, size_t len)
{
        uint8_t *dst = to;
        size_t done = 0;

        for (unsigned int i = 0; i < n && done < len; i++) {
                size_t here;

                if (skip >= segs[i].len) {
                        skip -= segs[i].len;
                        continue;
                }
                here = segs[i].len - skip;
                if (here > len - done)
                        here = len - done;
                if (fe_memory_read(m, segs[i].gpa + skip, dst + done, here) < 0)
                        break;
                done += here;
                skip = 0;
        }
        return done;
}
