/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/faults.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Stores between two yields: enough to hit between two reads, few enough for two cores. */
enum { BURST = 64 };

struct fe_flipper {
        pthread_t thread;
        atomic_bool stop;
        void *word;
        unsigned int bytes;
        uint64_t value[2];
};

static void store(const struct fe_flipper *f, uint64_t value)
{
        switch (f->bytes) {
        case 1:
                __atomic_store_n((uint8_t *)f->word, (uint8_t)value, __ATOMIC_RELAXED);
                break;
        case 2:
                __atomic_store_n((uint16_t *)f->word, (uint16_t)value, __ATOMIC_RELAXED);
                break;
        case 4:
                __atomic_store_n((uint32_t *)f->word, (uint32_t)value, __ATOMIC_RELAXED);
                break;
        default:
                __atomic_store_n((uint64_t *)f->word, value, __ATOMIC_RELAXED);
        }
}

static void *flip(void *arg)
{
        struct fe_flipper *f = arg;

        while (!f->stop) {
                for (unsigned int i = 0; i < BURST; i++)
                        store(f, f->value[i % 2]);
                sched_yield();
        }
        store(f, f->value[0]);
        return NULL;
}

int fe_flipper_start(void *word, unsigned int bytes, uint64_t a, uint64_t b,
                     struct fe_flipper **ret_flipper)
{
        struct fe_flipper *f = calloc(1, sizeof(*f));
        int err;

        if (!f)
                return -ENOMEM;
        f->word = word;
        f->bytes = bytes;
        f->value[0] = a;
        f->value[1] = b;
        err = pthread_create(&f->thread, NULL, flip, f);
        if (err) {
                free(f);
                return -err;
        }
        *ret_flipper = f;
        return 0;
}

void fe_flipper_stop(struct fe_flipper *f)
{
        if (!f)
                return;
        f->stop = true;
        pthread_join(f->thread, NULL);
        free(f);
}
