/* SPDX-License-Identifier: BSD-3-Clause */
/* From a session's wish to a running queue: translation, checks, positions. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "port/offer.h"
#include "port/ring.h"
#include "virtqueue/features.h"

enum { GPA = 0x100000, UVA = 0x70000000, BYTES = 1 << 20, SIZE = 256 };

static struct vql_offer offer;
static struct vql_session s;
static struct vql_ring *ring;

static struct vring_used *used_ring(void)
{
        return vql_mem_uva(s.mem, s.vring[1].used_uva, 6, NULL);
}

/* Give the session memory at a front-end address, in place of what it has. */
static int set_memory(uint64_t uva)
{
        const struct vql_region_desc d = { GPA, BYTES, uva, 0 };
        int fd = memfd_create("ring", MFD_CLOEXEC);
        struct vql_region *r;
        int rc;

        if (fd < 0 || ftruncate(fd, BYTES) < 0 || vql_region_map(&d, fd, -1, &r, NULL) < 0)
                return -1;
        close(fd);
        vql_mem_table_put(s.mem);
        rc = vql_mem_table_new(&r, 1, &s.mem, NULL);
        vql_region_put(r);
        return rc;
}

/* A session with memory, and ring 1 as a front-end would set it up. */
static int setup(void **state)
{
        (void)state;
        vql_offer_make(1, 0, 0, &offer, NULL);
        vql_session_init(&s, &offer, NULL, NULL, NULL, -1);
        if (set_memory(UVA) < 0)
                return -1;
        s.features_set = true;
        s.features = vql_bit(VIRTIO_F_VERSION_1);
        s.vring[1].num = SIZE;
        s.vring[1].desc_uva = UVA;
        s.vring[1].avail_uva = UVA + 0x4000;
        s.vring[1].used_uva = UVA + 0x8000;
        s.vring[1].addr_set = s.vring[1].base_set = s.vring[1].kick_set = true;
        ring = aligned_alloc(VQL_CACHE_LINE, sizeof(*ring));
        memset(ring, 0, sizeof(*ring));
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        vql_session_fini(&s);
        free(ring);
        return 0;
}

static void wanted_needs_all_parts(void **state)
{
        struct vql_vring *v = &s.vring[1];

        (void)state;
        assert_true(vql_ring_wanted(&s, 1));
        assert_false(vql_ring_wanted(&s, 0));
        v->kick_set = false;
        assert_false(vql_ring_wanted(&s, 1));
        v->kick_set = true;
        v->addr_set = false;
        assert_false(vql_ring_wanted(&s, 1));
        v->addr_set = true;
        v->num = 0;
        assert_false(vql_ring_wanted(&s, 1));
        v->num = SIZE;
        s.features_set = false;
        assert_false(vql_ring_wanted(&s, 1));
}

/* Buffers that a dead back-end had in hand are taken again, those it returned are not. */
static void split_position_is_in_memory(void **state)
{
        (void)state;
        s.vring[1].base = 65535;
        used_ring()->idx = 65530;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, NULL), 0);
        assert_int_equal(ring->q.last_avail, 65530);
        assert_int_equal(ring->q.last_used, 65530);
        assert_int_equal(ring->state, VQL_RING_RUNNING);
        assert_false(ring->q.rx);
        assert_string_equal(ring->instance->name, "split-tx");
        assert_int_equal(ring->q.device_gpa, GPA + 0x8000);
        assert_int_equal(vql_ring_stop(ring).at.avail, 65530);
        assert_int_equal(ring->state, VQL_RING_STOPPED);
}

static void packed_positions(void **state)
{
        (void)state;
        s.features |= vql_bit(VIRTIO_F_RING_PACKED);
        s.vring[1].base = 0x80050005;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, NULL), 0);
        assert_int_equal(ring->q.last_avail, 5);
        /* Buffers behind the used position were not returned: they are taken again. */
        assert_int_equal(ring->q.avail_wrap, 1);
        vql_ring_stop(ring);
        s.vring[1].base = SIZE | (uint32_t)SIZE << 16;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, NULL), -EINVAL);
        /* A front-end that never says where to begin means the beginning. */
        s.vring[1].base = 0;
        s.vring[1].base_set = false;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, NULL), 0);
        assert_int_equal(ring->q.last_avail, 0);
        assert_int_equal(ring->q.avail_wrap, 1);
        vql_ring_stop(ring);
}

static void bad_areas_are_named(void **state)
{
        struct vql_error e;

        (void)state;
        s.vring[1].desc_uva = UVA + 8;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), -EINVAL);
        assert_non_null(strstr(e.text, "descriptor table"));
        s.vring[1].desc_uva = UVA + BYTES - 16;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), -EFAULT);
        assert_non_null(strstr(e.text, "descriptor table"));
        s.vring[1].desc_uva = UVA;
        /* Elements fit, the event field behind them does not. */
        s.vring[1].used_uva = UVA + BYTES - SIZE * 8 - 4;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), -EFAULT);
        assert_non_null(strstr(e.text, "used ring"));
        s.vring[1].used_uva = 0;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), -EFAULT);
        assert_int_equal(ring->state, VQL_RING_STOPPED);
}

/* The front-end's addresses are aligned, but its region begins at an odd one. */
static void areas_are_aligned_here_too(void **state)
{
        struct vql_error e;

        (void)state;
        assert_int_equal(set_memory(UVA - 8), 0);
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), -EINVAL);
        assert_non_null(strstr(e.text, "descriptor table"));
        assert_non_null(strstr(e.text, "aligned to 16"));
        assert_int_equal(set_memory(UVA - 16), 0);
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), 0);
        vql_ring_stop(ring);
}

static void split_size_is_a_power_of_two(void **state)
{
        struct vql_error e;

        (void)state;
        s.vring[1].num = 100;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), -EINVAL);
        assert_non_null(strstr(e.text, "100"));
        s.features |= vql_bit(VIRTIO_F_RING_PACKED);
        s.vring[1].base = 0x80008000;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, &e), 0);
        vql_ring_stop(ring);
}

static void log_address_of_the_front_end_counts(void **state)
{
        (void)state;
        s.vring[1].log = true;
        s.vring[1].log_gpa = 0x123000;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, NULL), 0);
        assert_int_equal(ring->q.device_gpa, 0x123000);
        vql_ring_stop(ring);
        s.features |= vql_bit(VIRTIO_F_RING_PACKED);
        s.vring[1].base = 0x80008000;
        assert_int_equal(vql_ring_start(ring, &s, 1, NULL, NULL), 0);
        assert_int_equal(ring->q.device_gpa, GPA + 0x8000);
        assert_int_equal(ring->q.desc_gpa, GPA);
        vql_ring_stop(ring);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(wanted_needs_all_parts, setup, teardown),
                cmocka_unit_test_setup_teardown(split_position_is_in_memory, setup, teardown),
                cmocka_unit_test_setup_teardown(packed_positions, setup, teardown),
                cmocka_unit_test_setup_teardown(bad_areas_are_named, setup, teardown),
                cmocka_unit_test_setup_teardown(areas_are_aligned_here_too, setup, teardown),
                cmocka_unit_test_setup_teardown(split_size_is_a_power_of_two, setup, teardown),
                cmocka_unit_test_setup_teardown(log_address_of_the_front_end_counts, setup,
                                                teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
