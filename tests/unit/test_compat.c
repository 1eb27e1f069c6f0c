/* SPDX-License-Identifier: BSD-3-Clause */
/* Which documents compat check takes, and which pairs of them may move. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "vqlift/compat.h"

static const char good[] =
        "{'format': 'vqlift-compat', 'version': 1, 'vqlift': '9', 'port': 'a',"
        " 'features': {'CSUM': 0, 'RING_PACKED': 34, 'bit-50': 50},"
        " 'protocol-features': {'MQ': 0, 'LOG_SHMFD': 1}, 'queue-pairs': 2,"
        " 'ring-size-split': 32768, 'ring-size-packed': 32768, 'memory-slots': 509,"
        " 'mtu': 1500, 'uplink-device': 'net_tap0', 'state-version': 1}";

/* The good document with one member replaced, or taken out for NULL. */
static json_t *document(const char *key, const char *value)
{
        char text[1024];
        json_t *d;

        snprintf(text, sizeof(text), "%s", good);
        for (char *c = text; *c; c++)
                *c = *c == '\'' ? '"' : *c;
        d = json_loads(text, 0, NULL);
        assert_non_null(d);
        if (key && value)
                json_object_set_new(d, key, json_loads(value, JSON_DECODE_ANY, NULL));
        else if (key)
                json_object_del(d, key);
        return d;
}

static void assert_refused(json_t *d, const char *path, const char *expected)
{
        struct vql_report report = { 0 };

        vql_compat_validate(d, &report);
        assert_false(vql_report_clean(&report));
        assert_string_equal(report.problems[0].path, path);
        assert_non_null(strstr(report.problems[0].text, expected));
        vql_report_fini(&report);
        json_decref(d);
}

static void wrong_documents_are_refused_by_key(void **state)
{
        struct vql_report report = { 0 };
        json_t *d = document("mtu", "null");

        (void)state;
        vql_compat_validate(d, &report);
        assert_true(vql_report_clean(&report));
        json_decref(d);
        assert_refused(json_array(), "format", "is missing");
        assert_refused(document("format", "\"else\""), "format", "expected \"vqlift-compat\"");
        assert_refused(document("version", "2"), "version", "2, expected 1");
        assert_refused(document("features", NULL), "features", "is missing");
        assert_refused(document("features", "[0]"), "features", "expected an object");
        assert_refused(document("features", "{\"X\": 64}"), "features.X", "expected a bit number");
        assert_refused(document("features", "{\"X\": -1}"), "features.X", "expected a bit number");
        assert_refused(document("protocol-features", "{\"X\": true}"), "protocol-features.X",
                       "expected a bit number");
        assert_refused(document("queue-pairs", "0"), "queue-pairs", "expected a number");
        assert_refused(document("queue-pairs", "1.5"), "queue-pairs", "expected a number");
        assert_refused(document("memory-slots", NULL), "memory-slots", "is missing");
        assert_refused(document("mtu", "\"x\""), "mtu", "expected a number or null");
}

/* The reasons against a move between two documents, as "key: message; ..." */
static void assert_reasons(json_t *from, json_t *to, const char *expected)
{
        json_t *reasons = vql_compat_check(from, to), *reason;
        char text[512] = "";
        size_t i;

        assert_non_null(reasons);
        json_array_foreach(reasons, i, reason)
        {
                strncat(text, json_string_value(json_object_get(reason, "key")), 64);
                strncat(text, ": ", 3);
                strncat(text, json_string_value(json_object_get(reason, "message")), 128);
                strncat(text, "; ", 3);
        }
        assert_string_equal(text, expected);
        json_decref(reasons);
        json_decref(from);
        json_decref(to);
}

static void less_may_move_to_more(void **state)
{
        (void)state;
        assert_reasons(document(NULL, NULL), document(NULL, NULL), "");
        assert_reasons(document("features", "{}"), document(NULL, NULL), "");
        assert_reasons(document("queue-pairs", "1"), document(NULL, NULL), "");
        assert_reasons(document("mtu", "1400"), document(NULL, NULL), "");
        assert_reasons(document("mtu", "9000"), document("mtu", "null"), "");
        assert_reasons(document("mtu", "null"), document(NULL, NULL), "");
        assert_reasons(document(NULL, NULL), document("state-version", "2"), "");
        assert_reasons(document("protocol-features", "{\"PAGEFAULT\": 8, \"DEVICE_STATE\": 19}"),
                       document(NULL, NULL), "");
        /* A bit is known by its number, whatever each side calls it. */
        assert_reasons(document("features", "{\"NEW\": 50}"), document(NULL, NULL), "");
}

static void more_may_not_move_to_less(void **state)
{
        (void)state;
        assert_reasons(document(NULL, NULL), document("features", "{\"CSUM\": 0}"),
                       "features: bit 34 (RING_PACKED) is not offered; "
                       "features: bit 50 (bit-50) is not offered; ");
        assert_reasons(document(NULL, NULL), document("protocol-features", "{\"MQ\": 0}"),
                       "protocol-features: bit 1 (LOG_SHMFD) is not offered; ");
        assert_reasons(document(NULL, NULL), document("queue-pairs", "1"),
                       "queue-pairs: 2, expected at most 1; ");
        assert_reasons(document(NULL, NULL), document("ring-size-split", "1024"),
                       "ring-size-split: 32768, expected at most 1024; ");
        assert_reasons(document(NULL, NULL), document("ring-size-packed", "1024"),
                       "ring-size-packed: 32768, expected at most 1024; ");
        assert_reasons(document(NULL, NULL), document("memory-slots", "8"),
                       "memory-slots: 509, expected at most 8; ");
        assert_reasons(document("mtu", "9000"), document(NULL, NULL),
                       "mtu: MTU 9000: uplink net_tap0 carries 1500; ");
        assert_reasons(document("state-version", "2"), document(NULL, NULL),
                       "state-version: 2, expected at most 1; ");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(wrong_documents_are_refused_by_key),
                cmocka_unit_test(less_may_move_to_more),
                cmocka_unit_test(more_may_not_move_to_less),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
