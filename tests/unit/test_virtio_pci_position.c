/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Positions from memory: a driver and a device work on a ring as real ones do, and after each step
 * the position that the memory shows is compared with the device's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "drivers/virtio_pci/position.h"
#include "virtqueue/ring.h"

enum { MAX_SIZE = 64, STEPS = 4000 };

struct place {
        uint16_t slot;
        uint8_t wrap;
};

/* A packed ring with both its ends.  Ids that came back are taken again as from a stack (Linux), or
 * in the order in which they came (DPDK). */
struct world {
        bool fifo;
        uint16_t kind; /* VRING_DESC_F_WRITE: buffers to receive into */
        struct vring_packed_desc ring[MAX_SIZE];
        uint16_t size, longest;
        struct place driver, device;
        uint16_t out[MAX_SIZE]; /* lengths of the chains that are out, by order */
        uint16_t out_ids[MAX_SIZE];
        uint16_t n_out, slots_out;
        uint16_t ids[MAX_SIZE], n_ids;
        unsigned int seed, sure, asked;
};

static void step(struct world *w, struct place *p, uint16_t by)
{
        p->slot = (uint16_t)(p->slot + by);
        if (p->slot >= w->size) {
                p->slot = (uint16_t)(p->slot - w->size);
                p->wrap = !p->wrap;
        }
}

static void world_init(struct world *w, uint16_t size, uint16_t longest, unsigned int seed)
{
        memset(w, 0, sizeof(*w));
        w->size = size;
        w->longest = longest;
        w->seed = seed;
        w->driver.wrap = w->device.wrap = 1;
        for (uint16_t i = 0; i < size; i++)
                w->ids[w->n_ids++] = (uint16_t)(size - 1 - i);
}

static void offer(struct world *w, uint16_t n)
{
        uint16_t id;

        if (w->slots_out + n > w->size)
                return;
        id = w->fifo ? w->ids[0] : w->ids[w->n_ids - 1];
        w->n_ids--;
        if (w->fifo)
                memmove(w->ids, w->ids + 1, w->n_ids * sizeof(w->ids[0]));
        w->out[w->n_out] = n;
        w->out_ids[w->n_out++] = id;
        w->slots_out = (uint16_t)(w->slots_out + n);
        for (uint16_t i = 0; i < n; i++) {
                uint16_t flags = w->kind | (w->driver.wrap ? VQL_PACKED_AVAIL : VQL_PACKED_USED);

                if (i + 1 < n)
                        flags |= VRING_DESC_F_NEXT;
                w->ring[w->driver.slot] = (struct vring_packed_desc){ 0x1000 + id, 64, id, flags };
                step(w, &w->driver, 1);
        }
}

static void complete(struct world *w)
{
        struct vring_packed_desc *d = &w->ring[w->device.slot];

        if (w->n_out == 0)
                return;
        d->id = w->out_ids[0];
        d->len = 0;
        d->flags = w->kind;
        d->flags |= w->device.wrap ? VQL_PACKED_AVAIL | VQL_PACKED_USED : 0;
        w->ids[w->n_ids++] = w->out_ids[0];
        step(w, &w->device, w->out[0]);
        w->slots_out = (uint16_t)(w->slots_out - w->out[0]);
        w->n_out--;
        memmove(w->out, w->out + 1, w->n_out * sizeof(w->out[0]));
        memmove(w->out_ids, w->out_ids + 1, w->n_out * sizeof(w->out_ids[0]));
}

/* Sure and wrong must never come together. */
static void look(struct world *w)
{
        struct vql_position at;

        w->asked++;
        if (!vql_vpci_position_packed(w->ring, w->size, &at))
                return;
        w->sure++;
        assert_int_equal(at.used, w->device.slot);
        assert_int_equal(at.used_wrap, w->device.wrap);
        assert_int_equal(at.avail, at.used);
        assert_int_equal(at.avail_wrap, at.used_wrap);
}

static void run(struct world *w, int offers_of_ten)
{
        look(w);
        for (int i = 0; i < STEPS; i++) {
                if (rand_r(&w->seed) % 10 < offers_of_ten)
                        offer(w, (uint16_t)(1 + rand_r(&w->seed) % w->longest));
                else
                        complete(w);
                look(w);
        }
}

static void test_never_wrong(void **state)
{
        static const uint16_t sizes[] = { 1, 2, 3, 8, 64 };
        struct world w;

        (void)state;
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                for (uint16_t longest = 1; longest <= 4 && longest <= sizes[s]; longest++) {
                        for (int offers = 3; offers <= 8; offers++) {
                                world_init(&w, sizes[s], longest, (unsigned int)offers);
                                run(&w, offers);
                                world_init(&w, sizes[s], longest, (unsigned int)offers);
                                w.fifo = true;
                                run(&w, offers);
                        }
                }
        }
}

/* Receive queues, of which all buffers but the newest few are out: the usual case is certain. */
static void test_receive_queue_is_certain(void **state)
{
        struct world w;

        (void)state;
        world_init(&w, 64, 1, 1);
        w.kind = VRING_DESC_F_WRITE;
        look(&w);
        for (int i = 0; i < 64; i++)
                offer(&w, 1);
        for (int i = 0; i < STEPS; i++) {
                for (int n = rand_r(&w.seed) % 20; n > 0; n--)
                        complete(&w);
                look(&w);
                while (w.slots_out < 64)
                        offer(&w, 1);
                look(&w);
        }
        assert_int_equal(w.sure, w.asked);
}

/* A driver that always has several packets out takes no id again at once, unless it is alone. */
static void test_one_at_a_time_is_certain_when_idle(void **state)
{
        struct world w;

        (void)state;
        world_init(&w, 64, 1, 1);
        for (int i = 0; i < STEPS; i++) {
                offer(&w, 1);
                complete(&w);
                look(&w);
        }
        assert_int_equal(w.sure, w.asked);
}

static void test_the_rest_of_a_chain_is_not_certain(void **state)
{
        struct vql_position at;
        struct world w;

        (void)state;
        world_init(&w, 8, 2, 1);
        offer(&w, 2);
        complete(&w);
        assert_false(vql_vpci_position_packed(w.ring, w.size, &at));
        assert_int_equal(at.used, 1);
}

static void test_new_ring(void **state)
{
        struct vring_packed_desc ring[8] = { { 0 } };
        struct vql_position at;

        (void)state;
        assert_true(vql_vpci_position_packed(ring, 8, &at));
        assert_int_equal(at.used, 0);
        assert_int_equal(at.used_wrap, 1);
}

/* A guest may write anything there: the answer is some place in the ring. */
static void test_garbage(void **state)
{
        struct vring_packed_desc ring[MAX_SIZE];
        unsigned int seed = 1;

        (void)state;
        for (int round = 0; round < STEPS; round++) {
                uint16_t size = (uint16_t)(1 + rand_r(&seed) % MAX_SIZE);
                struct vql_position at;

                for (size_t i = 0; i < sizeof(ring); i++)
                        ((uint8_t *)ring)[i] = (uint8_t)rand_r(&seed);
                vql_vpci_position_packed(ring, size, &at);
                assert_true(at.used < size && at.used_wrap <= 1);
        }
}

static void test_split(void **state)
{
        struct vring_used used = { .idx = 0xfffe };
        struct vql_position at;

        (void)state;
        vql_vpci_position_split(&used, &at);
        assert_int_equal(at.avail, 0xfffe);
        assert_int_equal(at.used, 0xfffe);
        assert_int_equal(at.avail_wrap, 0);
        assert_int_equal(at.used_wrap, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_never_wrong),
                cmocka_unit_test(test_receive_queue_is_certain),
                cmocka_unit_test(test_one_at_a_time_is_certain_when_idle),
                cmocka_unit_test(test_the_rest_of_a_chain_is_not_certain),
                cmocka_unit_test(test_new_ring),
                cmocka_unit_test(test_garbage),
                cmocka_unit_test(test_split),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
