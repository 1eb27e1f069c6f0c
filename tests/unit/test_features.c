/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "virtqueue/features.h"

struct known {
        const char *name;
        unsigned int bit;
};

#define NET(name)                          \
        {                                  \
#name, VIRTIO_NET_F_##name \
        }
#define RING(name)                                  \
        {                                           \
                "RING_" #name, VIRTIO_RING_F_##name \
        }
#define BASE(name)                     \
        {                              \
#name, VIRTIO_F_##name \
        }

/* The kernel's numbers, for all names that its header in Debian 12 has. */
static const struct known known[] = {
        NET(CSUM),
        NET(GUEST_CSUM),
        NET(CTRL_GUEST_OFFLOADS),
        NET(MTU),
        NET(MAC),
        NET(GSO),
        NET(GUEST_TSO4),
        NET(GUEST_TSO6),
        NET(GUEST_ECN),
        NET(GUEST_UFO),
        NET(HOST_TSO4),
        NET(HOST_TSO6),
        NET(HOST_ECN),
        NET(HOST_UFO),
        NET(MRG_RXBUF),
        NET(STATUS),
        NET(CTRL_VQ),
        NET(CTRL_RX),
        NET(CTRL_VLAN),
        NET(CTRL_RX_EXTRA),
        NET(GUEST_ANNOUNCE),
        NET(MQ),
        NET(CTRL_MAC_ADDR),
        NET(NOTF_COAL),
        NET(GUEST_USO4),
        NET(GUEST_USO6),
        NET(HOST_USO),
        NET(HASH_REPORT),
        NET(RSS),
        NET(RSC_EXT),
        NET(STANDBY),
        NET(SPEED_DUPLEX),
        RING(INDIRECT_DESC),
        RING(EVENT_IDX),
        BASE(NOTIFY_ON_EMPTY),
        BASE(ANY_LAYOUT),
        BASE(VERSION_1),
        BASE(ACCESS_PLATFORM),
        BASE(RING_PACKED),
        BASE(ORDER_PLATFORM),
        BASE(SR_IOV),
        BASE(RING_RESET),
        { "IN_ORDER", 35 },
        { "LOG_ALL", VQL_F_LOG_ALL },
        { "PROTOCOL_FEATURES", VQL_F_PROTOCOL_FEATURES },
};

static void test_names_match_the_kernel(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                assert_string_equal(vql_feature_name(known[i].bit), known[i].name);
                assert_int_equal(vql_feature_bit(known[i].name), known[i].bit);
        }
}

static void test_names_lead_back_to_their_bits(void **state)
{
        unsigned int names = 0;

        (void)state;
        for (unsigned int bit = 0; bit < 64; bit++) {
                const char *name = vql_feature_name(bit);

                if (!name)
                        continue;
                names++;
                assert_int_equal(vql_feature_bit(name), bit);
        }
        assert_true(names >= sizeof(known) / sizeof(known[0]));
}

static void test_case_does_not_matter(void **state)
{
        (void)state;
        assert_int_equal(vql_feature_bit("ring_packed"), 34);
        assert_int_equal(vql_feature_bit("Mrg_RxBuf"), 15);
}

static void test_unknown(void **state)
{
        static const char *const unknown[] = {
                "",          "MRG_RXBUF ", "MRG_RXBU", "VIRTIO_NET_F_MRG_RXBUF", "F_VERSION_1",
                "EVENT_IDX", "15"
        };
        static const unsigned int bits[] = { 4, 25, 31, 42, 49, 58, 64, 65, 1000, UINT32_MAX };

        (void)state;
        for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
                assert_int_equal(vql_feature_bit(unknown[i]), -ENOENT);
        for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
                assert_null(vql_feature_name(bits[i]));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names_match_the_kernel),
                cmocka_unit_test(test_names_lead_back_to_their_bits),
                cmocka_unit_test(test_case_does_not_matter),
                cmocka_unit_test(test_unknown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
