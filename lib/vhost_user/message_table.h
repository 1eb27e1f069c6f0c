/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VQLIFT_VHOST_USER_MESSAGE_TABLE_H
#define VQLIFT_VHOST_USER_MESSAGE_TABLE_H

/*
 * The vhost-user protocol as data: one row a request.  A new request is a row here, a form in
 * codec.c if its payload is new, and a handler.
 */

#include "vhost_user/call.h"

/* Descriptors that must come with a request. */
enum vql_fd_rule {
        VQL_FDS_NONE,
        VQL_FDS_ONE,
        VQL_FDS_AS_TOLD,    /* none if bit 8 of the payload says so, else one */
        VQL_FDS_PER_REGION, /* one a region */
        VQL_FDS_IGNORED,    /* any number; closed */
};

enum vql_reply_rule {
        VQL_REPLY_ACK,        /* an ack if the front-end asked for one */
        VQL_REPLY_ALWAYS_ACK, /* an ack whether asked or not */
        VQL_REPLY_OWN,        /* a reply of its own, hence never an ack */
};

/* What becomes of the connection when a request fails and there is no ack to say so. */
enum vql_failure_rule {
        VQL_FAILURE_ENDS, /* the front-end now believes something that is not so */
        VQL_FAILURE_LOGGED,
};

/* What must have been negotiated: a protocol feature's bit number, or one of these. */
enum {
        VQL_NEED_NOTHING = -1,
        VQL_NEED_PROTOCOL = -2, /* PROTOCOL_FEATURES offered; it may come before SET_FEATURES */
};

struct vql_request {
        const char *name;
        enum vql_body body;
        enum vql_fd_rule fds;
        int need;
        enum vql_reply_rule reply;
        enum vql_failure_rule failure;
        vql_handler *handle;  /* NULL: this back-end never carries it out */
        vql_finisher *finish; /* or NULL */
        vql_refuser *refuse;  /* own replies only; NULL: failure ends the connection */
};

/* NULL: no request has that number. */
const struct vql_request *vql_request_find(uint32_t id);
/* The request that a message is, to a session in this state. */
const struct vql_request *vql_request_of(const struct vql_session *s, const struct vql_msg_in *in);

/* How many descriptors a checked message must have; VQL_FDS_IGNORED has no answer. */
unsigned int vql_request_fds(const struct vql_request *r, const union vql_payload *body);

#endif
