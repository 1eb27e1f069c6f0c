/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <string.h>

static uint64_t word(uint64_t seed, uint64_t index)
{
        uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15 + index * 0xd1342543de82ef95;

        x = (x ^ (x >> 32)) * 0xda942042e4dd58b5;
        return x ^ (x >> 29);
}

static uint8_t byte(uint64_t seed, uint64_t at)
{
        return (uint8_t)(word(seed, at / 8) >> (at % 8 * 8));
}

void pattern_fill(uint8_t *buf, size_t n, uint64_t seed, uint64_t at)
{
        size_t i = 0;

        for (; i < n && (at + i) % 8 != 0; i++)
                buf[i] = byte(seed, at + i);
        for (; n - i >= 8; i += 8) {
                uint64_t w = word(seed, (at + i) / 8);

                memcpy(buf + i, &w, sizeof(w));
        }
        for (; i < n; i++)
                buf[i] = byte(seed, at + i);
}

size_t pattern_check(const uint8_t *buf, size_t n, uint64_t seed, uint64_t at)
{
        uint8_t want[4096];

        for (size_t done = 0; done < n;) {
                size_t part = n - done < sizeof(want) ? n - done : sizeof(want);

                pattern_fill(want, part, seed, at + done);
                if (memcmp(buf + done, want, part) != 0) {
                        while (buf[done] == want[done % sizeof(want)])
                                done++;
                        return done;
                }
                done += part;
        }
        return n;
}
