/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_TOOLS_RPC_H
#define VQLIFT_TOOLS_RPC_H

/*
 * JSON-RPC 2.0: one line in, at most one line out.  A method is a row of a table; the tables, one a
 * noun, are listed in methods.c.  Who may ask is settled by the permissions of the socket.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include <jansson.h>

#include <vqlift/vqlift.h>

#include "common/schema.h"
#include "vqliftd/fields.h"
#include "vqliftd/logger.h"
#include "vqliftd/portset.h"

/* What methods work on. */
struct vql_rpc {
        struct vql *vql;
        struct vql_portset *ports;
        const struct vql_logger *log;
};

enum {
        VQL_RPC_PARSE_ERROR = -32700,
        VQL_RPC_INVALID_REQUEST = -32600,
        VQL_RPC_NO_METHOD = -32601,
        VQL_RPC_INVALID_PARAMS = -32602,
        VQL_RPC_INTERNAL = -32603,
        VQL_RPC_REFUSED = -32000, /* the library refused: data has errno and its name */
};

struct vql_rpc_error {
        int code;
        char message[VQL_REPORT_PATH + VQL_REPORT_TEXT];
        json_t *data; /* or NULL */
};

struct vql_rpc_method {
        const char *name; /* "noun.verb" */
        const struct vql_rule *params;
        /* The result, or NULL with `e` filled by a vql_rpc_fail_*(); NULL alone: no memory.
         * `params` passed the rule and has its defaults. */
        json_t *(*handle)(struct vql_rpc *rpc, const json_t *params, struct vql_rpc_error *e);
        bool changes; /* it is logged who asked */
        const char *help;
        /* For the manual: what comes back, and its members. */
        const char *result;
        const struct vql_field *fields, *ring_fields, *session_fields, *phase_fields;
};

/* All methods by number, NULL past the end. */
const struct vql_rpc_method *vql_rpc_method_at(size_t i);

/* For handlers; each returns NULL. */
json_t *vql_rpc_fail_errno(struct vql_rpc_error *e, int err, const char *sentence);
json_t *vql_rpc_fail_params(struct vql_rpc_error *e, const struct vql_report *report);

/*
 * Answer one request, the line without its end.  `peer` is for the log.  *ret_answer, without end
 * of line, is to be freed; NULL: a notification, nothing is to be said.  -ENOMEM.
 */
int vql_rpc_answer(struct vql_rpc *rpc, const struct ucred *peer, const char *line, size_t n,
                   char **ret_answer);

#endif
