/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/methods.h"

#define FIELD(key, type, member, help) VQL_FIELD(vql_port_info, key, type, member, help)

static const struct vql_field uplink_fields[] = {
        FIELD("port", TEXT, name, "Name of the port that it belongs to."),
        FIELD("uplink", TEXT, uplink, "The uplink as configured."),
        FIELD("device", TEXT, uplink_device, "Its DPDK device."),
        FIELD("driver", TEXT, uplink_driver, "The driver of the device."),
        FIELD("mac", MAC, uplink_mac, "MAC address."),
        FIELD("mtu", UINT, uplink_mtu, "MTU."),
        FIELD("rx-queues", UINT, uplink_rx_queues, "Receive queues in use."),
        FIELD("tx-queues", UINT, uplink_tx_queues, "Transmit queues in use."),
        FIELD("interrupts", BOOLEAN, uplink_interrupts,
              "false: the worker looks for received packets by timer."),
        FIELD("link-up", BOOLEAN, link_up, "Has it a link?"),
        FIELD("link-mbps", KNOWN, link_mbps, "Speed of the link, null if it is not known."),
        { 0 },
};

static json_t *list(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        json_t *uplinks = json_array();
        struct vql_port_info info;
        const char *name;
        int r = 0;

        (void)params;
        for (size_t i = 0; r == 0 && (name = vql_port_name(rpc->vql, i)); i++) {
                r = vql_port_get_info(rpc->vql, name, &info);
                if (r < 0)
                        vql_rpc_fail_errno(e, r, vql_last_error(rpc->vql));
                else
                        r = json_array_append_new(uplinks, vql_fields_pack(uplink_fields, &info));
        }
        if (r == 0)
                return uplinks;
        json_decref(uplinks);
        return NULL;
}

const struct vql_rpc_method vql_rpc_uplink_methods[] = {
        {
                .name = "uplink.list",
                .params = &vql_rpc_no_params,
                .handle = list,
                .help = "The uplinks of all ports.",
                .result = "A list of objects with the members below.",
                .fields = uplink_fields,
        },
        { 0 },
};
