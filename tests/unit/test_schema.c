/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/keys.h"
#include "common/nearest.h"
#include "common/paths.h"
#include "common/printable.h"

/* A document with single quotes for double ones. */
static json_t *load(const char *text)
{
        char json[4096];
        json_t *value;

        snprintf(json, sizeof(json), "%s", text);
        for (char *p = json; *p; p++) {
                if (*p == '\'')
                        *p = '"';
        }
        value = json_loads(json, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        return value;
}

struct verdict {
        const char *document;
        const char *path, *text; /* of the only problem; NULL: there is none */
};

static void judge(const struct vql_rule *rule, const struct verdict *v)
{
        struct vql_report report = { 0 };
        json_t *value = load(v->document);

        vql_schema_check(rule, value, "", &report);
        if (!v->path && report.n)
                fail_msg("%s: %s: %s", v->document, report.problems[0].path,
                         report.problems[0].text);
        if (v->path) {
                if (report.n != 1)
                        fail_msg("%s: %zu problems", v->document, report.n);
                assert_string_equal(report.problems[0].path, v->path);
                assert_string_equal(report.problems[0].text, v->text);
        }
        vql_report_fini(&report);
        json_decref(value);
}

#define RIGHT(document)              \
        {                            \
                document, NULL, NULL \
        }
#define PORT(more) "{'name': 'a', 'socket': '/s', 'uplink': 'loopback'" more "}"

static const struct verdict ports[] = {
        RIGHT(PORT("")),
        RIGHT(PORT(", 'role': 'client'")),
        { PORT(", 'role': 'cleint'"), "role", "\"cleint\", expected \"server\" or \"client\"" },
        RIGHT(PORT(", 'queue-pairs': 1")),
        RIGHT(PORT(", 'queue-pairs': 128")),
        { PORT(", 'queue-pairs': 129"), "queue-pairs", "129, expected 1 to 128" },
        { PORT(", 'queue-pairs': 0"), "queue-pairs", "0, expected 1 to 128" },
        { PORT(", 'queue-pairs': '2'"), "queue-pairs", "\"2\", expected an integer, 1 to 128" },
        { PORT(", 'queue-pairs': 2.5"), "queue-pairs", "2.5, expected an integer, 1 to 128" },
        { PORT(", 'queue-pairs': true"), "queue-pairs", "true, expected an integer, 1 to 128" },
        { PORT(", 'queue-pairs': null"), "queue-pairs", "nothing, expected an integer, 1 to 128" },
        { PORT(", 'queue-pairs': {}"), "queue-pairs", "a mapping, expected an integer, 1 to 128" },
        { PORT(", 'queue-pairs': [1]"), "queue-pairs",
          "a list of 1, expected an integer, 1 to 128" },
        RIGHT(PORT(", 'worker': 'auto'")),
        RIGHT(PORT(", 'worker': 0")),
        { PORT(", 'worker': -1"), "worker", "-1, expected an integer, 0 to 127 or \"auto\"" },
        { PORT(", 'mtu': 67"), "mtu", "67, expected an integer, 68 to 65535 or \"auto\"" },
        RIGHT(PORT(", 'mtu': 9000")),
        RIGHT(PORT(", 'socket-mode': '660'")),
        RIGHT(PORT(", 'socket-mode': '0660'")),
        { PORT(", 'socket-mode': '0680'"), "socket-mode",
          "\"0680\", expected permissions in octal, as a string such as \"0660\"" },
        { PORT(", 'socket-mode': '4660'"), "socket-mode",
          "\"4660\", expected permissions in octal, as a string such as \"0660\"" },
        { PORT(", 'socket-mode': '0000'"), "socket-mode",
          "\"0000\", expected permissions in octal, as a string such as \"0660\"" },
        { PORT(", 'socket-mode': 660"), "socket-mode",
          "660, expected permissions in octal, as a string such as \"0660\"" },
        RIGHT(PORT(", 'socket-group': 4294967294")),
        RIGHT(PORT(", 'socket-group': 'kvm'")),
        { PORT(", 'socket-group': 'a:b'"), "socket-group",
          "\"a:b\", expected the name of a group or an integer, 0 to 4294967294" },
        { PORT(", 'features-off': ['CSUM', 1]"), "features-off[1]",
          "1, expected the name of a virtio feature" },
        { PORT(", 'queue-piars': 1"), "queue-piars", "unknown key, did you mean \"queue-pairs\"?" },
        { PORT(", 'zzzzzz': 1"), "zzzzzz",
          "unknown key, expected one of name, socket, uplink, device, role, socket-mode, "
          "socket-owner, socket-group, queue-pairs, uplink-queues, mtu, features, features-off, "
          "postcopy, worker" },
        { PORT(", '\\u00e9\\n': 1"), "???",
          "unknown key, expected one of name, socket, uplink, device, role, socket-mode, "
          "socket-owner, socket-group, queue-pairs, uplink-queues, mtu, features, features-off, "
          "postcopy, worker" },
        RIGHT("{'name': 'a', 'socket': '/s', 'device': 'sim,wire=loopback'}"),
        { "{'name': 'a', 'socket': '/s', 'device': ''}", "device",
          "\"\", expected a string of 1 to 127 bytes: a PCI address or sim, and arguments behind a "
          "comma" },
        { "{'name': 'a', 'uplink': 'l'}", "socket",
          "missing, expected an absolute path of at most 107 bytes" },
        { "{'name': '.a', 'socket': '/s', 'uplink': 'l'}", "name",
          "\".a\", expected a name of 1 to 63 letters, digits, '-', '_' and '.', a letter or "
          "digit first" },
        { "{'name': 'a/b', 'socket': '/s', 'uplink': 'l'}", "name",
          "\"a/b\", expected a name of 1 to 63 letters, digits, '-', '_' and '.', a letter or "
          "digit first" },
        { "{'name': '', 'socket': '/s', 'uplink': 'l'}", "name",
          "\"\", expected a name of 1 to 63 letters, digits, '-', '_' and '.', a letter or digit "
          "first" },
        { "{'name': 'a', 'socket': 's', 'uplink': 'l'}", "socket",
          "\"s\", expected an absolute path of at most 107 bytes" },
        { "{'name': 'a', 'socket': '/s/', 'uplink': 'l'}", "socket",
          "\"/s/\", expected an absolute path of at most 107 bytes" },
        { "{'name': 'a', 'socket': '/s\\n', 'uplink': 'l'}", "socket",
          "\"/s\\n\", expected an absolute path of at most 107 bytes" },
        { "[]", "", "a list of 0, expected the keys of a port" },
};

static const struct verdict daemons[] = {
        RIGHT("{}"),
        RIGHT("{'workers': 2}"),
        RIGHT("{'workers': [0, 1023]}"),
        { "{'workers': [1024]}", "workers[0]", "1024, expected 0 to 1023" },
        { "{'workers': []}", "workers",
          "a list of 0, expected an integer, 1 to 128 or a list of 1 to 128 CPU numbers" },
        { "{'workers': 0}", "workers",
          "0, expected an integer, 1 to 128 or a list of 1 to 128 CPU numbers" },
        { "{'memory': 63}", "memory", "63, expected 64 to 1048576" },
        RIGHT("{'huge': 'no'}"),
        { "{'huge': false}", "huge", "false, expected \"auto\" or \"no\"" },
        RIGHT("{'pci': ['0000:03:00.0', '0000:3b:1f.7']}"),
        { "{'pci': ['03:00.0']}", "pci[0]",
          "\"03:00.0\", expected a PCI address with its domain, such as 0000:03:00.0" },
        { "{'pci': ['0000:03:00.8']}", "pci[0]",
          "\"0000:03:00.8\", expected a PCI address with its domain, such as 0000:03:00.0" },
        RIGHT("{'state-dir': 'none'}"),
        { "{'state-dir': 'some'}", "state-dir",
          "\"some\", expected an absolute path of at most 255 bytes or \"none\"" },
        { "{'log-level': 'loud'}", "log-level",
          "\"loud\", expected \"error\", \"warning\", \"notice\", \"info\" or \"debug\"" },
};

static void test_verdicts(void **state)
{
        (void)state;
        for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++)
                judge(&vql_port_rule, &ports[i]);
        for (size_t i = 0; i < sizeof(daemons) / sizeof(*daemons); i++)
                judge(&vql_daemon_rule, &daemons[i]);
}

static void test_all_problems_are_told(void **state)
{
        static const char *const paths[] = { "ports[0].name", "ports[0].mtu", "ports[0].socket",
                                             "ports[1]", "other" };
        struct vql_report report = { 0 };
        json_t *value = load("{'ports': [{'name': 3, 'mtu': 1}, 4], 'other': 0}");

        (void)state;
        vql_schema_check(&vql_config_rule, value, "", &report);
        assert_int_equal(report.n, 5);
        for (size_t i = 0; i < 5; i++)
                assert_string_equal(report.problems[i].path, paths[i]);
        vql_report_fini(&report);
        json_decref(value);
}

static void test_limits_of_strings(void **state)
{
        char name[80], document[256], text[200];
        struct verdict v = { .document = document };

        (void)state;
        memset(name, 'n', sizeof(name));
        snprintf(document, sizeof(document), "{'name': '%.63s', 'socket': '/s', 'uplink': 'l'}",
                 name);
        judge(&vql_port_rule, &v);
        snprintf(document, sizeof(document), "{'name': '%.64s', 'socket': '/s', 'uplink': 'l'}",
                 name);
        snprintf(text, sizeof(text),
                 "\"%.63s...\" (64 bytes), expected a name of 1 to 63 letters, digits, '-', '_' "
                 "and '.', a letter or digit first",
                 name);
        v.path = "name";
        v.text = text;
        judge(&vql_port_rule, &v);
}

/* Every fallback of a table, and of the tables below it, passes its own rule. */
static void check_fallbacks(const struct vql_rule *rule)
{
        struct vql_report report = { 0 };

        for (; rule; rule = rule->otherwise) {
                if (rule->type == VQL_RULE_LIST)
                        check_fallbacks(rule->item);
                if (rule->type != VQL_RULE_MAP)
                        continue;
                for (const struct vql_key *key = rule->keys; key->name; key++) {
                        assert_true(strlen(key->help) > 3);
                        check_fallbacks(key->rule);
                        if (!key->fallback)
                                continue;
                        json_t *value = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
                        assert_non_null(value);
                        assert_false(key->required);
                        vql_schema_check(key->rule, value, key->name, &report);
                        assert_true(vql_report_clean(&report));
                        json_decref(value);
                }
        }
}

static void test_fallbacks(void **state)
{
        json_t *value = load("{'ports': [{'name': 'a', 'worker': 2}]}"), *port, *daemon;

        (void)state;
        check_fallbacks(&vql_config_rule);
        assert_int_equal(vql_schema_fill(&vql_config_rule, value), 0);
        port = json_array_get(json_object_get(value, "ports"), 0);
        assert_string_equal(json_string_value(json_object_get(port, "role")), "server");
        assert_int_equal(json_integer_value(json_object_get(port, "queue-pairs")), 1);
        assert_int_equal(json_integer_value(json_object_get(port, "worker")), 2);
        assert_null(json_object_get(port, "socket-mode"));
        assert_null(json_object_get(port, "socket"));
        daemon = json_object_get(value, "daemon");
        assert_string_equal(json_string_value(json_object_get(daemon, "control")),
                            VQL_DEFAULT_CONTROL);
        json_decref(value);
}

static void test_report_is_bounded(void **state)
{
        struct vql_report report = { 0 };
        json_t *value = json_object(), *list = json_array();

        (void)state;
        for (int i = 0; i < 4096; i++)
                json_array_append_new(list, json_integer(i));
        json_object_set_new(value, "ports", list);
        vql_schema_check(&vql_config_rule, value, "", &report);
        assert_int_equal(report.n + report.dropped, 4096);
        assert_true(report.n <= 100);
        assert_false(vql_report_clean(&report));
        vql_report_fini(&report);
        json_decref(value);
}

static void test_paths(void **state)
{
        char path[VQL_REPORT_PATH], longer[VQL_REPORT_PATH], huge[2000];

        (void)state;
        vql_path_key(path, "", "ports");
        vql_path_index(longer, path, 7);
        vql_path_key(path, longer, "name");
        assert_string_equal(path, "ports[7].name");
        assert_true(vql_path_up(path));
        assert_string_equal(path, "ports[7]");
        assert_true(vql_path_up(path));
        assert_string_equal(path, "ports");
        assert_true(vql_path_up(path));
        assert_string_equal(path, "");
        assert_false(vql_path_up(path));
        memset(huge, 'x', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        vql_path_key(path, "ports[7]", huge);
        assert_int_equal(strlen(path), VQL_REPORT_PATH - 1);
        vql_path_index(longer, path, 3);
        assert_string_equal(longer, path);
}

static const char *nearest(const char *typed)
{
        struct vql_nearest n;

        vql_nearest_init(&n, typed);
        vql_nearest_try(&n, "socket-mode");
        vql_nearest_try(&n, "socket");
        vql_nearest_try(&n, "mtu");
        return n.found;
}

static void test_nearest(void **state)
{
        char huge[4000];

        (void)state;
        assert_string_equal(nearest("sockt"), "socket");
        assert_string_equal(nearest("socket_mode"), "socket-mode");
        assert_null(nearest("uplink"));
        assert_null(nearest(""));
        memset(huge, 's', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        assert_null(nearest(huge));
}

static void test_printable(void **state)
{
        char text[] = "a\033[1m\x7f\xc2\x9b\xc3\xa9\n";

        (void)state;
        assert_false(vql_is_printable(text));
        vql_printable(text);
        assert_string_equal(text, "a?[1m???\xc3\xa9?");
        assert_true(vql_is_printable(text));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_verdicts),
                cmocka_unit_test(test_all_problems_are_told),
                cmocka_unit_test(test_limits_of_strings),
                cmocka_unit_test(test_fallbacks),
                cmocka_unit_test(test_report_is_bounded),
                cmocka_unit_test(test_paths),
                cmocka_unit_test(test_nearest),
                cmocka_unit_test(test_printable),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
