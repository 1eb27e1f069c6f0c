/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vqliftd/config.h"

enum { OUTPUT_BYTES = 8192, MANY = 5000 };

static void append(void *arg, const char *line)
{
        char *output = arg;
        size_t used = strlen(output);

        snprintf(output + used, OUTPUT_BYTES - used, "%s\n", line);
}

/* What the daemon would print for a file of this content. */
static void problems(const char *text, size_t n, char output[OUTPUT_BYTES])
{
        struct vql_report report = { 0 };
        struct vql_config config;
        int r;

        output[0] = '\0';
        r = vql_config_parse(text, n, &report, &config);
        assert_int_equal(r == 0, vql_report_clean(&report));
        vql_report_print(&report, "F", append, output);
        vql_report_fini(&report);
        if (r == 0)
                vql_config_fini(&config);
}

static void expect(const char *text, const char *expected)
{
        char output[OUTPUT_BYTES];

        problems(text, strlen(text), output);
        assert_string_equal(output, expected);
}

static void test_right(void **state)
{
        (void)state;
        expect("", "");
        expect("# nothing\n", "");
        expect("---\n...\n", "");
        expect("ports: []\n", "");
        expect("{\"daemon\": {\"workers\": [0, 1]}}", "");
        expect("daemon:\n  workers: 1\n  huge: no\n  control: /run/x/c.sock\n"
               "ports:\n"
               "  - name: vm1\n    socket: /run/x/1\n    uplink: net_tap0,iface=t0\n"
               "    socket-mode: 0660\n    features-off: [RING_PACKED, CSUM]\n"
               "  - {name: vm2, socket: /run/x/2, uplink: loopback, role: client}\n",
               "");
}

static json_t *tree_of(const char *text)
{
        struct vql_report report = { 0 };
        struct vql_yaml yaml;

        assert_int_equal(vql_yaml_parse(text, strlen(text), &report, &yaml), 0);
        assert_true(vql_report_clean(&report));
        json_decref(yaml.places);
        return yaml.tree;
}

static void test_scalars(void **state)
{
        static const struct {
                const char *yaml, *json;
        } cases[] = {
                { "a: |\n  x\n  y\nb: >-\n  x\n  y\n", "{\"a\":\"x\\ny\\n\",\"b\":\"x y\"}" },
                { "[0, -1, 12, 1e3, 1.5, +1, -]", "[0,-1,12,\"1e3\",\"1.5\",\"+1\",\"-\"]" },
                { "[0660, 012, 0x10, 0o17, 00]", "[\"0660\",\"012\",\"0x10\",\"0o17\",\"00\"]" },
                { "[true, false, True, yes, no]", "[true,false,\"True\",\"yes\",\"no\"]" },
                { "[null, ~, Null, \"null\"]", "[null,null,\"Null\",\"null\"]" },
                { "a:\nb: ''\n", "{\"a\":null,\"b\":\"\"}" },
                { "['12', \"true\"]", "[\"12\",\"true\"]" },
                { "[0000:03:00.0, 12:30]", "[\"0000:03:00.0\",\"12:30\"]" },
                { "[9223372036854775807, -9223372036854775808]",
                  "[9223372036854775807,-9223372036854775808]" },
                { "[9223372036854775808]", "[\"9223372036854775808\"]" },
                { "[\"\\u00e9\\x41\"]", "[\"\xc3\xa9"
                                        "A\"]" },
        };
        json_t *tree;
        char *dumped;

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                tree = tree_of(cases[i].yaml);
                dumped = json_dumps(tree, JSON_COMPACT);
                assert_string_equal(dumped, cases[i].json);
                free(dumped);
                json_decref(tree);
        }
}

#define PORTS                                           \
        "ports:\n"                                      \
        "- name: a\n  socket: /a\n  uplink: loopback\n" \
        "- name: b\n  socket: /b\n  uplink: loopback\n"

static void test_places(void **state)
{
        (void)state;
        expect(PORTS "  queue-pairs: 300\n", "F:8: ports[1].queue-pairs: 300, expected 1 to 128\n");
        expect(PORTS "  queue-pairs:\n\n    300\n",
               "F:8: ports[1].queue-pairs: 300, expected 1 to 128\n");
        expect(PORTS "  features-off:\n  - CSUM\n  - CSUN\n",
               "F:10: ports[1].features-off[1]: unknown feature, did you mean \"CSUM\"?\n");
        expect(PORTS "  features-off: [NOTHING_LIKE_IT]\n",
               "F:8: ports[1].features-off[0]: \"NOTHING_LIKE_IT\", expected the name of a virtio "
               "feature, such as RING_PACKED\n");
        expect("ports:\n- name: a\n  socket: /a\n",
               "F:2: ports[0].uplink: missing, expected an uplink, or a device\n");
        expect("ports:\n- {name: a, socket: /a, device: sim}\n", "");
        expect("\n\n- 1\n", "F:3: a list of 1, expected the keys daemon and ports\n");
        expect("daemon: {memory: 1}\nprots: []\n",
               "F:1: daemon.memory: 1, expected 64 to 1048576\n"
               "F:2: prots: unknown key, did you mean \"ports\"?\n");
}

static void test_across(void **state)
{
        (void)state;
        expect(PORTS "- name: a\n  socket: /b\n  uplink: loopback\n",
               "F:8: ports[2].name: \"a\", expected a value other than that of ports[0].name\n"
               "F:9: ports[2].socket: \"/b\", expected a value other than that of "
               "ports[1].socket\n");
        expect("ports:\n- {name: a, socket: /run/vqlift/control.sock, uplink: loopback}\n",
               "F:2: ports[0].socket: \"/run/vqlift/control.sock\", expected a value other than "
               "that of daemon.control\n");
        expect(PORTS "  worker: 1\n", "F:8: ports[1].worker: 1, expected a worker, 0 to 0\n");
        expect("daemon: {workers: 3}\n" PORTS "  worker: 2\n", "");
        expect("daemon: {workers: [4, 5]}\n" PORTS "  worker: 2\n",
               "F:9: ports[1].worker: 2, expected a worker, 0 to 1\n");
        expect("daemon:\n  workers: [4, 5, 4]\n",
               "F:2: daemon.workers[2]: 4, expected each CPU once\n");
        expect(PORTS "  role: client\n  socket-mode: 0600\n",
               "F:9: ports[1].socket-mode: the socket of a client belongs to its server, expected "
               "no such key where role is \"client\"\n");
}

static void test_refused_yaml(void **state)
{
        (void)state;
        expect("daemon: {memory: 64, memory: 65}\n",
               "F:1: daemon.memory: key given twice, first on line 1\n");
        expect("daemon: &d {memory: 64}\n", "F:1: daemon: anchor &d, expected a plain value\n");
        expect("daemon: {workers: &w 1, memory: *w}\n",
               "F:1: daemon.workers: anchor &w, expected a plain value\n"
               "F:1: daemon.memory: alias *w, expected the value itself\n");
        expect("daemon: {memory: !!int 64}\n",
               "F:1: daemon.memory: tag tag:yaml.org,2002:int, expected a value without one\n");
        expect("daemon: !x {}\n", "F:1: daemon: tag !x, expected a value without one\n");
        expect("--- {}\n--- {}\n", "F:2: a second document, expected one\n");
        expect("{}\n...\nx\n", "F:3: column 1: did not find expected <document start>\n");
        expect("? [a]\n: 1\n", "F:1: a key that is not text of at most 128 bytes\n");
        expect("daemon: {log-level: \"in\\0fo\"}\n",
               "F:1: daemon.log-level: text with a NUL character, expected text without\n");
        expect("\"dae\\0mon\": 1\n", "F:1: a key that is not text of at most 128 bytes\n");
        expect("a: {a: {a: {a: {a: {a: {a: {a: {}}}}}}}}\n",
               "F:1: a.a.a.a.a.a.a.a: more than 8 levels, expected fewer\n");
}

static void test_syntax(void **state)
{
        (void)state;
        expect("daemon:\n\tworkers: 1\n",
               "F:2: column 1: while scanning for the next token: found character that cannot "
               "start any token\n");
        expect("ports: [\n", "F:2: column 1: while parsing a flow node: did not find expected "
                             "node content\n");
        expect("a: b: c\n", "F:1: column 5: mapping values are not allowed in this context\n");
        expect("daemon: \xff\n",
               "F: byte 8: invalid leading UTF-8 octet, expected YAML in UTF-8\n");
}

/* The second value of a key is skipped, and the places of the first stay. */
static void test_duplicate_of_a_list(void **state)
{
        (void)state;
        expect("ports:\n"
               "- {name: 1, socket: /a, uplink: loopback}\n"
               "ports:\n\n"
               "- {name: a, socket: /a, uplink: loopback}\n",
               "F:2: ports[0].name: 1, expected a name of 1 to 63 letters, digits, '-', '_' and "
               "'.', a letter or digit first\n"
               "F:3: ports: key given twice, first on line 1\n");
}

/* Nothing of this size may take long or much; nesting must not use up the stack. */
static void test_hostile(void **state)
{
        char output[OUTPUT_BYTES], *text = malloc(1 << 20);
        static const char *const units[] = { "[", "{a: ", "- ", "? ", "a: &b\n", "\n- a: 1\n" };

        (void)state;
        assert_non_null(text);
        for (size_t u = 0; u < sizeof(units) / sizeof(*units); u++) {
                size_t n = strlen(units[u]);

                for (size_t i = 0; i < MANY; i++)
                        memcpy(text + i * n, units[u], n);
                problems(text, MANY * n, output);
                assert_string_not_equal(output, "");
        }
        free(text);
}

static void test_files(void **state)
{
        char path[] = "/tmp/vqlift-test-yaml-XXXXXX", output[OUTPUT_BYTES] = "", line[256];
        struct vql_report report = { 0 };
        struct vql_config config;
        int fd = mkstemp(path);

        (void)state;
        assert_true(fd >= 0);
        assert_int_equal(write(fd, PORTS, strlen(PORTS)), strlen(PORTS));
        assert_int_equal(vql_config_load(path, &report, &config), 0);
        assert_int_equal(json_array_size(vql_config_ports(&config)), 2);
        assert_int_equal(vql_config_place(&config, "ports[1].name").line, 5);
        assert_int_equal(vql_config_place(&config, "ports[1].uplink").column, 3);
        vql_config_fini(&config);

        assert_int_equal(ftruncate(fd, (1 << 20) + 1), 0);
        close(fd);
        assert_true(vql_config_load(path, &report, &config) < 0);
        unlink(path);
        assert_true(vql_config_load(path, &report, &config) < 0);
        vql_report_print(&report, path, append, output);
        snprintf(line, sizeof(line),
                 "%s: longer than expected, at most 1 MiB\n"
                 "%s: cannot be read: No such file or directory\n",
                 path, path);
        assert_string_equal(output, line);
        vql_report_fini(&report);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_right),
                cmocka_unit_test(test_scalars),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_across),
                cmocka_unit_test(test_refused_yaml),
                cmocka_unit_test(test_syntax),
                cmocka_unit_test(test_duplicate_of_a_list),
                cmocka_unit_test(test_hostile),
                cmocka_unit_test(test_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
