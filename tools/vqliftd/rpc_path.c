/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "common/keys.h"
#include "vqliftd/fields.h"
#include "vqliftd/methods.h"

#define FIELD(key, type, member, help) VQL_FIELD(vql_move_info, key, type, member, help)

static const struct vql_field move_fields[] = {
        FIELD("ring", UINT, ring, "Index of the ring."),
        FIELD("from", TEXT, from, "The path that it left, or none."),
        FIELD("to", TEXT, to, "The path that it is on since."),
        FIELD("why", TEXT, why, "Why not a better one, or empty."),
        FIELD("at-us", INT64, at_us, "When, in microseconds since 1970."),
        FIELD("took-us", UINT, took_us, "How long nobody served the ring, in microseconds."),
        { 0 },
};

static const struct vql_rule path_word = {
        .type = VQL_RULE_WORD,
        .words = (const char *const[]){ "auto", "direct", "relay", "software", NULL },
};

static const struct vql_key path_keys[] = {
        { "name", &vql_port_name_rule, .required = true, .help = "Name of the port." },
        { "path", &path_word, .required = true, .help = "The path to take if it can be had." },
        { 0 },
};

static const struct vql_rule path_rule = {
        .type = VQL_RULE_MAP,
        .what = "an object with the name of a port and a path",
        .keys = path_keys,
};

static json_t *set(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        json_t *name = json_object_get(params, "name"), *path = json_object_get(params, "path");
        int r = vql_port_set_path(rpc->vql, json_string_value(name), json_string_value(path));

        if (r < 0)
                return vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
        return json_pack("{s:O, s:O}", "name", name, "path", path);
}

static json_t *moves(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        const char *name = json_string_value(json_object_get(params, "name"));
        json_t *list = json_array();
        struct vql_move_info info;
        int r = 0;

        for (unsigned int i = 0; list && (r = vql_port_get_move(rpc->vql, name, i, &info)) == 0;
             i++) {
                if (json_array_append_new(list, vql_fields_pack(move_fields, &info)) < 0)
                        break;
        }
        if (r == -ERANGE)
                return list;
        json_decref(list);
        return r < 0 ? vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql)) : NULL;
}

const struct vql_rpc_method vql_rpc_path_methods[] = {
        {
                .name = "port.path",
                .params = &path_rule,
                .handle = set,
                .changes = true,
                .help = "Ask for a path for all rings of a port that has a device. A ring that "
                        "cannot have it gets the next best one, and port.show has the reason.",
                .result = "An object with name and path.",
        },
        {
                .name = "port.moves",
                .params = &vql_rpc_name_params,
                .handle = moves,
                .help = "The last moves of a port's rings from one path to another.",
                .result = "A list of at most 64 objects of the members below, the newest first.",
                .fields = move_fields,
        },
        { 0 },
};
