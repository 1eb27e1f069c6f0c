/* SPDX-License-Identifier: BSD-3-Clause */
/* What ports offer, and the closure of features under their dependencies. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "port/offer.h"
#include "virtqueue/features.h"

static void one_pair_has_no_mq(void **state)
{
        struct vql_offer o;

        (void)state;
        assert_int_equal(vql_offer_make(1, 0, &o, NULL), 0);
        assert_false(vql_has(o.features, VIRTIO_NET_F_MQ));
        assert_int_equal(o.max_rings, 2);
        assert_int_equal(vql_offer_make(4, 0, &o, NULL), 0);
        assert_true(vql_has(o.features, VIRTIO_NET_F_MQ));
        assert_int_equal(o.max_rings, 8);
        assert_true(vql_has(o.features, VQL_F_PROTOCOL_FEATURES));
        assert_true(vql_has(o.features, VQL_F_LOG_ALL));
        assert_int_equal(o.max_mem_slots, 509);
}

static void off_takes_dependents_along(void **state)
{
        struct vql_offer o;

        (void)state;
        assert_int_equal(vql_offer_make(2, vql_bit(VIRTIO_NET_F_CSUM), &o, NULL), 0);
        assert_false(vql_has(o.features, VIRTIO_NET_F_CSUM));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_TSO4));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_TSO6));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_ECN));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_USO));
        assert_true(vql_has(o.features, VIRTIO_NET_F_GUEST_TSO4));
        assert_int_equal(vql_offer_make(2, vql_bit(VIRTIO_NET_F_CTRL_VQ), &o, NULL), 0);
        assert_false(vql_has(o.features, VIRTIO_NET_F_MQ));
        assert_false(vql_has(o.features, VIRTIO_NET_F_GUEST_ANNOUNCE));
}

/* Closing twice changes nothing more, whatever set it begins with. */
static void closure_is_stable(void **state)
{
        uint64_t x = 88172645463325252u;

        (void)state;
        for (int i = 0; i < 100000; i++) {
                uint64_t once;

                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                once = vql_offer_close(x);
                assert_int_equal(once & ~x, 0);
                assert_int_equal(vql_offer_close(once), once);
        }
}

static void strange_bits_are_named(void **state)
{
        struct vql_error e;
        struct vql_offer o;

        (void)state;
        assert_int_equal(vql_offer_make(1, vql_bit(VIRTIO_NET_F_GUEST_UFO), &o, &e), -EINVAL);
        assert_non_null(strstr(e.text, "GUEST_UFO"));
        assert_int_equal(vql_offer_make(1, vql_bit(VQL_F_LOG_ALL), &o, &e), -EINVAL);
        assert_non_null(strstr(e.text, "LOG_ALL"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_pair_has_no_mq),
                cmocka_unit_test(off_takes_dependents_along),
                cmocka_unit_test(closure_is_stable),
                cmocka_unit_test(strange_bits_are_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
