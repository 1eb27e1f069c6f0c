/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
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
#include "vqliftd/config.h"
#include "vqliftd/portset.h"

struct fixture {
        struct vql_logger log;
        struct vql *vql;
        struct vql_portset *set;
};

static int set_up(void **state)
{
        struct vql_params params = { .size = sizeof(params) };
        struct fixture *f = calloc(1, sizeof(*f));
        char error[64];

        f->log = (struct vql_logger){ .fd = memfd_create("log", 0), .level = LOG_DEBUG };
        params.log = vql_logger_write;
        params.log_arg = &f->log;
        if (vql_create(&params, &f->vql, error, sizeof(error)) < 0 ||
            vql_portset_new(f->vql, &f->log, &f->set) < 0)
                return -1;
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        vql_portset_free(f->set);
        vql_destroy(f->vql);
        close(f->log.fd);
        free(f);
        return 0;
}

static struct vql_config parse(const char *yaml)
{
        struct vql_report report = { 0 };
        struct vql_config config;

        assert_int_equal(vql_config_parse(yaml, strlen(yaml), &report, &config), 0);
        return config;
}

/* Apply a file; `expected` counts added, deleted, changed, kept, failed. */
static void apply(struct fixture *f, const char *yaml, const char *expected)
{
        struct vql_config config = parse(yaml);
        struct vql_portset_changes c;
        char counts[64];

        assert_int_equal(ftruncate(f->log.fd, 0), 0);
        vql_portset_apply(f->set, vql_config_ports(&config), &c);
        snprintf(counts, sizeof(counts), "%zu %zu %zu %zu %zu", c.added, c.deleted, c.changed,
                 c.kept, c.failed);
        assert_string_equal(counts, expected);
        vql_config_fini(&config);
}

/* What the library was told since the last apply(). */
static bool logged(struct fixture *f, const char *text)
{
        static char log[65536];
        ssize_t n = pread(f->log.fd, log, sizeof(log) - 1, 0);

        log[n > 0 ? n : 0] = '\0';
        /* After ftruncate() the file begins with zeros up to where writing goes on. */
        for (ssize_t i = 0; i < n; i++) {
                if (strncmp(log + i, text, strlen(text)) == 0)
                        return true;
        }
        return false;
}

static void add_by_control(struct fixture *f, const char *yaml)
{
        struct vql_config config = parse(yaml);

        assert_int_equal(vql_portset_add(f->set, json_array_get(vql_config_ports(&config), 0),
                                         VQL_ORIGIN_CONTROL),
                         0);
        vql_config_fini(&config);
}

#define P(name, more) "- {name: " name ", socket: /run/" name ", uplink: loopback" more "}\n"

static void test_reload(void **state)
{
        struct fixture *f = *state;

        apply(f, "ports:\n" P("a", "") P("b", "") P("c", ""), "3 0 0 0 0");
        apply(f, "ports:\n" P("a", "") P("b", "") P("c", ""), "0 0 0 3 0");
        assert_false(logged(f, "fake:"));

        /* A default that is spelled out is no change; the order is none either. */
        apply(f, "ports:\n" P("d", "") P("b", ", queue-pairs: 2") P("a", ", role: server"),
              "1 1 1 1 0");
        assert_false(logged(f, "fake: deleted a"));
        assert_true(logged(f, "fake: deleted b"));
        assert_true(logged(f, "fake: added b"));
        assert_true(logged(f, "fake: deleted c"));
        assert_true(logged(f, "fake: added d"));
        assert_int_equal(fake_vql_params(f->vql, "b")->queue_pairs, 2);
        assert_null(fake_vql_params(f->vql, "c"));
        apply(f, "", "0 3 0 0 0");
        assert_int_equal(vql_port_count(f->vql), 0);
}

static void test_socket_moves(void **state)
{
        struct fixture *f = *state;

        apply(f,
              "ports:\n- {name: a, socket: /x, uplink: loopback}\n"
              "- {name: b, socket: /y, uplink: loopback}\n",
              "2 0 0 0 0");
        apply(f,
              "ports:\n- {name: a, socket: /y, uplink: loopback}\n"
              "- {name: b, socket: /x, uplink: loopback}\n",
              "0 0 2 0 0");
        assert_string_equal(fake_vql_params(f->vql, "a")->socket, "/y");
}

static void test_control_and_file(void **state)
{
        struct fixture *f = *state;

        add_by_control(f, "ports:\n" P("a", ""));
        add_by_control(f, "ports:\n" P("b", ""));
        add_by_control(f, "ports:\n" P("c", ""));
        assert_string_equal(vql_portset_origin(f->set, "a"), "control");
        /* a is adopted as it is, b changed, c is none of the file's business. */
        apply(f, "ports:\n" P("a", "") P("b", ", mtu: 1400"), "0 0 1 1 0");
        assert_string_equal(vql_portset_origin(f->set, "a"), "file");
        assert_string_equal(vql_portset_origin(f->set, "b"), "file");
        assert_string_equal(vql_portset_origin(f->set, "c"), "control");
        apply(f, "", "0 2 0 0 0");
        assert_null(vql_portset_origin(f->set, "a"));
        assert_non_null(fake_vql_params(f->vql, "c"));
        /* Deleted over the control socket, a port of the file comes back with a reload. */
        apply(f, "ports:\n" P("a", ""), "1 0 0 0 0");
        assert_int_equal(vql_portset_del(f->set, "a"), 0);
        apply(f, "ports:\n" P("a", ""), "1 0 0 0 0");
}

static void test_failures(void **state)
{
        struct fixture *f = *state;
        static const char bad[] = "ports:\n" P("a", "") "- {name: x, socket: /x, uplink: 'fail:19'}"
                                                        "\n" P("b", "");

        apply(f, bad, "2 0 0 0 1");
        assert_true(logged(f, "reload: port x is not added: uplink fail:19 fails"));
        assert_null(vql_portset_origin(f->set, "x"));
        /* It is tried again each time. */
        apply(f, bad, "0 0 0 2 1");
        /* The library lost a port behind our back. */
        assert_int_equal(vql_port_del(f->vql, "b"), 0);
        apply(f, "", "0 1 0 0 1");
        assert_true(logged(f, "reload: port b is not deleted: no port b"));
}

static void test_add_twice(void **state)
{
        struct fixture *f = *state;
        struct vql_config config = parse("ports:\n" P("a", "") P("b", ", mtu: 1400"));
        json_t *other = json_deep_copy(json_array_get(vql_config_ports(&config), 1));

        apply(f, "ports:\n" P("a", ""), "1 0 0 0 0");
        json_object_set_new(other, "name", json_string("a"));
        assert_int_equal(vql_portset_add(f->set, other, VQL_ORIGIN_CONTROL), -EEXIST);
        /* The first description is still what counts. */
        apply(f, "ports:\n" P("a", ""), "0 0 0 1 0");
        json_decref(other);
        vql_config_fini(&config);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_reload),   TEST(test_socket_moves), TEST(test_control_and_file),
                TEST(test_failures), TEST(test_add_twice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
