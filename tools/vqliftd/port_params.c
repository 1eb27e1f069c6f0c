/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/port_params.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/nearest.h"
#include "common/schema.h"

enum { FEATURE_BITS = 64 };

static void refuse_feature(const json_t *name, const char *path, struct vql_report *report)
{
        struct vql_nearest nearest;
        const char *known;

        vql_nearest_init(&nearest, json_string_value(name));
        for (unsigned int bit = 0; bit < FEATURE_BITS; bit++) {
                known = vql_feature_to_name(bit);
                if (known)
                        vql_nearest_try(&nearest, known);
        }
        if (nearest.found)
                vql_report_add(report, path, "the name of a virtio feature",
                               "unknown feature, did you mean \"%s\"?", nearest.found);
        else
                vql_schema_refuse(report, path, name,
                                  "the name of a virtio feature, such as RING_PACKED");
}

static void check_features(const json_t *features, const char *path, struct vql_report *report)
{
        char entry[VQL_REPORT_PATH];
        json_t *name;
        size_t i;

        json_array_foreach(features, i, name)
        {
                vql_path_index(entry, path, i);
                if (json_is_string(name) && vql_feature_from_name(json_string_value(name)) < 0)
                        refuse_feature(name, entry, report);
        }
}

static void check_server_keys(const json_t *port, const char *path, struct vql_report *report)
{
        static const char *const keys[] = { "socket-mode", "socket-owner", "socket-group" };
        const char *role = json_string_value(json_object_get(port, "role"));
        char member[VQL_REPORT_PATH];

        if (!role || strcmp(role, "client") != 0)
                return;
        for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
                if (!json_object_get(port, keys[i]))
                        continue;
                vql_path_key(member, path, keys[i]);
                vql_report_add(report, member, "no such key where role is \"client\"",
                               "the socket of a client belongs to its server, expected no such "
                               "key where role is \"client\"");
        }
}

static void check_worker(const json_t *port, const char *path, unsigned int n_workers,
                         struct vql_report *report)
{
        const json_t *worker = json_object_get(port, "worker");
        char member[VQL_REPORT_PATH], expected[64];

        if (!json_is_integer(worker) || json_integer_value(worker) < (json_int_t)n_workers)
                return;
        snprintf(expected, sizeof(expected), "a worker, 0 to %u", n_workers ? n_workers - 1 : 0);
        vql_path_key(member, path, "worker");
        vql_schema_refuse(report, member, worker, expected);
}

/* Whether it is one of them alone or both: something must be there to serve the rings. */
static void check_servers(const json_t *port, const char *path, struct vql_report *report)
{
        char member[VQL_REPORT_PATH];

        if (!json_is_object(port) || json_object_get(port, "uplink") ||
            json_object_get(port, "device"))
                return;
        vql_path_key(member, path, "uplink");
        vql_report_add(report, member, "an uplink, or a device",
                       "missing, expected an uplink, or a device");
}

void vql_port_params_check(const json_t *port, const char *path, unsigned int n_workers,
                           struct vql_report *report)
{
        static const char *const lists[] = { "features", "features-off" };
        char member[VQL_REPORT_PATH];

        for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
                vql_path_key(member, path, lists[i]);
                check_features(json_object_get(port, lists[i]), member, report);
        }
        check_servers(port, path, report);
        check_server_keys(port, path, report);
        check_worker(port, path, n_workers, report);
}

static const char *get_string(const json_t *port, const char *key)
{
        return json_string_value(json_object_get(port, key));
}

/* "auto" is 0 to the library. */
static unsigned int get_number(const json_t *port, const char *key)
{
        return (unsigned int)json_integer_value(json_object_get(port, key));
}

static const char *get_account(const json_t *port, const char *key, char number[12])
{
        const json_t *account = json_object_get(port, key);

        if (!json_is_integer(account))
                return json_string_value(account);
        snprintf(number, 12, "%u", (unsigned int)json_integer_value(account));
        return number;
}

static unsigned int get_mode(const json_t *port)
{
        const char *mode = get_string(port, "socket-mode");

        return mode ? (unsigned int)strtoul(mode, NULL, 8) : 0;
}

/* "all" is 0 to the library. */
static uint64_t get_features(const json_t *port, const char *key)
{
        uint64_t features = 0;
        json_t *name;
        size_t i;
        int bit;

        json_array_foreach(json_object_get(port, key), i, name)
        {
                bit = vql_feature_from_name(json_string_value(name));
                if (bit >= 0)
                        features |= UINT64_C(1) << bit;
        }
        return features;
}

static int get_worker(const json_t *port)
{
        const json_t *worker = json_object_get(port, "worker");

        return json_is_integer(worker) ? (int)json_integer_value(worker) : -1;
}

static bool is_yes(const json_t *port, const char *key)
{
        const char *word = get_string(port, key);

        return word && strcmp(word, "yes") == 0;
}

void vql_port_params_from(const json_t *port, struct vql_port_request *ret_request)
{
        const char *role = get_string(port, "role");

        ret_request->params = (struct vql_port_params){
                .size = sizeof(ret_request->params),
                .name = get_string(port, "name"),
                .socket = get_string(port, "socket"),
                .role = role && strcmp(role, "client") == 0 ? VQL_SOCKET_CLIENT : VQL_SOCKET_SERVER,
                .socket_mode = get_mode(port),
                .socket_owner = get_account(port, "socket-owner", ret_request->owner),
                .socket_group = get_account(port, "socket-group", ret_request->group),
                .queue_pairs = get_number(port, "queue-pairs"),
                .uplink = get_string(port, "uplink"),
                .device = get_string(port, "device"),
                .uplink_queues = get_number(port, "uplink-queues"),
                .mtu = get_number(port, "mtu"),
                .features_only = get_features(port, "features"),
                .features_off = get_features(port, "features-off"),
                .worker = get_worker(port),
                .postcopy = is_yes(port, "postcopy"),
        };
}
