/* SPDX-License-Identifier: BSD-3-Clause */
#include "vqliftd/rpc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/json_value.h"
#include "common/nearest.h"

static void __attribute__((format(printf, 3, 4)))
fail(struct vql_rpc_error *e, int code, const char *fmt, ...)
{
        va_list ap;

        e->code = code;
        va_start(ap, fmt);
        vsnprintf(e->message, sizeof(e->message), fmt, ap);
        va_end(ap);
}

json_t *vql_rpc_fail_errno(struct vql_rpc_error *e, int err, const char *sentence)
{
        const char *name = strerrorname_np(-err);

        fail(e, VQL_RPC_REFUSED, "%s", sentence);
        e->data = json_pack("{s:i, s:s}", "errno", -err, "name", name ? name : "unknown");
        return NULL;
}

json_t *vql_rpc_fail_params(struct vql_rpc_error *e, const struct vql_report *report)
{
        const struct vql_problem *p = report->problems;
        const char *path;

        if (report->n == 0)
                return NULL;
        path = p->path[0] ? p->path : "params";
        fail(e, VQL_RPC_INVALID_PARAMS, "%s: %s", path, p->text);
        e->data = json_pack("{s:s, s:s}", "path", path, "expected", p->expected);
        return NULL;
}

static json_t *parse(const char *line, size_t n, struct vql_rpc_error *e)
{
        json_error_t error;
        json_t *request = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
        const char *near;

        if (request)
                return request;
        /* jansson ends its text with a piece of the input, which may be anything. */
        near = strstr(error.text, " near ");
        fail(e, VQL_RPC_PARSE_ERROR, "byte %d: %.*s, expected one JSON document in UTF-8",
             error.position, near ? (int)(near - error.text) : (int)sizeof(error.text), error.text);
        return NULL;
}

static bool is_id(const json_t *id)
{
        return json_is_string(id) || json_is_number(id) || json_is_null(id);
}

/* The first member that JSON-RPC does not know, or NULL. */
static const char *find_stranger(const json_t *request)
{
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)request, name, value)
        {
                if (strcmp(name, "jsonrpc") != 0 && strcmp(name, "id") != 0 &&
                    strcmp(name, "method") != 0 && strcmp(name, "params") != 0)
                        return name;
        }
        return NULL;
}

/* Is this a request as the specification has it (section 4)?  0 or -1 with `e` filled. */
static int check_request(const json_t *request, struct vql_rpc_error *e)
{
        const char *version = json_string_value(json_object_get(request, "jsonrpc"));
        const json_t *id = json_object_get(request, "id");

        if (json_is_array(request))
                fail(e, VQL_RPC_INVALID_REQUEST,
                     "batches are not supported, expected one request on a line");
        else if (!json_is_object(request))
                fail(e, VQL_RPC_INVALID_REQUEST, "expected a request object");
        else if (!version || strcmp(version, "2.0") != 0)
                fail(e, VQL_RPC_INVALID_REQUEST, "jsonrpc: expected \"2.0\"");
        else if (id && !is_id(id))
                fail(e, VQL_RPC_INVALID_REQUEST, "id: expected a string, a number or null");
        else if (!json_is_string(json_object_get(request, "method")))
                fail(e, VQL_RPC_INVALID_REQUEST, "method: expected a string");
        else if (find_stranger(request))
                fail(e, VQL_RPC_INVALID_REQUEST,
                     "%.64s: unknown member, expected jsonrpc, id, method, params",
                     find_stranger(request));
        return e->code ? -1 : 0;
}

static const struct vql_rpc_method *find_method(const char *name, struct vql_rpc_error *e)
{
        const struct vql_rpc_method *method;
        struct vql_nearest nearest;

        vql_nearest_init(&nearest, name);
        for (size_t i = 0; (method = vql_rpc_method_at(i)); i++) {
                if (strcmp(method->name, name) == 0)
                        return method;
                vql_nearest_try(&nearest, method->name);
        }
        fail(e, VQL_RPC_NO_METHOD, "method \"%.64s\" does not exist, %s%s", name,
             nearest.found ? "did you mean " : "rpc.help lists them",
             nearest.found ? nearest.found : "");
        return NULL;
}

/* The parameters with their defaults; a new reference. */
static json_t *take_params(const struct vql_rpc_method *method, const json_t *request,
                           struct vql_rpc_error *e)
{
        json_t *params = json_incref(json_object_get(request, "params"));
        struct vql_report report = { 0 };

        if (!params)
                params = json_object();
        if (!params)
                return NULL;
        vql_schema_check(method->params, params, "", &report);
        if (!vql_report_clean(&report))
                vql_rpc_fail_params(e, &report);
        if (!vql_report_clean(&report) || vql_schema_fill(method->params, params) < 0) {
                json_decref(params);
                params = NULL;
        }
        vql_report_fini(&report);
        return params;
}

static void log_change(const struct vql_rpc *rpc, const struct vql_rpc_method *method,
                       const json_t *params, const struct ucred *peer,
                       const struct vql_rpc_error *e)
{
        const char *name = json_string_value(json_object_get(params, "name"));

        vql_logger_print(rpc->log, LOG_NOTICE, "%s %s by pid %d uid %u gid %u: %s", method->name,
                         name ? name : "", peer->pid, peer->uid, peer->gid,
                         e->code ? e->message : "done");
}

static json_t *call(struct vql_rpc *rpc, const struct ucred *peer, const json_t *request,
                    struct vql_rpc_error *e)
{
        const struct vql_rpc_method *method;
        json_t *params, *result;

        method = find_method(json_string_value(json_object_get(request, "method")), e);
        if (!method)
                return NULL;
        params = take_params(method, request, e);
        if (!params)
                return NULL;
        result = method->handle(rpc, params, e);
        if (method->changes)
                log_change(rpc, method, params, peer, e);
        json_decref(params);
        return result;
}

static json_t *make_error(const struct vql_rpc_error *e)
{
        json_t *error =
                json_pack("{s:i, s:o}", "code", e->code, "message", vql_json_text(e->message));

        if (error && e->data && json_object_set(error, "data", e->data) < 0) {
                json_decref(error);
                return NULL;
        }
        return error;
}

/* Takes over `result`, which is NULL after an error. */
static json_t *make_response(const json_t *id, json_t *result, struct vql_rpc_error *e)
{
        if (!result && !e->code)
                fail(e, VQL_RPC_INTERNAL, "no memory");
        return json_pack("{s:s, s:O?, s:o}", "jsonrpc", "2.0", "id", id,
                         result ? "result" : "error", result ? result : make_error(e));
}

int vql_rpc_answer(struct vql_rpc *rpc, const struct ucred *peer, const char *line, size_t n,
                   char **ret_answer)
{
        struct vql_rpc_error e = { 0 };
        json_t *request, *result = NULL, *response = NULL, *id;
        bool valid, wanted;
        char *answer = NULL;

        request = parse(line, n, &e);
        valid = request && check_request(request, &e) == 0;
        id = json_object_get(request, "id");
        if (valid)
                result = call(rpc, peer, request, &e);
        /* A valid request without id is a notification, whatever becomes of it. */
        wanted = !valid || id;
        if (wanted) {
                response = make_response(is_id(id) ? id : NULL, result, &e);
                answer = json_dumps(response, JSON_COMPACT);
        } else {
                json_decref(result);
        }
        json_decref(response);
        json_decref(e.data);
        json_decref(request);
        if (wanted && !answer)
                return -ENOMEM;
        *ret_answer = answer;
        return 0;
}
