/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A stream of vhost-user messages against a session whose host accepts everything.  The input is a
 * sequence of messages as they cross the socket, each with one byte between header and body that
 * says how many descriptors come with it, and one for the kind of each.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "unit/fake_host.h"
#include "vhost_user/codec.h"

enum { FILE_BYTES = 1 << 20 };

static int make_file(off_t bytes)
{
        int fd = memfd_create("vql-fuzz", MFD_CLOEXEC);

        FUZZ_REQUIRE(fd >= 0 && ftruncate(fd, bytes) == 0);
        return fd;
}

static int make_fd(uint8_t kind)
{
        int fds[2];

        switch (kind & 3) {
        case 0:
                return eventfd(0, EFD_CLOEXEC);
        case 1:
                return make_file(FILE_BYTES);
        case 2:
                return make_file(kind * 512);
        default:
                FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
                close(fds[1]);
                return fds[0];
        }
}

static bool take_message(struct fuzz_input *input, struct vql_msg_in *in)
{
        uint8_t header[VQL_MSG_HEADER];
        struct vql_error e;

        if (!fuzz_take(input, header, sizeof(header)) || vql_header_decode(header, in, &e) < 0)
                return false;
        in->nfds = fuzz_byte(input) % (VQL_MSG_MAX_FDS + 1);
        for (unsigned int i = 0; i < in->nfds; i++)
                in->fds[i] = make_fd(fuzz_byte(input));
        if (fuzz_take(input, in->body, in->size))
                return true;
        for (unsigned int i = 0; i < in->nfds; i++)
                close(in->fds[i]);
        return false;
}

/* What a ring that starts would do: all that is wanted is used once. */
static void use_session(struct fake_host *h)
{
        const struct vql_session *s = h->session;
        struct vql_mem_span span = { 0 };

        /* Nobody would send the pages that are missing. */
        if (s->postcopy == VQL_POSTCOPY_LISTENING)
                return;
        for (unsigned int i = 0; s->mem && i < s->offer->max_rings; i++) {
                const uint8_t *at = vql_mem_uva(s->mem, s->vring[i].desc_uva, 16, NULL);

                if (at)
                        h->final_base += at[0] + at[15];
        }
        if (s->mem && vql_mem_find(s->mem, 0, &span) == 0)
                h->final_base += span.va[span.size - 1];
        if (vql_session_logging(s))
                vql_dirty_log_mark(s->log, (uint64_t)h->final_base << 12, 1 << 13);
        if (s->inflight)
                vql_inflight_settle(s->inflight, h->ring, &(struct vql_cursor){ 1, 1, 1, 1 });
}

/* Everything that a front-end may count on, whatever it sent. */
static void check_answer(const struct vql_session *s, const struct vql_msg_in *in,
                         const struct vql_msg_out *out)
{
        bool asked = (in->flags & VQL_WIRE_NEED_REPLY) &&
                     vql_has(s->protocol_features, VQL_PF_REPLY_ACK);

        FUZZ_REQUIRE(in->nfds == 0);
        FUZZ_REQUIRE(out->present || !asked);
        FUZZ_REQUIRE(out->present || out->fd == -1);
        if (!out->present)
                return;
        FUZZ_REQUIRE(out->request == in->request);
        FUZZ_REQUIRE(out->flags == VQL_WIRE_REPLY_FLAGS);
        FUZZ_REQUIRE(out->size <= VQL_MSG_MAX_BODY);
        if (out->fd >= 0)
                close(out->fd);
}

static int lowest_free_fd(void)
{
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

        close(fd);
        return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = { data, size };
        const int before = lowest_free_fd();
        static struct vql_session session;
        static struct vql_msg_in in;
        static struct vql_msg_out out;
        struct fake_host host = { .session = &session, .look = use_session };
        struct vql_error e;
        int err = 0;

        vql_session_init(&session, &fake_offer, &fake_host_ops, &host, NULL, -1);
        while (err == 0 && take_message(&input, &in)) {
                err = vql_session_handle(&session, &in, &out, &e);
                FUZZ_REQUIRE(err == 0 || err == -EPROTO);
                FUZZ_REQUIRE(err == 0 || e.text[0]);
                if (err == 0)
                        check_answer(&session, &in, &out);
        }
        vql_session_fini(&session);
        FUZZ_REQUIRE(lowest_free_fd() == before);
        return 0;
}
