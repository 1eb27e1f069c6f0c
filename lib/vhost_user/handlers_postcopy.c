/* SPDX-License-Identifier: BSD-3-Clause */
#include "vhost_user/handlers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "memory/userfault.h"

void vql_session_end_postcopy(struct vql_session *s)
{
        if (s->fault_fd >= 0 && s->mem)
                vql_userfault_release(s->fault_fd, s->mem);
        vql_fd_close(&s->fault_fd);
        vql_mem_table_put(s->arriving);
        s->arriving = NULL;
        s->postcopy = VQL_POSTCOPY_NONE;
}

/* The front-end gets a duplicate: it reads from it which pages we miss. */
int vql_handle_postcopy_advise(struct vql_call *c)
{
        struct vql_session *s = c->s;
        int fd, theirs, err;

        if (s->postcopy == VQL_POSTCOPY_LISTENING)
                return vql_fail(c->e, EBUSY, "one is going on, expected POSTCOPY_END first");
        err = vql_userfault_open(&fd, c->e);
        if (err < 0)
                return err;
        theirs = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (theirs < 0) {
                err = vql_fail(c->e, errno, "userfaultfd: %s", strerror(errno));
                vql_fd_close(&fd);
                return err;
        }
        vql_session_end_postcopy(s);
        s->fault_fd = fd;
        s->postcopy = VQL_POSTCOPY_ADVISED;
        vql_call_reply(c, NULL, 0);
        c->out->fd = theirs;
        return 0;
}

int vql_handle_postcopy_listen(struct vql_call *c)
{
        struct vql_session *s = c->s;

        if (s->postcopy != VQL_POSTCOPY_ADVISED)
                return vql_fail(c->e, EPROTO, "expected after POSTCOPY_ADVISE");
        if (s->mem && vql_mem_table_count(s->mem) > 0)
                return vql_fail(c->e, EBUSY, "%zu memory regions are mapped, expected none yet",
                                vql_mem_table_count(s->mem));
        s->postcopy = VQL_POSTCOPY_LISTENING;
        return 0;
}

int vql_handle_postcopy_end(struct vql_call *c)
{
        vql_session_end_postcopy(c->s);
        return 0;
}

void vql_postcopy_announce(struct vql_call *c, struct vql_mem_table *t)
{
        vql_mem_table_put(c->s->arriving);
        c->s->arriving = t;
}

uint64_t vql_postcopy_place(const struct vql_session *s, uint64_t gpa)
{
        struct vql_mem_span span = { 0 };

        /* The region was just mapped, or found to be mapped. */
        (void)vql_mem_find(s->arriving ? s->arriving : s->mem, gpa, &span);
        return (uintptr_t)span.va + (gpa - span.gpa);
}

/*
 * The front-end knows where we mapped its memory and can tell what we miss: watch it, and only then
 * let the rings have it.
 */
int vql_handle_postcopy_placed(struct vql_call *c)
{
        struct vql_session *s = c->s;
        struct vql_mem_table *t = s->arriving;
        int err;

        s->arriving = NULL;
        if (c->body.u64 != 0)
                err = vql_fail(c->e, EREMOTEIO, "the front-end did not take the addresses: %llu",
                               (unsigned long long)c->body.u64);
        else
                err = t ? vql_userfault_watch(s->fault_fd, t, c->e) : 0;
        if (err < 0 || !t) {
                vql_mem_table_put(t);
                return err;
        }
        c->old.mem = s->mem;
        s->mem = t;
        c->changes |= VQL_CHANGE_MEMORY;
        return 0;
}
