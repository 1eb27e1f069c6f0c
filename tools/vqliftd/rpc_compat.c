/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/keys.h"
#include "vqliftd/methods.h"

#define FIELD(key, type, member, help) VQL_FIELD(vql_compat_info, key, type, member, help)

/* Of the document: a reader refuses what it does not know. */
enum { DOCUMENT_VERSION = 1 };

static const struct vql_field compat_fields[] = {
        FIELD("features", FEATURE_BITS, features, "Virtio features offered."),
        FIELD("protocol-features", PROTOCOL_BITS, protocol_features,
              "vhost-user protocol features offered."),
        FIELD("queue-pairs", UINT, queue_pairs, "Queue pairs offered."),
        FIELD("ring-size-split", UINT, ring_size_split, "Most descriptors of a split ring."),
        FIELD("ring-size-packed", UINT, ring_size_packed, "Most descriptors of a packed ring."),
        FIELD("memory-slots", UINT, mem_slots, "Most regions of guest memory."),
        FIELD("mtu", KNOWN, mtu,
              "The largest MTU that a front-end may tell; null without a port, as each has its "
              "own."),
        FIELD("uplink-device", TEXT, uplink_device, "The device that carries that MTU."),
        FIELD("state-version", UINT, state_version,
              "Version of the state that goes to the next daemon with a guest."),
        { 0 },
};

static const struct vql_key dump_keys[] = {
        { "name", &vql_port_name_rule,
          .help = "Name of a port; absent: what a port offers whose keys take nothing away." },
        { 0 },
};

static const struct vql_rule dump_rule = {
        .type = VQL_RULE_MAP,
        .what = "an object with at most the name of a port",
        .keys = dump_keys,
};

static json_t *dump(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        json_t *name = json_object_get(params, "name");
        struct vql_compat_info info;
        json_t *document, *members;
        int r = vql_port_get_compat(rpc->vql, json_string_value(name), &info);

        if (r < 0)
                return vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
        document = json_pack("{s:s, s:i, s:s, s:O?}", "format", "vqlift-compat", "version",
                             DOCUMENT_VERSION, "vqlift", vql_version(), "port", name);
        members = vql_fields_pack(compat_fields, &info);
        if (!document || !members || json_object_update(document, members) < 0) {
                json_decref(document);
                document = NULL;
        }
        json_decref(members);
        return document;
}

const struct vql_rpc_method vql_rpc_compat_methods[] = {
        {
                .name = "compat.dump",
                .params = &dump_rule,
                .handle = dump,
                .help = "What a guest on a port may have come to rely on, so that vqlift compat "
                        "check can tell whether it may move.",
                .result = "An object of the members below, with format (vqlift-compat), version "
                          "(of the object: 1), vqlift (the daemon's version) and port (its name "
                          "or null).",
                .fields = compat_fields,
        },
        { 0 },
};
