/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "common/keys.h"
#include "vqliftd/fields.h"
#include "vqliftd/methods.h"
#include "vqliftd/port_params.h"
#include "vqliftd/port_timeline.h"

#define FIELD(key, type, member, help)      VQL_FIELD(vql_port_info, key, type, member, help)
#define RING_FIELD(key, type, member, help) VQL_FIELD(vql_ring_info, key, type, member, help)

static const struct vql_field port_fields[] = {
        FIELD("name", TEXT, name, "Name of the port."),
        FIELD("state", TEXT, state, "waiting, connected, running or broken."),
        FIELD("reason", TEXT, reason, "Why the last connection ended, or empty."),
        FIELD("socket", TEXT, socket, "Path of the vhost-user socket."),
        FIELD("role", TEXT, role, "server or client."),
        FIELD("queue-pairs", UINT, queue_pairs, "Queue pairs offered."),
        FIELD("rings-configured", UINT, rings, "Rings that the front-end configured."),
        FIELD("rings-running", UINT, rings_running, "Rings that are served."),
        FIELD("features-offered", FEATURES, features_offered, "Virtio features offered."),
        FIELD("features", FEATURES, features, "Virtio features acknowledged."),
        FIELD("protocol-features-offered", MASK, protocol_features_offered,
              "vhost-user protocol features offered."),
        FIELD("protocol-features", MASK, protocol_features,
              "vhost-user protocol features acknowledged."),
        FIELD("connections", UINT64, connections, "Connections so far."),
        FIELD("connected-us", INT64, connected_us, "Age of the connection, null without one."),
        FIELD("first-packet-us", INT64, first_packet_us,
              "From connection to first packet, null before it."),
        FIELD("mem-regions", UINT, mem_regions, "Regions of guest memory."),
        FIELD("mem-bytes", UINT64, mem_bytes, "Bytes of guest memory."),
        FIELD("mtu-negotiated", KNOWN, mtu_negotiated,
              "MTU that the front-end told, null if it did not."),
        FIELD("uplink", TEXT, uplink, "The uplink as configured."),
        FIELD("uplink-device", TEXT, uplink_device, "Its DPDK device."),
        FIELD("uplink-driver", TEXT, uplink_driver, "The driver of the device."),
        FIELD("uplink-mac", MAC, uplink_mac, "The device's MAC address."),
        FIELD("uplink-mtu", UINT, uplink_mtu, "The device's MTU."),
        FIELD("uplink-rx-queues", UINT, uplink_rx_queues, "The device's receive queues in use."),
        FIELD("uplink-tx-queues", UINT, uplink_tx_queues, "The device's transmit queues in use."),
        FIELD("uplink-interrupts", BOOLEAN, uplink_interrupts,
              "false: the worker looks for received packets by timer."),
        FIELD("device", TEXT, device, "The device that serves the rings, or empty."),
        FIELD("device-driver", TEXT, device_driver, "Its driver."),
        FIELD("device-state", TEXT, device_state, "How it is, or why it serves nothing now."),
        FIELD("path-wish", TEXT, path_wish, "What was asked for with port.path, or auto."),
        FIELD("link-up", BOOLEAN, link_up, "Has the device a link?"),
        FIELD("link-mbps", KNOWN, link_mbps, "Speed of the link, null if it is not known."),
        { 0 },
};

static const struct vql_field ring_fields[] = {
        RING_FIELD("index", UINT, index, "Index of the ring."),
        RING_FIELD("direction", TEXT, direction, "rx: to the guest; tx: from the guest."),
        RING_FIELD("path", TEXT, path,
                   "Who serves the ring: direct (the device), relay (the device, on a ring of "
                   "ours), software, held (nobody can) or none (it does not run)."),
        RING_FIELD("path-reason", TEXT, path_reason, "Why not a better path, or empty."),
        RING_FIELD("state", TEXT, state, "stopped, running or broken."),
        RING_FIELD("fault", TEXT, fault, "Why it is broken, or empty."),
        RING_FIELD("enabled", BOOLEAN, enabled, "Has the front-end enabled it?"),
        RING_FIELD("packed", BOOLEAN, packed, "false: split."),
        RING_FIELD("ring-size", UINT, ring_size, "Descriptors."),
        RING_FIELD("instance", TEXT, instance, "The variant of the datapath that serves it."),
        RING_FIELD("worker", INT, worker, "Index of the worker, null without one."),
        RING_FIELD("uplink-queue", UINT, uplink_queue, "The uplink's queue that it shares."),
        { 0 },
};

static unsigned int count_workers(struct vql *v)
{
        struct vql_worker_info info;
        unsigned int n = 0;

        while (vql_worker_get_info(v, n, &info) == 0)
                n++;
        return n;
}

static json_t *add(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        struct vql_report report = { 0 };
        json_t *result = NULL;
        int r;

        vql_port_params_check(params, "", count_workers(rpc->vql), &report);
        if (!vql_report_clean(&report)) {
                vql_rpc_fail_params(e, &report);
        } else {
                r = vql_portset_add(rpc->ports, params, VQL_ORIGIN_CONTROL);
                if (r < 0)
                        vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
                else
                        result = json_pack("{s:O}", "name", json_object_get(params, "name"));
        }
        vql_report_fini(&report);
        return result;
}

static json_t *del(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        json_t *name = json_object_get(params, "name");
        int r;

        r = vql_portset_del(rpc->ports, json_string_value(name));
        if (r < 0)
                return vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
        return json_pack("{s:O}", "name", name);
}

static json_t *describe(struct vql_rpc *rpc, const char *name, struct vql_rpc_error *e)
{
        const char *origin = vql_portset_origin(rpc->ports, name);
        struct vql_port_info info;
        json_t *port;
        int r;

        r = vql_port_get_info(rpc->vql, name, &info);
        if (r < 0)
                return vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
        port = vql_fields_pack(port_fields, &info);
        if (json_object_set_new(port, "origin", json_string(origin ? origin : "control")) < 0) {
                json_decref(port);
                return NULL;
        }
        return port;
}

static json_t *list(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        json_t *ports = json_array();
        const char *name;

        (void)params;
        for (size_t i = 0; (name = vql_port_name(rpc->vql, i)); i++) {
                if (json_array_append_new(ports, describe(rpc, name, e)) < 0) {
                        json_decref(ports);
                        return NULL;
                }
        }
        return ports;
}

static json_t *list_rings(struct vql_rpc *rpc, const char *name, struct vql_rpc_error *e)
{
        json_t *rings = json_array();
        struct vql_ring_info info;
        int r = 0;

        for (unsigned int i = 0; rings && (r = vql_port_get_ring(rpc->vql, name, i, &info)) == 0;
             i++) {
                if (json_array_append_new(rings, vql_fields_pack(ring_fields, &info)) < 0) {
                        json_decref(rings);
                        return NULL;
                }
        }
        if (r == 0 || r == -ERANGE)
                return rings;
        json_decref(rings);
        return vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
}

static json_t *show(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        const char *name = json_string_value(json_object_get(params, "name"));
        json_t *port = describe(rpc, name, e);

        if (port &&
            (json_object_set_new(port, "rings", list_rings(rpc, name, e)) < 0 ||
             json_object_set_new(port, "timeline", vql_port_timeline(rpc->vql, name)) < 0)) {
                json_decref(port);
                return NULL;
        }
        return port;
}

const struct vql_rpc_method vql_rpc_port_methods[] = {
        {
                .name = "port.add",
                .params = &vql_port_rule,
                .handle = add,
                .changes = true,
                .help = "Add a port. It lives until it is deleted or the daemon ends: a reload of "
                        "the file does not touch it, and it is not written to the file.",
                .result = "An object with the name of the port.",
        },
        {
                .name = "port.del",
                .params = &vql_rpc_name_params,
                .handle = del,
                .changes = true,
                .help = "Delete a port: its front-end is disconnected. A port of the file comes "
                        "back with the next reload.",
                .result = "An object with the name of the port.",
        },
        {
                .name = "port.list",
                .params = &vql_rpc_no_params,
                .handle = list,
                .help = "All ports, in the order in which they were added.",
                .result = "A list of what port.show gives, without rings.",
        },
        {
                .name = "port.show",
                .params = &vql_rpc_name_params,
                .handle = show,
                .help = "The state of a port and of its rings, and how its last sessions went.",
                .result = "An object of the members below, with origin (file or control: where "
                          "the port was added), rings, a list, and timeline: a list of the last 8 "
                          "sessions, the newest first, each with phases, a list.",
                .fields = port_fields,
                .ring_fields = ring_fields,
                .session_fields = vql_session_fields,
                .phase_fields = vql_phase_fields,
        },
        { 0 },
};
