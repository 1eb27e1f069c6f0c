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
        assert_int_equal(vql_offer_make(1, 0, 0, &o, NULL), 0);
        assert_false(vql_has(o.features, VIRTIO_NET_F_MQ));
        assert_int_equal(o.max_rings, 2);
        assert_int_equal(vql_offer_make(4, 0, 0, &o, NULL), 0);
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
        assert_int_equal(vql_offer_make(2, 0, vql_bit(VIRTIO_NET_F_CSUM), &o, NULL), 0);
        assert_false(vql_has(o.features, VIRTIO_NET_F_CSUM));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_TSO4));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_TSO6));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_ECN));
        assert_false(vql_has(o.features, VIRTIO_NET_F_HOST_USO));
        assert_true(vql_has(o.features, VIRTIO_NET_F_GUEST_TSO4));
        assert_int_equal(vql_offer_make(2, 0, vql_bit(VIRTIO_NET_F_CTRL_VQ), &o, NULL), 0);
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
        assert_int_equal(vql_offer_make(1, 0, vql_bit(VIRTIO_NET_F_GUEST_UFO), &o, &e), -EINVAL);
        assert_non_null(strstr(e.text, "GUEST_UFO"));
        assert_int_equal(vql_offer_make(1, 0, vql_bit(VQL_F_LOG_ALL), &o, &e), -EINVAL);
        assert_non_null(strstr(e.text, "LOG_ALL"));
}

static void a_profile_is_offered_or_refused(void **state)
{
        const uint64_t only = vql_bit(VIRTIO_F_VERSION_1) | vql_bit(VIRTIO_NET_F_CSUM) |
                              vql_bit(VIRTIO_NET_F_MQ) | vql_bit(VIRTIO_NET_F_CTRL_VQ);
        const uint64_t vhost = vql_bit(VQL_F_LOG_ALL) | vql_bit(VQL_F_PROTOCOL_FEATURES);
        struct vql_error e;
        struct vql_offer o;

        (void)state;
        assert_int_equal(vql_offer_make(2, only, 0, &o, &e), 0);
        assert_true(o.features == (only | vhost));
        /* What a dump lists may be given back as it is. */
        assert_int_equal(vql_offer_make(2, only | vhost, 0, &o, &e), 0);
        assert_true(o.features == (only | vhost));
        assert_int_equal(vql_offer_make(2, only, vql_bit(VIRTIO_NET_F_CSUM), &o, &e), 0);
        assert_false(vql_has(o.features, VIRTIO_NET_F_CSUM));
        assert_int_equal(vql_offer_make(1, only, 0, &o, &e), 0);
        assert_false(vql_has(o.features, VIRTIO_NET_F_MQ));
        assert_int_equal(vql_offer_make(2, only | vql_bit(VIRTIO_NET_F_GUEST_UFO), 0, &o, &e),
                         -EINVAL);
        assert_string_equal(e.text, "features: bit 10 (GUEST_UFO) is not offered");
        assert_int_equal(vql_offer_make(2, only | vql_bit(VIRTIO_NET_F_GUEST_TSO4), 0, &o, &e),
                         -EINVAL);
        assert_string_equal(e.text, "features: bit 7 (GUEST_TSO4) needs a feature that is not in "
                                    "the list");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_profile_is_offered_or_refused),
                cmocka_unit_test(one_pair_has_no_mq),
                cmocka_unit_test(off_takes_dependents_along),
                cmocka_unit_test(closure_is_stable),
                cmocka_unit_test(strange_bits_are_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
