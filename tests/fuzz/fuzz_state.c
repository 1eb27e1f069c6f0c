/* SPDX-License-Identifier: BSD-3-Clause */

/* A device's state as it comes out of a front-end's pipe: refused, or the same bytes again. */

#include <errno.h>
#include <stdlib.h>

#include <rte_hash_crc.h>

#include "fuzz.h"
#include "port/device_state.h"

enum { SUM = 4 };

/* Put the checksum right, which no fuzzer would find by itself. */
static void sum_up(uint8_t *bytes, size_t n)
{
        const uint32_t sum = rte_hash_crc(bytes, (uint32_t)n - SUM, UINT32_MAX);

        for (unsigned int i = 0; i < SUM; i++)
                bytes[n - SUM + i] = (uint8_t)(sum >> 8 * i);
}

static void check(const uint8_t *bytes, size_t n)
{
        uint8_t again[VQL_STATE_MAX_BYTES];
        struct vql_device_state d;
        struct vql_error e = { .text = "" };
        const int rc = vql_device_state_read(bytes, n, &d, &e);

        FUZZ_REQUIRE(rc == 0 || (rc == -EBADMSG && e.text[0]));
        if (rc < 0)
                return;
        FUZZ_REQUIRE(vql_device_state_write(&d, again) == n);
        FUZZ_REQUIRE(memcmp(again, bytes, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *bytes;

        check(data, size);
        if (size < SUM || size > VQL_STATE_MAX_BYTES)
                return 0;
        /* A copy of just that size: what is read behind it is found. */
        bytes = malloc(size);
        memcpy(bytes, data, size);
        sum_up(bytes, size);
        check(bytes, size);
        free(bytes);
        return 0;
}
