/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/methods.h"

static json_t *describe_key(const struct vql_key *key)
{
        char expected[VQL_REPORT_EXPECTED];
        json_t *param, *fallback;

        vql_rule_expected(key->rule, expected, sizeof(expected));
        param = json_pack("{s:s, s:s, s:b, s:s}", "key", key->name, "expected", expected,
                          "required", key->required, "help", key->help);
        if (!param || !key->fallback)
                return param;
        fallback = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
        if (json_object_set_new(param, "default", fallback) < 0) {
                json_decref(param);
                return NULL;
        }
        return param;
}

static json_t *describe_keys(const struct vql_key *keys)
{
        json_t *params = json_array();

        for (; keys->name; keys++) {
                if (json_array_append_new(params, describe_key(keys)) < 0) {
                        json_decref(params);
                        return NULL;
                }
        }
        return params;
}

static json_t *help(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e)
{
        json_t *methods = json_array();
        const struct vql_rpc_method *m;

        (void)rpc;
        (void)params;
        (void)e;
        for (size_t i = 0; (m = vql_rpc_method_at(i)); i++) {
                json_t *row =
                        json_pack("{s:s, s:s, s:s, s:o}", "method", m->name, "help", m->help,
                                  "result", m->result, "params", describe_keys(m->params->keys));

                if (json_array_append_new(methods, row) < 0) {
                        json_decref(methods);
                        return NULL;
                }
        }
        return methods;
}

const struct vql_rpc_method vql_rpc_help_methods[] = {
        {
                .name = "rpc.help",
                .params = &vql_rpc_no_params,
                .handle = help,
                .help = "The methods, with their parameters.",
                .result = "A list of objects with method, help, result and params; a parameter has "
                          "key, expected, required, help and, if there is one, default.",
        },
        { 0 },
};
