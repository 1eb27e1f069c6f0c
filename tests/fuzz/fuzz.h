/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

/*
 * A fuzz target is one file, fuzz_NAME.c, with the function below; libFuzzer calls it, or
 * replay_main.c with the files of corpus/NAME.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A rule that must hold for any input. */
#define FUZZ_REQUIRE(rule)                \
        do {                              \
                if (!(rule))              \
                        __builtin_trap(); \
        } while (0)

/* The input, taken from its front. */
struct fuzz_input {
        const uint8_t *at;
        size_t left;
};

/* The next n bytes; false if there are not that many. */
static inline bool fuzz_take(struct fuzz_input *in, void *ret, size_t n)
{
        if (in->left < n)
                return false;
        memcpy(ret, in->at, n);
        in->at += n;
        in->left -= n;
        return true;
}

/* The next byte, or 0. */
static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
        uint8_t b = 0;

        fuzz_take(in, &b, 1);
        return b;
}

#endif
