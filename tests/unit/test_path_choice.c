/* SPDX-License-Identifier: BSD-3-Clause */

/* Each rule and its rank, and what must hold of every answer for every combination of facts. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "port/path_choice.h"

static const char lost[] = "the device is gone";

static const struct vql_path_facts good = {
        .wish = VQL_WISH_AUTO,
        .uplink = true,
        .live = true,
        .signals_guest = true,
        .in_order = true,
        .seeks = true,
        .tells = true,
        .fits = true,
        .enabled = true,
        .kicked = true,
};

static void expect(const struct vql_path_facts *f, enum vql_path path, const char *why, bool wrap)
{
        const struct vql_path_answer a = vql_path_choose(f);

        assert_string_equal(a.why, why);
        assert_string_equal(vql_path_name(a.path), vql_path_name(path));
        assert_int_equal(a.at_wrap, wrap);
}

/* ---- the rules, from the one that comes first on ---- */

enum rule {
        NO_DEVICE,
        WISH_SOFTWARE,
        NOT_LIVE,
        DISABLED,
        BOTH_REFUSED,
        DEVICE_RULES,
        WISH_RELAY = DEVICE_RULES,
        DIRECT_REFUSED,
        TOO_LARGE,
        OUT_OF_ORDER,
        NOT_TOLD,
        NO_SIGNAL,
        NO_KICK,
        LOGGING,
        INFLIGHT,
        PENDING,
        RULES,
};

static const char *const reasons[RULES] = {
        [NO_DEVICE] = lost,
        [WISH_SOFTWARE] = "as requested",
        [NOT_LIVE] = "the device cannot stop and start one queue alone",
        [DISABLED] = "the ring is disabled",
        [BOTH_REFUSED] = "the device failed on this queue",
        [WISH_RELAY] = "as requested",
        [DIRECT_REFUSED] = "the device failed on the guest's ring",
        [TOO_LARGE] = "the ring is larger than the device can",
        [OUT_OF_ORDER] = "the device returns buffers out of order",
        [NOT_TOLD] = "the device does not tell where a packed ring stands",
        [NO_SIGNAL] = "the device cannot interrupt the guest itself",
        [NO_KICK] = "the guest does not kick by eventfd",
        [LOGGING] = "writes are logged, which the device cannot",
        [INFLIGHT] = "the front-end wants buffers in flight recorded",
        [PENDING] = "buffers of an earlier owner are not returned yet",
};

static void make_true(struct vql_path_facts *f, enum rule r)
{
        switch (r) {
        case NO_DEVICE:
                f->no_device = lost;
                break;
        case WISH_SOFTWARE:
                f->wish = VQL_WISH_SOFTWARE;
                break;
        case NOT_LIVE:
                f->live = false;
                break;
        case DISABLED:
                f->enabled = false;
                break;
        case BOTH_REFUSED:
                f->refused_direct = f->refused_relay = true;
                break;
        case WISH_RELAY:
                f->wish = VQL_WISH_RELAY;
                break;
        case DIRECT_REFUSED:
                f->refused_direct = true;
                break;
        case TOO_LARGE:
                f->fits = false;
                break;
        case OUT_OF_ORDER:
                f->in_order = false;
                break;
        case NOT_TOLD:
                f->packed = true;
                f->tells = false;
                break;
        case NO_SIGNAL:
                f->signals_guest = false;
                break;
        case NO_KICK:
                f->kicked = false;
                break;
        case LOGGING:
                f->logging = true;
                break;
        case INFLIGHT:
                f->inflight_region = true;
                break;
        default:
                f->pending = true;
        }
}

static void expect_rule(const struct vql_path_facts *f, enum rule r)
{
        if (r >= DEVICE_RULES)
                expect(f, VQL_PATH_RELAY, reasons[r], false);
        else
                expect(f, f->uplink ? VQL_PATH_SOFTWARE : VQL_PATH_HELD, reasons[r], false);
}

static void nothing_against(void **state)
{
        struct vql_path_facts f = good;

        (void)state;
        expect(&f, VQL_PATH_DIRECT, "", false);
        f.uplink = false;
        expect(&f, VQL_PATH_DIRECT, "", false);
        f.wish = VQL_WISH_DIRECT;
        expect(&f, VQL_PATH_DIRECT, "", false);
        /* It logs by itself. */
        f.logging = f.logs = true;
        expect(&f, VQL_PATH_DIRECT, "", false);
}

static void each_rule_alone(void **state)
{
        (void)state;
        for (enum rule r = 0; r < RULES; r++) {
                struct vql_path_facts f = good;

                make_true(&f, r);
                expect_rule(&f, r);
                f.uplink = false;
                expect_rule(&f, r);
                /* Where the ring stands does not matter then. */
                f.seeks = false;
                expect_rule(&f, r);
                f.initial = true;
                expect_rule(&f, r);
        }
}

/* Of two rules the one further up is told.  The two wishes exclude each other. */
static void rank_of_rules(void **state)
{
        (void)state;
        for (enum rule first = 0; first < RULES; first++)
                for (enum rule second = first + 1; second < RULES; second++) {
                        struct vql_path_facts f = good;

                        if (first == WISH_SOFTWARE && second == WISH_RELAY)
                                continue;
                        make_true(&f, second);
                        make_true(&f, first);
                        expect_rule(&f, first);
                }
}

/* A device that cannot seek starts at the beginning only, which a relay waits for. */
static void position(void **state)
{
        struct vql_path_facts f = good;

        (void)state;
        f.seeks = false;
        expect(&f, VQL_PATH_RELAY, "the device cannot start where the ring stands", true);
        f.wish = VQL_WISH_DIRECT;
        expect(&f, VQL_PATH_RELAY, "the device cannot start where the ring stands", true);
        f.initial = true;
        expect(&f, VQL_PATH_DIRECT, "", false);
}

/* Where a packed ring stands is read from the ring by whoever asks for the direct path. */
static void told(void **state)
{
        struct vql_path_facts f = good;

        (void)state;
        f.tells = false;
        expect(&f, VQL_PATH_DIRECT, "", false);
        f.packed = true;
        expect(&f, VQL_PATH_RELAY, reasons[NOT_TOLD], false);
        f.wish = VQL_WISH_DIRECT;
        expect(&f, VQL_PATH_DIRECT, "", false);
}

/* A relay that failed stands against the relay alone: what the device does on the guest's own ring
 * is another matter. */
static void relay_refused(void **state)
{
        struct vql_path_facts f = good;

        (void)state;
        f.refused_relay = true;
        expect(&f, VQL_PATH_DIRECT, "", false);
        f.seeks = false;
        expect(&f, VQL_PATH_SOFTWARE, "the device failed on a ring of ours", false);
        f.seeks = true;
        f.logging = true;
        expect(&f, VQL_PATH_SOFTWARE, "the device failed on a ring of ours", false);
        f.uplink = false;
        expect(&f, VQL_PATH_HELD, "the device failed on a ring of ours", false);
}

/* ---- every combination ---- */

enum { BOOLS = 17 };

static struct vql_path_facts facts_of(unsigned int bits, enum vql_path_wish wish, bool gone)
{
        bool b[BOOLS];

        for (unsigned int i = 0; i < BOOLS; i++)
                b[i] = bits >> i & 1;
        return (struct vql_path_facts){
                .wish = wish,
                .no_device = gone ? lost : NULL,
                .uplink = b[0],
                .refused_direct = b[1],
                .refused_relay = b[2],
                .live = b[3],
                .signals_guest = b[4],
                .in_order = b[5],
                .seeks = b[6],
                .logs = b[7],
                .fits = b[8],
                .enabled = b[9],
                .initial = b[10],
                .pending = b[11],
                .kicked = b[12],
                .logging = b[13],
                .inflight_region = b[14],
                .tells = b[15],
                .packed = b[16],
        };
}

/* A device on the guest's ring: it can, it was not told otherwise, and nobody misses anything. */
static void check_direct(const struct vql_path_facts *f, const struct vql_path_answer *a)
{
        assert_true(f->wish == VQL_WISH_AUTO || f->wish == VQL_WISH_DIRECT);
        assert_true(f->live && f->enabled && f->fits && f->in_order);
        assert_true(f->signals_guest && f->kicked);
        assert_true(f->seeks || f->initial);
        assert_false(f->logging && !f->logs);
        assert_true(f->tells || !f->packed || f->wish == VQL_WISH_DIRECT);
        assert_false(f->refused_direct || f->pending || f->inflight_region);
        assert_string_equal(a->why, "");
}

static void check_relay(const struct vql_path_facts *f, const struct vql_path_answer *a)
{
        assert_true(f->live && f->enabled);
        assert_false(f->refused_relay);
        assert_int_not_equal(f->wish, VQL_WISH_SOFTWARE);
        if (a->at_wrap) {
                /* With the position out of the way nothing is in the way. */
                struct vql_path_facts there = *f;

                assert_false(f->seeks || f->initial);
                there.initial = true;
                assert_int_equal(vql_path_choose(&there).path, VQL_PATH_DIRECT);
        }
}

static void check(const struct vql_path_facts *f)
{
        const struct vql_path_answer a = vql_path_choose(f);
        struct vql_path_facts other = *f;

        assert_non_null(a.why);
        assert_true(a.path != VQL_PATH_NONE && a.path < VQL_PATHS);
        assert_true(!a.at_wrap || a.path == VQL_PATH_RELAY);
        if (a.path == VQL_PATH_DIRECT)
                check_direct(f, &a);
        else
                assert_true(a.why[0]);
        if (a.path == VQL_PATH_RELAY)
                check_relay(f, &a);
        if (f->no_device)
                assert_ptr_equal(a.why, f->no_device);
        /* An uplink decides between software and waiting, and nothing else. */
        assert_int_equal(a.path == VQL_PATH_HELD,
                         !f->uplink && a.path != VQL_PATH_DIRECT && a.path != VQL_PATH_RELAY);
        other.uplink = !f->uplink;
        if (a.path == VQL_PATH_HELD)
                assert_int_equal(vql_path_choose(&other).path, VQL_PATH_SOFTWARE);
        else if (a.path != VQL_PATH_SOFTWARE)
                assert_int_equal(vql_path_choose(&other).path, a.path);
}

static void every_combination(void **state)
{
        unsigned int direct = 0;

        (void)state;
        for (unsigned int bits = 0; bits < 1u << BOOLS; bits++)
                for (enum vql_path_wish w = VQL_WISH_AUTO; w <= VQL_WISH_DIRECT; w++)
                        for (int gone = 0; gone < 2; gone++) {
                                const struct vql_path_facts f = facts_of(bits, w, gone);

                                check(&f);
                                direct += vql_path_choose(&f).path == VQL_PATH_DIRECT;
                        }
        /* Uplink and a refused relay are free; seek or initial: 3 of 4; logging and logs: 3 of 4;
         * tells and packed: 3 of 4 of their own accord, all on request; all else is fixed. */
        assert_int_equal(direct, 2 * 2 * 3 * 3 * (3 + 4));
}

/* ---- names ---- */

static void names(void **state)
{
        static const char *const paths[VQL_PATHS] = { "none", "software", "relay", "direct",
                                                      "held" };
        static const char *const bad[] = {
                "", "Direct", "direct ", "held", "none", "software,",
        };

        (void)state;
        for (enum vql_path p = 0; p < VQL_PATHS; p++)
                assert_string_equal(vql_path_name(p), paths[p]);
        for (enum vql_path_wish w = VQL_WISH_AUTO; w <= VQL_WISH_DIRECT; w++)
                assert_int_equal(vql_path_wish_from_name(vql_path_wish_name(w)), w);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(vql_path_wish_from_name(bad[i]), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_against),
                cmocka_unit_test(each_rule_alone),
                cmocka_unit_test(rank_of_rules),
                cmocka_unit_test(position),
                cmocka_unit_test(told),
                cmocka_unit_test(relay_refused),
                cmocka_unit_test(every_combination),
                cmocka_unit_test(names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
