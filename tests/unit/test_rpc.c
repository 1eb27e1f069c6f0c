/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_vql.h"
#include "vqliftd/rpc.h"

struct fixture {
        struct vql_logger log;
        struct vql_rpc rpc;
};

static int set_up(void **state)
{
        static const unsigned int cpus[] = { 2, 3 };
        struct vql_params params = { .size = sizeof(params),
                                     .worker_cpus = cpus,
                                     .n_worker_cpus = 2 };
        struct fixture *f = calloc(1, sizeof(*f));
        char error[64];

        f->log = (struct vql_logger){ .fd = memfd_create("log", 0), .level = LOG_DEBUG };
        if (vql_create(&params, &f->rpc.vql, error, sizeof(error)) < 0 ||
            vql_portset_new(f->rpc.vql, &f->log, &f->rpc.ports) < 0)
                return -1;
        f->rpc.log = &f->log;
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        vql_portset_free(f->rpc.ports);
        vql_destroy(f->rpc.vql);
        close(f->log.fd);
        free(f);
        return 0;
}

/* The answer to `n` bytes; NULL: none.  To be freed. */
static char *ask_bytes(struct fixture *f, const char *line, size_t n)
{
        static const struct ucred peer = { .pid = 42, .uid = 7, .gid = 8 };
        char *answer = NULL;

        assert_int_equal(vql_rpc_answer(&f->rpc, &peer, line, n, &answer), 0);
        return answer;
}

static void expect(struct fixture *f, const char *line, const char *expected)
{
        char *answer = ask_bytes(f, line, strlen(line));

        if (expected) {
                assert_non_null(answer);
                assert_string_equal(answer, expected);
        } else {
                assert_null(answer);
        }
        free(answer);
}

/* The error that answers a request with id 1. */
static void expect_error(struct fixture *f, const char *line, const char *error)
{
        char expected[2048];

        snprintf(expected, sizeof(expected), "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":%s}", error);
        expect(f, line, expected);
}

#define CALL(method, params) \
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":" params "}"
#define ADD(name, more)                                                   \
        CALL("port.add", "{\"name\":\"" name "\",\"socket\":\"/run/" name \
                         "\",\"uplink\":\"loopback\"" more "}")
#define ADDED(name) "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"name\":\"" name "\"}}"

static void test_envelope(void **state)
{
        static const struct {
                const char *line, *error; /* with id null */
        } cases[] = {
                { "[]", "-32600,\"message\":\"batches are not supported, expected one request on a "
                        "line\"" },
                { "1", "-32600,\"message\":\"expected a request object\"" },
                { "null", "-32600,\"message\":\"expected a request object\"" },
                { "{}", "-32600,\"message\":\"jsonrpc: expected \\\"2.0\\\"\"" },
                { "{\"jsonrpc\":2.0,\"method\":\"version\"}",
                  "-32600,\"message\":\"jsonrpc: expected \\\"2.0\\\"\"" },
                { "{\"jsonrpc\":\"2.0\"}", "-32600,\"message\":\"method: expected a string\"" },
                { "{\"jsonrpc\":\"2.0\",\"method\":\"version\",\"id\":[1]}",
                  "-32600,\"message\":\"id: expected a string, a number or null\"" },
                { "{\"jsonrpc\":\"2.0\",\"method\":\"version\",\"prams\":1}",
                  "-32600,\"message\":\"prams: unknown member, expected jsonrpc, id, method, "
                  "params\"" },
                { "{\"jsonrpc\":\"2.0\",\"method\":", "-32700,\"message\":\"byte 26: unexpected "
                                                      "token, expected one JSON document in "
                                                      "UTF-8\"" },
                { "{\"a\":1,\"a\":2}", "-32700,\"message\":\"byte 10: duplicate object key, "
                                       "expected one JSON document in UTF-8\"" },
                { "1 2", "-32700,\"message\":\"byte 3: end of file expected, expected one JSON "
                         "document in UTF-8\"" },
                { "\"\\u0000\"", "-32700,\"message\":\"byte 8: \\\\u0000 is not allowed without "
                                 "JSON_ALLOW_NUL, expected one JSON document in UTF-8\"" },
        };
        char expected[512];

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                snprintf(expected, sizeof(expected),
                         "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":%s}}",
                         cases[i].error);
                expect(*state, cases[i].line, expected);
        }
}

static void test_ids(void **state)
{
        static const char *const ids[] = { "1", "-1.5", "\"x\"", "null", "9223372036854775807" };
        char line[128], expected[128];

        for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
                snprintf(line, sizeof(line),
                         "{\"id\":%s,\"jsonrpc\":\"2.0\",\"method\":\"version\"}", ids[i]);
                snprintf(expected, sizeof(expected),
                         "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"version\":\"0.0.0-fake\"}}",
                         ids[i]);
                expect(*state, line, expected);
        }
        /* Notifications, right or wrong, get no answer. */
        expect(*state, "{\"jsonrpc\":\"2.0\",\"method\":\"version\"}", NULL);
        expect(*state, "{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}", NULL);
        expect(*state, "{\"jsonrpc\":\"2.0\",\"method\":\"version\",\"params\":[]}", NULL);
}

static void test_unknown_method(void **state)
{
        expect_error(*state, CALL("port.lst", "{}"),
                     "{\"code\":-32601,\"message\":\"method \\\"port.lst\\\" does not exist, did "
                     "you mean port.list\"}");
        expect_error(*state, CALL("reboot", "{}"),
                     "{\"code\":-32601,\"message\":\"method \\\"reboot\\\" does not exist, "
                     "rpc.help lists them\"}");
}

static void test_params(void **state)
{
        expect_error(*state, CALL("version", "[]"),
                     "{\"code\":-32602,\"message\":\"params: a list of 0, expected an object "
                     "without members\",\"data\":{\"path\":\"params\",\"expected\":\"an object "
                     "without members\"}}");
        expect_error(*state, CALL("version", "{\"a\":1}"),
                     "{\"code\":-32602,\"message\":\"a: unknown key, expected nothing\",\"data\":{"
                     "\"path\":\"a\",\"expected\":\"nothing\"}}");
        expect_error(*state, ADD("a", ",\"queue-pairs\":300"),
                     "{\"code\":-32602,\"message\":\"queue-pairs: 300, expected 1 to 128\",\"data\""
                     ":{\"path\":\"queue-pairs\",\"expected\":\"1 to 128\"}}");
        expect_error(*state, ADD("a", ",\"features-off\":[\"CSUM\",\"CSUN\"]"),
                     "{\"code\":-32602,\"message\":\"features-off[1]: unknown feature, did you "
                     "mean \\\"CSUM\\\"?\",\"data\":{\"path\":\"features-off[1]\",\"expected\":"
                     "\"the name of a virtio feature\"}}");
        expect_error(*state, ADD("a", ",\"worker\":2"),
                     "{\"code\":-32602,\"message\":\"worker: 2, expected a worker, 0 to 1\","
                     "\"data\":{\"path\":\"worker\",\"expected\":\"a worker, 0 to 1\"}}");
        expect_error(*state, CALL("port.del", "{}"),
                     "{\"code\":-32602,\"message\":\"name: missing, expected a name of 1 to 63 "
                     "letters, digits, '-', '_' and '.', a letter or digit first\",\"data\":{"
                     "\"path\":\"name\",\"expected\":\"a name of 1 to 63 letters, digits, '-', '_' "
                     "and '.', a letter or digit first\"}}");
        assert_int_equal(vql_port_count(((struct fixture *)*state)->rpc.vql), 0);
}

static void test_library_errors(void **state)
{
        expect_error(*state, CALL("port.show", "{\"name\":\"a\"}"),
                     "{\"code\":-32000,\"message\":\"no port a\",\"data\":{\"errno\":2,\"name\":"
                     "\"ENOENT\"}}");
        expect_error(*state, CALL("stats.get", "{\"name\":\"a\"}"),
                     "{\"code\":-32000,\"message\":\"no port a\",\"data\":{\"errno\":2,\"name\":"
                     "\"ENOENT\"}}");
        expect_error(*state,
                     CALL("port.add", "{\"name\":\"a\",\"socket\":\"/a\",\"uplink\":"
                                      "\"fail:19\"}"),
                     "{\"code\":-32000,\"message\":\"uplink fail:19 fails\",\"data\":{\"errno\":19,"
                     "\"name\":\"ENODEV\"}}");
        expect(*state, ADD("a", ""), ADDED("a"));
        expect_error(*state, ADD("a", ""),
                     "{\"code\":-32000,\"message\":\"port a exists\",\"data\":{\"errno\":17,"
                     "\"name\":\"EEXIST\"}}");
        expect(*state, CALL("port.del", "{\"name\":\"a\"}"), ADDED("a"));
        expect_error(*state, CALL("port.del", "{\"name\":\"a\"}"),
                     "{\"code\":-32000,\"message\":\"no port a\",\"data\":{\"errno\":2,\"name\":"
                     "\"ENOENT\"}}");
}

static void test_port_reaches_the_library(void **state)
{
        struct fixture *f = *state;
        const struct vql_port_params *p;

        expect(f, ADD("least", ""), ADDED("least"));
        p = fake_vql_params(f->rpc.vql, "least");
        assert_string_equal(p->socket, "/run/least");
        assert_string_equal(p->uplink, "loopback");
        assert_int_equal(p->role, VQL_SOCKET_SERVER);
        assert_int_equal(p->socket_mode, 0);
        assert_null(p->socket_owner);
        assert_int_equal(p->queue_pairs, 1);
        assert_int_equal(p->uplink_queues, 0);
        assert_int_equal(p->mtu, 0);
        assert_true(p->features_off == 0);
        assert_int_equal(p->worker, -1);

        expect(f,
               ADD("most", ",\"role\":\"server\",\"socket-mode\":\"0604\",\"socket-owner\":\"u\","
                           "\"socket-group\":4294967294,\"queue-pairs\":128,\"uplink-queues\":4,"
                           "\"mtu\":9000,\"features-off\":[\"CSUM\",\"RING_PACKED\"],\"worker\":1"),
               ADDED("most"));
        p = fake_vql_params(f->rpc.vql, "most");
        assert_int_equal(p->socket_mode, 0604);
        assert_string_equal(p->socket_owner, "u");
        assert_string_equal(p->socket_group, "4294967294");
        assert_int_equal(p->queue_pairs, 128);
        assert_int_equal(p->uplink_queues, 4);
        assert_int_equal(p->mtu, 9000);
        assert_true(p->features_off == (UINT64_C(1) << 34 | 1));
        assert_int_equal(p->worker, 1);

        expect(f, ADD("client", ",\"role\":\"client\""), ADDED("client"));
        assert_int_equal(fake_vql_params(f->rpc.vql, "client")->role, VQL_SOCKET_CLIENT);
        assert_int_equal(vql_port_count(f->rpc.vql), 3);
}

/* The result of a call, to be dropped. */
static json_t *result_of(struct fixture *f, const char *line)
{
        char *answer = ask_bytes(f, line, strlen(line));
        json_t *response, *result;

        assert_non_null(answer);
        response = json_loads(answer, 0, NULL);
        result = json_incref(json_object_get(response, "result"));
        if (!result)
                fail_msg("%s", answer);
        json_decref(response);
        free(answer);
        return result;
}

static void test_show(void **state)
{
        struct fixture *f = *state;
        json_t *port, *ring;

        expect(f, ADD("a", ",\"queue-pairs\":2"), ADDED("a"));
        port = result_of(f, CALL("port.show", "{\"name\":\"a\"}"));
        assert_string_equal(json_string_value(json_object_get(port, "name")), "a");
        assert_string_equal(json_string_value(json_object_get(port, "origin")), "control");
        assert_int_equal(json_integer_value(json_object_get(port, "connections")), 3);
        assert_true(json_is_null(json_object_get(port, "connected-us")));
        assert_true(json_is_null(json_object_get(port, "mtu-negotiated")));
        assert_true(json_is_true(json_object_get(port, "link-up")));
        assert_int_equal(json_integer_value(json_object_get(port, "link-mbps")), 10000);
        assert_string_equal(json_string_value(json_object_get(port, "uplink-mac")),
                            "02:00:00:00:00:01");
        /* A feature without a name is shown by its bit. */
        assert_string_equal(
                json_string_value(json_array_get(json_object_get(port, "features-offered"), 1)),
                "RING_PACKED");
        assert_int_equal(
                json_integer_value(json_array_get(json_object_get(port, "features-offered"), 2)),
                40);
        assert_int_equal(json_array_size(json_object_get(port, "rings")), 4);
        ring = json_array_get(json_object_get(port, "rings"), 3);
        assert_int_equal(json_integer_value(json_object_get(ring, "index")), 3);
        assert_string_equal(json_string_value(json_object_get(ring, "direction")), "tx");
        assert_true(json_is_null(json_object_get(ring, "worker")));
        json_decref(port);
}

static void test_lists(void **state)
{
        struct fixture *f = *state;
        json_t *list;

        expect(f, ADD("a", ""), ADDED("a"));
        expect(f, ADD("b", ""), ADDED("b"));
        list = result_of(f, CALL("port.list", "{}"));
        assert_int_equal(json_array_size(list), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "name")),
                            "b");
        json_decref(list);
        list = result_of(f, CALL("uplink.list", "{}"));
        assert_int_equal(json_array_size(list), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "port")),
                            "b");
        json_decref(list);
        list = result_of(f, CALL("worker.list", "{}"));
        assert_int_equal(json_array_size(list), 2);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 1), "cpu")), 3);
        assert_true(json_integer_value(json_object_get(json_array_get(list, 1), "polls")) ==
                    INT64_MAX);
        json_decref(list);
}

static void test_stats(void **state)
{
        expect(*state, ADD("a", ""), ADDED("a"));
        expect(*state, ADD("b", ""), ADDED("b"));
        expect(*state, CALL("stats.get", "{\"name\":\"b\"}"),
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{\"name\":\"b\",\"rings\":["
               "{\"index\":0,\"direction\":\"rx\",\"counters\":{\"packets\":0,\"bytes\":1,"
               "\"drops\":2}},{\"index\":1,\"direction\":\"tx\",\"counters\":{\"packets\":100,"
               "\"bytes\":101,\"drops\":102}}]}]}");
        json_t *all = result_of(*state, CALL("stats.get", "{}"));
        assert_int_equal(json_array_size(all), 2);
        json_decref(all);
}

/* What the library says in bytes that are not UTF-8 still makes a good answer. */
static void test_odd_text(void **state)
{
        json_t *port;

        expect(*state, CALL("port.add", "{\"name\":\"o\",\"socket\":\"/o\",\"uplink\":\"odd\"}"),
               ADDED("o"));
        port = result_of(*state, CALL("port.show", "{\"name\":\"o\"}"));
        assert_string_equal(json_string_value(json_object_get(port, "reason")), "?\x01 gone?");
        json_decref(port);
}

static void test_help(void **state)
{
        json_t *methods = result_of(*state, CALL("rpc.help", "{}")), *method, *param;
        size_t i, k;
        bool found = false;

        json_array_foreach(methods, i, method)
        {
                assert_true(json_string_length(json_object_get(method, "help")) > 10);
                assert_true(json_string_length(json_object_get(method, "result")) > 10);
                json_array_foreach(json_object_get(method, "params"), k, param)
                {
                        if (strcmp(json_string_value(json_object_get(param, "key")),
                                   "queue-pairs") != 0)
                                continue;
                        found = true;
                        assert_string_equal(json_string_value(json_object_get(param, "expected")),
                                            "an integer, 1 to 128");
                        assert_int_equal(json_integer_value(json_object_get(param, "default")), 1);
                }
        }
        assert_true(found);
        json_decref(methods);
}

static void test_changes_are_logged(void **state)
{
        struct fixture *f = *state;
        char log[2048] = "";

        expect(f, ADD("a", ""), ADDED("a"));
        expect_error(f, ADD("a", ""),
                     "{\"code\":-32000,\"message\":\"port a exists\",\"data\":{\"errno\":17,"
                     "\"name\":\"EEXIST\"}}");
        json_decref(result_of(f, CALL("port.list", "{}")));
        assert_true(pread(f->log.fd, log, sizeof(log) - 1, 0) > 0);
        assert_non_null(strstr(log, "port.add a by pid 42 uid 7 gid 8: done"));
        assert_non_null(strstr(log, "port.add a by pid 42 uid 7 gid 8: port a exists"));
        assert_null(strstr(log, "port.list"));
}

/* Whatever comes, an answer that is JSON and says error. */
static void expect_refusal(struct fixture *f, const char *line, size_t n)
{
        char *answer = ask_bytes(f, line, n);
        json_t *response;

        assert_non_null(answer);
        response = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(response);
        assert_non_null(json_object_get(response, "error"));
        json_decref(response);
        free(answer);
}

static void test_hostile(void **state)
{
        static const char *const lines[] = {
                "{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999999,\"method\":\"version\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"version\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000b\"}",
                CALL("port.del", "{\"name\":1e308}"),
                ADD("a", ",\"queue-pairs\":-9223372036854775808"),
                ADD("a", ",\"\xc3\xa9\":1"),
                "\"",
                "{",
                "}",
                "nul",
                "\x01",
                "{\"\":0}",
                "\xef\xbb\xbf{}",
        };
        static const char *const units[] = { "[", "{", "\"", "0", "{\"a\":" };
        enum { MANY = 1 << 20 };
        char *line = malloc(MANY);

        for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
                expect_refusal(*state, lines[i], strlen(lines[i]));
        expect_refusal(*state, "{}\0{}", 5);
        assert_non_null(line);
        for (size_t u = 0; u < sizeof(units) / sizeof(*units); u++) {
                for (size_t i = 0; i < MANY; i++)
                        line[i] = units[u][i % strlen(units[u])];
                expect_refusal(*state, line, MANY);
        }
        free(line);
        assert_int_equal(vql_port_count(((struct fixture *)*state)->rpc.vql), 0);
}

/* `n` times the same text. */
static void repeat(FILE *to, const char *text, int n)
{
        while (n-- > 0)
                fputs(text, to);
}

#define PARAMS_BEGIN "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\",\"params\":{"

/* A long unknown key of two-byte characters: the path is cut, and is still text. */
static void test_long_key(void **state)
{
        char line[2000];
        FILE *to = fmemopen(line, sizeof(line), "w");

        fputs(PARAMS_BEGIN "\"x", to);
        repeat(to, "\xc3\xa9", 500);
        fputs("\":1}}", to);
        fclose(to);
        expect_refusal(*state, line, strlen(line));
}

static void test_nested(void **state)
{
        char line[8000];
        FILE *to = fmemopen(line, sizeof(line), "w");

        fputs(PARAMS_BEGIN "\"a\":", to);
        repeat(to, "[", 1500);
        repeat(to, "]", 1500);
        fputs("}}", to);
        fclose(to);
        expect_error(*state, line,
                     "{\"code\":-32602,\"message\":\"a: unknown key, expected nothing\",\"data\":{"
                     "\"path\":\"a\",\"expected\":\"nothing\"}}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_envelope),       TEST(test_ids),
                TEST(test_unknown_method), TEST(test_params),
                TEST(test_library_errors), TEST(test_port_reaches_the_library),
                TEST(test_show),           TEST(test_lists),
                TEST(test_stats),          TEST(test_odd_text),
                TEST(test_help),           TEST(test_changes_are_logged),
                TEST(test_hostile),        TEST(test_long_key),
                TEST(test_nested),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
