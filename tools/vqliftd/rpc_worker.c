/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/methods.h"

#define FIELD(key, type, member, help) VQL_FIELD(vql_worker_info, key, type, member, help)

static const struct vql_field worker_fields[] = {
        FIELD("index", UINT, index, "Index of the worker."),
        FIELD("cpu", INT, cpu, "The CPU that it is pinned to, null if it is not."),
        FIELD("lanes", UINT, lanes, "Queues of uplinks, with their rings, that it serves."),
        FIELD("polls", UINT64, polls, "Rounds over all of them."),
        FIELD("polls-busy", UINT64, polls_busy, "Rounds that found work."),
        FIELD("sleeps", UINT64, sleeps, "Times that it went to sleep."),
        { 0 },
};

static json_t *list(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        json_t *workers = json_array();
        struct vql_worker_info info;

        (void)params;
        (void)e;
        for (unsigned int i = 0; vql_worker_get_info(rpc->vql, i, &info) == 0; i++) {
                if (json_array_append_new(workers, vql_fields_pack(worker_fields, &info)) < 0) {
                        json_decref(workers);
                        return NULL;
                }
        }
        return workers;
}

const struct vql_rpc_method vql_rpc_worker_methods[] = {
        {
                .name = "worker.list",
                .params = &vql_rpc_no_params,
                .handle = list,
                .help = "The workers, which move the packets.",
                .result = "A list of objects with the members below.",
                .fields = worker_fields,
        },
        { 0 },
};
