/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FRONTEND_CHANNEL_H
#define FRONTEND_CHANNEL_H

/*
 * A vhost-user socket, front-end's end: sockets, messages with descriptors, right or wrong, and
 * replies with a time-out.  Nothing here knows what a message means; that is request.h.
 *
 * Results of all that talks to the back-end:
 *   -EREMOTEIO   the back-end refused (ack or reply says so)
 *   -ECONNRESET  the back-end closed the connection
 *   -ETIMEDOUT   no answer within the channel's time-out
 *   -EBADMSG     an answer that the protocol does not allow here
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/text.h"

enum {
        FE_HEADER = 12,
        FE_MAX_BODY = 4096,
        FE_MAX_FDS = 32, /* more than the protocol allows, for wrong-doers */

        FE_VERSION = 1,
        FE_REPLY = 1 << 2,
        FE_NEED_REPLY = 1 << 3,

        FE_TIMEOUT_MS = 20000,
};

struct fe_message {
        uint32_t request, flags, size; /* the header as sent; size need not tell the truth */
        uint8_t body[FE_MAX_BODY];
        size_t body_len;     /* bytes of body to send; received: size */
        int fds[FE_MAX_FDS]; /* sent: borrowed.  Received: the caller's to close */
        unsigned int nfds;
};

struct fe_channel {
        int fd;
        int timeout_ms;
        struct fe_text error;
};

/* Sockets.  All return 0 and *ret_fd, or -errno.  connect waits for the socket to appear. */
int fe_socket_connect(const char *path, int timeout_ms, int *ret_fd);
int fe_socket_listen(const char *path, int *ret_fd);
int fe_socket_accept(int listen_fd, int timeout_ms, int *ret_fd);

void fe_channel_init(struct fe_channel *c, int fd); /* takes the fd */
void fe_channel_close(struct fe_channel *c);        /* any number of times */

/* A message with a right header; body may be NULL for zeroes. */
void fe_message_init(struct fe_message *m, uint32_t request, const void *body, size_t len);
void fe_message_close_fds(struct fe_message *m); /* of a received message */

/* Send header, body and fds, the fds with the first byte. */
int fe_channel_send(struct fe_channel *c, const struct fe_message *m);
/* The same in pieces of `piece` bytes, waiting `pause_ms` between them; stops after `limit` bytes
 * in all (SIZE_MAX: everything). */
int fe_channel_send_slowly(struct fe_channel *c, const struct fe_message *m, size_t piece,
                           int pause_ms, size_t limit);
/* Any bytes at all, with any fds. */
int fe_channel_send_bytes(struct fe_channel *c, const void *bytes, size_t len, const int *fds,
                          unsigned int nfds);

/* Receive one message, whatever it is. */
int fe_channel_receive(struct fe_channel *c, struct fe_message *ret_message);
/* Receive the reply to `request`: its header must be exactly right and its body `len` bytes. */
int fe_channel_receive_reply(struct fe_channel *c, uint32_t request, void *ret_body, size_t len,
                             int *ret_fd);
/* Wait until the peer has closed: 0, -ETIMEDOUT if it has not; what it still says is dropped. */
int fe_channel_wait_closed(struct fe_channel *c, int timeout_ms);
/* Is the peer still there and silent?  0, -ECONNRESET closed, -EBADMSG it said something. */
int fe_channel_check_silent(struct fe_channel *c);

#endif
