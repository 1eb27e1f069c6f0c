/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/portset.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "vqliftd/port_params.h"

struct vql_portset {
        struct vql *vql;
        const struct vql_logger *log;
        json_t *ports; /* name: { "port": description, "origin": "file" or "control" } */
};

static const char *const origin_names[] = {
        [VQL_ORIGIN_FILE] = "file",
        [VQL_ORIGIN_CONTROL] = "control",
};

int vql_portset_new(struct vql *v, const struct vql_logger *log, struct vql_portset **ret_set)
{
        struct vql_portset *set = calloc(1, sizeof(*set));

        if (!set)
                return -ENOMEM;
        set->vql = v;
        set->log = log;
        set->ports = json_object();
        if (!set->ports) {
                free(set);
                return -ENOMEM;
        }
        *ret_set = set;
        return 0;
}

void vql_portset_free(struct vql_portset *set)
{
        if (!set)
                return;
        json_decref(set->ports);
        free(set);
}

static const char *port_name(const json_t *port)
{
        return json_string_value(json_object_get(port, "name"));
}

static const json_t *find_port(const struct vql_portset *set, const char *name)
{
        return json_object_get(json_object_get(set->ports, name), "port");
}

const char *vql_portset_origin(const struct vql_portset *set, const char *name)
{
        return json_string_value(json_object_get(json_object_get(set->ports, name), "origin"));
}

static int remember(struct vql_portset *set, json_t *port, enum vql_origin origin)
{
        json_t *entry = json_pack("{s:O, s:s}", "port", port, "origin", origin_names[origin]);

        return json_object_set_new(set->ports, port_name(port), entry) < 0 ? -ENOMEM : 0;
}

int vql_portset_add(struct vql_portset *set, const json_t *port, enum vql_origin origin)
{
        struct vql_port_request request;
        bool exists = find_port(set, port_name(port)) != NULL;
        json_t *copy = json_deep_copy(port);
        int r;

        /* What needs memory comes first, so that no port is added and then not known. */
        r = copy ? 0 : -ENOMEM;
        if (r == 0 && !exists)
                r = remember(set, copy, origin);
        if (r == 0) {
                vql_port_params_from(copy, &request);
                r = vql_port_add(set->vql, &request.params);
                if (r < 0 && !exists)
                        json_object_del(set->ports, request.params.name);
        }
        json_decref(copy);
        return r;
}

int vql_portset_del(struct vql_portset *set, const char *name)
{
        int r;

        r = vql_port_del(set->vql, name);
        if (r == 0)
                json_object_del(set->ports, name);
        return r;
}

static json_t *index_by_name(const json_t *ports)
{
        json_t *index = json_object(), *port;
        size_t i;

        json_array_foreach(ports, i, port)
        {
                if (json_object_set(index, port_name(port), port) < 0) {
                        json_decref(index);
                        return NULL;
                }
        }
        return index;
}

/* The library's sentence for what just failed. */
static void log_failure(const struct vql_portset *set, const char *verb, const char *name)
{
        vql_logger_print(set->log, LOG_ERR, "reload: port %s is not %s: %s", name, verb,
                         vql_last_error(set->vql));
}

/* Nobody but the file may change a port of the file; the file may take over any port. */
static bool is_outdated(const json_t *entry, const json_t *want)
{
        const char *origin = json_string_value(json_object_get(entry, "origin"));

        if (want)
                return !json_equal(want, json_object_get(entry, "port"));
        return strcmp(origin, origin_names[VQL_ORIGIN_FILE]) == 0;
}

static void adopt(struct vql_portset *set, const char *name, json_t *entry,
                  struct vql_portset_changes *changes)
{
        if (json_object_set_new(entry, "origin", json_string(origin_names[VQL_ORIGIN_FILE])) < 0)
                vql_logger_print(set->log, LOG_ERR, "reload: port %s: no memory", name);
        changes->kept++;
}

/* Leaves true in `wanted` for what was deleted in order to be added anew. */
static void delete_outdated(struct vql_portset *set, json_t *wanted,
                            struct vql_portset_changes *changes)
{
        const char *name;
        json_t *entry;
        void *next;

        json_object_foreach_safe(set->ports, next, name, entry)
        {
                const json_t *want = json_object_get(wanted, name);

                if (!is_outdated(entry, want)) {
                        if (want)
                                adopt(set, name, entry, changes);
                } else if (vql_portset_del(set, name) < 0) {
                        log_failure(set, "deleted", name);
                        changes->failed++;
                } else if (want) {
                        json_object_set_new(wanted, port_name(want), json_true());
                } else {
                        changes->deleted++;
                }
        }
}

static void add_missing(struct vql_portset *set, const json_t *ports, const json_t *wanted,
                        struct vql_portset_changes *changes)
{
        json_t *port;
        size_t i;

        json_array_foreach(ports, i, port)
        {
                if (find_port(set, port_name(port)))
                        continue;
                if (vql_portset_add(set, port, VQL_ORIGIN_FILE) < 0) {
                        log_failure(set, "added", port_name(port));
                        changes->failed++;
                } else if (json_is_true(json_object_get(wanted, port_name(port)))) {
                        changes->changed++;
                } else {
                        changes->added++;
                }
        }
}

void vql_portset_apply(struct vql_portset *set, const json_t *ports,
                       struct vql_portset_changes *ret_changes)
{
        struct vql_portset_changes changes = { 0 };
        json_t *wanted = index_by_name(ports);

        /* Deleted first: sockets and uplinks may move from one port to another. */
        if (wanted)
                delete_outdated(set, wanted, &changes);
        else
                vql_logger_print(set->log, LOG_ERR, "reload: no memory");
        if (wanted)
                add_missing(set, ports, wanted, &changes);
        json_decref(wanted);
        *ret_changes = changes;
}
