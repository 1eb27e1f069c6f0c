/* SPDX-License-Identifier: BSD-3-Clause */
/* What passes from one owner of a queue to the next. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "virtqueue/queue_state.h"

static struct vql_queue_state sound(bool packed)
{
        return (struct vql_queue_state){
                .version = VQL_QUEUE_STATE_VERSION,
                .size = 256,
                .packed = packed,
                .at = { 7, 5, packed, packed },
                .in_flight = 2,
                .owes_signal = true,
        };
}

static void expect_same(const struct vql_queue_state *a, const struct vql_queue_state *b)
{
        assert_int_equal(a->version, b->version);
        assert_int_equal(a->size, b->size);
        assert_int_equal(a->packed, b->packed);
        assert_int_equal(a->at.avail, b->at.avail);
        assert_int_equal(a->at.used, b->at.used);
        assert_int_equal(a->at.avail_wrap, b->at.avail_wrap);
        assert_int_equal(a->at.used_wrap, b->at.used_wrap);
        assert_int_equal(a->in_flight, b->in_flight);
        assert_int_equal(a->owes_signal, b->owes_signal);
}

struct spoil {
        bool packed;
        struct vql_cursor at;
        uint16_t size, in_flight, version;
        const char *says; /* NULL: it is fine */
};

static const struct spoil spoils[] = {
        { false, { 7, 5, 0, 0 }, 256, 2, 1, NULL },
        { false, { 1, 65535, 0, 0 }, 256, 2, 1, NULL },
        { false, { 256, 0, 0, 0 }, 256, 256, 1, NULL },
        { false, { 257, 0, 0, 0 }, 256, 257, 1, "257 from used to available" },
        { false, { 5, 7, 0, 0 }, 256, 65534, 1, "65534 from used" },
        { false, { 7, 5, 0, 0 }, 256, 1, 1, "2 from used to available with 1 in flight" },
        { false, { 7, 5, 0, 0 }, 100, 2, 1, "split ring size 100" },
        { false, { 7, 5, 0, 0 }, 0, 2, 1, "ring size 0" },
        { false, { 7, 5, 0, 0 }, 256, 2, 2, "version 2" },
        { true, { 7, 5, 1, 1 }, 100, 2, 1, NULL },
        { true, { 1, 99, 0, 1 }, 100, 2, 1, NULL },
        { true, { 5, 5, 0, 1 }, 100, 100, 1, NULL },
        { true, { 6, 5, 0, 1 }, 100, 101, 1, "101 from used" },
        { true, { 4, 5, 1, 1 }, 100, 0, 1, "-1 from used" },
        { true, { 100, 5, 1, 1 }, 100, 95, 1, "available slot 100" },
        { true, { 7, 100, 1, 0 }, 100, 7, 1, "used slot 100" },
        { true, { 7, 5, 2, 1 }, 100, 2, 1, "wrap counters 2 and 1" },
        { true, { 7, 5, 1, 255 }, 100, 2, 1, "wrap counters 1 and 255" },
        { true, { 7, 5, 1, 1 }, 32769, 2, 1, "ring size 32769" },
};

static void one_maker_checks_everything(void **state)
{
        (void)state;
        for (const struct spoil *p = spoils; p < spoils + sizeof(spoils) / sizeof(*spoils); p++) {
                const struct vql_queue_state raw = {
                        p->version, p->size, p->packed, p->at, p->in_flight, false,
                };
                struct vql_queue_state s = { .size = 0x1234 };
                struct vql_error e = { "" };
                int rc = vql_queue_state_make(&raw, &s, &e);

                if (!p->says) {
                        assert_int_equal(rc, 0);
                        expect_same(&s, &raw);
                        continue;
                }
                assert_int_equal(rc, -EINVAL);
                if (!strstr(e.text, p->says))
                        fail_msg("'%s', expected '%s' in it", e.text, p->says);
                assert_int_equal(s.size, 0x1234);
        }
}

static void bytes_come_back(void **state)
{
        (void)state;
        for (int packed = 0; packed < 2; packed++) {
                const struct vql_queue_state s = sound(packed);
                uint8_t bytes[VQL_QUEUE_STATE_BYTES];
                struct vql_queue_state back;

                vql_queue_state_write(&s, bytes);
                assert_int_equal(vql_queue_state_read(bytes, &back, NULL), 0);
                expect_same(&back, &s);
        }
}

/* The layout is a promise to other versions: it is written down here a second time. */
static void bytes_are_as_promised(void **state)
{
        static const uint8_t want[VQL_QUEUE_STATE_BYTES] = { 1, 0, 0, 1, 3, 0, 2,
                                                             0, 7, 0, 5, 0, 1, 1 };
        const struct vql_queue_state s = sound(true);
        uint8_t bytes[VQL_QUEUE_STATE_BYTES];
        struct vql_queue_state back;
        struct vql_error e;

        (void)state;
        vql_queue_state_write(&s, bytes);
        assert_memory_equal(bytes, want, sizeof(want));
        for (int i = 14; i < VQL_QUEUE_STATE_BYTES; i++) {
                bytes[i] = 1;
                assert_int_equal(vql_queue_state_read(bytes, &back, &e), -EINVAL);
                bytes[i] = 0;
        }
        bytes[4] = 4;
        assert_int_equal(vql_queue_state_read(bytes, &back, &e), -EINVAL);
        assert_non_null(strstr(e.text, "flags 0x0004"));
}

static void bases_are_canonical_states(void **state)
{
        struct vql_queue_state s;
        struct vql_error e;

        (void)state;
        assert_int_equal(vql_queue_state_from_base(65530, false, 256, &s, NULL), 0);
        assert_int_equal(s.at.used, 65530);
        assert_int_equal(s.in_flight, 0);
        assert_true(s.owes_signal);
        assert_int_equal(vql_queue_state_to_base(&s), 65530);

        /* Used counts where the two differ: what was not returned is taken again. */
        assert_int_equal(vql_queue_state_from_base(0x80058007, true, 256, &s, NULL), 0);
        assert_int_equal(s.at.avail, 5);
        assert_int_equal(vql_queue_state_to_base(&s), 0x80058005);
        assert_int_equal(vql_queue_state_from_base(0x81008100, true, 256, &s, &e), -EINVAL);
        assert_int_equal(vql_queue_state_from_base(3, false, 3, &s, &e), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(one_maker_checks_everything),
                cmocka_unit_test(bytes_come_back),
                cmocka_unit_test(bytes_are_as_promised),
                cmocka_unit_test(bases_are_canonical_states),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
